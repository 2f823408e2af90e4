"""Stochastic solvers in the fixed-grid loop against `diffeqsolve` with a dense matrix, on the same noise."""

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import SOLVERS, Grid, States, integrate, make_solver, stepper_for
from simkit_solvers.methods.root_finder import with_tolerances
from slow_cases import slow_but
from solver_problems import (
    Additive,
    Commutative,
    Diagonal,
    General,
    Given,
    PairNoise,
    PairState,
    QuadState,
    Wells,
)

SDE_SOLVERS = [name for name, info in SOLVERS.items() if "sde" in info.problem]
T0, DT, STEPS = 0.3, 0.1, 5
NORMALS = np.random.default_rng(7).standard_normal((3, STEPS, 2))  # W, H, K


def problem_for(name):
    """The most general problem that a solver takes."""
    if SOLVERS[name].langevin:
        return Wells()
    kinds = {"additive": Additive, "diagonal": Diagonal, "commutative": Commutative, "general": General}
    return kinds[SOLVERS[name].noise_kinds[-1]]()


def start_of(problem):
    return problem.State(*map(jnp.asarray, (0.4, -0.9, 0.3, 0.1)[: len(problem.State._fields)]))


class Recorded(diffrax.AbstractBrownianPath):
    """The noise of the fixed grid by times, as diffrax asks for it; each step has one increment and areas."""

    steps: diffrax.AbstractBrownianIncrement
    levy_area: type = eqx.field(static=True)

    @property
    def t0(self):
        return T0

    @property
    def t1(self):
        return T0 + STEPS * DT

    def evaluate(self, t0, t1=None, left=True, use_levy=False):
        k = jnp.round((t0 - T0) / DT).astype(int)
        increment = jax.tree.map(lambda x: x[k], self.steps)
        return increment if use_levy else increment.W


def recorded(areas):
    """Increments and areas by their variances."""
    kinds = diffrax.BrownianIncrement, diffrax.SpaceTimeLevyArea, diffrax.SpaceTimeTimeLevyArea
    scales = {"W": DT, "H": DT / 12, "K": DT / 720}
    fields = {
        name: jnp.asarray(np.sqrt(variance) * normals)
        for (name, variance), normals, _ in zip(scales.items(), NORMALS, range(areas + 1), strict=False)
    }
    return Recorded(kinds[areas](dt=jnp.full(STEPS, DT), **fields), kinds[areas])


def dense_terms(problem, path):
    def matrix(t, y, args):
        columns = [problem.noise(t, PairState(*y), PairNoise(*unit)) for unit in np.eye(2)]
        return jnp.stack([jnp.stack(column) for column in columns], axis=1)

    drift = diffrax.ODETerm(lambda t, y, args: jnp.stack(problem.drift(t, PairState(*y))))
    return diffrax.MultiTerm(drift, diffrax.ControlTerm(matrix, path))


def langevin_terms(problem, path):
    def gradient(q, args):
        return jnp.stack(problem.grad_f(tuple(q)))

    return diffrax.MultiTerm(
        diffrax.UnderdampedLangevinDriftTerm(problem.gamma, problem.u, gradient),
        diffrax.UnderdampedLangevinDiffusionTerm(problem.gamma, problem.u, path),
    )


# Of one normal a step, a Stratonovich method, of areas, implicit, and of Langevin's equation.
FEW = ("EulerMaruyama", "Heun", "SRIW1", "SlowRK", "ImplicitMilstein", "QUICSORT")


@pytest.mark.more
@pytest.mark.parametrize("name", slow_but(FEW, SDE_SOLVERS))
def test_agrees_with_diffeqsolve(name):
    implicit = issubclass(SOLVERS[name].cls, diffrax.AbstractImplicitSolver)
    problem, solver = (
        problem_for(name),
        make_solver(name, {"rtol": 1e-13, "atol": 1e-13} if implicit else None),
    )
    y0 = start_of(problem)
    grid = Grid(T0, DT, STEPS, STEPS)
    rows = jax.jit(lambda p: integrate(p, solver, y0, grid, Given(jnp.asarray(NORMALS)), States()))(problem)
    path = recorded(stepper_for(solver).areas)
    flat = jnp.stack(y0)
    if problem.State is QuadState:
        terms, flat = langevin_terms(problem, path), (flat[:2], flat[2:])
    else:
        terms = dense_terms(problem, path)
    if implicit:
        solver = with_tolerances(solver, y0, jnp.asarray(DT))  # diffrax asks for the norm as well
    times = diffrax.StepTo(T0 + DT * jnp.arange(STEPS + 1.0))

    @jax.jit
    def by_diffeqsolve(flat):
        return diffrax.diffeqsolve(
            terms,
            solver,
            times.ts[0],
            times.ts[-1],
            None,
            flat,
            stepsize_controller=times,
            max_steps=STEPS,
            adjoint=diffrax.ForwardMode(),
        ).ys

    with jax.numpy_dtype_promotion("standard"):
        result = by_diffeqsolve(flat)
    expected = np.concatenate([np.ravel(x[-1]) for x in jax.tree.leaves(result)])
    np.testing.assert_allclose([rows[name][-1] for name in y0._fields], expected, rtol=0, atol=1e-12)
