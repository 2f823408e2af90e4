"""Adaptive steps of stochastic equations follow the path of the tree, and converge to its solution."""

import functools

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
    States,
    Tolerances,
    integrate,
    integrate_adaptive_sde,
    make_solver,
    stepper_for,
)
from simkit_solvers.loops.adaptive_sde import _integrate
from simkit_solvers.methods.solver_check import check_adaptive_sde
from simkit_solvers.random.draws import H_SCALE
from solver_problems import Additive, Commutative, Diagonal, General, Given, OneNoise, ScalarNoise, Wells
from tracked_paths import TrackedGBM, TrackedState

KINDS = {
    "additive": Additive,
    "scalar": ScalarNoise,
    "diagonal": Diagonal,
    "commutative": Commutative,
    "general": General,
}


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
