"""Gradients of the rows of the loop: forward, reverse, and at the edge of the domain of a problem."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import (
    AbstractODE,
    AbstractSDE,
    CounterNoise,
    EulerMaruyama,
    Grid,
    Scalar,
    States,
    integrate,
    seed_key,
)
from solver_problems import Commutative, Driven, Level, OneNoise, PairState
from user_code import user_jit


@pytest.mark.parametrize(("problem", "solver"), [(Driven, diffrax.Heun()), (Commutative, EulerMaruyama())])
def test_gradients(problem, solver):
    """Forward = reverse = central difference, by parameter, initial value, start and step at once."""

    def end(a, x0, t0, dt):
        noise = CounterNoise.of(seed_key(1), 2) if problem is Commutative else None
        y0 = PairState(x0, jnp.asarray(0.7))
        rows = integrate(problem(a=a), solver, y0, Grid(t0, dt, 40, 20), noise, States())
        return rows["x"][-1] + rows["v"][1]

    def program(point, way):
        value, forward = jax.jvp(end, point, way)
        return value, forward, jnp.stack(jax.grad(end, (0, 1, 2, 3))(*point))

    program = user_jit(program)
    point = tuple(map(jnp.asarray, (0.9, 0.5, 0.3, 0.02)))
    way = tuple(map(jnp.asarray, (0.5, -0.8, 0.3, 0.01)))
    _, forward, reverse = program(point, way)
    assert np.all(np.abs(reverse) > 1e-3)
    assert float(np.dot(reverse, np.stack(way))) == pytest.approx(float(forward), rel=1e-12)
    shifted = [tuple(p + s * w for p, w in zip(point, way, strict=True)) for s in (1e-5, -1e-5)]
    ahead, behind = (program(p, way)[0] for p in shifted)
    assert float(ahead - behind) / 2e-5 == pytest.approx(float(forward), rel=1e-7)


class Bridge(AbstractSDE):
    """Ends at b for certain: its drift is infinite at t = 1."""

    State = Level
    Noise = OneNoise
    calculus = "any"
    noise_kind = "additive"
    a: Scalar = 1.1

    def drift(self, t, y):
        return Level((self.a - y.x) / (1.0 - t))

    def noise(self, t, y, dW):
        return Level(0.2 * dW.W)


class Fading(Bridge):
    """Noise whose derivative is infinite at t = 1."""

    def drift(self, t, y):
        return Level(-y.x)

    def noise(self, t, y, dW):
        return Level(self.a * jnp.sqrt(1.0 - t) * dW.W)


class Chased(AbstractODE):
    """Defined where x < 1 + 4t: the state at a late time has no drift at an early one."""

    State = Level
    a: Scalar = 1.1

    def drift(self, t, y):
        return Level(2.0 * self.a * jnp.sqrt(1.0 + 4.0 * t - y.x))


def by_a_loop_written_out(cls, steps, every):
    """Euler–Maruyama in plain Python: the rows as a function of parameter, initial value and step."""

    def rows(a, x0, dt):
        problem, x, states = cls(a=a), x0, [x0]
        noise = CounterNoise.of(seed_key(1), 2)
        draws = noise.draws(1, 0, jnp.uint32(0), steps + steps % 2) if issubclass(cls, AbstractSDE) else None
        for k in range(steps):
            y = Level(x)
            x = x + problem.drift(k * dt, y).x * dt
            if draws:
                x = x + problem.noise(k * dt, y, OneNoise(jnp.sqrt(dt) * draws[k].W[0])).x
            states.append(x)
        return jnp.stack(states[::every])

    return rows


@pytest.mark.more
@pytest.mark.parametrize(
    ("cls", "steps", "every"),
    [
        pytest.param(Bridge, 3, 1, marks=pytest.mark.slow),
        pytest.param(Bridge, 9, 3, marks=pytest.mark.slow),
        (Fading, 5, 5),
        (Chased, 20, 5),
    ],
)
def test_gradients_of_rows_inside_blocks_and_at_the_edge_of_the_domain(cls, steps, every):
    """The last step ends where the next one would be infinite: no step that is not taken may be felt."""

    def rows(a, x0, dt):
        noise = CounterNoise.of(seed_key(1), 2) if issubclass(cls, AbstractSDE) else None
        grid = Grid(0.0, dt, steps, every)
        return integrate(cls(a=a), EulerMaruyama(), Level(x0), grid, noise, States())["x"]

    point = tuple(map(jnp.asarray, (1.1, 0.5, 1.0 / steps)))
    expected = jax.jacrev(by_a_loop_written_out(cls, steps, every), (0, 1, 2))(*point)
    for derivative in (jax.jacrev, jax.jacfwd):
        actual = jax.jit(derivative(rows, (0, 1, 2)))(*point)
        np.testing.assert_allclose(np.stack(actual), np.stack(expected), rtol=1e-5, atol=1e-6)
