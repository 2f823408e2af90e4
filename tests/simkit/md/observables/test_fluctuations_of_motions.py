"""Heat capacity and compressibility of motions whose fluctuations are known."""

import jax.numpy as jnp
import numpy as np
import pytest
from moving_particles import cube, no_totals, table_motion, watched
from scipy import stats
from simkit_physics import LennardJones, ShiftedForce
from simkit_solvers import Particles

from simkit.md.functions.fluctuations import Fluctuations

pytestmark = pytest.mark.more


def ideal_gas(steps: int, count: int, temperature: float, seed: int):
    """Independent momenta at a temperature: what a thermostat would sample of an ideal gas."""
    momenta = np.sqrt(temperature) * np.random.default_rng(seed).standard_normal((steps + 1, count, 3))
    return table_motion(np.zeros_like(momenta), momenta)


@pytest.mark.slow
def test_at_constant_temperature_an_ideal_gas_has_its_heat_capacity():
    count, steps, boltzmann, seeds = 10, 1500, 2.0, 30
    z = []
    for seed in range(seeds):
        motion = ideal_gas(steps, count, 1.3, seed)
        observer = Fluctuations.of(
            motion(0)[0], ensemble="NVT", freedom=3 * count, every=1, boltzmann=boltzmann
        )
        result = observer.result([watched(observer, motion, steps)])
        assert result.compressibility is None
        exact = 1.5 * count * boltzmann
        assert result.heat_capacity.value == pytest.approx(exact, rel=0.25)
        z.append((result.heat_capacity.value - exact) / result.heat_capacity.stderr)
    assert abs(np.mean(z)) * np.sqrt(seeds) < 4.5
    assert 0.6 < np.std(z) < 1.6


def test_at_constant_temperature_the_heat_capacity_is_that_of_the_total_energy():
    """Kinetic and potential energy vary together here, which a sum of their variances would miss."""
    f, steps, boltzmann = 30, 2000, 2.0
    kinetic, own = np.random.default_rng(0).gamma((f / 2, 3.0), size=(steps + 1, 2)).T
    potential = own - 0.5 * kinetic
    motion = table_motion(
        np.zeros((steps + 1, 10, 3)),
        jnp.zeros((steps + 1, 10, 3)).at[:, 0, 0].set(jnp.sqrt(2 * kinetic)),
        totals=lambda k, particles: no_totals(particles, jnp.asarray(potential)[k]),
    )
    observer = Fluctuations.of(motion(0)[0], ensemble="NVT", freedom=f, every=1, boltzmann=boltzmann)
    capacity = observer.result([watched(observer, motion, steps)]).heat_capacity
    temperature = 2 * kinetic.mean() / (f * boltzmann)
    expected = np.var(kinetic + potential) / (boltzmann * temperature**2)
    assert capacity.value == pytest.approx(expected, rel=0.01)


NEAR = 1.1  # the distance of the only pair with a hypervirial


def compressibility(ensemble: str, kinetic, virial, f: int, side: float):
    """That of such energies and virials, of particles of which the first two are near each other."""
    steps = len(kinetic) - 1
    places = np.array([0.0, NEAR, 8.0, 12.0, 16.0])
    rows = np.zeros((steps + 1, 5, 3)) + places[:, None] * np.array([1.0, 0, 0])
    motion = table_motion(
        rows,
        jnp.zeros(rows.shape).at[:, 0, 0].set(jnp.sqrt(2 * kinetic)),
        totals=lambda k, particles: no_totals(particles, virial=jnp.asarray(virial)[k]),
    )
    potential = ShiftedForce(LennardJones(epsilon=1.0, sigma=1.0), cutoffs=2.5)
    observer = Fluctuations.of(
        motion(0)[0], ensemble=ensemble, freedom=f, every=1, box=cube(side), potential=potential
    )
    return observer.result([watched(observer, motion, steps)]).compressibility


@pytest.mark.parametrize("ensemble", ["NVE", "NVT"])
def test_a_compressibility_is_that_of_the_pressure_of_kinetic_energy_and_virial(ensemble):
    r"""Which vary together; the hypervirial is $\frac19 r (r u')'$ of one pair."""
    f, side = 30, 20.0
    kinetic, own = np.random.default_rng(1).gamma(f / 2, size=(2, 2001))
    virial = 2 * own + kinetic
    result = compressibility(ensemble, kinetic, virial, f, side)
    volume, thermal = side**3, 2 * kinetic.mean() / f
    slope, end = (24 * r**-7 - 48 * r**-13 for r in (NEAR, 2.5))
    hypervirial = NEAR * (slope - end + NEAR * (624 * NEAR**-14 - 168 * NEAR**-8)) / 9
    if ensemble == "NVE":
        pressure = (2 * kinetic + virial) / (3 * volume)
        stiffness = 2 * f * thermal / (9 * volume) + pressure.mean() - pressure.var() * volume / thermal
    else:
        stiffness = (5 * thermal + virial.mean() / 3 - (virial / 3).var() / thermal) / volume
    stiffness += hypervirial / volume
    assert result.value == pytest.approx(1 / stiffness, rel=0.02)


@pytest.mark.parametrize("ensemble", ["NVE", "NVT"])
def test_a_negative_compressibility_has_no_error(ensemble):
    """As from a virial that drifts while the system comes to equilibrium."""
    kinetic = np.random.default_rng(1).gamma(15, size=2001)
    result = compressibility(ensemble, kinetic, np.linspace(0, 300, 2001), f=30, side=20.0)
    assert result.value < 0
    assert np.isnan(result.stderr)
    assert "equilibrate in a stage" in result.reason


def test_at_constant_energy_oscillators_have_theirs_and_replicas_combine():
    """f oscillators at energy E: K is E times a Beta variate, C_V = f to order 1/N."""
    f, energy, steps = 30, 12.0, 2000
    parts = stats.beta(f / 2, f / 2).rvs((3, steps + 1), random_state=np.random.default_rng(0))
    accumulators = []
    for own in jnp.asarray(parts):
        momenta = jnp.zeros((steps + 1, 10, 3)).at[:, 0, 0].set(jnp.sqrt(2 * energy * own))
        motion = table_motion(
            np.zeros((steps + 1, 10, 3)),
            momenta,
            totals=lambda k, particles, own=own: no_totals(particles, energy * (1 - own[k])),
        )
        observer = Fluctuations.of(motion(0)[0], ensemble="NVE", freedom=f, every=1)
        accumulators.append(watched(observer, motion, steps))
    exact = f * (f + 1) / (f + 2)
    for chosen in ([0], [0, 1, 2]):
        capacity = observer.result([accumulators[i] for i in chosen]).heat_capacity
        assert abs(capacity.value - exact) < 4.5 * capacity.stderr
        pooled = parts[chosen].var() * energy**2 * f / (2 * (energy * parts[chosen].mean()) ** 2)
        assert capacity.value == pytest.approx(0.5 * f / (1 - pooled), rel=0.01)
    together = capacity.stderr
    alone = observer.result(accumulators[:1]).heat_capacity.stderr
    assert together == pytest.approx(alone / np.sqrt(3), rel=0.35)


def test_replicas_of_different_energies_have_their_own_fluctuations():
    """Pooled about one mean, energies 4 % apart would add as much as the fluctuations of K have."""
    f, steps = 200, 4000
    exact = f * (f + 1) / (f + 2)
    parts = stats.beta(f / 2, f / 2).rvs((4, steps + 1), random_state=np.random.default_rng(1))
    accumulators = []
    for energy, own in zip((11.5, 11.9, 12.3, 12.7), jnp.asarray(parts), strict=True):
        momenta = jnp.zeros((steps + 1, 3, 3)).at[:, 0, 0].set(jnp.sqrt(2 * energy * own))
        motion = table_motion(np.zeros((steps + 1, 3, 3)), momenta)
        observer = Fluctuations.of(motion(0)[0], ensemble="NVE", freedom=f, every=1)
        accumulators.append(watched(observer, motion, steps))
    capacity = observer.result(accumulators).heat_capacity
    assert capacity.value == pytest.approx(exact, rel=0.1)
    assert abs(capacity.value - exact) < 4.5 * capacity.stderr
    assert capacity.stderr < 0.03 * exact
    each = [observer.result([own]).heat_capacity.stderr for own in accumulators]
    assert capacity.stderr == pytest.approx(np.linalg.norm(each) / 4, rel=0.35)


def test_elsewhere_fluctuations_are_refused():
    particles = Particles.of(jnp.zeros((4, 3)))
    for ensemble in ("configurations", "none"):
        with pytest.raises(ValueError, match=f"this method samples '{ensemble}'"):
            Fluctuations.of(particles, ensemble=ensemble, freedom=9)
    with pytest.raises(ValueError, match="needs both `box` and `potential`"):
        Fluctuations.of(particles, ensemble="NVT", freedom=9, box=cube(3.0))
