"""Whether errors are honest: replicas of a fluid differ by what each says it may be off.

At a density of 0.75 and a temperature of 1, where the equation of state of Thol et al. (2015),
doi:10.1063/1.4908213, was tested, with 108 particles.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fluid_replicas import CUTOFF, Replicas, fluid_at, honest, scores, thermal_momenta
from simkit_physics import ShiftedForce
from simkit_solvers import ParticleBAOAB, VelocityVerlet, kinetic_energy

from simkit.md.functions.displacement import MeanSquareDisplacement
from simkit.md.functions.fluctuations import Fluctuations
from simkit.md.functions.radial import RadialDistribution
from simkit.md.functions.velocity import VelocityAutocorrelation
from simkit.md.observables import Measurements, ScalarSeries

pytestmark = [pytest.mark.slow, pytest.mark.user_code]

REPLICAS, DT, COUNT, VOLUME = 32, 0.01, 108, 108 / 0.75


class Sampled(NamedTuple):
    """Observers, and the accumulators of each replica by the names of the observers."""

    observers: dict
    rows: list

    def estimates(self, name, of, each=1, **options):
        """Those of groups of so many replicas."""
        rows = [row[name] for row in self.rows]
        groups = [rows[i : i + each] for i in range(0, len(rows), each)]
        return [of(self.observers[name].result(group, **options)) for group in groups]

    def together(self, name, of, **options):
        return of(self.observers[name].result([row[name] for row in self.rows], **options))


def numbers(freedom):
    def of(particles, totals):
        pressure = (totals.kinetic.trace + totals.virial.trace) / (3 * VOLUME)
        return [totals.potential / COUNT, pressure, totals.kinetic.trace / freedom, totals.energy / COUNT]

    return ScalarSeries(("U", "P", "T", "E"), of, every=4, interval=4 * DT)


@pytest.fixture(scope="module")
def baths():
    """Replicas at constant temperature, and where they end."""
    forces, particles = fluid_at(truncation=ShiftedForce)
    observers = {
        "numbers": numbers(3 * COUNT),
        "fluctuations": Fluctuations.of(particles, ensemble="NVT", freedom=3 * COUNT, every=4),
        "g": RadialDistribution.of(forces.box, particles, largest=CUTOFF, bins=20, every=20),
    }
    method = ParticleBAOAB(jnp.asarray(1.0), jnp.asarray(2.0))
    replicas = Replicas(forces, method, DT, Measurements(observers))
    states = replicas.started(particles, thermal_momenta(REPLICAS, COUNT, 1.0))
    states, _ = replicas.run(states, 500)
    states, rows = replicas.run(states, 6000)
    return states, Sampled(observers, rows)


@pytest.fixture(scope="module")
def alone(baths):
    """Replicas at constant energy, the same for all: the mean of those at constant temperature."""
    states, sampled = baths
    forces, first = fluid_at(truncation=ShiftedForce)
    mean = COUNT * sampled.together("numbers", lambda r: r.mean).value[3] - 1.5  # that of the drift of all
    interval = 10 * DT / 2
    observers = {
        "numbers": numbers(3 * COUNT - 3),
        "fluctuations": Fluctuations.of(first, ensemble="NVE", freedom=3 * COUNT - 3, every=8),
        "msd": MeanSquareDisplacement.of(forces.box, first, longest=60, every=10, interval=interval),
        "vacf": VelocityAutocorrelation.of(first, lags=60, every=10, interval=interval),
    }

    def at_energy(particles):
        """The same without drift, and with momenta that bring the energy to the mean."""
        p = particles.momentum
        particles = particles.pushed(type(p)(*(c - jnp.mean(c) for c in p)))
        forces_now = forces.totals(*forces.arranged(particles))[1].energy
        factor = jnp.sqrt((mean - forces_now) / kinetic_energy(particles))
        return particles.momentum.times(factor)

    particles = states.particles
    momenta = jax.jit(jax.vmap(at_energy))(particles)
    replicas = Replicas(forces, VelocityVerlet(), DT / 2, Measurements(observers))
    states = replicas.continued(particles, momenta)
    states, _ = replicas.run(states, 200)
    _, rows = replicas.run(states, 8000)
    return Sampled(observers, rows)


@pytest.mark.parametrize("name", ["U", "P", "T"])
def test_errors_of_means_are_honest(baths, name):
    column = ["U", "P", "T"].index(name)
    z = scores(baths[1].estimates("numbers", lambda r: r.mean), lambda value: value[column])
    assert honest(z)


def test_errors_of_heat_capacities_are_honest_and_those_of_both_ensembles_agree(baths, alone):
    """Three momenta more at constant temperature carry 3/2; the formula of the other is of order 1/N."""
    capacities = []
    for sampled in (baths[1], alone):
        z = scores(sampled.estimates("fluctuations", lambda r: r.heat_capacity))
        assert honest(z)
        capacities.append(sampled.together("fluctuations", lambda r: r.heat_capacity))
    one, other = capacities
    difference = float(one.value - 1.5 - other.value)
    uncertainty = float(np.hypot(one.stderr, other.stderr))
    assert uncertainty < 0.05 * one.value
    assert abs(difference) < 3.5 * uncertainty


def test_errors_of_the_radial_distribution_are_honest(baths):
    """Neighbouring bins are no independent tests: those of the first shell, the gap and the second."""
    each = baths[1].estimates("g", lambda r: r.g)
    for k in (8, 11, 15, 18):
        z = scores(each, lambda value, k=k: value[0, k])
        assert honest(z)


def test_no_energy_drifts(alone):
    """Within the errors over all replicas, which are honest."""
    drifts = alone.estimates("numbers", lambda r: r.drift)
    z = np.array([d.value[3] / d.stderr[3] for d in drifts])
    assert honest(z)
    together = alone.together("numbers", lambda r: r.drift)
    assert abs(together.value[3]) < 3 * together.stderr[3] < 1e-5


def test_displacements_and_velocities_give_the_same_diffusion_with_honest_errors(alone):
    """Two replicas together are long enough to know their error."""
    slopes = alone.estimates("msd", lambda r: r.diffusion, each=2, fit=(2.0, 3.0))
    integrals = alone.estimates("vacf", lambda r: r.diffusion, each=2)
    for each in (slopes, integrals):
        assert honest(scores(each, lambda value: value[0]))
    differences = np.array([float(a.value[0] - b.value[0]) for a, b in zip(slopes, integrals, strict=True)])
    mean = np.mean([float(a.value[0]) for a in slopes])
    error = differences.std(ddof=1) / np.sqrt(len(differences))
    assert error < 0.005 * mean
    assert abs(differences.mean()) < 3.5 * error
