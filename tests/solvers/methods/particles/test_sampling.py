"""Thermostats sample what they claim, at the rates that they claim."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from particle_examples import SoftSpheres, at_rest, double_wells, dynamics, no_forces, springs, z_score
from simkit_solvers import (
    AbstractParticleObserver,
    BrownianDynamics,
    Curve,
    NoseHooverChains,
    ParticleBAOAB,
    ParticleDynamics,
    ParticleNoise,
    Particles,
    StochasticVelocityRescaling,
    kinetic_energy,
    run_chunk,
    seed_key,
    simulate_particles,
)
from slow_cases import slow_but

pytestmark = pytest.mark.more

SIDE, CUTOFF, COUNT = 2.4, 1.2, 8
REPLICAS, BURN_IN, ROWS, EVERY = 128, 400, 10, 40
FAR = 5.2  # standard errors: once in five million


class Thermal(AbstractParticleObserver):
    r"""Twice the kinetic energy, $|\nabla U|^2$ and $\nabla^2 U$: at $k_B T = 1$ their means are equal."""

    def init(self, particles):
        return jnp.int32(0), jnp.zeros((ROWS, 3))

    def due(self, step):
        return (step > BURN_IN) & (step % EVERY == 0)

    def update(self, accumulator, particles, totals, step):
        row, rows = accumulator
        x = particles.position.rows()
        d = x[:, None] - x[None]
        d = d - SIDE * jnp.round(d / SIDE)
        near = 1 - jnp.sum(d * d, axis=2) / CUTOFF**2
        near = jnp.where(jnp.eye(COUNT, dtype=bool), 0, jnp.maximum(near, 0))
        slope, second = -40 / CUTOFF**2 * near**3, 120 / CUTOFF**4 * near**2
        force = -2 * jnp.sum(slope[:, :, None] * d, axis=1)
        laplacian = jnp.sum(4 * jnp.sum(d * d, axis=2) * second + 6 * slope)
        here = jnp.stack([2 * totals.kinetic_energy, jnp.sum(force**2), laplacian])
        return row + 1, rows.at[row].set(here)


@eqx.filter_jit
def thermal_samples(method, dt, replicas=REPLICAS):
    """Samples of `Thermal` of each replica, (replicas, rows, 3)."""
    lattice = (np.indices((2, 2, 2)).reshape(3, -1).T + 0.5) * SIDE / 2
    momenta = np.random.default_rng(3).standard_normal((replicas, COUNT, 3))
    momenta -= momenta.mean(1, keepdims=True)
    forces = SoftSpheres(jnp.asarray(SIDE), jnp.asarray(CUTOFF))

    def replica(path, momentum):
        setting = ParticleDynamics(forces, method, dt, ParticleNoise.of(seed_key(5), path))
        state = setting.start(Particles.of(lattice, momentum))
        observer = Thermal()
        steps = BURN_IN + ROWS * EVERY
        return run_chunk(setting, state, steps, observer, observer.init(state.particles))[1]

    seen, rows = jax.vmap(replica)(jnp.arange(replicas, dtype=jnp.uint32), jnp.asarray(momenta))
    return seen, rows


def thermal_scores(method, f) -> tuple[float, float, float]:
    """z-scores of the mean and the variance of 2K/kT, and of the configurational temperature."""
    seen, rows = thermal_samples(method, jnp.asarray(0.02))
    assert set(np.asarray(seen).tolist()) == {ROWS}
    twice_K, force2, laplacian = np.moveaxis(np.asarray(rows), 2, 0)
    means = [x.mean(1) for x in (twice_K, (twice_K - f) ** 2, force2 - laplacian)]
    return tuple(z_score(x, expected) for x, expected in zip(means, (f, 2 * f, 0), strict=True))


THERMOSTATS = {
    "BAOAB": ParticleBAOAB(jnp.asarray(1.0), jnp.asarray(2.0)),
    "NoseHooverChains": NoseHooverChains(1.0, 0.3),
    "StochasticVelocityRescaling": StochasticVelocityRescaling(jnp.asarray(1.0), jnp.asarray(0.3)),
}


@pytest.mark.parametrize("name", slow_but(("NoseHooverChains", "StochasticVelocityRescaling"), THERMOSTATS))
def test_kinetic_energy_follows_the_chi_square_law_and_configurations_have_the_same_temperature(name):
    method = THERMOSTATS[name]
    f = 3 * COUNT if name == "BAOAB" else 3 * COUNT - 3
    assert method.degrees_of_freedom(COUNT) == f
    assert max(map(abs, thermal_scores(method, f))) < FAR


STEPS = np.array([0.12, 0.085, 0.06])


def temperature_errors(method, f, dt) -> np.ndarray:
    """By how much the kinetic and the configurational temperature are off, and their standard errors."""
    _, rows = thermal_samples(method, jnp.asarray(dt), MANY)
    twice_K, force2, laplacian = np.moveaxis(np.asarray(rows).mean(1), 1, 0)
    both = twice_K / f - 1, (force2 - laplacian) / laplacian.mean()
    return np.array([(x.mean(), x.std(ddof=1) / np.sqrt(MANY)) for x in both])


@pytest.mark.slow
@pytest.mark.user_code
@pytest.mark.parametrize("name", THERMOSTATS)
def test_temperatures_extrapolate_to_that_of_the_bath_with_the_square_of_the_step(name):
    r"""Errors at three steps are $b h^2 + c h^4$: nothing is left at $h = 0$, and b is not 0.

    The two thermostats that act on the kinetic energy itself leave only the configurations an error.
    """
    method = THERMOSTATS[name]
    errors = np.array([temperature_errors(method, method.degrees_of_freedom(COUNT), dt) for dt in STEPS])
    at_zero = np.linalg.inv(np.vander(STEPS**2, 3, increasing=True))[0]
    through_zero = np.vander(STEPS**2, 3, increasing=True)[:, 1:]
    for kind, (error, stderr) in zip(("kinetic", "configurational"), errors.transpose(1, 2, 0), strict=True):
        uncertainty = np.linalg.norm(at_zero * stderr)
        assert uncertainty < 0.015
        assert abs(at_zero @ error) < 4.5 * uncertainty, kind
        square = np.linalg.pinv(through_zero / stderr[:, None])[0] / stderr
        significance = abs(square @ error) / np.linalg.norm(square * stderr)
        if kind == "configurational" or name == "BAOAB":
            assert significance > 5, kind
        else:
            assert np.abs(error / stderr).max() < 4.5


MANY = 4096


def wells_after(method, forces, dt, steps, start=None, momentum=0.0):
    """Positions and momenta of many independent particles, arrays (particles, 3)."""
    rows = np.zeros((MANY, 3)) if start is None else start
    particles = at_rest(rows)
    particles = particles.pushed(at_rest(np.full_like(rows, momentum)).position)
    setting = dynamics(forces, method, dt, seed=8)
    end = simulate_particles(setting, setting.start(particles), steps).state.particles
    return np.asarray(end.position.rows()), np.asarray(end.momentum.rows())


def spring_scores(method, dt=0.5) -> list[float]:
    """z-scores of the squares of the positions on springs, whatever the step."""
    strength = np.array([0.5, 1.0, 2.0])
    x, _ = wells_after(method, springs(*strength), dt, 200)
    return [z_score(x[:, i] ** 2, 1 / strength[i]) for i in range(3)]


@pytest.mark.slow
def test_momenta_of_baoab_on_springs_are_off_by_the_square_of_the_step():
    r"""$\langle p^2 \rangle = m k_B T (1 - (h\omega)^2/4)$."""
    strength, dt = np.array([0.5, 1.0, 2.0]), 0.5
    _, p = wells_after(ParticleBAOAB(1.0, 0.7), springs(*strength), dt, 200)
    assert max(abs(z_score(p[:, i] ** 2, 1 - dt**2 * strength[i] / 4)) for i in range(3)) < FAR


def test_baoab_samples_positions_on_springs_exactly_at_long_steps():
    assert max(map(abs, spring_scores(ParticleBAOAB(1.0, 0.7)))) < FAR


def test_brownian_dynamics_samples_springs_exactly_and_diffuses():
    assert max(map(abs, spring_scores(BrownianDynamics(1.0, 2.0)))) < FAR
    x, p = wells_after(BrownianDynamics(0.7, 2.0), no_forces(), 0.1, 100, momentum=3.0)
    # Of the noise of the first and the last step half is still missing, and half a variance in total.
    expected = 2 * 0.7 / 2.0 * 0.1 * (100 - 0.5)
    assert abs(z_score(x**2, expected)) < FAR
    assert (p == 3).all()


def boltzmann_right() -> float:
    """The probability of the right one of the double wells."""
    x = np.linspace(-4, 4, 100_001)
    density = np.exp(-(2 * (x * x - 1) ** 2 + 0.5 * x))
    return density[x > 0].sum() / density.sum()


@pytest.mark.parametrize(
    ("method", "dt"),
    [(ParticleBAOAB(1.0, 1.0), 0.15), (BrownianDynamics(1.0, 1.0), 0.02)],
    ids=["BAOAB", "BrownianDynamics"],
)
def test_a_double_well_is_visited_as_boltzmann_says(method, dt):
    """Of all particles that start in the right well."""
    x, _ = wells_after(method, double_wells(2.0, 1.0), dt, round(30 / dt), np.tile([1.0, 0, 0], (MANY, 1)))
    assert abs(z_score(x[:, 0] > 0, boltzmann_right())) < FAR


class OneOscillator(NoseHooverChains):
    """Of one particle that moves along x alone."""

    def degrees_of_freedom(self, count):
        return 1


@eqx.filter_jit
def oscillator_means(method, replicas=32, steps=20_000):
    """Means of x^2, x^4, p^2 and p^4 of each of several oscillators that start at the same energy."""

    class Powers(AbstractParticleObserver):
        def init(self, particles):
            return jnp.zeros(4)

        def due(self, step):
            return step % 2 == 0

        def update(self, accumulator, particles, totals, step):
            x, p = particles.position.x[0], particles.momentum.x[0]
            return accumulator + jnp.stack([x**2, x**4, p**2, p**4])

    def replica(phase):
        x, p = jnp.cos(phase), jnp.sin(phase)
        zero = jnp.zeros_like(x)
        particles = Particles.of(jnp.stack([x, zero, zero])[None], jnp.stack([p, zero, zero])[None])
        setting = ParticleDynamics(springs(1.0, 1.0, 1.0), method, 0.1)
        return run_chunk(setting, setting.start(particles), steps, Powers(), jnp.zeros(4))[1]

    return jax.vmap(replica)(jnp.linspace(0, 2 * jnp.pi, replicas, endpoint=False)) / (steps // 2 + 1)


@pytest.mark.slow
def test_nose_hoover_chains_sample_one_harmonic_oscillator_and_a_single_thermostat_does_not():
    means = np.asarray(oscillator_means(OneOscillator(1.0, 1.0, substeps=2)))
    scores = [z_score(mean, expected) for mean, expected in zip(means.T, (1, 3, 1, 3), strict=True)]
    assert max(map(abs, scores)) < FAR
    assert means.mean(0) == pytest.approx([1, 3, 1, 3], rel=0.05)
    alone = np.asarray(oscillator_means(OneOscillator(1.0, 1.0, thermostats=1, substeps=2)))
    assert abs(alone.mean(0)[1] - 3) > 0.5


def remaining(method) -> float:
    """What is left of the difference of two momenta after a time of 1, without forces."""
    ends = [wells_after(method, no_forces(), 0.05, 20, momentum=p)[1] for p in (0.0, 2.0)]
    return float((ends[1] - ends[0]).mean() / 2)


def test_friction_forgets_velocities_at_its_rate():
    assert remaining(ParticleBAOAB(1.0, 0.7)) == pytest.approx(np.exp(-0.7), rel=1e-12)


@eqx.filter_jit
def rescaled_energies(method, replicas=1024):
    """The kinetic energies of free particles, all started with the same, after a time of 1."""

    def replica(path):
        momenta = jnp.asarray([[2.0] * 3, [-2.0] * 3] * (COUNT // 2))
        particles = Particles.of(jnp.zeros((COUNT, 3)), momenta)
        setting = ParticleDynamics(no_forces(), method, 0.05, ParticleNoise.of(seed_key(2), path))
        return kinetic_energy(run_chunk(setting, setting.start(particles), 20)[0].particles)

    return jax.vmap(replica)(jnp.arange(replicas, dtype=jnp.uint32))


def test_stochastic_rescaling_relaxes_the_kinetic_energy_at_its_rate():
    r"""Its mean and variance are those of $dK = (\bar K - K)\,dt/\tau + 2\sqrt{K \bar K/f\tau}\,dW$."""
    tau, f, first = 1.3, 3 * COUNT - 3, 0.5 * 12.0 * COUNT
    energies = np.asarray(rescaled_energies(StochasticVelocityRescaling(1.0, tau)))
    c, mean_at_last = np.exp(-1 / tau), f / 2
    mean = mean_at_last + (first - mean_at_last) * c
    variance = 4 * mean_at_last / f * (first * c * (1 - c) + mean_at_last * (1 - c) ** 2 / 2)
    assert abs(z_score(energies, mean)) < FAR
    assert abs(z_score((energies - mean) ** 2, variance)) < FAR


def test_a_temperature_may_change_with_time():
    """Free particles: the kinetic energy follows the temperature at the rate of the friction."""
    dt, steps, friction = 0.05, 60, 2.0
    ramp = Curve(np.array([0.5, 2.5]), np.array([1.0, 4.0]))
    _, p = wells_after(ParticleBAOAB(ramp, friction), no_forces(), dt, steps)
    expected, kept = 0.0, np.exp(-2 * friction * dt)
    for k in range(steps):
        expected = kept * expected + (1 - kept) * float(ramp(jnp.asarray((k + 0.5) * dt)))
    assert abs(z_score(p**2, expected)) < FAR
