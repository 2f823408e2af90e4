"""A choice between solvers at run time: each path is that of the solver it chose."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import (
    Grid,
    States,
    SwitchedSolver,
    check_solver,
    integrate,
    make_solver,
    stepper_for,
)
from solver_problems import Additive, Commutative, Damped, Driven, Given, PairState
from user_code import user_jit

SPLITTING = tuple(make_solver(name) for name in ("SemiImplicitEuler", "Leapfrog", "Yoshida6"))
MIXED = tuple(make_solver(name) for name in ("Tsit5", "Leapfrog", "ImplicitEuler"))
NOISY = tuple(make_solver(name) for name in ("EulerMaruyama", "LeimkuhlerMatthews", "ShARK"))
GRID = Grid(0.3, 0.1, 6, 3)
STARTS = jnp.asarray(np.random.default_rng(2).uniform(-1, 1, (6, 2)))
NORMALS = jnp.asarray(np.random.default_rng(3).standard_normal((6, 3, 6, 2)))  # path, kind, step, component
CHOICES = jnp.asarray([2, 0, 1, 1, 0, 2])


def path(solver, start, normals, problem):
    noise = Given(normals) if isinstance(problem, Additive) else None
    return integrate(problem, solver, PairState(*start), GRID, noise, States())


def variables(rows):
    return np.stack([rows["x"], rows["v"]])


@functools.cache
def alone(solvers, problem):
    """Every path by every solver, one program each: (solver, variable, path, row)."""
    programs = [user_jit(jax.vmap(lambda s, n, each=each: path(each, s, n, problem))) for each in solvers]
    return np.stack([variables(program(STARTS, NORMALS)) for program in programs])


@pytest.mark.more
@pytest.mark.parametrize(
    ("solvers", "problem"),
    [
        pytest.param(SPLITTING, Driven(), id="splitting", marks=pytest.mark.slow),
        pytest.param(MIXED, Driven(), id="mixed"),
        pytest.param(NOISY, Additive(), id="noisy", marks=pytest.mark.slow),
    ],
)
def test_each_path_is_that_of_its_solver(solvers, problem):
    program = user_jit(jax.vmap(lambda which, s, n: path(SwitchedSolver(solvers, which), s, n, problem)))
    together = variables(program(CHOICES, STARTS, NORMALS))
    expected = np.moveaxis(alone(solvers, problem)[CHOICES, :, np.arange(6)], 0, 1)
    np.testing.assert_allclose(together, expected, rtol=0, atol=1e-14)
    ends = alone(solvers, problem)[:, :, :, -1]
    assert min(np.abs(ends[i] - ends[j]).max() for i, j in ((0, 1), (0, 2), (1, 2))) > 1e-6


@pytest.mark.slow
def test_another_choice_compiles_nothing():
    traces = []

    @jax.jit
    def end(which):
        traces.append(1)
        return path(SwitchedSolver(SPLITTING, which), STARTS[0], None, Driven())["x"][-1]

    results = [end(jnp.asarray(i)) for i in range(3)]
    np.testing.assert_allclose(results, alone(SPLITTING, Driven())[:, 0, 0, -1], rtol=0, atol=1e-14)
    assert len(traces) == 1


def energy(y):
    return 0.5 * y.v**2 - 1.3 * jnp.cos(y.x)


def test_criterion_at_the_start():
    """A choice may be computed from the initial state, inside the program."""

    def one(start):
        which = energy(PairState(*start)) > -0.9
        return path(SwitchedSolver(SPLITTING[1:], which), start, None, Driven())

    chosen = np.array([int(energy(PairState(*start)) > -0.9) for start in STARTS])
    assert set(chosen) == {0, 1}
    together = variables(user_jit(jax.vmap(one))(STARTS))
    expected = np.moveaxis(alone(SPLITTING[1:], Driven())[chosen, :, np.arange(6)], 0, 1)
    np.testing.assert_allclose(together, expected, rtol=0, atol=1e-14)


@pytest.mark.more
def test_criterion_at_each_step_is_a_loop_written_out():
    """Steps of the solver that the state chooses, begun afresh by whichever takes over."""
    solver = SwitchedSolver(MIXED[:2], lambda problem, y: y.x * problem.a > 0.0)
    steppers, problem = [stepper_for(each) for each in solver.solvers], Driven()
    dt, grid = jnp.asarray(0.1), Grid(0.3, 0.1, 100, 1)

    @functools.partial(user_jit, static_argnums=0)
    def advance(i, t, y, state, fresh):
        state = jax.lax.cond(fresh, lambda: steppers[i].init(problem, t, dt, y), lambda: state)
        return steppers[i].step(problem, t, dt, y, None, state)

    y, chosen = PairState(*STARTS[1]), []
    states, written = [s.init(problem, jnp.asarray(0.3), dt, y) for s in steppers], [y]
    for k in range(grid.steps):
        i = int(y.x * problem.a > 0)
        fresh = k > 0 and chosen[-1] != i
        y, states[i] = advance(i, 0.3 + k * dt, y, states[i], fresh)
        chosen.append(i)
        written.append(y)
    assert np.count_nonzero(np.diff(chosen)) > 2
    rows = user_jit(lambda: integrate(problem, solver, PairState(*STARTS[1]), grid, None, States()))()
    np.testing.assert_allclose(np.transpose([rows["x"], rows["v"]]), written, rtol=0, atol=1e-13)
    # Under vmap all are computed and one is kept.
    mapped = user_jit(jax.vmap(lambda s: integrate(problem, solver, PairState(*s), grid, None, States())))
    np.testing.assert_allclose(mapped(STARTS)["x"][1], rows["x"], rtol=0, atol=1e-13)


class Beyond(eqx.Module):
    """A criterion with a number of its own, which may be traced and differentiated."""

    level: jax.Array

    def __call__(self, problem, y):
        return y.x > self.level


@pytest.mark.more
@pytest.mark.parametrize(
    ("criterion", "dtype"),
    [(None, jnp.float64), pytest.param(Beyond, jnp.float32, marks=pytest.mark.slow)],
    ids=["number", "function"],
)
def test_derivatives_agree(criterion, dtype):
    def end(a):
        which = jnp.asarray(1) if criterion is None else criterion(0.1 * a)
        start = PairState(jnp.asarray(0.4, dtype), jnp.asarray(-0.9, dtype))
        rows = integrate(
            Driven(a), SwitchedSolver(SPLITTING[1:], which), start, Grid(0.3, 0.1, 2, 2), None, States()
        )
        assert rows["x"].dtype == dtype
        return rows["x"][-1] + rows["v"][-1]

    a = jnp.asarray(1.3, dtype)
    forward, reverse = jax.jit(lambda a: (jax.jacfwd(end)(a), jax.grad(end)(a)))(a)
    assert float(forward) != 0
    np.testing.assert_allclose(forward, reverse, rtol=20 * float(jnp.finfo(dtype).eps))


def test_fits_where_each_of_its_solvers_does():
    check_solver(SwitchedSolver(MIXED, 0), Driven())
    with pytest.raises(ValueError, match="solver Leapfrog needs a separable problem"):
        check_solver(SwitchedSolver(MIXED, 0), Damped())
    with pytest.raises(ValueError, match="solver LeimkuhlerMatthews is for additive noise"):
        check_solver(SwitchedSolver(NOISY, 0), Commutative())


@pytest.mark.parametrize(
    ("solvers", "which", "message"),
    [
        ((), 0, r"^SwitchedSolver\.solvers: give at least one solver, got none$"),
        (SPLITTING, 3, r"^SwitchedSolver\.which: must be from 0 to 2 for 3 solvers, got 3$"),
        (SPLITTING, -1, r"^SwitchedSolver\.which: must be from 0 to 2 for 3 solvers, got -1$"),
        (
            SPLITTING,
            0.5,
            r"^SwitchedSolver\.which: must be an integer or boolean scalar, got float\d+ of shape \(\)",
        ),
        (
            SPLITTING,
            CHOICES,
            r"^SwitchedSolver\.which: .* got int64 of shape \(6,\); map over paths by `vmap`",
        ),
    ],
)
def test_bad_input(solvers, which, message):
    with pytest.raises(ValueError, match=message):
        SwitchedSolver(solvers, which)


def test_a_function_must_give_a_position():
    solver = SwitchedSolver(SPLITTING, lambda problem, y: y.x)
    with pytest.raises(
        ValueError, match=r"^SwitchedSolver\.which: must be an integer or boolean scalar, got float64"
    ):
        path(solver, STARTS[0], None, Driven())
