"""Energies and virials of NIST's Lennard-Jones configurations, doi:10.18434/T4M88Q.

`data/nist_lennard_jones.npz` has their positions: four in cubes of the sides below, and one in a triclinic
box. NIST gives five digits of the energy U and of the virial W = sum of r.f, for a plain cutoff (the tail
correction as a number of its own) and for the shifted force. Further digits of the cubes are those of a plain
sum over pairs; the energies in the triclinic box are those of FEASST, NIST's program.
"""

from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from pair_sum_in_numpy import cube
from simkit_physics import LennardJones, Plain, ShiftedForce, TriclinicBox, complete_list, forces_for
from simkit_physics.particles import choice
from simkit_solvers import Particles, Vector

DATA = np.load(Path(__file__).parent / "data/nist_lennard_jones.npz")
FLUID = LennardJones(epsilon=1.0, sigma=1.0)
SIDES = {1: 10.0, 2: 8.0, 3: 10.0, 4: 8.0}
# Configuration, truncation, cutoff: U, W and the tail of U as NIST prints them, and U and W to more digits.
PUBLISHED = [
    (1, Plain, 3.0, (-4351.5, -568.67, -198.49), (-4351.5401945439, -568.6654653182)),
    (1, Plain, 4.0, (-4467.5, -1263.9, -83.769), (-4467.4957249480, -1263.8833718721)),
    (1, ShiftedForce, 3.0, (-3870.9, 317.54, None), (-3870.9248857840, 317.5383460124)),
    (2, Plain, 3.0, (-690.0, -568.46, -24.23), (-690.0040451729, -568.4573407379)),
    (2, Plain, 4.0, (-704.6, -655.99, -10.226), (-704.6033197270, -655.9875607066)),
    (2, ShiftedForce, 3.0, (-620.12, -445.33, None), (-620.1198609983, -445.3310496198)),
    (3, Plain, 3.0, (-1146.7, -1164.9, -49.622), (-1146.6674208337, -1164.9496507132)),
    (3, Plain, 4.0, (-1175.4, -1337.1, -20.942), (-1175.3805672254, -1337.1026173010)),
    (3, ShiftedForce, 3.0, (-1021.0, -935.78, None), (-1020.9657074821, -935.7772011755)),
    (4, Plain, 3.0, (-16.79, -46.249, -0.54517), (-16.7903213046, -46.2491967463)),
    (4, Plain, 4.0, (-17.06, -47.869, -0.23008), (-17.0604532203, -47.8688281911)),
    (4, ShiftedForce, 3.0, (-15.001, -43.096, None), (-15.0014022869, -43.0960055392)),
]
totals_of = eqx.filter_jit(lambda forces, particles, listed: forces.totals(particles, listed)[1])


def sums(rows, box, potential):
    """U and W."""
    forces, particles, listed = complete_list(*forces_for(Particles.of(rows), box, potential))
    totals = totals_of(forces, particles, listed)
    return float(totals.energy), float(totals.virial.trace)


def is_printed_as(value: float, printed: float) -> bool:
    """Whether five digits of the value are those printed."""
    unit = 10.0 ** (np.floor(np.log10(abs(printed))) - 4)
    return abs(value - printed) <= 0.5 * unit * (1 + 1e-9)


def check(number, truncation, cutoff, printed, digits) -> None:
    potential = truncation(FLUID, cutoff)
    rows, box = DATA[f"cube_{number}"], cube(SIDES[number])
    energy, virial = sums(rows, box, potential)
    assert is_printed_as(energy, printed[0])
    assert is_printed_as(virial, printed[1])
    assert (energy, virial) == pytest.approx(digits, abs=1.5e-10)
    if printed[2] is not None:
        tail = potential.tail([len(rows)], float(box.volume))
        assert is_printed_as(float(tail.energy), printed[2])


def test_a_small_configuration_has_the_published_energy_and_virial():
    check(*PUBLISHED[-2])


@pytest.mark.more
@pytest.mark.parametrize(
    "case",
    [pytest.param(each, marks=pytest.mark.slow) if each[0] == 1 else each for each in PUBLISHED],
    ids=lambda case: f"{case[0]}-{case[1].__name__}-{case[2]}",
)
def test_every_configuration_has_the_published_energy_and_virial(case):
    check(*case)


@pytest.mark.more
@pytest.mark.parametrize("few", [pytest.param(600, marks=pytest.mark.slow), 0], ids=["all pairs", "lists"])
def test_a_configuration_in_a_triclinic_box_has_the_published_energy(monkeypatch, few):
    monkeypatch.setattr(choice, "FEW", few)
    sides = Vector(*map(jnp.asarray, (10.0, 9.84807753012208, 9.64974312607518)))
    tilts = Vector(*map(jnp.asarray, (1.7364817766693041, 2.5881904510252074, 0.42863479791864567)))
    box, rows, potential = TriclinicBox(sides, tilts), DATA["triclinic_3"], Plain(FLUID, 3.0)
    energy, virial = sums(rows, box, potential)
    assert (energy, virial) == pytest.approx((-505.78567945268367, 557.5300432359227), abs=1e-10)
    tail = potential.tail([300], float(box.volume))
    assert float(tail.energy) == pytest.approx(-29.37186430697248, abs=1e-10)
