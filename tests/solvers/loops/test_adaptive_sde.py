"""The loop of adaptive steps of stochastic equations: times, errors, failures, types and derivatives."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from brownian_trees import tree_of
from simkit_solvers import (
    AbstractSDE,
    AdaptiveGrid,
    Scalar,
    States,
    Tolerances,
    integrate_adaptive_sde,
    make_solver,
)
from simkit_solvers.loops.adaptive_sde import _error, _run_of
from solver_problems import Diagonal, OneNoise, PairNoise, PairState
from tracked_paths import TrackedGBM, TrackedState
from user_code import user_jit


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
