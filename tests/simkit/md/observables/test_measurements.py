"""Observables of molecular dynamics on motions that are known exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from moving_particles import cube, no_totals, table_motion, watched
from simkit_physics import FreeBox
from simkit_solvers import Particles, Vector
from slow_cases import slow_but

from simkit.md.functions.displacement import MeanSquareDisplacement, _notes
from simkit.md.functions.fluctuations import Fluctuations
from simkit.md.functions.radial import RadialDistribution
from simkit.md.functions.structure import StructureFactor
from simkit.md.functions.velocity import VelocityAutocorrelation
from simkit.md.observables import Measurements, ScalarSeries, one_by_one
from simkit.time_series import Estimate

pytestmark = pytest.mark.more


def uniform_motion(steps: int, count: int, side: float, seed: int = 0, **options):
    """An ideal gas of independent configurations."""
    generator = np.random.default_rng(seed)
    rows = side * generator.random((steps + 1, count, 3))
    return table_motion(rows, generator.standard_normal(rows.shape), **options)


def test_the_radial_distribution_of_an_ideal_gas_has_honest_errors_and_exact_counts():
    side, steps, count = 5.0, 999, 40
    species = np.repeat([0, 1], [10, 30])
    motion = uniform_motion(steps, count, side, species=species)
    observer = RadialDistribution.of(cube(side), motion(0)[0], largest=2.5, bins=10, every=1)
    accumulator = watched(observer, motion, steps)
    result = observer.result([accumulator])
    assert result.pairs == [(0, 0), (0, 1), (1, 1)]
    assert result.g.reason is None
    expected = np.array([1 - 1 / 10, 1, 1 - 1 / 30])[:, None]
    z = (result.g.value - expected) / np.where(result.g.stderr > 0, result.g.stderr, np.inf)
    assert np.abs(z).max() < 4.9
    assert 0.6 < np.std(z[:, 2:]) < 1.5
    sphere = 4 / 3 * np.pi * result.edges[1:] ** 3 / side**3
    around = np.array([9, 30, 29])[:, None] * sphere  # of the second species around one of the first
    z = (result.coordination.value - around) / result.coordination.stderr
    assert np.abs(z[:, 2:]).max() < 4.9
    per_pair = result.counts.sum(1) / (steps + 1)
    np.testing.assert_allclose(result.coordination.value[:, -1], per_pair * [2 / 10, 1 / 10, 2 / 30])


def test_the_velocity_correlation_of_oscillators_is_a_cosine_and_its_spectrum_a_line():
    steps, dt, frequency, count = 2000, 0.02, 1.25, 12
    phase = 2 * np.pi * np.arange(count) / count
    angle = 2 * np.pi * frequency * dt * np.arange(steps + 1)[:, None] + phase
    velocity = np.stack([np.cos(angle), 0 * angle, 0 * angle], axis=-1)
    motion = table_motion(np.zeros_like(velocity), 3.0 * velocity, mass=3.0)
    observer = VelocityAutocorrelation.of(motion(0)[0], lags=401, every=1, interval=dt)
    result = observer.result([watched(observer, motion, steps)])
    exact = 0.5 * np.cos(2 * np.pi * frequency * result.time)
    np.testing.assert_allclose(result.correlation.value[:, 0], exact, atol=1e-12)
    peak = np.argmax(result.spectrum.value[:, 0])
    assert result.frequency[peak] == pytest.approx(frequency)
    total = np.trapezoid(result.spectrum.value[:, 0], result.frequency)
    assert total == pytest.approx(1, rel=1e-6)
    line = np.abs(result.frequency - frequency) < 2 / (400 * dt)
    step = result.frequency[1]
    assert step * result.spectrum.value[line, 0].sum() == pytest.approx(1, rel=0.02)
    assert abs(result.diffusion.value[0]) < 1e-3  # nothing diffuses


def test_velocities_without_memory_have_an_honest_correlation_and_diffusion():
    steps, count = 4000, 30
    generator = np.random.default_rng(1)
    momenta = generator.standard_normal((steps + 1, count, 3))
    motion = table_motion(np.zeros_like(momenta), momenta)
    observer = VelocityAutocorrelation.of(motion(0)[0], lags=20, every=1)
    result = observer.result([watched(observer, motion, steps)])
    exact = np.where(result.time == 0, 3 * (1 - 1 / count), 0)  # without the centre of mass
    z = (result.correlation.value[:, 0] - exact) / result.correlation.stderr[:, 0]
    assert np.abs(z).max() < 4.5
    assert 0.5 < np.std(z) < 1.6
    by_trapezia = exact[0] / 3 / 2
    assert abs(result.diffusion.value[0] - by_trapezia) < 4.5 * result.diffusion.stderr[0] < 0.2 * by_trapezia


@pytest.mark.parametrize("lags", slow_but((10,), (10, 80)))
def test_velocities_that_are_still_correlated_at_the_last_lag_give_no_diffusion_and_say_so(lags):
    """An Ornstein-Uhlenbeck process that forgets in ten steps."""
    steps, decay = 6000, np.exp(-1 / 10)
    noise = np.sqrt(1 - decay**2) * np.random.default_rng(2).standard_normal((steps + 1, 20, 3))
    momenta = np.array(noise)
    for k in range(steps):
        momenta[k + 1] += decay * momenta[k]
    motion = table_motion(np.zeros_like(momenta), momenta)
    observer = VelocityAutocorrelation.of(motion(0)[0], lags=lags, every=1)
    result = observer.result([watched(observer, motion, steps)])
    exact = (1 - 1 / 20) * (1 + decay) / (1 - decay) / 2  # of the trapezoidal rule
    assert (abs(result.diffusion.value[0] - exact) < 4 * result.diffusion.stderr[0]) == (lags == 80)
    if lags == 80:
        assert result.notes == (None,)
    else:
        assert "still correlated at the last lag, t = 9" in str(result.notes[0])


@pytest.mark.parametrize("replicas", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_brownian_particles_diffuse_as_they_should(replicas):
    """6 D t, unwrapped across a small box, with errors that cover D over 30 seeds."""
    D, dt, steps, count, side, seeds = 0.3, 0.1, 4000, 8, 2.0, 30
    box, z, exponents = cube(side), [], []
    first = Particles.of(jnp.zeros((count, 3)))
    observer = MeanSquareDisplacement.of(box, first, longest=50, every=1, interval=dt)

    def motion_of(rows):
        turns = jnp.floor(rows / side)
        inside = rows - turns * side

        def motion(k):
            image = Vector(*turns[k].astype(jnp.int32).T)
            own = Particles(
                Vector.of(inside[k]), first.momentum, image, first.mass, first.species, first.identity, count
            )
            return own, no_totals(own)

        return motion

    @jax.jit
    def run(rows):
        def step(k, accumulator):
            particles, totals = motion_of(rows)(k)
            return observer.update(accumulator, particles, totals, k)

        return jax.lax.fori_loop(0, steps + 1, step, observer.init(first))

    for seed in range(seeds):
        noise = np.random.default_rng(seed).standard_normal((replicas, steps + 1, count, 3))
        walks = jnp.asarray(np.cumsum(np.sqrt(2 * D * dt) * noise, axis=1))
        result = observer.result([run(walk) for walk in walks], fit=(1.0, 5.0))
        exact = D * (1 - 1 / count)  # relative to the centre of mass
        z.append((result.diffusion.value[0] - exact) / result.diffusion.stderr[0])
        exponents.append(result.exponent.value[0])
        near = result.time <= 20 * dt
        np.testing.assert_allclose(
            result.displacement.value[near, 0], 6 * exact * result.time[near], rtol=0.2
        )
    z = np.array(z)[np.isfinite(z)]
    assert len(z) > 0.9 * seeds
    assert abs(np.mean(z)) * np.sqrt(len(z)) < 4.5
    assert 0.6 < np.std(z) < 1.6
    assert np.mean(exponents) == pytest.approx(1, abs=0.05)


def test_a_flight_is_no_diffusion_and_says_so():
    rows = np.arange(401)[:, None, None] * np.random.default_rng(0).standard_normal((20, 3))
    motion = table_motion(rows)
    observer = MeanSquareDisplacement.of(FreeBox(), motion(0)[0], longest=40, every=1)
    accumulators = [watched(observer, motion, 400)]
    result = observer.result(accumulators)
    assert result.fit == pytest.approx((401 / 40, 401 / 10))
    assert result.exponent.value[0] == pytest.approx(2)
    assert "grows as t^2.00" in str(result.notes[0])
    assert observer.result(accumulators, fit=(20, 40)).fit == (20, 40)
    with pytest.raises(ValueError, match="of which there are 1, at least 3 are needed"):
        observer.result(accumulators, fit=(2.5, 3.5))


@pytest.mark.parametrize(
    ("exponent", "stderr", "noted"),
    [
        (1.09, 0.01, False),
        (1.25, 0.1, False),
        (0.85, 0.01, True),
        (1.25, np.nan, True),
        (1.09, np.nan, False),
    ],
)
def test_a_slope_is_doubted_where_the_power_differs_from_one_by_a_tenth_and_three_errors(
    exponent, stderr, noted
):
    one = np.array([1.0])
    growth = Estimate(exponent * one, stderr * one, one, one, one, 100, None)
    assert ([*_notes(growth, (1.0, 2.0))] != [None]) == noted


def test_each_species_has_the_power_of_its_own_and_one_that_is_not_positive_is_no_growth():
    powers = np.array([-0.129, -0.263, 1.01, 0.5, -0.001, 0.002])
    errors = np.full(6, np.nan)
    notes = [*_notes(Estimate(powers, errors, powers, powers, powers, 100, None), (0.4, 1.6))]
    assert [note is None for note in notes] == [False, False, True, False, False, False]
    told = [str(note).partition(":")[0] for note in notes]
    start = "from t = 0.4 to 1.6 the displacement"
    assert told[0] == f"{start} does not grow (it goes as t^-0.13)"
    assert told[1] == f"{start} does not grow (it goes as t^-0.26)"
    assert told[3] == f"{start} grows as t^0.50, not as t"
    assert told[4] == told[5] == f"{start} does not grow (it goes as t^0.00)"


@pytest.mark.slow
def test_only_some_particles_are_followed_and_those_of_each_species():
    species = np.arange(100) % 2
    rows = np.cumsum(np.where(species == 0, 1.0, 2.0)[None, :, None] * np.ones((60, 100, 3)), axis=0)
    rows *= np.where(np.arange(100) % 4 < 2, 1.0, -1.0)[None, :, None]  # the centre of mass is at rest
    motion = table_motion(rows, species=species)
    observer = MeanSquareDisplacement.of(FreeBox(), motion(0)[0], longest=5, every=1, most=30)
    assert observer.selection.of_species == (13, 13)
    accumulator = watched(observer, motion, 59)
    result = observer.result([accumulator], fit=(1, 5))
    np.testing.assert_allclose(result.displacement.value, result.time[:, None] ** 2 * [3, 12], atol=1e-9)


@pytest.mark.slow
def test_the_structure_factor_of_an_ideal_gas_has_honest_errors():
    motion = uniform_motion(999, 25, 4.0)
    observer = StructureFactor.of(cube(4.0), largest=5.0, every=1)
    result = observer.result([watched(observer, motion, 999)])
    z = (result.factor.value - 1) / result.factor.stderr
    assert len(z) > 8
    assert np.abs(z).max() < 4.5
    assert 0.4 < np.std(z) < 1.7


def test_scalars_have_means_and_drifts():
    steps, drift, interval = 2000, 1e-6, 0.05
    noise = 1e-4 * np.random.default_rng(0).standard_normal(steps + 1)
    energies = jnp.asarray(-1e4 + drift * interval * np.arange(steps + 1) + noise)
    motion = table_motion(
        np.zeros((steps + 1, 2, 3)), totals=lambda k, particles: no_totals(particles, energies[k])
    )
    observer = ScalarSeries(
        ("E", "two"), lambda particles, totals: [totals.energy, jnp.asarray(2)], every=1, interval=interval
    )
    result = observer.result([watched(observer, motion, steps)])
    np.testing.assert_allclose(result.mean.value, [energies.mean(), 2], rtol=1e-15)
    assert abs(result.drift.value[0] - drift) < 4.5 * result.drift.stderr[0] < 4 * drift
    assert result.drift.value[1] == result.drift.stderr[1] == 0


def test_several_measurements_have_intervals_of_their_own_and_the_same_bits_for_any_chunks():
    steps, side = 230, 4.0
    motion = uniform_motion(steps, 20, side)
    first, box = motion(0)[0], cube(side)
    observers = Measurements(
        {
            "g": RadialDistribution.of(box, first, largest=2.0, bins=8, every=20),
            "msd": MeanSquareDisplacement.of(box, first, longest=9, every=2),
            "v": VelocityAutocorrelation.of(first, lags=6, every=3),
            "S": StructureFactor.of(box, largest=3.0, every=7),
            "C": Fluctuations.of(first, ensemble="NVE", freedom=57, every=5),
            "T": ScalarSeries(("K",), lambda particles, totals: [totals.kinetic_energy], every=4),
        }
    )
    due = [bool(observers.due(jnp.uint32(k))) for k in range(12)]
    assert due == [k % 2 == 0 or k % 3 == 0 or k % 7 == 0 or k % 5 == 0 for k in range(12)]
    whole = watched(observers, motion, steps)
    assert int(whole["g"].seen) == steps // 20 + 1
    assert int(whole["msd"].seen) == steps // 2 + 1
    for chunks in (1, 7, 50):
        cut = watched(observers, motion, steps, chunks)
        for one, other in zip(jax.tree.leaves(whole), jax.tree.leaves(cut), strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_accumulators_of_replicas_may_have_an_axis_of_their_own():
    states = [
        watched(observer, uniform_motion(99, 5, 3.0, seed), 99)
        for seed in range(3)
        for observer in [StructureFactor.of(cube(3.0), largest=3.0, every=1)]
    ]
    stacked = jax.tree.map(lambda *a: jnp.stack(a), *states)
    observer = StructureFactor.of(cube(3.0), largest=3.0, every=1)
    one, other = observer.result(states), observer.result(one_by_one(stacked))
    np.testing.assert_array_equal(one.factor.value, other.factor.value)
    np.testing.assert_array_equal(one.factor.stderr, other.factor.stderr)
