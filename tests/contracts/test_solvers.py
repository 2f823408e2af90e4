"""Every solver runs, differentiates and keeps its precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import (
    SOLVERS,
    Draw,
    JumpGrid,
    JumpNoise,
    States,
    StepWords,
    Words,
    check_solver,
    integrate_jumps,
    make_solver,
    seed_key,
    stepper_for,
)
from solver_problems import MODEL_PROBLEMS, Additive, Commutative, Diagonal, Dimers, Driven, General, Wells

PROBLEMS = {"additive": Additive, "diagonal": Diagonal, "commutative": Commutative, "general": General}


NORMALS = np.random.default_rng(1).standard_normal((3, 3, 2, 2))  # path, kind, step, component


PLACES = np.arange(2, dtype=np.uint32)


WORDS = StepWords(Words(PLACES, PLACES), PLACES, PLACES)  # each over the steps


CASES = [(name, kind) for name, info in SOLVERS.items() for kind in info.problem if kind != "jump"]


JUMPS = [name for name, info in SOLVERS.items() if "jump" in info.problem]


def problem_for(name, kind):
    """A problem that a solver takes, its noise as general as it may be."""
    info = SOLVERS[name]
    if kind == "ode":
        return Driven()
    if kind == "model":
        return MODEL_PROBLEMS[name]
    return Wells() if info.langevin else PROBLEMS[info.noise_kinds[-1]](calculus=info.calculus)


def ends(name, kind, dtype, derivatives=False):
    """The end of three paths, and on request its derivatives by one parameter, forward and reverse."""
    problem, solver = problem_for(name, kind), make_solver(name)
    check_solver(solver, problem)
    parameter = "gamma" if isinstance(problem, Wells) else "a"

    stepper, t0, dt = stepper_for(solver), jnp.asarray(0.3, dtype), jnp.asarray(0.1, dtype)

    def end(value, normals):
        arrays = vars(jax.tree.map(lambda x: jnp.asarray(x, dtype), problem))
        changed = type(problem)(**(arrays | {parameter: value}))
        y0 = problem.State(*(jnp.asarray(0.4 - 0.3 * i, dtype) for i in range(len(problem.State._fields))))
        draws = Draw(*(tuple(kind.T) for kind in normals[: stepper.areas + 1]))
        if stepper.variates:
            draws = draws._replace(words=(WORDS,))

        def step(carry, given):
            k, draw = given
            return stepper.step(changed, t0 + k * dt, dt, carry[0], draw, carry[1]), None

        start = y0, stepper.init(changed, t0, dt, y0)
        (y1, _), _ = jax.lax.scan(step, start, (jnp.arange(2, dtype=dtype), draws))
        assert {x.dtype for x in y1} == {dtype}
        return sum(y1)

    def program(value, normals):
        if not derivatives:
            return (end(value, normals),)
        _, forward = jax.jvp(lambda v: end(v, normals), (value,), (jnp.ones_like(value),))
        result, reverse = jax.value_and_grad(end)(value, normals)
        return result, forward, reverse

    mapped = jax.jit(jax.vmap(program, in_axes=(None, 0)))
    results = mapped(jnp.asarray(0.9, dtype), jnp.asarray(NORMALS, dtype))
    assert {x.dtype for x in results} == {dtype}
    return np.asarray(results, np.float64)


@pytest.mark.more
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_contract(name, kind):
    """Built, checked, compiled, mapped over paths; derivatives agree, and float32 with float64."""
    value, forward, reverse = ends(name, kind, jnp.dtype("float64"), derivatives=True)
    assert np.isfinite([value, forward]).all()
    assert np.ptp(value) == 0 if kind == "ode" else np.ptp(value) > 0
    np.testing.assert_allclose(forward, reverse, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(*ends(name, kind, jnp.dtype("float32")), value, rtol=1e-4, atol=1e-4)


@pytest.mark.more
@pytest.mark.parametrize("name", JUMPS)
def test_contract_of_jump_methods(name):
    """Built, checked, compiled, mapped over paths, in both precisions; the same seed gives the same path."""
    method, network = make_solver(name), Dimers()
    check_solver(method, network)
    results = {}
    for dtype in ("float32", "float64"):

        def one(path, dtype=dtype):
            start = network.State(x=40, v=0)
            grid = JumpGrid(jnp.zeros((), dtype), jnp.ones((), dtype), 2)
            return integrate_jumps(network, method, start, grid, JumpNoise.of(seed_key(3), path), States())

        run = jax.jit(jax.vmap(one))(jnp.arange(16, dtype=jnp.uint32))
        assert {x.dtype for x in run.rows.values()} == {jnp.dtype(dtype)}
        assert {x.dtype for x in run.counts} == {jnp.dtype("int32")}
        assert (run.counts.x + 2 * run.counts.v == 40).all()
        assert (run.reached == 1).all()
        results[dtype] = np.asarray(run.counts.v)[:, -1]
    assert np.ptp(results["float64"]) > 0
    assert np.mean(results["float32"] == results["float64"]) > 0.5  # but where rounding changed an event


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_derivatives_in_float32(name, kind):
    _, forward, reverse = ends(name, kind, jnp.dtype("float32"), derivatives=True)
    close = 100 * float(jnp.finfo(jnp.float32).eps)
    np.testing.assert_allclose(forward, reverse, rtol=close, atol=close)
