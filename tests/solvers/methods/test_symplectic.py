"""Symplectic solvers: order, energy, reversibility, symplecticity, and a closed orbit of three bodies."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from simkit_solvers import (
    SOLVERS,
    AbstractHamiltonian,
    Draw,
    Grid,
    Scalar,
    States,
    check_solver,
    integrate,
    make_solver,
    stepper_for,
)
from simkit_solvers.problems.terms import HalfTerm, takes_halves
from solver_problems import PairState, QuadState
from user_code import user_jit

SPLITTING = [name for name, info in SOLVERS.items() if info.problem == ("ode",) and takes_halves(info.cls)]
SYMMETRIC = [name for name in SPLITTING if name != "SemiImplicitEuler"]


class CubicOscillators(AbstractHamiltonian):
    """Two oscillators, coupled by a cubic potential."""

    State = QuadState

    coupling: Scalar = 1.0

    def kinetic(self, p):
        return 0.5 * (p[0] ** 2 + p[1] ** 2)

    def potential(self, q):
        x, y = q
        return 0.5 * (x**2 + y**2) + self.coupling * (x**2 * y - y**3 / 3)


class SimplePendulum(AbstractHamiltonian):
    State = PairState

    def kinetic(self, p):
        return 0.5 * p[0] ** 2

    def potential(self, q):
        return -jnp.cos(q[0])


class BodiesState(NamedTuple):
    r: jax.Array
    p: jax.Array


class Bodies(AbstractHamiltonian):
    """Bodies of unit mass in a plane under Newton's law: positions and momenta of shape (bodies, 2)."""

    State = BodiesState

    def kinetic(self, p):
        return 0.5 * jnp.sum(p[0] ** 2)

    def potential(self, q):
        (r,) = q
        i, j = np.triu_indices(len(r), 1)
        return -jnp.sum(1 / jnp.linalg.norm(r[i] - r[j], axis=1))


START = QuadState(*map(jnp.asarray, (0.12, -0.2, 0.31, 0.25)))


@functools.partial(user_jit, static_argnames=("name", "steps", "every"))
def run(problem, name, y0, dt, steps, every):
    return integrate(problem, make_solver(name), y0, Grid(0.0, dt, steps, every), None, States())


def last(rows):
    return [rows[name][-1] for name in QuadState._fields]


@functools.cache
def reference(length):
    slope = user_jit(lambda t, y: jnp.stack(CubicOscillators().drift(t, QuadState(*y))))
    return solve_ivp(slope, (0, length), np.array(START), "DOP853", rtol=1e-13, atol=1e-15).y[:, -1]


@pytest.mark.parametrize("name", SPLITTING)
def test_order_over_an_orbit(name):
    counts = np.array({1: [800, 1600], 2: [200, 400], 4: [100, 200], 6: [40, 80]}[SOLVERS[name].order])
    ends = [last(run(CubicOscillators(), name, START, 8 / n, int(n), int(n))) for n in counts]
    errors = np.linalg.norm(np.array(ends) - reference(8.0), axis=1)
    order = -np.diff(np.log(errors)) / np.diff(np.log(counts))
    assert order == pytest.approx(SOLVERS[name].order, abs=0.1)


def test_energy_over_a_million_steps():
    """It swings by the square of the step, as much in the last tenth as in the first, about one level."""
    problem, y0 = SimplePendulum(), PairState(jnp.asarray(1.5), jnp.asarray(0.0))
    rows = run(problem, "Leapfrog", y0, 0.1, 10**6, 50)
    energy = np.asarray(jax.vmap(problem.energy)(PairState(**rows)))
    first, end = energy[: len(energy) // 10], energy[-(len(energy) // 10) :]
    assert 1e-4 < np.ptp(energy) < 0.1**2
    assert np.ptp(end) == pytest.approx(np.ptp(first), rel=1e-3)
    assert np.mean(end) == pytest.approx(np.mean(first), abs=1e-3 * np.ptp(energy))


@pytest.mark.parametrize(
    "name", [pytest.param(x, marks=pytest.mark.more) if x == "Yoshida6" else x for x in SYMMETRIC]
)
def test_turning_back_leads_to_the_start(name):
    q1, q2, p1, p2 = last(run(CubicOscillators(), name, START, 0.1, 1000, 1000))
    assert abs(float(q1 - START.q1)) > 0.01
    q1, q2, p1, p2 = last(run(CubicOscillators(), name, QuadState(q1, q2, -p1, -p2), 0.1, 1000, 1000))
    np.testing.assert_allclose([q1, q2, -p1, -p2], START, rtol=0, atol=1e-11)


@pytest.mark.parametrize("name", SPLITTING)
def test_step_is_symplectic(name):
    """J^T Omega J = Omega for the derivative J of a step, large as it may be."""
    stepper, problem = stepper_for(make_solver(name)), CubicOscillators()
    zero, h = jnp.asarray(0.0), jnp.asarray(0.3)

    def step(y):
        y = QuadState(*y)
        state = stepper.init(problem, zero, h, y)
        return jnp.stack(stepper.step(problem, zero, h, y, Draw(()), state)[0])

    starts = jnp.asarray(np.random.default_rng(3).uniform(-0.5, 0.5, (5, 4)))
    omega = np.kron([[0, 1], [-1, 0]], np.eye(2))
    for J in np.asarray(jax.jit(jax.vmap(jax.jacfwd(step)))(starts)):
        assert np.abs(J - np.eye(4)).max() > 0.1
        np.testing.assert_allclose(J.T @ omega @ J, omega, rtol=0, atol=1e-12)


@pytest.mark.more
def test_figure_eight_of_three_bodies_closes():
    """The orbit found by Moore and by Chenciner and Montgomery, after its period, with its energy."""
    r1, v3 = (
        np.array([0.97000435669734, -0.243087531535823]),
        np.array([-0.932407371441029, -0.864731460921031]),
    )
    y0 = BodiesState(jnp.asarray([r1, -r1, 0 * r1]), jnp.asarray([-v3 / 2, -v3 / 2, v3]))
    steps = 2000
    rows = run(Bodies(), "Yoshida6", y0, 6.32591398292621 / steps, steps, steps // 20)
    states = BodiesState(**rows)
    np.testing.assert_allclose(states.r[-1], y0.r, rtol=0, atol=1e-11)
    np.testing.assert_allclose(states.p[-1], y0.p, rtol=0, atol=1e-11)
    assert np.abs(states.r[10] - y0.r).max() > 0.4
    np.testing.assert_allclose(jax.vmap(Bodies().energy)(states), -1.28714199563186, rtol=1e-12)
    x, y, px, py = *np.moveaxis(states.r, -1, 0), *np.moveaxis(states.p, -1, 0)
    momentum = np.sum(x * py - y * px, axis=1)
    np.testing.assert_allclose(momentum, 0, atol=1e-12)


class Counted(AbstractHamiltonian):
    """A pendulum that counts how often its force is really computed; an override, not a derivative."""

    State = PairState

    calls: list

    def kinetic(self, p):
        return 0.5 * p[0] ** 2

    def potential(self, q):
        return -jnp.cos(q[0])

    def force(self, q):
        def computed(x):
            self.calls.append(1)
            return -np.sin(x)

        return (jax.pure_callback(computed, jax.ShapeDtypeStruct((), jnp.float64), q[0]),)


@pytest.mark.parametrize(("name", "forces"), [("Leapfrog", 1), ("Yoshida4", 3), ("Yoshida6", 7)])
def test_forces_in_a_step(name, forces):
    """One more at the start; the same path as with the force by differentiation."""
    stepper, counted = stepper_for(make_solver(name)), Counted([])
    zero, h = jnp.asarray(0.0), jnp.asarray(0.1)

    def three_steps(problem):
        y = PairState(jnp.asarray(0.9), jnp.asarray(0.4))
        state = stepper.init(problem, zero, h, y)
        for _ in range(3):
            y, state = stepper.step(problem, zero, h, y, Draw(()), state)
        return y

    y = jax.block_until_ready(user_jit(lambda: three_steps(counted))())
    assert len(counted.calls) == 1 + 3 * forces
    np.testing.assert_allclose(y, user_jit(lambda: three_steps(SimplePendulum()))(), rtol=1e-14)


@pytest.mark.parametrize("name", SYMMETRIC)
def test_force_is_taken_afresh_after_a_jump(name):
    """diffrax indicates to a solver by `made_jump` that what it carries is stale."""
    solver, y0 = make_solver(name), ((jnp.asarray(0.9),), (jnp.asarray(0.4),))
    zero, h = jnp.asarray(0.0), jnp.asarray(0.1)
    terms = HalfTerm(SimplePendulum(), zero, y0[0], True), HalfTerm(SimplePendulum(), zero, y0[1], False)

    @user_jit
    def end(state, made_jump):
        return solver.step(terms, zero, h, y0, None, state, made_jump)[0]

    fresh, stale = solver.init(terms, zero, h, y0, None), (jnp.asarray(7.0),)
    np.testing.assert_array_equal(end(stale, True), end(fresh, False))
    assert np.abs(np.array(end(stale, False)) - np.array(end(fresh, False))).max() > 0.1


def test_a_hamiltonian_needs_no_check_of_its_separation():
    """It separates by construction, where ones would put all bodies in one place."""
    check_solver(make_solver("Leapfrog"), Bodies())
