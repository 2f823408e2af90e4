"""Derivatives of reaction networks by their rates: scores, weak derivatives, coupled differences."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jump_derivatives import DIRECTIONS, END, KEY, LIMIT, PATHS, POINTS, RATES, START, assert_near, made
from scipy import stats
from simkit_physics import ImmigrationDeath, Schlogl
from simkit_solvers import (
    Curve,
    Direction,
    JumpGrid,
    JumpNoise,
    States,
    finite_difference,
    girsanov,
    integrate_jumps,
    likelihood_ratio,
    make_solver,
    scheduled,
    weak_derivative,
)
from simkit_solvers.derivatives.coupled_network import CoupledNetwork
from simkit_solvers.derivatives.jump_sensitivity import Coupling, Differentiated
from simkit_solvers.loops.jump_path import JumpPath, after_proposal
from simkit_solvers.methods.jump.jump_method import NO_RATIO, WAITING, Jumps
from user_code import user_jit

GROUP, LEVEL = 512, 18


class Functions(States):
    """Of a count: itself, its square, whether it is above a level, and one that reads a parameter."""

    def row(self, problem, acc, t, y):
        high = jnp.where(y.X > LEVEL, 1.0, 0.0)
        return {"X": y.X, "square": y.X**2, "high": high, "lost": problem.mu * y.X}


# In the second the rates of the two reactions change in opposite ways.
OPPOSITE = DIRECTIONS[0], Direction(made(ImmigrationDeath, {"alpha": 1.0, "mu": -1.0}))


@functools.cache
def program(estimator, method, coupling: Coupling = "split"):
    """A compiled function of (parameters, path ids, step)."""
    solver = make_solver(method)

    @user_jit
    def run(parameters, start, ids, step):
        network, grid = made(ImmigrationDeath, parameters), JumpGrid(0.0, END, POINTS)
        y0 = ImmigrationDeath.State(X=start)

        def one(path):
            given = network, solver, y0, grid
            if estimator == "weak":
                return weak_derivative(*given, KEY, path, Functions(), OPPOSITE)
            noise = JumpNoise.of(KEY, path)
            if estimator == "girsanov":
                return girsanov(*given, noise, Functions(), DIRECTIONS)
            results = [
                finite_difference(*given, noise, Functions(), each, step * rate, coupling)
                for each, rate in zip(DIRECTIONS, parameters.values(), strict=True)
            ]
            slopes = tuple(each.derivatives[0] for each in results)
            return Differentiated(results[0].rows, slopes, jnp.maximum(results[0].status, results[1].status))

        return jax.vmap(one)(ids)

    return run


def paths_of(estimator, method, coupling="split", rates=RATES, start=START, step=0.05, paths=PATHS):
    numbers = {name: jnp.asarray(rate) for name, rate in rates.items()}
    run, groups = program(estimator, method, coupling), np.arange(paths, dtype=np.uint32).reshape(-1, GROUP)
    parts = [run(numbers, jnp.int32(start), ids, jnp.asarray(step)) for ids in groups]
    return jax.tree.map(lambda *each: np.concatenate(each), *parts)


def exact(rates=RATES, start=START):
    """Values and derivatives by alpha and mu at the saved times: a binomial number of those at the start
    in addition to a Poisson number of others."""
    t = np.arange(POINTS + 1) / POINTS * END
    alpha, mu = rates.values()
    alive = np.exp(-mu * t)
    mean = start * alive + alpha / mu * (1 - alive)
    slopes = [(1 - alive) / mu, -t * start * alive - alpha / mu**2 * (1 - alive) + alpha / mu * t * alive]

    def high(alpha, mu):
        few, others = start, alpha / mu * -np.expm1(-mu * t)
        k = np.arange(few + 1)[:, None]
        fraction = stats.binom.pmf(k, few, np.exp(-mu * t))
        return (fraction * stats.poisson.sf(LEVEL - k, others)).sum(0)

    def square(alpha, mu):
        few, p = start, np.exp(-mu * t)
        other = alpha / mu * (1 - p)
        return few * p * (1 - p) + other + (few * p + other) ** 2

    by = []
    for i, slope in enumerate(slopes):
        h = 1e-5 * np.array([i == 0, i == 1])
        both = [[f(alpha + s * h[0], mu + s * h[1]) for f in (square, high)] for s in (1, -1)]
        numeric = [(up - down) / 2e-5 for up, down in zip(*both, strict=True)]
        lost = mu * slope + (mean if i == 1 else 0)
        by.append({"X": slope, "square": numeric[0], "high": numeric[1], "lost": lost})
    return {"X": mean}, by


def assert_derivatives(run, wanted, limit=LIMIT):
    for samples, slopes in zip(run.derivatives, wanted, strict=True):
        for name, slope in slopes.items():
            x = samples[name]
            assert_near(x.mean(0), x.std(0) / len(x) ** 0.5, slope, limit)


@pytest.mark.more
@pytest.mark.parametrize("method", ["DirectMethod", pytest.param("NextReaction", marks=pytest.mark.slow)])
def test_scores_give_the_derivatives_of_immigration_and_death(method):
    result = paths_of("girsanov", method)
    values, wanted = exact()
    assert_near(result.run.rows["X"].mean(0), result.run.rows["X"].std(0) / PATHS**0.5, values["X"])
    for score, explicit, slopes in zip(result.run.scores, result.explicit, wanted, strict=True):
        assert_near(score.mean(0), score.std(0) / PATHS**0.5, 0.0)
        for name, slope in slopes.items():
            estimate, error = likelihood_ratio(result.run.rows[name], score, explicit[name])
            assert_near(estimate, error, slope)
            plain = result.run.rows[name] * score + explicit[name]
            assert (np.asarray(error)[1:] < plain.std(0)[1:] / PATHS**0.5).all()  # than without centring


@pytest.mark.slow
def test_one_event_more_gives_the_derivatives_of_immigration_and_death():
    result = paths_of("weak", "DirectMethod")
    by_alpha, by_mu = exact()[1]
    assert_derivatives(result, [by_alpha, {name: x - by_mu[name] for name, x in by_alpha.items()}])
    scores = paths_of("girsanov", "DirectMethod")
    assert result.derivatives[0]["X"].var(0)[-1] < 0.1 * scores.derivatives[0]["X"].var(0)[-1]


@pytest.mark.more
@pytest.mark.parametrize(
    ("method", "coupling"),
    [("DirectMethod", "split"), pytest.param("CommonReactionPaths", "noise", marks=pytest.mark.slow)],
)
def test_coupled_differences_give_the_derivatives(method, coupling):
    actual = paths_of("difference", method, coupling)
    values, wanted = exact()
    assert_near(actual.rows["X"].mean(0), actual.rows["X"].std(0) / PATHS**0.5, values["X"], 5)
    assert_derivatives(actual, wanted, 5)  # of which the bias is 1 at most
    assert (actual.status <= WAITING).all()


def variance(method, coupling, step):
    result = paths_of("difference", method, coupling, step=step)
    return np.array([each["X"][:, -1].var() for each in result.derivatives])


INDEPENDENT = 2 * 19.5  # the variance of a difference of two, of counts whose own is 19.5


TWICE = 2 * np.array(list(RATES.values()))


def test_coupling_keeps_the_variance_of_differences_down():
    """It grows as 1/h, where it would as 1/h^2."""
    fine, coarse = (variance("DirectMethod", "split", h) for h in (0.01, 0.05))
    assert (fine / coarse > 2.5).all()
    assert (fine / coarse < 16).all()
    assert (fine < 0.02 * INDEPENDENT / (0.01 * TWICE) ** 2).all()


@pytest.mark.slow
def test_common_reaction_paths_are_what_common_numbers_should_be():
    paths = [variance("CommonReactionPaths", "noise", h) for h in (0.01, 0.05)]
    assert (paths[0] / paths[1] < 16).all()
    assert (variance("DirectMethod", "split", 0.01) <= paths[0]).all()
    assert (paths[0] < 0.05 * INDEPENDENT / (0.01 * TWICE) ** 2).all()
    in_order = [variance(method, "noise", 0.01) for method in ("DirectMethod", "NextReaction")]
    assert in_order[0][1] > 3 * paths[0][1]
    assert (in_order[1] > 10 * paths[0]).all()


@pytest.mark.more
def test_no_likelihood_where_a_rate_is_zero():
    """A path without arrivals says nothing of one with some; an event more does."""
    none = {"alpha": 0.0, "mu": 1.0}
    result = paths_of("girsanov", "DirectMethod", rates=none, paths=GROUP)
    assert (result.run.status == NO_RATIO).all()
    assert np.isnan(result.run.rows["X"][:, 1:]).all()
    assert np.isnan(result.run.scores[0][:, 1:]).all()
    weak = paths_of("weak", "DirectMethod", rates=none, paths=PATHS)
    slope = weak.derivatives[0]["X"]
    assert_near(slope.mean(0), slope.std(0) / PATHS**0.5, exact(none)[1][0]["X"])


def test_scores_of_nothing_left_are_finite():
    """At no molecules nothing dies, whatever the rate, and its score rests."""
    result = paths_of("girsanov", "DirectMethod", rates={"alpha": 1e-6, "mu": 9.0}, start=1, paths=GROUP)
    assert np.isfinite(np.stack(result.run.scores)).all()
    assert (result.run.counts.X[:, -1] == 0).all()


def test_a_path_is_the_same_with_its_scores():
    network, solver = made(ImmigrationDeath, RATES), make_solver("DirectMethod")
    plain = user_jit(
        jax.vmap(
            lambda path: integrate_jumps(
                network,
                solver,
                ImmigrationDeath.State(X=jnp.int32(START)),
                JumpGrid(0.0, END, POINTS),
                JumpNoise.of(KEY, path),
                States(),
            )
        )
    )(jnp.arange(GROUP, dtype=jnp.uint32))
    result = paths_of("girsanov", "DirectMethod", paths=GROUP).run
    np.testing.assert_array_equal(plain.counts.X, result.counts.X)
    np.testing.assert_array_equal(plain.steps, result.steps)
    assert plain.scores == ()


@pytest.mark.slow
def test_tau_leaping_has_scores_of_its_own():
    """Of leaps, of the events in them that are seen and of critical reactions alike."""
    result = paths_of("girsanov", "TauLeaping", rates={"alpha": 300.0, "mu": 1.0}, paths=PATHS)
    wanted = exact({"alpha": 300.0, "mu": 1.0})[1]
    for score, slopes in zip(result.run.scores, wanted, strict=True):
        assert_near(score.mean(0), score.std(0) / PATHS**0.5, 0.0)
        estimate, error = likelihood_ratio(result.run.rows["X"], score)
        error = np.asarray(error) + 0.02 * np.abs(slopes["X"])  # its own bias
        assert_near(estimate, error, slopes["X"])


def test_what_cannot_be_is_refused():
    network, grid = made(ImmigrationDeath, RATES), JumpGrid(0.0, END)
    y0, noise, direct = ImmigrationDeath.State(X=1), JumpNoise.of(KEY, 0), make_solver("DirectMethod")
    with pytest.raises(ValueError, match="many events at once"):
        weak_derivative(network, make_solver("TauLeaping"), y0, grid, KEY, 0, States(), DIRECTIONS)
    with pytest.raises(ValueError, match="same structure"):
        girsanov(network, direct, y0, grid, noise, States(), (Direction(made(Schlogl, Schlogl.example)),))
    with pytest.raises(ValueError, match="same species and reactions"):
        CoupledNetwork(network, made(Schlogl, Schlogl.example))
    moving: Any = scheduled(network, {"alpha": Curve(np.array([0.0, 1.0]), np.array([1.0, 2.0]), "previous")})
    with pytest.raises(ValueError, match="scheduled"):
        weak_derivative(moving, direct, y0, grid, KEY, 0, States(), DIRECTIONS)
    with pytest.raises(ValueError, match="scheduled"):
        finite_difference(moving, direct, y0, grid, noise, States(), DIRECTIONS[0], 0.1)


@pytest.mark.parametrize("n", [2, 3])
def test_the_likelihood_ratio_of_few_paths_leaves_each_out_of_its_own_mean(n):
    """The sum of (f_i - the mean of the others) Z_i over n, which is without bias at any n."""
    values, scores, explicit = np.random.default_rng(n).standard_normal((3, n, 4))
    others = (values.sum(0) - values) / (n - 1)
    estimate, error = likelihood_ratio(jnp.asarray(values), jnp.asarray(scores), jnp.asarray(explicit))
    assert np.asarray(estimate) == pytest.approx(((values - others) * scores + explicit).mean(0), abs=1e-12)
    assert (np.asarray(error) > 0).all()


def test_scores_of_one_leap_have_mean_zero_where_some_leaps_are_refused():
    """What is drawn has a likelihood whether it is taken or not; leaps are refused that have many events."""
    solver = make_solver("TauLeaping", {"epsilon": 0.8, "critical": 1})
    network, direction = made(ImmigrationDeath, {"alpha": 0.0, "mu": 1.0}), DIRECTIONS[1].problem
    dtype = jnp.float64

    @jax.jit
    @jax.vmap
    def proposed(path):
        zero, none = jnp.zeros((), dtype), jnp.int32(0)
        noise, y = JumpNoise.of(KEY, path), ImmigrationDeath.State(X=jnp.int32(20))
        jumps = Jumps(network, noise, zero, jnp.asarray(100.0, dtype), (direction,))
        state = solver.init(jumps, y)
        drawn = solver.draw(jumps, y, state, jnp.uint32(0))
        start = JumpPath(drawn, y, zero, (), state, none, none, (), (zero,))
        end = after_proposal(jumps, solver, start, jumps.span, 10)
        return end.scores[0], end.steps

    scores, steps = (np.asarray(x) for x in proposed(jnp.arange(PATHS, dtype=jnp.uint32)))
    refused = steps == 0
    assert 0.02 < refused.mean() < 0.5
    assert_near(scores.mean(), scores.std() / PATHS**0.5, 0.0)
    assert (scores[refused] > 0).all()
