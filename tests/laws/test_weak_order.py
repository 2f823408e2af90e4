"""The weak orders that solvers claim for each kind of noise, without sampling.

The mean of a function of the state after a step or two is an integral over a few normals, done by
Gauss-Hermite quadrature. By Milstein's theorem the weak order is one less than the order of the error of one
step, here its difference from two half steps. That means tend to the right limit is seen from the first
derivative of the mean, which the problem's generator gives.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import SOLVERS, Draw, LeimkuhlerMatthews, make_solver, stepper_for, weak_order
from solver_problems import Additive, Commutative, Diagonal, General, ScalarNoise, Wells

PROBLEMS = {
    "additive": Additive,
    "scalar": ScalarNoise,
    "diagonal": Diagonal,
    "commutative": Commutative,
    "general": General,
}
NODES = (5, 4, 2)
T0 = 0.3


def functions(y):
    """Smooth functions of the state with no symmetry that could hide an error."""
    first = jnp.sin(y[0] + 0.5 * y[1]) + y[-1] * y[-1]
    return jnp.stack([first, 3 * (y[0] ** 3 + y[0] * y[1] + jnp.exp(0.5 * y[-1]))])


def problem_for(name, kind):
    info = SOLVERS[name]
    return Wells() if info.langevin else PROBLEMS[kind](calculus=info.calculus)


@functools.cache
def normals(areas, components):
    """Quadrature nodes `(nodes, kinds * components)` and weights for standard normals."""
    rules = [np.polynomial.hermite_e.hermegauss(n) for n in NODES[: areas + 1] for _ in range(components)]
    nodes = np.array(list(itertools.product(*(x for x, _ in rules))))
    weights = np.prod(list(itertools.product(*(w / w.sum() for _, w in rules))), axis=1)
    return jnp.asarray(nodes), jnp.asarray(weights)


def mean_program(name, problem):
    """Step length -> the means of `functions` after one step and after two half steps."""
    stepper = stepper_for(make_solver(name))
    components = len(problem.Noise._fields)
    nodes, weights = normals(stepper.areas, components)
    y0 = problem.State(*map(jnp.asarray, (0.4, -0.9, 0.3, 0.1)[: len(problem.State._fields)]))
    t0 = jnp.asarray(T0)

    def step(t, h, y, state, z):
        parts = [tuple(z[i * components : (i + 1) * components]) for i in range(stepper.areas + 1)]
        return stepper.step(problem, t, h, y, Draw(*parts), state)

    @jax.jit
    def means(h):
        half = 0.5 * h
        first = jax.vmap(lambda z: step(t0, h, y0, stepper.init(problem, t0, h, y0), z))(nodes)[0]

        def second(z):
            y, state = step(t0, half, y0, stepper.init(problem, t0, half, y0), z)
            ends = jax.vmap(lambda z: step(t0 + half, half, y, state, z))(nodes)[0]
            return functions(ends) @ weights

        return functions(first) @ weights, weights @ jax.lax.map(second, nodes)

    return means, y0


def slope_of_means(problem, calculus, y0):
    """The time derivative of the means of `functions`: the generator applied to them."""
    t0 = jnp.asarray(T0)
    slope = jax.jvp(functions, (y0,), (problem.drift(t0, y0),))[1]
    for k in range(len(problem.Noise._fields)):

        def column(y, k=k):
            dW = problem.Noise(*(jnp.where(i == k, 1.0, 0.0) for i in range(len(problem.Noise._fields))))
            return problem.noise(t0, y, dW)

        g, bend = jax.jvp(column, (y0,), (column(y0),))
        slope += 0.5 * jax.jvp(lambda y, g=g: jax.jvp(functions, (y,), (g,))[1], (y0,), (g,))[1]
        if calculus == "stratonovich":
            slope += 0.5 * jax.jvp(functions, (y0,), (bend,))[1]
    return slope


QUICK = (
    "PlatenWeak2-general",
    "SRIW1-diagonal",
    "Milstein-commutative",
    "ShARK-additive",
    "EulerHeun-scalar",
)


def claims():
    """Every solver with every noise it takes; a few of them at once, the others in the slow tests."""
    for name, info in SOLVERS.items():
        if issubclass(info.cls, LeimkuhlerMatthews):
            continue  # its noise remembers the step before, so one step shows nothing: see test_langevin.py
        for kind in ("additive",) if info.langevin else info.noise_kinds:
            label = f"{name}-{kind}"
            marks = () if label in QUICK else (pytest.mark.slow,)
            yield pytest.param(name, kind, id=label, marks=marks)


@pytest.mark.parametrize(("name", "kind"), list(claims()))
def test_weak_order(name, kind):
    problem = problem_for(name, kind)
    claimed = weak_order(make_solver(name), problem)
    # Long enough that rounding is far below the error, short enough that its first term rules.
    h = 0.00125 if claimed < 2 else 0.01
    means, _ = mean_program(name, problem)
    errors = [np.max(np.abs(np.subtract(*means(jnp.asarray(step))))) for step in (h, h / 2)]
    measured = np.log2(errors[0] / errors[1]) - 1
    assert measured == pytest.approx(claimed, abs=0.2)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), list(claims()))
def test_means_start_in_the_right_direction(name, kind):
    problem, h = problem_for(name, kind), 1e-5
    means, y0 = mean_program(name, problem)
    slope = (means(jnp.asarray(h))[0] - functions(y0)) / h
    np.testing.assert_allclose(slope, slope_of_means(problem, SOLVERS[name].calculus, y0), atol=20 * h)
