"""What the models conserve, and how fast friction and driving take it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from model_examples import build, state
from simkit_physics import (
    MODELS,
    DampedOscillator,
)
from simkit_physics.nonlinear.lorenz96 import AbstractLorenz96
from simkit_solvers import (
    AbstractHamiltonian,
    Scalar,
)


def slope(problem, quantity, y, t=0.3):
    """How fast a quantity changes along the equations, and how large its parts are."""
    gradient, rates = jax.grad(quantity)(y), problem.drift(t, y)
    terms = np.array([g * f for g, f in zip(gradient, rates, strict=True)])
    return terms.sum(), np.abs(terms).sum()


def angular_momentum(y):
    return y.x * y.py - y.y * y.px


CONSERVED = {
    **{
        f"energy of {name}": (name, lambda problem: problem.energy)
        for name, model in MODELS.items()
        if issubclass(model, AbstractHamiltonian)
    },
    "energy of DoublePendulum": ("DoublePendulum", lambda problem: problem.energy),
    "Jacobi's integral": ("Arenstorf", lambda problem: problem.jacobi_integral),
    "angular momentum of a planet": ("Kepler", lambda problem: angular_momentum),
    "angular momentum of three": ("FigureEight", lambda problem: problem.angular_momentum),
    "angular momentum of four": ("NBody", lambda problem: problem.angular_momentum),
    "momentum of four": ("NBody", lambda problem: lambda y: y.px1 + y.px2 + y.px3 + y.px4),
    "matter": ("Robertson", lambda problem: lambda y: y.y1 + y.y2 + y.y3),
    "enzyme": ("HIRES", lambda problem: lambda y: y.y7 + y.y8),
}


@pytest.mark.parametrize("name", CONSERVED)
def test_is_conserved(name):
    model, quantity = CONSERVED[name]
    problem, numbers = build(MODELS[model]), np.random.default_rng(4)
    for _ in range(3):
        y = MODELS[model].State(
            *(jnp.asarray(x) for x in numbers.uniform(0.2, 1.3, len(state(MODELS[model]))))
        )
        total, size = slope(problem, quantity(problem), y)
        assert size > 1e-3
        assert abs(total) < 1e-13 * size


def test_friction_takes_the_energy_that_it_should():
    problem, y = (
        DampedOscillator(m=2.0, c=0.3, k=1.5),
        DampedOscillator.State(jnp.asarray(0.4), jnp.asarray(-0.7)),
    )
    assert slope(problem, problem.energy, y)[0] == pytest.approx(-0.3 * 0.7**2, rel=1e-13)


def test_the_sites_of_lorenz96_exchange_energy_only():
    class FiveState(NamedTuple):
        a: Scalar
        b: Scalar
        c: Scalar
        d: Scalar
        e: Scalar

    class Five(AbstractLorenz96):
        State = FiveState
        F: Scalar

    y = FiveState(*map(jnp.asarray, (1.0, -2.0, 3.0, 0.5, 7.0)))
    change, _ = slope(Five(F=8.0), lambda y: sum(x * x for x in y) / 2, y)
    assert change == pytest.approx(float(8 * sum(y) - sum(x * x for x in y)), rel=1e-13)
    assert Five(F=8.0).drift(0.0, y).c == pytest.approx((0.5 - 1.0) * -2.0 - 3.0 + 8.0)
