"""The strong orders that solvers claim for each kind of noise, by coupled steps of several lengths."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import (
    SOLVERS,
    AbstractSDE,
    CoarsenedNoise,
    Draw,
    Grid,
    Scalar,
    States,
    integrate,
    make_solver,
    stepper_for,
    strong_order,
)
from solver_problems import Additive, Commutative, Diagonal, General, Given, OneNoise, ScalarNoise, Wells

PATHS, FINE = 1000, 512
NORMALS = np.random.default_rng(5).standard_normal((3, FINE, 2, PATHS))  # W, H, K of each step and component
FACTORS = (64, 16)
PROBLEMS = {
    "additive": Additive,
    "scalar": ScalarNoise,
    "diagonal": Diagonal,
    "commutative": Commutative,
    "general": General,
}


@functools.cache
def coarse(factor, areas):
    """The normals of longer steps by the library's coupling: (kind, step, component, path)."""
    parts = np.moveaxis(NORMALS.reshape(3, FINE // factor, factor, 2, PATHS), 1, 3)
    draw = CoarsenedNoise(Given(jnp.asarray(parts)), factor).draws(2, areas, jnp.uint32(0), 1)[0]
    return jnp.stack([jnp.stack(kind, axis=1) for kind in (draw.W, draw.H, draw.K)[: areas + 1]])


def ends(solver, problem, factor, length):
    """The states of all paths at the end with steps `factor` times as long."""
    steps = FINE // factor
    grid = Grid(0.1, length / steps, steps, steps)
    y0 = problem.State(*map(jnp.asarray, (0.4, -0.9, 0.3, 0.1)[: len(problem.State._fields)]))

    def end(normals):
        return [x[-1] for x in integrate(problem, solver, y0, grid, Given(normals), States()).values()]

    normals = coarse(factor, stepper_for(solver).areas)
    return np.stack(jax.jit(jax.vmap(end, in_axes=-1))(normals))


def measured(name, problem, length):
    solver = make_solver(name)
    fine = ends(solver, problem, 1, length)
    errors = [np.sqrt(np.mean((ends(solver, problem, factor, length) - fine) ** 2)) for factor in FACTORS]
    return np.polyfit(np.log(FACTORS), np.log(errors), 1)[0]


MARKS = {"EulerMaruyama-general": (), "ShARK-additive": (pytest.mark.more,)}  # the others are slow


def claims():
    """Every solver with every noise it takes, loud and in a short time so that the least order shows."""
    for name, info in SOLVERS.items():
        for kind, model in PROBLEMS.items():
            if kind in info.noise_kinds:
                problem = Wells() if info.langevin else model(calculus=info.calculus, loud=3.0)
                label = f"{name}-{kind}"
                marks = MARKS.get(label, (pytest.mark.slow,))
                yield pytest.param(name, problem, 0.8 if info.langevin else 0.02, id=label, marks=marks)


@pytest.mark.parametrize(("name", "problem", "length"), list(claims()))
def test_strong_order(name, problem, length):
    claimed = strong_order(make_solver(name), problem)
    assert measured(name, problem, length) == pytest.approx(claimed, abs=0.1)


class Clocked(NamedTuple):
    x: Scalar
    clock: Scalar


class ByTime(AbstractSDE):
    """Drift and noise change in time, or by a variable that is the time."""

    State = Clocked
    Noise = OneNoise
    calculus = "ito"
    noise_kind = "scalar"
    own_clock: bool

    def _time(self, t, y):
        return y.clock if self.own_clock else t

    def drift(self, t, y):
        return Clocked(jnp.sin(3 * self._time(t, y)) - y.x, 1.0 + 0 * t)

    def noise(self, t, y, dW):
        return Clocked(jnp.cos(2 * self._time(t, y)) * jnp.sqrt(1 + y.x**2) * dW.W, 0 * dW.W)


@pytest.mark.parametrize("name", ["SRIW1"])
def test_a_stage_is_at_the_time_that_its_drift_has_taken_it_to(name):
    """A variable that grows as time does is the time at every stage."""
    stepper = stepper_for(make_solver(name))
    t, h, y = jnp.asarray(0.4), jnp.asarray(0.3), Clocked(jnp.asarray(0.7), jnp.asarray(0.4))
    draw = Draw(*(((jnp.asarray(z),) if i <= stepper.areas else ()) for i, z in enumerate((1.3, -0.6, 0.2))))
    by_time, by_clock = (
        stepper.step(problem, t, h, y, draw, stepper.init(problem, t, h, y))[0]
        for problem in (ByTime(own_clock=False), ByTime(own_clock=True))
    )
    np.testing.assert_allclose(by_time, by_clock, rtol=1e-14)
