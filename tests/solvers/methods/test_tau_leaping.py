"""What tau-leaping knows of a leap before it draws."""

from collections import namedtuple
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import pytest
from simkit_physics import ImmigrationDeath
from simkit_solvers import (
    AbstractReactionNetwork,
    JumpNoise,
    Scalar,
    TauLeaping,
    parameter,
    reaction,
    seed_key,
)
from simkit_solvers.derivatives.coupled_network import CoupledNetwork
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


def leap_of(network, y):
    jumps = Jumps(network, JumpNoise.of(seed_key(1), 0), jnp.float64(0.0), jnp.float64(1e9))
    return float(TauLeaping().planned(jumps, y, jnp.int32(0)).length)


@pytest.mark.parametrize(
    ("text", "relative"),
    [
        ("A -> D", {"A": 1.0}),
        ("2 A -> D", {"A": 2 + 1 / 3999}),
        ("A + B -> D", {"A": 2.0, "B": 2.0}),
        ("2 A + B -> D", {"A": 1.5 * (2 + 1 / 3999), "B": 3.0}),
        ("3 A -> D", {"A": 3 + 1 / 3999 + 2 / 3998}),
    ],
)
def test_a_leap_is_as_long_as_its_paper_says(text, relative):
    """By the relative changes of Cao, Gillespie & Petzold (2006), equation 27, and the bound by losses."""

    class OneReaction(AbstractReactionNetwork):
        State = namedtuple("State", "A B D")
        reactions: ClassVar = {"only": reaction(text)}
        example_initial: ClassVar = {"A": 4000.0, "B": 3000.0, "D": 0.0}
        k: Scalar = parameter("1/time", "rate")

        def rates(self, t, y):
            return (self.k,)

    counts, network = {"A": 4000, "B": 3000}, OneReaction(1e-6)
    y = OneReaction.State(jnp.int32(4000), jnp.int32(3000), jnp.int32(0))
    rate = float(network.propensities(jnp.float64(0), jax.tree.map(lambda x: x.astype(jnp.float64), y))[0])
    bounds = []
    for name, g in relative.items():
        used = -float(network.reactions["only"].change[name])
        allowed = max(0.03 * counts[name] / g, 1)
        bounds += [allowed / (used * rate), allowed**2 / (used**2 * rate), 2 * allowed / (used * rate)]
    assert leap_of(network, y) == pytest.approx(min(bounds), rel=1e-9)


def test_where_gains_balance_losses_a_leap_is_short_compared_with_the_life_of_a_molecule():
    """Twice epsilon of it; by the bounds of the paper alone it would be 150 times as long."""
    network = ImmigrationDeath(1000.0, 0.05)
    assert leap_of(network, network.State(jnp.int32(20_000))) == pytest.approx(2 * 0.03 / 0.05, rel=1e-9)


def test_copies_leap_as_far_as_the_shorter_of_their_own_leaps():
    """However close they are: what one fires alone is a small difference, and changes by much of itself."""
    networks = [ImmigrationDeath(alpha, mu) for alpha, mu in ((1000.0, 0.1), (1001.0, 0.1 + 1e-6))]
    counts = [ImmigrationDeath.State(jnp.int32(x)) for x in (20_000, 20_001)]
    own = [leap_of(network, y) for network, y in zip(networks, counts, strict=True)]
    pair = CoupledNetwork(*networks)
    assert leap_of(pair, pair.paired(*counts)) == pytest.approx(min(own), rel=1e-9)
