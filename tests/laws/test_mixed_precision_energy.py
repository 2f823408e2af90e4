"""Mixed precision conserves energy as float64 does: the slope of the energy is at most twice as large."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fluid_replicas import Replicas, fluid_at, thermal_momenta
from simkit_physics import AllPairs, ListedForces, ShiftedForce
from simkit_solvers import Particles, ParticleState, StochasticVelocityRescaling, VelocityVerlet

from simkit.md.observables import Measurements, ScalarSeries
from simkit.time_series import Estimate

pytestmark = [pytest.mark.slow, pytest.mark.user_code]

DT, EVERY = 0.004, 5


class Fluid(NamedTuple):
    """A fluid of 4 `cells`^3 particles, and `rounding`: of the sum of all forces, over sqrt(N) rms forces."""

    kind: type
    cells: int
    replicas: int
    melting: int
    steps: int
    rounding: float

    @property
    def count(self) -> int:
        return 4 * self.cells**3

    def replicas_of(self, method, precision: str = "float64") -> tuple[Replicas, Particles]:
        forces, particles = fluid_at(cells=self.cells, truncation=ShiftedForce, precision=precision)
        assert type(forces) is self.kind
        series = ScalarSeries(
            ("E",), lambda particles, totals: [totals.energy / self.count], every=EVERY, interval=EVERY * DT
        )
        return Replicas(forces, method, DT, Measurements({"E": series})), particles


class Conserved(NamedTuple):
    """The slope of the energy of each replica and of all, and where the replicas end."""

    each: np.ndarray
    together: Estimate
    forces: AllPairs | ListedForces
    states: ParticleState

    @property
    def momentum(self) -> float:
        """The largest component of the momentum of a system."""
        return float(max(np.abs(np.asarray(c).sum(1)).max() for c in self.states.particles.momentum))


# In lists a pair is computed at each of its ends, relative to another centre, and rounded independently: the
# sum of its two forces is as large as their errors. In boxes of fewer than nine cells each pair would have
# its own nearest image.
FLUIDS = {
    "all pairs": Fluid(AllPairs, 3, replicas=32, melting=800, steps=2500, rounding=1e-7),
    "lists": Fluid(ListedForces, 9, replicas=16, melting=250, steps=600, rounding=1e-6),
}


@pytest.fixture(scope="module", params=FLUIDS)
def fluid(request):
    return FLUIDS[request.param]


@pytest.fixture(scope="module")
def runs(fluid):
    """In both precisions from the same states."""
    bath = StochasticVelocityRescaling(jnp.asarray(1.0), jnp.asarray(0.2))
    melt, particles = fluid.replicas_of(bath)
    states = melt.started(particles, thermal_momenta(fluid.replicas, fluid.count, 1.5))
    states, _ = melt.run(states, fluid.melting)
    return {precision: conserved(fluid, precision, states.particles) for precision in ("float64", "mixed")}


def conserved(fluid, precision, particles) -> Conserved:
    replicas, _ = fluid.replicas_of(VelocityVerlet(), precision)
    ends, rows = replicas.run(replicas.continued(particles, particles.momentum), fluid.steps)
    if fluid.kind is ListedForces:
        assert ends.renewals.count.min() > 10
    series = replicas.observers.observers["E"]
    slopes = [series.result([row["E"]]).drift.value[0] for row in rows]
    together = series.result([row["E"] for row in rows]).drift
    return Conserved(np.array(slopes), together, replicas.forces, ends)


def test_the_slope_of_the_energy_is_at_most_twice_that_of_float64(runs):
    """Over the replicas, the root of the mean square; and none is left of their mean.

    Over lists the orbits are those of float64 for most of the 600 steps, until chaos separates them: so the
    ratio is no accident of a few replicas.
    """
    rms = {precision: np.sqrt(np.mean(run.each**2)) for precision, run in runs.items()}
    assert rms["mixed"] < 2 * rms["float64"]
    for run in runs.values():
        assert abs(run.together.value[0]) < 3 * run.together.stderr[0]


def test_momentum_is_conserved_to_rounding_and_in_mixed_precision_to_its_own_bound(fluid, runs):
    """Each step adds the rounding of forces in float32: a random walk over the steps."""
    force = np.sqrt(np.mean([np.square(c) for c in runs["float64"].states.force]))
    walk = fluid.rounding * force * DT * np.sqrt(fluid.count * fluid.steps)
    assert runs["float64"].momentum < 1e-11
    assert runs["mixed"].momentum < 3 * walk


def test_forces_differ_from_those_of_float64_by_a_millionth_of_their_root_mean_square(runs):
    """At the ends of all runs."""
    exact, mixed, states = runs["float64"].forces, runs["mixed"].forces, runs["mixed"].states
    assert mixed.fixed_point
    forces = eqx.filter_jit(lambda of: jax.lax.map(lambda s: of.forces(s.particles, s.listed), states))
    expected = forces(exact)
    error = forces(mixed).plus(-1, expected)
    assert jnp.mean(error.dot(error)) < 1e-12 * jnp.mean(expected.dot(expected))
