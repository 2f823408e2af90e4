"""Methods of studies beside Sobol' indices: elementary effects, derivatives, ranks and propagation."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from study_examples import CUBE, ISHIGAMI, PI, ishigami, on_numpy, within_three

from simkit import InputError
from simkit.distributions import Normal, Uniform
from simkit.studies import (
    derivative_measures,
    elementary_effects,
    propagate,
    rank_correlations,
)
from simkit.studies.methods import NO_INFLUENCE, Morris, Rank
from simkit.studies.values import Values


def test_elementary_effects():
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


def test_derivatives_bound_the_total_index():
    study = derivative_measures(ishigami, CUBE, points=256, replicates=8)
    assert within_three(study, "nu", ISHIGAMI["nu"], 1e-6)
    assert np.all(study["bound"].values[0] >= ISHIGAMI["total"])
    weights = np.array([1.0, 2.0, 3.0])
    distributions = [{"normal": [0, 1]}, {"normal": [5, 2]}, {"normal": [0, 0.5]}]
    linear = derivative_measures(lambda x: jnp.dot(x, weights), distributions, points=256, replicates=8)
    fractions = (weights * [1, 2, 0.5]) ** 2 / np.sum((weights * [1, 2, 0.5]) ** 2)
    assert linear["bound"].values[0] == pytest.approx(fractions, rel=0.01)  # sharp for normal distributions


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
def test_a_jump_is_refused(jumping, points, distribution):
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
def test_kinks_and_steep_slopes_are_not_jumps(continuous, slope, distribution):
    study = derivative_measures(
        lambda a, b: continuous(a) + b, {"a": distribution, "b": distribution}, points=4096
    )
    u = (np.arange(2**20) + 0.5) / 2**20
    a = u if "uniform" in distribution else 0.5 + 0.3 * stats.norm.ppf(u)
    exact = float(np.mean(np.square(slope(a))))
    assert study["nu"].values[0] == pytest.approx([exact, 1.0], rel=0.02)


def test_rank_correlations():
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


def test_propagation():
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
