"""Adaptive steps of stochastic equations: distributions of paths, and errors against tolerances."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import simkit_solvers.random.brownian_tree
from brownian_trees import ensemble, leaves, tree_of
from scipy import stats
from simkit_solvers import (
    SOLVERS,
    AbstractSDE,
    AdaptiveGrid,
    Grid,
    Scalar,
    States,
    Tolerances,
    integrate,
    integrate_adaptive_sde,
    make_solver,
    stepper_for,
)
from simkit_solvers.loops.adaptive_sde import _error, _integrate, _run_of
from simkit_solvers.methods.solver_check import check_adaptive_sde
from simkit_solvers.random.draws import H_SCALE
from solver_problems import (
    Additive,
    Commutative,
    Diagonal,
    General,
    Given,
    OneNoise,
    PairNoise,
    PairState,
    ScalarNoise,
    Wells,
)
from user_code import user_jit

KINDS = {
    "additive": Additive,
    "scalar": ScalarNoise,
    "diagonal": Diagonal,
    "commutative": Commutative,
    "general": General,
}


# The distribution of the path


class TrackedState(NamedTuple):
    x: Scalar
    w: Scalar
    a: Scalar


class TrackedGBM(AbstractSDE):
    """dX = mu X dt + sigma X dW, with W itself and its integral over time."""

    State = TrackedState
    Noise = OneNoise
    calculus = "ito"
    noise_kind = "scalar"

    mu: Scalar = 1.01
    sigma: Scalar = 0.87

    def drift(self, t, y):
        return TrackedState(self.mu * y.x, 0.0, y.w)

    def noise(self, t, y, dW):
        return TrackedState(self.sigma * y.x * dW.W, dW.W, 0.0)

    def exact(self, x0, t, w):
        return x0 * np.exp((self.mu - self.sigma**2 / 2) * t + self.sigma * w)


class TrackedBounded(AbstractSDE):
    """dX = -X (1 - X^2) / 4 dt + (1 - X^2) / 2 dW, with W."""

    State = TrackedState
    Noise = OneNoise
    calculus = "ito"
    noise_kind = "scalar"

    def drift(self, t, y):
        return TrackedState(-0.25 * y.x * (1 - y.x**2), 0.0, 0.0)

    def noise(self, t, y, dW):
        return TrackedState(0.5 * (1 - y.x**2) * dW.W, dW.W, 0.0)

    def exact(self, x0, t, w):
        return ((1 + x0) * np.exp(w) + x0 - 1) / ((1 + x0) * np.exp(w) + 1 - x0)


POINTS = 4


@functools.cache
def watching(solver, model, internal):
    run = _integrate if internal else integrate_adaptive_sde

    def one(path, atol, first_step):
        grid = AdaptiveGrid(0.0, 1.0, Tolerances(0.0, atol), first_step, points=POINTS)
        y0 = TrackedState(*map(jnp.asarray, (0.5, 0.0, 0.0)))
        return run(model(), make_solver(solver), y0, grid, tree_of(path), States())

    return ensemble(one)


def tracked(solver, atol, paths=2048, model=TrackedGBM, internal=False, first_step=1.0):
    return watching(solver, model, internal)(paths, atol, first_step)


@pytest.mark.user_code
@pytest.mark.more
def test_the_path_is_that_of_the_tree_whatever_was_rejected():
    """W and its integral at the saved times follow from the roots, and have their distribution."""
    loose, tight = (tracked("SRIW1", atol) for atol in (1e-2, 1e-4))
    assert np.mean(tight.rejected) > 4 * np.mean(loose.rejected) > 0
    paths = jnp.arange(len(tight.accepted), dtype=jnp.uint32)
    roots = jax.vmap(lambda path: tree_of(path).roots.draws(1, 1, jnp.uint32(0), POINTS))(paths)
    W = np.stack([draw.W[0] for draw in roots], 1) / np.sqrt(POINTS)
    H = np.stack([draw.H[0] for draw in roots], 1).astype(float) * H_SCALE / np.sqrt(POINTS)
    w = np.cumsum(W, 1)
    a = np.cumsum((w - W) / POINTS + (W / 2 + H) / POINTS, 1)
    for run in (loose, tight):
        np.testing.assert_allclose(run.rows["w"][:, 1:], w, rtol=0, atol=1e-12)
        np.testing.assert_allclose(run.rows["a"][:, 1:], a, rtol=0, atol=1e-12)
    increments = np.diff(tight.rows["w"], axis=1) * np.sqrt(POINTS)
    assert stats.kstest(increments.ravel(), "norm").pvalue > 1e-6
    assert stats.kstest(tight.rows["a"][:, -1] * np.sqrt(3), "norm").pvalue > 1e-6


# The limit


def end_errors(solver, model, atol, internal=False):
    """X at the end minus the solution on the same Brownian path."""
    result = tracked(solver, atol, 512, model, internal)
    return result.rows["x"][:, -1] - model().exact(0.5, 1.0, result.rows["w"][:, -1])


@pytest.mark.more
@pytest.mark.parametrize(
    ("solver", "model", "least"),
    [
        ("SRIW1", TrackedGBM, 0.45),
        pytest.param("SRIW1", TrackedBounded, 0.45, marks=pytest.mark.slow),
        pytest.param("Milstein", TrackedGBM, 0.45, marks=pytest.mark.slow),
        pytest.param("Milstein", TrackedBounded, 0.45, marks=pytest.mark.slow),
        pytest.param("DerivativeFreeMilstein", TrackedGBM, 0.3, marks=pytest.mark.slow),
    ],
)
def test_the_strong_error_falls_with_the_tolerance(solver, model, least):
    """As its power 1/3 at least: steps about as long as its power 2/3, and errors as the root of these."""
    first, last = (np.mean(np.abs(end_errors(solver, model, atol))) for atol in (1e-3, 1e-5))
    assert least < np.log(first / last) / np.log(1e2) < 0.75


def test_euler_maruyama_has_a_wrong_limit():
    """Of the squares of the increments whose steps it accepts, which are too small."""
    loose, tight = (end_errors("EulerMaruyama", TrackedGBM, atol, True) for atol in (1e-2, 1e-3))
    assert tight.mean() > loose.mean() > 0.1
    assert tight.mean() > 20 * tight.std() / np.sqrt(len(tight))


def fitting():
    """Every solver that fits some noise, with the most general one that it fits."""
    for name, info in SOLVERS.items():
        if info.langevin:
            yield name, Wells()
            continue
        for model in reversed(KINDS.values()):
            problem = model(calculus=info.calculus) if "sde" in info.problem else None
            try:
                check_adaptive_sde(make_solver(name), problem)
            except (ValueError, AttributeError):
                continue
            yield name, problem
            break


QUICK = ("BAOAB",)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "problem"),
    [
        pytest.param(name, problem, id=name, marks=() if name in QUICK else (pytest.mark.slow,))
        for name, problem in fitting()
    ],
)
def test_every_solver_that_fits_comes_closer_to_a_fixed_grid(name, problem):
    method, level = make_solver(name), 10
    y0 = problem.State(*map(jnp.asarray, (0.4, -0.9, 0.3, 0.1)[: len(problem.State._fields)]))

    def fixed(path):
        components = len(problem.Noise._fields)
        normals = leaves(tree_of(path), components, stepper_for(method).areas, level)
        rows = integrate(
            problem, method, y0, Grid(0.0, 2.0**-level, 2**level, 2**level), Given(normals), States()
        )
        return jnp.stack([x[-1] for x in rows.values()])

    def adaptive(path, atol):
        grid = AdaptiveGrid(0.0, 1.0, Tolerances(0.0, atol))
        rows = integrate_adaptive_sde(problem, method, y0, grid, tree_of(path), States()).rows
        return jnp.stack([x[-1] for x in rows.values()])

    exact, program = ensemble(fixed)(64), ensemble(adaptive)
    loose, tight = (np.sqrt(np.mean((program(64, atol) - exact) ** 2)) for atol in (3e-2, 1e-3))
    assert tight < 0.5 * loose
    assert tight < 0.03


# The loop


def test_times_tolerances_and_parameters_compile_nothing():
    traced = []

    class Counted(TrackedGBM):
        def drift(self, t, y):
            traced.append(t)
            return super().drift(t, y)

    @user_jit
    def run(problem, grid):
        y0 = TrackedState(*map(jnp.asarray, (0.5, 0.0, 0.0)))
        return integrate_adaptive_sde(problem, make_solver("Milstein"), y0, grid, tree_of(0), States())

    first = run(Counted(1.0, 0.8), AdaptiveGrid(0.0, 2.0, Tolerances(1e-2, 1e-3), 0.1))
    before = len(traced)
    other = run(Counted(1.1, 0.5), AdaptiveGrid(1.0, 4.0, Tolerances(1e-3, 1e-4), 0.01))
    assert len(traced) == before
    assert int(other.accepted) >= 300 > int(first.accepted) >= 20


@pytest.mark.user_code
@pytest.mark.slow
def test_the_first_step_is_the_longest():
    """Where every trial is accepted, coarse intervals are all there is, also where they do not divide."""
    for first_step, intervals in ((0.05, 5), (0.15, 2), (1.0, 1)):
        result = tracked("SRIW1", 1e9, 64, first_step=first_step)
        assert (result.accepted == POINTS * intervals).all()
        assert (result.rejected == 0).all()
        every = jax.vmap(lambda path, n=intervals: tree_of(path).roots.draws(1, 0, jnp.uint32(0), POINTS * n))
        normals = [draw.W[0] for draw in every(jnp.arange(64, dtype=jnp.uint32))]
        w = np.cumsum(np.stack(normals, 1), 1, dtype=float) / np.sqrt(POINTS * intervals)
        np.testing.assert_allclose(
            result.rows["w"][:, 1:], w[:, intervals - 1 :: intervals], rtol=0, atol=1e-12
        )


def test_a_multiple_of_the_first_step_but_for_rounding_is_that_multiple():
    """7 steps of 0.3 to 2.1, whose quotient is a digit above 7; what is clearly more takes one more."""
    for t1, steps in ((2.1, 7), (2.12, 8)):
        grid = AdaptiveGrid(0.0, t1, Tolerances(1e-3, 1e-3), first_step=0.3)
        assert t1 / 0.3 > 7
        assert _run_of(None, None, None, grid, jnp.float64).per_row == steps


def test_the_error_of_a_step_is_the_mean_square_over_its_numbers_in_tolerances():
    """Each in that of the larger of its values at the two ends."""
    start, coarse, fine = [jnp.asarray(0.0), jnp.asarray([2.0, 1.0])], [5.0, [1.0, 1.0]], [4.0, [1.0, 3.0]]
    result = _error(
        AdaptiveGrid(0.0, 1.0, Tolerances(0.25, 0.5)),
        start,
        *([jnp.asarray(x) for x in end] for end in (coarse, fine)),
    )
    parts = np.array([(5 - 4) / (0.5 + 0.25 * 4), 0.0, (1 - 3) / (0.5 + 0.25 * 3)])
    assert result == pytest.approx(np.sqrt(np.mean(parts**2)), rel=1e-14)


class TimeDrift(TrackedGBM):
    """A drift that knows the time and nothing else."""

    def drift(self, t, y):
        return TrackedState(jnp.cos(5 * t), 0.0, 0.0)

    def noise(self, t, y, dW):
        return TrackedState(0.0 * dW.W, dW.W, 0.0)


def test_steps_are_at_their_times():
    grid = AdaptiveGrid(0.3, 2.3, Tolerances(0.0, 1e-6), 0.2, points=5)
    y0 = TrackedState(*map(jnp.asarray, (0.0, 0.0, 0.0)))
    result = integrate_adaptive_sde(TimeDrift(), make_solver("SRIW1"), y0, grid, tree_of(0), States())
    np.testing.assert_allclose(result.rows["x"], (np.sin(5 * grid.times) - np.sin(1.5)) / 5, atol=1e-5)


@pytest.mark.slow
def test_float32_keeps_its_type_and_a_late_start_its_steps():
    """At t = 2^21 float32 times differ by an eighth at least; the steps need less."""

    def run(t0, span=1.0):
        y0 = TrackedState(*(jnp.asarray(x, jnp.float32) for x in (0.5, 0.0, 0.0)))
        grid = AdaptiveGrid(t0, t0 + span, Tolerances(1e-3, 1e-4), points=4)
        return integrate_adaptive_sde(TrackedGBM(), make_solver("SRIW1"), y0, grid, tree_of(1), States())

    # A span that is no multiple of a sixteenth, as far apart as float32 times are there.
    odd = [run(t0, 0.4).rows["x"] for t0 in (0.0, 738000.3)]
    np.testing.assert_allclose(*odd, rtol=1e-5)
    early, late = (jax.jit(run)(t0) for t0 in (0.0, 2.0**21))
    assert late.rows["x"].dtype == jnp.float32
    assert late.reached == np.float32(2.0**21 + 1.0)
    np.testing.assert_allclose(late.rows["x"], early.rows["x"], rtol=1e-5)
    np.testing.assert_allclose(
        early.rows["x"][-1], TrackedGBM().exact(0.5, 1.0, float(early.rows["w"][-1])), rtol=0.02
    )


class ExplodingSDE(AbstractSDE):
    """$dx = x^2 dt + 0.01\\,dW$ becomes infinite near $t = 1/x_0$; w is W, a has no slope unless positive."""

    State = TrackedState
    Noise = OneNoise
    calculus = "ito"
    noise_kind = "additive"

    def drift(self, t, y):
        return TrackedState(y.x**2, 0.0, jnp.sqrt(y.a) - jnp.sqrt(y.a))

    def noise(self, t, y, dW):
        return TrackedState(0.01 * dW.W, dW.W, 0.0)


def test_a_failed_path_is_nan_from_the_first_time_it_did_not_reach():
    """One towards infinity, one without a slope, one that is well and does not notice."""

    @jax.jit
    def run(x, a, ids):
        def one(x, a, path):
            grid = AdaptiveGrid(0.0, 1.0, Tolerances(1e-4, 1e-4), points=4)
            y0 = TrackedState(x, jnp.zeros_like(x), a)
            return integrate_adaptive_sde(
                ExplodingSDE(), make_solver("Milstein"), y0, grid, tree_of(path), States()
            )

        return jax.vmap(one)(x, a, ids)

    ids = jnp.arange(3, dtype=jnp.uint32)
    result = run(jnp.array([1.6, 0.1, 0.1]), jnp.array([1.0, -1.0, 1.0]), ids)
    finite = np.isfinite(result.rows["x"])
    np.testing.assert_array_equal(finite, [[1, 1, 1, 0, 0], [1, 0, 0, 0, 0], [1, 1, 1, 1, 1]])
    np.testing.assert_allclose(result.reached, [1 / 1.6, 0.0, 1.0], atol=0.02)
    assert int((result.accepted + result.rejected).max()) < 5000
    well = run(jnp.array([0.1, 0.1, 0.1]), jnp.ones(3), ids[::-1])
    np.testing.assert_array_equal(well.rows["x"][0], result.rows["x"][2])


@pytest.mark.slow
def test_no_half_is_taken_below_the_last_level(monkeypatch):
    """However large the error above it: the tree ends there, and what would wait below has no place."""
    monkeypatch.setattr(simkit_solvers.random.brownian_tree, "MOST_LEVELS", 3)
    grid = AdaptiveGrid(0.0, 1.0, Tolerances(0.0, 1e-3), points=POINTS)

    @jax.jit
    def run(ids):
        def one(path):
            y0 = TrackedState(*map(jnp.asarray, (0.5, 0.0, 0.0)))
            return integrate_adaptive_sde(
                TrackedGBM(), make_solver("SRIW1"), y0, grid, tree_of(path), States()
            )

        return jax.vmap(one)(ids)

    ids = jnp.arange(256, dtype=jnp.uint32)
    result = run(ids)
    whole = jax.vmap(lambda path: tree_of(path).roots.draws(1, 0, jnp.uint32(0), POINTS))(ids)
    w = np.cumsum(np.stack([draw.W[0] for draw in whole], 1), 1, dtype=float) / np.sqrt(POINTS)
    reached = np.isfinite(result.rows["w"][:, 1:])
    assert 20 < reached[:, -1].sum() < 250
    np.testing.assert_allclose(np.where(reached, result.rows["w"][:, 1:], w), w, rtol=0, atol=1e-5)


def test_a_path_out_of_steps_ends_where_it_is():
    grid = AdaptiveGrid(0.0, 1.0, Tolerances(0.0, 1e-6), points=4, max_steps=20)
    y0 = TrackedState(*map(jnp.asarray, (0.5, 0.0, 0.0)))
    result = integrate_adaptive_sde(TrackedGBM(), make_solver("Milstein"), y0, grid, tree_of(0), States())
    assert int(result.accepted + result.rejected) == 20
    assert 0 < result.reached < 1
    assert np.isnan(result.rows["x"][-1])


class SquareRoot(AbstractSDE):
    """$dx = (1 - x) dt + \\sigma \\sqrt x\\,dW$, where too long a step leaves the domain of the root."""

    State = TrackedState
    Noise = OneNoise
    calculus = "ito"
    noise_kind = "scalar"

    sigma: Scalar = 0.8

    def drift(self, t, y):
        return TrackedState(1 - y.x, 0.0, 0.0)

    def noise(self, t, y, dW):
        return TrackedState(self.sigma * jnp.sqrt(y.x) * dW.W, dW.W, 0.0)


@pytest.mark.more
@pytest.mark.parametrize(
    ("float64_normals", "rounding"), [(True, 1e-12), pytest.param(False, 1e-6, marks=pytest.mark.slow)]
)
def test_derivatives_agree_in_both_modes_and_with_differences(float64_normals, rounding):
    """Also where trials were rejected for not being a number.

    Normals in float32 are rounded differently from program to program.
    """
    grid = AdaptiveGrid(0.0, 4.0, Tolerances(1e-2, 1e-2), points=1, max_steps=256)

    def end(sigma):
        def one(path):
            y0 = TrackedState(*map(jnp.asarray, (0.05, 0.0, 0.0)))
            return integrate_adaptive_sde(
                SquareRoot(sigma),
                make_solver("Milstein"),
                y0,
                grid,
                tree_of(path, float64_normals=float64_normals),
                States(),
            )

        result = jax.vmap(one)(jnp.arange(8, dtype=jnp.uint32))
        return result.rows["x"][:, -1].mean(), result.rejected

    run = jax.jit(end)
    value, rejected = run(0.8)
    assert rejected.min() > 0
    h = 1e-7
    difference = (run(0.8 + h)[0] - run(0.8 - h)[0]) / (2 * h)
    _, forward = jax.jit(lambda s: jax.jvp(lambda s: end(s)[0], (s,), (1.0,)))(0.8)
    reverse = jax.jit(jax.grad(lambda s: end(s)[0]))(0.8)
    assert float(forward) == pytest.approx(float(difference), rel=1e-5)
    assert float(reverse) == pytest.approx(float(forward), rel=rounding)
    assert float(value) > 0


class WholeState(NamedTuple):
    both: jax.Array
    rest: jax.Array


class Whole(AbstractSDE):
    """`Diagonal`, its variables in one array, with an array that rests."""

    State = WholeState
    Noise = PairNoise
    calculus = "ito"
    noise_kind = "commutative"

    def _with(self, f, y):
        return WholeState(jnp.stack(f(PairState(*y.both))), jnp.zeros_like(y.rest))

    def drift(self, t, y):
        return self._with(lambda y: Diagonal().drift(t, y), y)

    def noise(self, t, y, dW):
        return self._with(lambda y: Diagonal().noise(t, y, dW), y)


@pytest.mark.slow
def test_variables_may_be_arrays():
    """They take the steps of scalars, where numbers that rest have their weight in the mean of the errors."""
    y0, tolerances = PairState(jnp.asarray(0.4), jnp.asarray(-0.9)), np.array([1e-2, 1e-3])

    def run(problem, start, given):
        grid = AdaptiveGrid(0.0, 1.0, given, points=2)
        return integrate_adaptive_sde(problem, make_solver("Milstein"), start, grid, tree_of(1), States())

    runs = [
        user_jit(functools.partial(run, *each))()
        for each in (
            (Diagonal(), y0, Tolerances(*tolerances)),
            (Whole(), WholeState(jnp.stack(y0), jnp.ones(6)), Tolerances(*tolerances / 2)),
        )
    ]
    assert runs[0].accepted == runs[1].accepted > 4
    assert runs[0].rejected == runs[1].rejected > 4
    scalars = np.stack([runs[0].rows[name] for name in PairState._fields], 1)
    np.testing.assert_allclose(runs[1].rows["both"], scalars, rtol=1e-12)
    assert runs[1].rows["rest"].shape == (3, 6)
