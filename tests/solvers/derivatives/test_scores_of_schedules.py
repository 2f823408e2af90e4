"""Scores of a reaction network whose rate jumps at a time and which gets a dose."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jump_derivatives import END, KEY, PATHS, POINTS, START, assert_near
from simkit_physics import ImmigrationDeath
from simkit_solvers import (
    AbstractChange,
    Curve,
    Direction,
    Event,
    JumpGrid,
    JumpNoise,
    States,
    girsanov,
    likelihood_ratio,
    make_solver,
    scheduled,
)
from simkit_solvers.methods.jump.jump_method import MOVED_EVENT
from simkit_solvers.numerics.tangents import as_tangent
from user_code import user_jit


class AddMolecules(AbstractChange):
    size: float

    def __call__(self, problem, t, y):
        return y._replace(X=y.X + self.size)


def planned(values, times, size, when) -> Any:
    """Arrivals at a rate that jumps, and a dose."""
    curve = Curve(times, values, "previous")
    dose = (Event(AddMolecules(size), when),)
    return scheduled(
        ImmigrationDeath(alpha=jnp.asarray(0.0), mu=jnp.asarray(1.0)), {"alpha": curve}, {}, dose
    )


@user_jit
def planned_scores(direction, ids):
    """Scores of a scheduled network along a direction."""
    network = planned(jnp.array([5.0, 30.0]), jnp.array([0.0, 1.0]), jnp.asarray(4.0), jnp.array([1.5]))

    def one(path):
        y0, grid = ImmigrationDeath.State(X=jnp.int32(START)), JumpGrid(0.0, END, POINTS)
        noise = JumpNoise.of(KEY, path)
        direct = make_solver("DirectMethod")
        return girsanov(network, direct, y0, grid, noise, States(), (Direction(direction),))

    return jax.vmap(one)(ids)


def planned_direction(values=(0.0, 0.0), times=(0.0, 0.0), size=0.0, when=0.0, mu=0.0):
    """A tangent of that network, by the places of its numbers."""
    like = planned(jnp.zeros(2), jnp.array([0.0, 1.0]), jnp.asarray(0.0), jnp.zeros(1))
    given = [jnp.asarray(x) for x in (mu, values, times, size, [when])]
    return eqx.tree_at(
        lambda n: [
            n.original.mu,
            n.schedule.parameters["alpha"].values,
            n.schedule.parameters["alpha"].times,
            n.schedule.events[0].change.size,
            n.schedule.events[0].times,
        ],
        as_tangent(like, None),
        given,
    )


@pytest.mark.slow
def test_scores_of_rates_that_jump():
    """The mean by the rate after its jump, and by the rate of loss, doses among what is lost."""
    ids = jnp.arange(PATHS, dtype=jnp.uint32)
    after = jax.device_get(planned_scores(planned_direction(values=(0.0, 1.0)), ids))
    estimate, error = likelihood_ratio(after.run.rows["X"], after.run.scores[0])
    assert_near(estimate, error, np.array([0.0, 0.0, 1 - math.exp(-1.0)]))
    loss = jax.device_get(planned_scores(planned_direction(mu=1.0), ids))
    estimate, error = likelihood_ratio(loss.run.rows["X"], loss.run.scores[0])

    def mean(mu):
        first = START * math.exp(-mu) + 5 / mu * (1 - math.exp(-mu))
        return first * math.exp(-mu) + 30 / mu * (1 - math.exp(-mu)) + 4 * math.exp(-0.5 * mu)

    assert_near(estimate[-1], error[-1], (mean(1 + 1e-5) - mean(1 - 1e-5)) / 2e-5)


@pytest.mark.parametrize("moved", [{"times": (0.0, 1.0)}, {"size": 1.0}, {"when": 1.0}])
def test_scores_do_not_see_events_that_move(moved):
    result = planned_scores(planned_direction(**moved), jnp.arange(PATHS, dtype=jnp.uint32))
    assert (result.run.status == MOVED_EVENT).all()
    assert np.isnan(result.run.rows["X"][:, -1]).all()
