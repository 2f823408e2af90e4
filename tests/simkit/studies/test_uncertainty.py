"""Uncertain parameters of functions: methods beside Sobol' indices, distributions, points and pictures."""

import math
import re

import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.patches import StepPatch
from pictures import assert_nothing_overlaps
from scipy import stats
from study_examples import CUBE, ISHIGAMI, PI, ishigami, on_numpy, within_three

from simkit import InputError, NumericalError
from simkit.distributions import Normal, Uniform
from simkit.distributions.distribution import BY_KEY
from simkit.studies import (
    derivative_measures,
    elementary_effects,
    propagate,
    rank_correlations,
    sobol_indices,
)
from simkit.studies.methods import NO_INFLUENCE, Morris, Propagate, Rank, Sobol
from simkit.studies.plot import plot_study
from simkit.studies.replicates import Measure
from simkit.studies.study import StudyPlan, run_study
from simkit.studies.table import closing_lines
from simkit.studies.values import Values


class TestOtherMethods:
    def test_elementary_effects(self):
        """Of a linear function exact; of Ishigami's as SALib writes it, on the same walks."""
        distributions = [{"uniform": [0, 2]}, {"normal": [0, 1]}, {"uniform": [-1, 0]}]
        study = elementary_effects(lambda x: 3 * x[0] - 2 * x[2] + 0 * x[1], distributions, walks=8)
        assert study["mu"].values[0] == pytest.approx([6, 0, -2])
        assert study["mu_star"].values[0] == pytest.approx([6, 0, 2])
        assert list(study["sigma"].values[0]) == [0, 0, 0]  # differences of rounding are none
        assert list(study["note"].values[0]) == ["", NO_INFLUENCE, ""]
        morris = Morris({f"x{i}": Uniform(-PI, PI) for i in range(3)}, {f"x{i}": [i] for i in range(3)})
        inputs = morris.inputs(0, 20, 5, 2)
        Y = on_numpy(inputs.base[:, :, morris.design.take])
        effects, _ = morris.measured(Values.of(Y[..., None], False, True), inputs)
        walks = (inputs.base / (2 * PI) + 0.5).reshape(2, 20, 4, 3)
        for replicate in range(2):
            by_parameter = [[], [], []]
            for walk, y in zip(walks[replicate], Y[replicate], strict=True):
                for k in range(3):
                    (column,) = np.flatnonzero(np.abs(walk[k + 1] - walk[k]) > 1e-9)
                    step = walk[k + 1, column] - walk[k, column]
                    assert abs(step) == pytest.approx(2 / 3)
                    by_parameter[column].append((y[k + 1] - y[k]) / step)
            exact = np.array(by_parameter)
            assert effects["mu"][1].values[replicate] == pytest.approx(exact.mean(1), abs=1e-10)
            assert effects["mu_star"][1].values[replicate] == pytest.approx(np.abs(exact).mean(1), abs=1e-10)
            sigma = np.sqrt(effects["sigma"][1].values[replicate])
            assert sigma == pytest.approx(exact.std(1, ddof=1), abs=1e-10)

    def test_derivatives_bound_the_total_index(self):
        study = derivative_measures(ishigami, CUBE, points=256, replicates=8)
        assert within_three(study, "nu", ISHIGAMI["nu"], 1e-6)
        assert np.all(study["bound"].values[0] >= ISHIGAMI["total"])
        weights = np.array([1.0, 2.0, 3.0])
        distributions = [{"normal": [0, 1]}, {"normal": [5, 2]}, {"normal": [0, 0.5]}]
        linear = derivative_measures(lambda x: jnp.dot(x, weights), distributions, points=256, replicates=8)
        fractions = (weights * [1, 2, 0.5]) ** 2 / np.sum((weights * [1, 2, 0.5]) ** 2)
        assert linear["bound"].values[0] == pytest.approx(
            fractions, rel=0.01
        )  # sharp for normal distributions

    @pytest.mark.parametrize("distribution", [{"uniform": [0, 1]}, {"normal": [0.5, 0.3]}])
    @pytest.mark.parametrize("points", [64, 1024])
    @pytest.mark.parametrize(
        "jumping",
        [
            lambda a: jnp.where(a > 0.3, 1.0, 0.0),
            lambda a: jnp.sin(a) + jnp.where(a < 0.6, 0.05, 0.0),
            lambda a: jnp.floor(10 * a) / 10,
            lambda a: jnp.sign(jnp.sin(40 * a)),
            lambda a: 2 * a - jnp.floor(2 * a),  # whose jumps have no correlation with its changes
        ],
    )
    def test_a_jump_is_refused(self, jumping, points, distribution):
        with pytest.raises(InputError, match=r"^value jumps as a moves, by .*; use sobol_indices"):
            derivative_measures(
                lambda a, b: jumping(a) + b, {"b": distribution, "a": distribution}, points=points
            )

    @pytest.mark.parametrize("distribution", [{"uniform": [0, 1]}, {"normal": [0.5, 0.3]}])
    @pytest.mark.parametrize(
        ("continuous", "slope"),
        [
            (lambda a: 100 * jnp.maximum(a - 0.5, 0.0), lambda a: 100 * (a > 0.5)),
            (lambda a: jnp.where(a > 0.5, a - 0.5, 0.0), lambda a: a > 0.5),
            (lambda a: jnp.tanh(40 * (a - 0.5)), lambda a: 40 / jnp.cosh(40 * (a - 0.5)) ** 2),
            (lambda a: jnp.float64(jnp.float32(a)), lambda a: 1.0),
            (lambda a: 1e3 + a**2, lambda a: 2 * a),  # where rounding is far more than that of the changes
            (lambda a: jnp.abs(a - 0.4) ** 0.75, lambda a: 0.75 * jnp.abs(a - 0.4) ** -0.25),
        ],
    )
    def test_kinks_and_steep_slopes_are_not_jumps(self, continuous, slope, distribution):
        study = derivative_measures(
            lambda a, b: continuous(a) + b, {"a": distribution, "b": distribution}, points=4096
        )
        u = (np.arange(2**20) + 0.5) / 2**20
        a = u if "uniform" in distribution else 0.5 + 0.3 * stats.norm.ppf(u)
        exact = float(np.mean(np.square(slope(a))))
        assert study["nu"].values[0] == pytest.approx([exact, 1.0], rel=0.02)

    def test_rank_correlations(self):
        rng = np.random.default_rng(1)
        x, y = rng.standard_normal((2, 200, 3)), rng.standard_normal((2, 200))
        y = np.round(y + np.exp(x[..., 0]) - x[..., 1], 1)  # with ties
        distributions = {name: Normal(0, 1) for name in "abc"}
        rank = Rank(distributions, {name: [i] for i, name in enumerate(distributions)})
        inputs = rank.inputs(0, 256, 0, 2)._replace(base=x)
        measures, _ = rank.measured(Values(y[..., None]), inputs)
        for replicate in range(2):
            for i in range(3):
                exact = stats.spearmanr(x[replicate, :, i], y[replicate]).statistic
                assert measures["spearman"][1].values[replicate, i] == pytest.approx(exact, abs=1e-12)
                ranks = np.stack([stats.rankdata(c) for c in (*x[replicate].T, y[replicate])], -1)
                others = np.column_stack([np.ones(200), np.delete(ranks[:, :3], i, 1)])
                left = [r - others @ np.linalg.lstsq(others, r)[0] for r in (ranks[:, i], ranks[:, 3])]
                partial = np.corrcoef(*left)[0, 1]
                assert measures["partial"][1].values[replicate, i] == pytest.approx(partial, abs=1e-10)
        monotone = rank_correlations(lambda a, b: jnp.exp(a) + 0 * b, {"a": CUBE[0], "b": CUBE[1]}, points=64)
        assert monotone["spearman"].values[0, 0] == pytest.approx(1)

    def test_propagation(self):
        distributions = {"a": {"normal": [1, 0.5]}, "b": {"lognormal": [0, 0.25]}}
        study = propagate(
            lambda a, b: {"sum": 2 * a - 1, "log": jnp.log(b)}, distributions, points=1024, replicates=8
        )
        for name, (mean, sd) in {"sum": (1, 1), "log": (0, 0.25)}.items():
            own = study.sel(observable=name)
            assert abs(own["mean"] - mean) <= 3 * own["mean_halfwidth"]
            assert abs(own["sd"] - sd) <= 3 * own["sd_halfwidth"]
            exact = stats.norm(mean, sd).ppf(study["quantile"].values)
            assert own["quantiles"].values == pytest.approx(exact, abs=0.02 * sd)
        mass = study["histogram"].values * np.diff(study["histogram_edge"].values)
        assert np.sum(mass, 1) == pytest.approx(0.998, abs=1e-3)

    def test_bars_are_no_finer_than_the_runs_allow(self):
        """At most twice the cube root of their number (Rice); those of whole numbers end between two."""
        outputs = {"count": lambda a: jnp.floor(1000 * a), "square": lambda a: a * a}
        study = propagate(
            lambda a: {name: f(a) for name, f in outputs.items()},
            {"a": {"uniform": [0, 1]}},
            points=64,
            replicates=4,
        )
        for axes in plot_study(study).axes:
            bars = next(p for p in axes.patches if isinstance(p, StepPatch)).get_data()
            assert 4 <= len(bars.values) <= 2 * 256 ** (1 / 3), axes.get_title("left")
            assert sum(bars.values) == pytest.approx(100, abs=1), axes.get_title("left")
            if axes.get_title("left") == "count":
                assert np.all(bars.edges % 1 == 0.5)

    def test_atoms_are_drawn_as_fractions_of_the_runs(self):
        """Those true and false with digits; where most pay nothing the axis is logarithmic."""
        outputs = {
            "above": lambda a: jnp.where(a > 0.8, 1.0, 0.0),
            "count": lambda a: jnp.floor(10 * a),
            "pays": lambda a: jnp.maximum(a - 0.8, 0),
        }
        study = propagate(
            lambda a: {name: f(a) for name, f in outputs.items()},
            {"a": {"uniform": [0, 1]}},
            points=1024,
            replicates=4,
        )
        figure = plot_study(study)
        above, count, pays = figure.axes
        bars = {
            axes.get_title("left"): next(p for p in axes.patches if isinstance(p, StepPatch)).get_data()
            for axes in figure.axes
        }
        assert bars["above"].values == pytest.approx([80, 0, 20], abs=0.3)
        assert bars["count"].values == pytest.approx(np.full(10, 10), abs=0.3)
        np.testing.assert_array_equal(bars["count"].edges, np.arange(11) - 0.5)
        assert [text.get_text() for text in above.texts] == ["80 %", "20 %"]
        assert pays.get_yscale() == "log"
        assert max(bars["pays"].values) == pytest.approx(80 + 0.992, abs=0.3)
        labels = ["% of runs", "% of runs\nper value", "% of runs\nper bin of 0.00994\n(logarithmic)"]
        assert [axes.get_ylabel() for axes in figure.axes] == labels
        assert len(above.patches) == 1  # no band between quantiles of nought and one
        assert len(count.patches) == 3
        assert_nothing_overlaps(figure)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"uniform": ["-q", 1]}, r"uniform: low must be a number, or an expression of .*unknown name 'q'"),
        ({"uniform": [0, "1/0"]}, r"uniform: high must be finite, got inf"),
        ({"normal": [0, -1]}, r"normal: sd must be >= 0, got -1"),
        ({"normal": [0, 0]}, r"normal: sd must be > 0, got 0; a value that is known is a plain number"),
        ({"normal": {"mean": 0}}, r"normal: sd is missing; write normal: {mean: …, sd: …}"),
        ({"normal": {"mean": 0, "sdd": 1}}, r"normal has no 'sdd'; did you mean 'sd'\?"),
        ({"normal": [0, 1, 2]}, r"normal takes mean, sd, got 3 numbers"),
        ({"normal": [0, "1"]}, r"normal: sd must be a number, got '1'; write normal: {mean: …, sd: …}$"),
        (
            {"discrete": [[1, 2], [0.5]]},
            r"discrete: values must be numbers, got \[1, 2\]; write discrete: {values: …, probabilities: …}$",
        ),
        ({"normal": [0, float("nan")]}, r"normal: sd must be finite"),
        ({"uniform": [1, 1]}, r"uniform: low must be below high, got 1 and 1"),
        ({"triangular": [0, 3, 2]}, r"triangular: mode must lie between low and high, got 3"),
        ({"beta": [0, 1]}, r"beta: a must be > 0, got 0"),
        ({"truncated_normal": [0, 1, 50, 60]}, r"truncated_normal: low and high are so far"),
        ({"discrete": [1]}, r"discrete: values must be at least two different numbers"),
        ({"discrete": {"values": [1, 2], "probabilities": [0.5]}}, r"2 values and 1 probabilities"),
        ({"discrete": {"values": [1, 2], "probabilities": [0.5, 0.6]}}, r"these add up to 1.1"),
        ({"gauss": [0, 1]}, r"unknown distribution 'gauss'"),
        ({"normal": [0, 1], "uniform": [0, 1]}, r"a distribution has one key"),
        ({"normal": 3}, r"normal: must be its numbers, got 3"),
    ],
)
def test_wrong_distributions_are_refused(given, message):
    with pytest.raises(InputError, match=message):
        sobol_indices(ishigami, [given, *CUBE[1:]])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"points": 1000}, r"points: must be a power of two"),
        ({"replicates": 1}, r"replicates: must be at least 2"),
        ({"estimator": "sobol"}, r"estimator: must be one of saltelli, jansen, janon"),
        ({"order": 3}, r"order: must be 1 or 2"),
        ({"groups": {"g": ["x7"]}}, r"groups\.g: no uncertain parameter 'x7'"),
        ({"groups": {"g": ["x1"], "h": ["x1"]}}, r"groups\.h: x1 is in g too"),
        ({"groups": {"x1": ["x2"]}}, r"groups\.x1: x1 is a parameter"),
        ({"width": 0}, r"width: must be > 0"),
        ({"confidence": 1}, r"confidence: must be between 0 and 1"),
        ({"seed": -1}, r"seed: must be a whole number"),
    ],
)
def test_wrong_numbers_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        sobol_indices(ishigami, CUBE, **changes)


def test_the_size_of_a_study_by_walks_is_called_so():
    with pytest.raises(InputError, match=r"^walks: must be at least 2, got 1$"):
        elementary_effects(ishigami, CUBE, walks=1)


def test_functions_that_cannot_be_studied_are_refused():
    with pytest.raises(InputError, match="has the shape \\(3,\\)"):
        sobol_indices(lambda x: x, CUBE)
    with pytest.raises(NumericalError, match=r"value is nan at x1 = -"):
        sobol_indices(lambda x: jnp.log(x[0]), CUBE, points=64)
    with pytest.raises(InputError, match=r"distributions\.a: is discrete, and has no derivative"):
        derivative_measures(lambda a: a, {"a": {"discrete": [0, 1]}})
    with pytest.raises(InputError, match="there are no distributions"):
        propagate(lambda: 1.0, {})
    with pytest.raises(InputError, match=r"^a: must be a distribution such as \{uniform: \[0, 1\]\}, got 3"):
        propagate(lambda a: a, {"a": 3.0})
    distribution = {"uniform": [0, 1]}
    with pytest.raises(InputError, match=r"is called by name with a, b, and takes \(a\): got an unexpected"):
        propagate(lambda a: a, {"a": distribution, "b": distribution})
    with pytest.raises(InputError, match=r"is called with one array, and takes \(a, b\): missing a required"):
        propagate(lambda a, b: a, [distribution, distribution])
    for function in (math.sin, lambda a: a if a > 0.5 else -a):
        with pytest.raises(InputError, match=r"must be written for JAX, with jax.numpy in place of math"):
            propagate(lambda a, f=function: f(a), {"a": distribution}, points=64)


def counting(function, sizes):
    def evaluate(design, base, first):
        sizes.append((first, base.shape[1]))
        return {"y": Values.of(function(base[:, :, design.take])[..., None], False, True)}

    return evaluate


@pytest.mark.parametrize("kind", [Sobol, Morris, Propagate])
def test_points_are_added_until_intervals_are_narrow(kind):
    distributions = {f"x{i}": Uniform(-PI, PI) for i in range(3)}
    each = kind(distributions, {name: [i] for i, name in enumerate(distributions)})
    sizes = []
    width = {Sobol: 0.1, Morris: 0.05, Propagate: 0.02}[kind]
    result = run_study(each, StudyPlan(16, 8, width=width), counting(on_numpy, sizes))
    assert result.stopped == "width"
    assert result.widest <= width
    assert result.points > 32
    assert sizes == [(0, 16), *((16 << i, 16 << i) for i in range(len(sizes) - 1))]
    at_once = run_study(each, StudyPlan(result.points, 8), counting(on_numpy, []))
    for name, estimate in result.estimates["y"].items():
        assert np.array_equal(estimate.value, at_once.estimates["y"][name].value), name
    short = run_study(each, StudyPlan(16, 8, width=1e-9, budget=10_000), counting(on_numpy, []))
    assert short.stopped == "budget"
    assert short.runs <= 10_000 < 2 * short.runs


@pytest.mark.parametrize("points", [64, 1024])
def test_a_variance_on_sobol_points_is_not_that_of_independent_ones(points):
    """Their mean is nearly exact, and a division by n - 1 would be too large by a thousand half-intervals."""
    distribution = {"uniform": [0, 1]}
    spread = propagate(lambda a: a, {"a": distribution}, points=points)
    away = abs(float(spread["sd"].item()) - 12**-0.5)
    assert away < 2.5 * float(spread["sd_halfwidth"].item()) < 0.002
    bound = derivative_measures(
        lambda a: jnp.cos(jnp.pi * a), {"a": distribution}, points=points
    )  # equal to S_T = 1
    assert abs(bound["bound"].item() - 1) < 2.5 * bound["bound_halfwidth"].item()


def test_a_budget_below_the_first_runs_is_refused():
    wrong = r"^budget: must be at least .* runs, 5,120 \(16 replicates × 64 points × 5 runs\), got 5,119$"
    with pytest.raises(InputError, match=wrong):
        sobol_indices(ishigami, CUBE, points=64, width=0.1, budget=5119)
    with pytest.raises(InputError, match=r"^budget: says when to stop on the way to a width; add width"):
        sobol_indices(ishigami, CUBE, points=64, budget=5120)
    assert sobol_indices(ishigami, CUBE, points=64, width=1e-9, budget=5120).attrs["runs"] == 5120


@pytest.mark.parametrize("part", [0.02, 0.06, 0.5, 0.95, 0.99])
def test_a_percentage_of_runs_does_not_lie_on_the_mean(part):
    outputs = {name: lambda a: jnp.where(a < part, 1.0, 0.0) for name in ("one", "two", "three")}
    study = propagate(
        lambda a: {name: f(a) for name, f in outputs.items()}, {"a": {"uniform": [0, 1]}}, points=256
    )
    figure = plot_study(study)
    assert_nothing_overlaps(figure)
    for axes in figure.axes:
        (mean,) = axes.get_lines()
        inside, line = axes.get_window_extent(), mean.get_window_extent()
        for text in axes.texts:
            box = text.get_window_extent()
            assert not line.x0 - 2 < box.x1 or not box.x0 < line.x1 + 2, text.get_text()
            assert inside.x0 < box.x0 < box.x1 < inside.x1


def test_the_deviation_of_elementary_effects_is_that_of_signed_ones_and_the_picture_says_so():
    """Effects of either sign, whose mean is near 0, deviate from it by more than their mean size."""
    distributions = {name: {"uniform": [-1, 1]} for name in ("a", "b")}
    study = elementary_effects(lambda a, b: a * b, distributions, walks=64)
    effects = study.isel(observable=0, parameter=0)
    assert abs(effects["mu"]) < effects["mu_star"] < effects["sigma"]
    (axes,) = plot_study(study).axes
    assert axes.get_ylabel() == "sigma, sd of signed effects"


def test_names_of_points_at_one_place_are_not_printed_over_each_other():
    distributions = {name: {"uniform": [0, 1]} for name in ("a", "idle", "b", "too")}
    study = elementary_effects(lambda a, idle, b, too: a + 3 * b + 0 * (idle + too), distributions, walks=8)
    (axes,) = plot_study(study).axes
    assert [each.get_text() for each in axes.texts] == ["a", "idle, too", "b"]


@pytest.mark.parametrize("count", [3, 5])
def test_the_largest_pairs_are_drawn_below_the_parameters(count):
    names = "abcde"[:count]
    distributions = {name: {"uniform": [-1, 1]} for name in names}

    def function(**x):
        return 4 * x["a"] * x["b"] + 2 * x["a"] * x["c"] + x["c"]

    study = sobol_indices(function, distributions, points=64, order=2)
    figure = plot_study(study)
    (axes,) = figure.axes
    rows = [label.get_text() for label in axes.get_yticklabels()]
    drawn = rows[count:]
    assert sorted(rows[:count]) == list(names)
    assert drawn[:2] == ["a × b", "a × c"]
    assert len(drawn) == min(count * (count - 1) // 2, 6)
    bars = {round(bar.get_y() + bar.get_height() / 2): bar.get_width() for bar in axes.patches[2 * count :]}
    index = study["second"].isel(observable=0)
    for place, pair in enumerate(drawn, count):
        assert bars[place] == index.sel(
            dict(zip(("parameter", "parameter_2"), pair.split(" × "), strict=True))
        )
    assert axes.get_title("right") == ("the 6 largest of 10 pairs" if count == 5 else "")
    assert "second order" in [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_width_has_its_unit():
    def said(study, **options):
        dataset = study(lambda a: 100.0 * a, {"a": {"uniform": [0, 1]}}, width=0.5, **options)
        return next(line for line in closing_lines(dataset) if line.startswith("stopped by width"))

    assert said(elementary_effects).endswith(" of the largest mu_star")
    assert said(propagate).endswith(" standard deviations of the output")
    assert re.fullmatch(r"stopped by width: the widest interval is [0-9.e-]+", said(rank_correlations))


def test_distributions_have_their_keys_in_the_file():
    from simkit.config.settings import DISTRIBUTIONS

    assert tuple(BY_KEY) == DISTRIBUTIONS


def test_the_interval_of_a_root_has_the_width_of_that_of_its_square():
    """The squares of its ends lie as far apart as the ends of the mean's interval; of 0 it ends there."""
    values = np.array([[4.0, 0.0], [5.0, 1.0], [6.0, -1.0]])
    mean, half = Measure(values).interval(0.95)
    root, own = Measure(values, root=True).interval(0.95)
    assert root == pytest.approx(np.sqrt(mean))
    assert (root[0] + own[0]) ** 2 - (root[0] - own[0]) ** 2 == pytest.approx(2 * half[0])
    assert own[1] ** 2 == pytest.approx(half[1])
