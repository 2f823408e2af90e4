"""Mixed precision conserves energy as float64 does: the slope of the energy is at most twice as large."""

import jax.numpy as jnp
import numpy as np
import pytest
from fluid_replicas import Replicas, fluid_at, thermal_momenta
from simkit_physics import ShiftedForce
from simkit_solvers import StochasticVelocityRescaling, VelocityVerlet

from simkit.md.observables import Measurements, ScalarSeries

pytestmark = [pytest.mark.slow, pytest.mark.user_code]

REPLICAS, DT, COUNT = 32, 0.004, 108
EVERY, STEPS = 5, 2500


def energies() -> Measurements:
    series = ScalarSeries(
        ("E",), lambda particles, totals: [totals.energy / COUNT], every=EVERY, interval=EVERY * DT
    )
    return Measurements({"E": series})


@pytest.fixture(scope="module")
def slopes():
    """Of both precisions from the same states: the slope and the last momentum of each replica."""
    forces, particles = fluid_at(truncation=ShiftedForce)
    bath = StochasticVelocityRescaling(jnp.asarray(1.0), jnp.asarray(0.2))
    melt = Replicas(forces, bath, DT, energies())
    states, _ = melt.run(melt.started(particles, thermal_momenta(REPLICAS, COUNT, 1.5)), 800)
    found = {}
    for precision in ("float64", "mixed"):
        forces, _ = fluid_at(truncation=ShiftedForce, precision=precision)
        replicas = Replicas(forces, VelocityVerlet(), DT, energies())
        ends, rows = replicas.run(replicas.continued(states.particles, states.particles.momentum), STEPS)
        series = replicas.observers.observers["E"]
        drifts = [series.result([row["E"]]).drift for row in rows]
        together = series.result([row["E"] for row in rows]).drift
        momentum = np.array([np.asarray(c).sum(1) for c in ends.particles.momentum])
        found[precision] = np.array([d.value[0] for d in drifts]), together, momentum
    return found


def test_the_slope_of_the_energy_is_at_most_twice_that_of_float64(slopes):
    """Over the replicas, the root of the mean square; and none is left of their mean."""
    rms = {precision: np.sqrt(np.mean(each**2)) for precision, (each, _, _) in slopes.items()}
    assert rms["mixed"] < 2 * rms["float64"]
    for _, together, _ in slopes.values():
        assert abs(together.value[0]) < 3 * together.stderr[0]


def test_momentum_is_conserved_to_rounding_and_in_mixed_precision_to_its_own_bound(slopes):
    """Each step adds rounding of forces in float32, 1e-7 of their sums: a random walk over the steps."""
    largest = {precision: np.abs(momentum).max() for precision, (_, _, momentum) in slopes.items()}
    assert largest["float64"] < 1e-11
    assert largest["mixed"] < 3e-5
