"""Studies of functions: Sobol' indices, elementary effects, derivatives, ranks and propagation.

All take the `Options` of a study in addition to their own.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from simkit.distributions.distribution import AbstractDistribution
from simkit.distributions.plain import distribution_of
from simkit.errors import InputError
from simkit.studies.checks import ByName, made, misfits
from simkit.studies.dataset import to_dataset
from simkit.studies.estimators import Estimator
from simkit.studies.functions import evaluate_function, function_of
from simkit.studies.jumps import check_jumps
from simkit.studies.method import AbstractMethod
from simkit.studies.methods import Derivatives, Morris, Propagate, Rank, Sobol
from simkit.studies.study import BUDGET, StudyPlan, check_budget, run_study
from simkit.suggestions import did_you_mean, shown

if TYPE_CHECKING:
    import xarray as xr

Given = AbstractDistribution | Mapping[str, Any]
Distributions = Mapping[str, Given] | Sequence[Given]
Groups = Mapping[str, Sequence[str]]


class Options(TypedDict, total=False):
    """How large a study is and when it ends.

    `replicates` are independent scramblings, 16 unless said otherwise (8 of walks), at least 2; `seed` is
    that of the points, 0; `confidence` that of the intervals, 0.95. With a `width`, points are doubled until
    the widest interval is narrower, or `budget` evaluations, 2^24, would be exceeded.
    """

    replicates: int
    seed: int
    confidence: float
    width: float | None
    budget: int


def sobol_indices(
    function: Callable,
    distributions: Distributions,
    *,
    points: int = 2**12,
    order: int = 1,
    groups: Groups | None = None,
    estimator: Estimator = "saltelli",
    **options: Unpack[Options],
) -> "xr.Dataset":
    r"""Sobol' indices of a function of independent random parameters.

    $S_i = \mathrm{Var}\,E[f|x_i] / V$, $S^T_i = E\,\mathrm{Var}[f|x_{\sim i}] / V$ and, with `order=2`,
    $S_{ij} = \mathrm{Var}\,E[f|x_i, x_j]/V - S_i - S_j$, as `first`, `total` and `second`, each with the
    half-width of its interval, such as `first_halfwidth`. The function is written for JAX: `f(**parameters)`
    if `distributions` is a mapping, `f(x)` with an array `(d,)` if it is a sequence; it returns a number or a
    dictionary of numbers. Each of the `replicates` is an independent scrambling of `points` Sobol' points, a
    power of two, and needs d + 2 evaluations of each (2d + 2 with `order=2`). The attribute `stopped` says
    why the study ended. `groups` combine parameters. The other options are
    `replicates`, `seed`, `confidence`, `width` and `budget`.

    Raises `InputError` for invalid distributions, groups and numbers, `NumericalError` if the function is not
    finite. Sobol' (2001), doi:10.1016/S0378-4754(00)00270-6.

    >>> from simkit.studies import sobol_indices
    >>> parameters = {"a": {"uniform": [0.0, 1.0]}, "b": {"uniform": [0.0, 2.0]}}
    >>> result = sobol_indices(lambda a, b: a + b, parameters, points=256, replicates=4)
    >>> [round(float(value), 1) for value in result["first"].squeeze()]  # fractions of the variance
    [0.2, 0.8]
    """
    own = {"order": order, "groups": groups, "estimator": estimator}
    return _study(Sobol, function, distributions, own, points, options)


def elementary_effects(
    function: Callable,
    distributions: Distributions,
    *,
    walks: int = 64,
    levels: int = 4,
    **options: Unpack[Options],
) -> "xr.Dataset":
    """Morris' elementary effects: `mu`, `mu_star` and `sigma` of each parameter, in units of the output.

    A walk changes one parameter after the other by a fixed probability, and needs d + 1 evaluations. Function
    and errors are as for `sobol_indices`. Campolongo et al. (2007), doi:10.1016/j.envsoft.2006.10.004.

    >>> from simkit.studies import elementary_effects
    >>> parameters = {"a": {"uniform": [0.0, 1.0]}, "b": {"uniform": [0.0, 2.0]}}
    >>> result = elementary_effects(lambda a, b: a + 3.0 * b, parameters, walks=8, replicates=4)
    >>> result["mu_star"].values.squeeze().round(3)
    array([1., 6.])
    """
    return _study(Morris, function, distributions, {"levels": levels}, walks, options, size="walks")


def derivative_measures(
    function: Callable,
    distributions: Distributions,
    *,
    points: int = 2**10,
    **options: Unpack[Options],
) -> "xr.Dataset":
    r"""Derivative-based measures: `nu` $= E[(\partial f/\partial x_i)^2]$ and `bound` $\ge S^T_i$.

    By forward differentiation of the function, which may have kinks but must not jump: this is tested first,
    on as many segments as there are runs, and jumps are refused with an `InputError`. Function and errors are
    as for `sobol_indices`. Sobol' & Kucherenko (2009), doi:10.1016/j.matcom.2009.01.023.

    >>> from simkit.studies import derivative_measures
    >>> parameters = {"a": {"uniform": [0.0, 1.0]}, "b": {"uniform": [0.0, 2.0]}}
    >>> result = derivative_measures(lambda a, b: a + 3.0 * b, parameters, points=64, replicates=4)
    >>> result["nu"].values.squeeze()
    array([1., 9.])
    """
    return _study(Derivatives, function, distributions, {}, points, options)


def rank_correlations(
    function: Callable,
    distributions: Distributions,
    *,
    points: int = 2**10,
    **options: Unpack[Options],
) -> "xr.Dataset":
    """Spearman's rank correlations `spearman`, and `partial` ones, of the output with each parameter.

    Function and errors are as for `sobol_indices`.

    >>> from simkit.studies import rank_correlations
    >>> parameters = {"a": {"uniform": [0.0, 1.0]}, "b": {"uniform": [0.0, 2.0]}}
    >>> result = rank_correlations(lambda a, b: b - a, parameters, points=256, replicates=4)
    >>> result["spearman"].values.squeeze().round(1)
    array([-0.4,  0.9])
    """
    return _study(Rank, function, distributions, {}, points, options)


def propagate(
    function: Callable,
    distributions: Distributions,
    *,
    points: int = 2**12,
    **options: Unpack[Options],
) -> "xr.Dataset":
    """The distribution of the output: `mean`, `sd` and `quantile` with intervals.

    Function and errors are as for `sobol_indices`.

    >>> from simkit.studies import propagate
    >>> parameters = {"a": {"uniform": [0.0, 1.0]}, "b": {"uniform": [0.0, 2.0]}}
    >>> result = propagate(lambda a, b: a + b, parameters, points=256, replicates=4)
    >>> round(float(result["mean"].squeeze()), 2)
    1.5
    """
    return _study(Propagate, function, distributions, {}, points, options)


def _study(
    kind: type[AbstractMethod],
    function: Callable,
    distributions: Distributions,
    own: Mapping[str, Any],
    points: int,
    options: Options,
    size: str = "points",
) -> "xr.Dataset":
    """The study by a kind of method with settings of its own; the argument called `size` gives its points."""
    by_name = distributions_by_name(distributions)
    defaults = Options(replicates=8) if kind is Morris else Options()
    plan = _plan(points, **defaults | _known(options, size))
    problems = misfits(kind, by_name, {"points": points, **own, **options})
    names = {"points": size}  # as the function calls them
    if texts := [f"{'.'.join(names.get(x, x) for x in place)}: {message}" for place, message, _ in problems]:
        raise InputError(texts)
    method = made(kind, by_name, own)
    check_budget(method, plan)
    wrapped = function_of(function, tuple(by_name), isinstance(distributions, Mapping))
    if method.wants_gradient:
        check_jumps(wrapped, by_name, plan.points * plan.replicates, plan.seed)
    evaluate = evaluate_function(wrapped, tuple(by_name), method.wants_gradient, method.wants_each)
    return to_dataset(method, plan, run_study(method, plan, evaluate))


def _known(options: Options, size: str) -> Options:
    """The options of a study whose size is given by the argument `size`. Raises `InputError` for others."""
    problems = []
    for name in options.keys() - Options.__annotations__.keys():
        other = name in ("points", "walks")
        hint = f"; the size of this study is {size}" if other else did_you_mean(name, Options.__annotations__)
        problems.append(f"{name}: no such argument{hint}")
    if problems:
        raise InputError(sorted(problems))
    return options


def distributions_by_name(distributions: Distributions) -> ByName:
    """The distributions by name, x1, x2, … for a sequence. Raises `InputError`."""
    if isinstance(distributions, str) or not isinstance(distributions, Mapping | Sequence):
        kind = type(distributions).__name__
        raise InputError(f"distributions are a mapping or a list of distributions, not a {kind}")
    given = distributions
    if not isinstance(given, Mapping):
        given = {f"x{i}": each for i, each in enumerate(given, 1)}
    if not given:
        raise InputError("there are no distributions; give each uncertain parameter one")
    by_name, problems = {}, []
    for name, each in given.items():
        if not isinstance(each, Mapping | AbstractDistribution):
            problems.append(f"{name}: must be a distribution such as {{uniform: [0, 1]}}, got {shown(each)}")
            continue
        try:
            by_name[name] = distribution_of(each) if isinstance(each, Mapping) else each
        except ValueError as error:
            problems.append(f"{name}: {error}")
    if problems:
        raise InputError(problems)
    return by_name


def _plan(
    points: int,
    *,
    replicates: int = 16,
    seed: int = 0,
    confidence: float = 0.95,
    width: float | None = None,
    budget: int | None = None,
) -> StudyPlan:
    """The plan. Raises `InputError` for wrong numbers."""
    problems = []
    if not isinstance(replicates, int) or isinstance(replicates, bool) or replicates < 2:
        problems.append(f"replicates: must be at least 2, as an interval takes, got {shown(replicates)}")
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        problems.append(f"seed: must be a whole number of at least 0, got {shown(seed)}")
    if not 0 < confidence < 1:
        problems.append(f"confidence: must be between 0 and 1, got {shown(confidence)}")
    if width is not None and not width > 0:
        problems.append(f"width: must be > 0, got {shown(width)}")
    if budget is not None and budget < 1:
        problems.append(f"budget: must be at least 1, got {shown(budget)}")
    if problems:
        raise InputError(problems)
    return StudyPlan(points, replicates, seed, confidence, width, BUDGET if budget is None else budget)
