"""Solvers against solutions that are known on the same Brownian path (Kloeden & Platen 1992, section 4.4)."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import (
    SOLVERS,
    AbstractSDE,
    CounterNoise,
    Grid,
    States,
    in_calculus,
    integrate,
    make_solver,
    seed_key,
)
from solver_problems import Given, Level, OneNoise

STEPS, PATHS = (32, 128), 8000


class AbstractScalarSDE(AbstractSDE):
    State = Level
    Noise = OneNoise
    calculus = "ito"
    noise_kind = "diagonal"


class LinearSDE(AbstractScalarSDE):
    """dX = 1.01 X dt + 0.87 X dW."""

    def drift(self, t, y):
        return Level(1.01 * y.x)

    def noise(self, t, y, dW):
        return Level(0.87 * y.x * dW.W)

    def solution(self, t, x0, W):
        return x0 * np.exp(0.63155 * t + 0.87 * W)


class Bounded(AbstractScalarSDE):
    """dX = -X (1 - X^2) / 4 dt + (1 - X^2) / 2 dW."""

    def drift(self, t, y):
        return Level(-0.25 * y.x * (1 - y.x**2))

    def noise(self, t, y, dW):
        return Level(0.5 * (1 - y.x**2) * dW.W)

    def solution(self, t, x0, W):
        return ((1 + x0) * np.exp(W) + x0 - 1) / ((1 + x0) * np.exp(W) + 1 - x0)


class Angle(AbstractScalarSDE):
    """dX = -0.01 sin X cos^3 X dt + 0.1 cos^2 X dW."""

    def drift(self, t, y):
        return Level(-0.01 * jnp.sin(y.x) * jnp.cos(y.x) ** 3)

    def noise(self, t, y, dW):
        return Level(0.1 * jnp.cos(y.x) ** 2 * dW.W)

    def solution(self, t, x0, W):
        return np.arctan(0.1 * W + np.tan(x0))


class HyperbolicSine(AbstractScalarSDE):
    """dX = (X / 2 + sqrt(X^2 + 1)) dt + sqrt(X^2 + 1) dW, solved by sinh(t + W)."""

    def drift(self, t, y):
        return Level(0.5 * y.x + jnp.sqrt(y.x**2 + 1))

    def noise(self, t, y, dW):
        return Level(jnp.sqrt(y.x**2 + 1) * dW.W)


STARTS = {LinearSDE: 0.5, Bounded: 0.5, Angle: 1.0}
ORDERS = {
    "EulerMaruyama": 0.5,
    "TamedEuler": 0.5,
    "DriftImplicitEuler": 0.5,
    "Milstein": 1.0,
    "DerivativeFreeMilstein": 1.0,
    "ImplicitMilstein": 1.0,
    "PlatenWeak2": 1.0,
    "SRIW1": 1.5,
    "EulerHeun": 1.0,
}
QUICK = (("SRIW1", Bounded), ("Milstein", LinearSDE))
MORE = (
    ("EulerMaruyama", LinearSDE),
    ("TamedEuler", Bounded),
    ("DerivativeFreeMilstein", Angle),
    ("EulerHeun", Angle),
)


class Brownian(AbstractScalarSDE):
    """dX = dW."""

    def drift(self, t, y):
        return Level(jnp.zeros_like(y.x))

    def noise(self, t, y, dW):
        return Level(dW.W)


def ends(problem, name, x0, steps):
    """The states at time 1 of all paths after so many steps, and their Brownian motions."""

    def end(problem, name, x0, path):
        noise = CounterNoise.of(seed_key(7), path)
        grid = Grid(0.0, 1 / steps, steps, steps)
        return integrate(problem, make_solver(name), Level(jnp.asarray(x0)), grid, noise, States())["x"][-1]

    def both(path):
        return end(problem, name, x0, path), end(Brownian(), "EulerMaruyama", 0.0, path)

    return np.asarray(jax.jit(jax.vmap(both))(jnp.arange(PATHS, dtype=jnp.uint32)))


def cases():
    for name, model in itertools.product(ORDERS, STARTS):
        if (name, model) == ("TamedEuler", LinearSDE):
            continue  # the taming of so steep a drift, an error of order 1, is the larger one at these steps
        marks = (
            ()
            if (name, model) in QUICK
            else (pytest.mark.more if (name, model) in MORE else pytest.mark.slow,)
        )
        yield pytest.param(name, model, id=f"{name}-{model.__name__}", marks=marks)


@pytest.mark.more
@pytest.mark.parametrize(("name", "model"), list(cases()))
def test_strong_order(name, model):
    x0 = STARTS[model]
    problem = in_calculus(model(), SOLVERS[name].calculus)

    def error(steps):
        end, W = ends(problem, name, x0, steps)
        return np.mean(np.abs(end - model().solution(1.0, x0, W)))

    measured = np.log(error(STEPS[0]) / error(STEPS[1])) / np.log(STEPS[1] / STEPS[0])
    assert measured == pytest.approx(ORDERS[name], abs=0.1)


@pytest.mark.parametrize(
    ("name", "order"),
    [
        pytest.param("PlatenWeak2", 2, marks=pytest.mark.slow),
        pytest.param("EulerMaruyama", 1, marks=pytest.mark.slow),
        pytest.param("Milstein", 1, marks=pytest.mark.slow),
    ],
)
def test_weak_order(name, order):
    """E[h(asinh X)] = 0.375 at t = 1/2 for h(z) = z^3 - 6 z^2 + 8 z, the mean by quadrature in every step."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)

    def error(steps):
        normals = np.array(list(itertools.product(nodes, repeat=steps)))
        chance = np.prod(list(itertools.product(weights / weights.sum(), repeat=steps)), axis=1)
        given = np.stack([normals, np.ones_like(normals)], axis=1)[..., None]

        def end(normals):
            grid = Grid(0.0, 0.5 / steps, steps, steps)
            y0 = Level(jnp.asarray(0.0))
            return integrate(HyperbolicSine(), make_solver(name), y0, grid, Given(normals), States())["x"][-1]

        z = np.arcsinh(jax.jit(jax.vmap(end))(given))
        return abs(chance @ (z**3 - 6 * z**2 + 8 * z) - 0.375)

    measured = np.log2(error(5) / error(10))
    assert measured == pytest.approx(order, abs=0.2)
