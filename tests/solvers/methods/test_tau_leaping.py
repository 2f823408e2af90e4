"""What tau-leaping knows of a leap before it draws."""

from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import pytest
from simkit_solvers import (
    AbstractReactionNetwork,
    JumpNoise,
    Scalar,
    TauLeaping,
    parameter,
    reaction,
    seed_key,
)
from simkit_solvers.methods.jump.jump_method import Jumps


class Molecules(NamedTuple):
    A: Scalar
    B: Scalar


class Clusters(AbstractReactionNetwork):
    """One, two or three molecules at a time, and two with a catalyst that stays."""

    State = Molecules
    reactions: ClassVar = {
        "one": reaction("A -> 0"),
        "two": reaction("2 A -> 0"),
        "three": reaction("3 A -> 0"),
        "catalysed": reaction("2 A + B -> B"),
    }
    example_initial: ClassVar[dict[str, float]] = {"A": 100.0, "B": 1.0}

    rate: Scalar = parameter("1/time", "rate")

    def rates(self, t, y):
        return (self.rate,) * 4


@pytest.mark.parametrize("critical", [1, 10, 15])
def test_a_reaction_that_could_use_up_a_species_in_few_events_is_critical(critical):
    """By as many molecules as an event takes; of those that it leaves there may be few."""
    network, zero = Clusters(jnp.float64(1.0)), jnp.float64(0.0)
    jumps = Jumps(network, JumpNoise.of(seed_key(1), 0), zero, jnp.float64(1.0))
    method, taken = TauLeaping(critical=critical), (1, 2, 3, 2)
    for each in set(taken):
        for A in (each * critical - 1, each * critical):
            y = Molecules(jnp.int32(A), jnp.int32(1))
            planned = method.planned(jumps, y, jnp.int32(0))
            for n, propensity, found in zip(taken, planned.propensities, planned.critical, strict=True):
                assert bool(found) == (propensity > 0 and n * critical > A), (n, A)
