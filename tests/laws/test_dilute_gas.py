r"""g(r) of a dilute mixture, to first order in the density, against quadrature.

With Mayer's function $f = e^{-u/k_BT} - 1$, and $c_\gamma(r) = \int f_{a\gamma}(s) f_{\gamma b}(|r - s|)\,ds$
of a third particle of the species $\gamma$, in a box of volume V with $N_a$ particles of each species,
$$g_{ab} = \left(1 - \frac{\delta_{ab}}{N_a}\right) e^{-u_{ab}/k_BT} \left[1
+ \sum_\gamma \frac{N_\gamma - \delta_{a\gamma} - \delta_{b\gamma}}{V} c_\gamma(r)
- \frac1V \int f_{ab}\,ds + O(\rho^2)\right].$$
Reference: Hansen & McDonald (2013), Theory of Simple Liquids, section 3.9, doi:10.1016/C2010-0-66723-X.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from fluid_replicas import Replicas, thermal_momenta
from pair_sum_in_numpy import cube
from simkit_physics import WCA, Plain, forces_for
from simkit_solvers import ParticleBAOAB, Particles

from simkit.md.functions.radial import RadialDistribution
from simkit.md.observables import Measurements

pytestmark = [pytest.mark.slow, pytest.mark.user_code]

EPSILON, SIGMA = np.array([[1.0, 0.7], [0.7, 0.5]]), np.array([[1.0, 0.9], [0.9, 0.8]])
ENDS = 2 ** (1 / 6) * SIGMA
CUTOFF, TEMPERATURE, DENSITY = ENDS.max(), 1.0, 0.1
OF_SPECIES = np.array([16, 16])
VOLUME = OF_SPECIES.sum() / DENSITY
BINS, LARGEST = 30, 3.0
REPLICAS, EVERY = 128, 20


def energy(r, a, b):
    """Repulsion alone: it makes what a third particle does large."""
    x = (SIGMA[a, b] / np.minimum(r, ENDS[a, b])) ** 6
    return 4 * EPSILON[a, b] * (x * x - x) + EPSILON[a, b]


def mayer(r, a, b):
    return np.expm1(-energy(r, a, b) / TEMPERATURE)


def third_particle(r: np.ndarray, a: int, b: int, g: int) -> np.ndarray:
    r"""$c(r) = \frac{2\pi}{r} \int s f(s) \int_{|r-s|}^{r+s} t f(t)\,dt\,ds$."""
    s = (np.arange(4000) + 0.5) * (CUTOFF / 4000)
    fine = np.linspace(0, r.max() + CUTOFF, 40_001)
    product = np.concatenate([[0], fine[1:] * mayer(fine[1:], g, b)])
    steps = 0.5 * (product[1:] + product[:-1]) * np.diff(fine)
    up_to = np.concatenate([[0], np.cumsum(steps)])
    inner = np.interp(r[:, None] + s, fine, up_to) - np.interp(abs(r[:, None] - s), fine, up_to)
    return 2 * np.pi / r * (inner @ (s * mayer(s, a, g))) * (CUTOFF / 4000)


def expected(a: int, b: int, order: int) -> np.ndarray:
    """Means over the bins, weighted by their shells, of g to order 0 or 1 in the density."""
    r = ((np.arange(BINS * 40) + 0.5) * (LARGEST / BINS / 40)).reshape(BINS, 40)
    flat = r.ravel()
    factor = np.ones_like(flat)
    if order:
        s = (np.arange(4000) + 0.5) * (CUTOFF / 4000)
        factor -= 4 * np.pi * np.sum(s * s * mayer(s, a, b)) * (CUTOFF / 4000) / VOLUME
        for g, count in enumerate(OF_SPECIES):
            factor += (count - (g == a) - (g == b)) / VOLUME * third_particle(flat, a, b, g)
    g = np.exp(-energy(flat, a, b) / TEMPERATURE) * factor * (1 - (a == b) / OF_SPECIES[a])
    weights = r**2
    return (g.reshape(BINS, 40) * weights).sum(1) / weights.sum(1)


@pytest.fixture(scope="module")
def measured():
    """g of each pair in each bin, and its standard error over the replicas."""
    species = np.repeat([0, 1], OF_SPECIES)
    potential = Plain(WCA(jnp.asarray(EPSILON), jnp.asarray(SIGMA)), jnp.asarray(ENDS))
    grid = np.stack(np.unravel_index(np.random.default_rng(0).permutation(64)[:32], (4, 4, 4)), 1)
    side = VOLUME ** (1 / 3)
    forces, particles = forces_for(
        Particles.of((grid + 0.5) * side / 4, species=species), cube(side), potential
    )
    g = RadialDistribution.of(forces.box, particles, largest=LARGEST, bins=BINS, every=EVERY)
    method = ParticleBAOAB(jnp.asarray(TEMPERATURE), jnp.asarray(0.5))
    replicas = Replicas(forces, method, 0.01, Measurements({"g": g}))
    states = replicas.started(particles, thermal_momenta(REPLICAS, len(species), TEMPERATURE))
    states, _ = replicas.run(states, 500)
    _, accumulators = replicas.run(states, 5000)
    rows = np.array([g.result([each["g"]]).g.value for each in accumulators])
    return rows.mean(0), rows.std(0, ddof=1) / np.sqrt(REPLICAS)


@pytest.mark.parametrize(("row", "a", "b"), [(0, 0, 0), (1, 0, 1), (2, 1, 1)])
def test_a_dilute_mixture_has_the_radial_distribution_of_first_order(measured, row, a, b):
    """Of second order is at most a fifth of that: a tenth where hard spheres of this density touch."""
    value, stderr = (each[row] for each in measured)
    first, none = expected(a, b, 1), expected(a, b, 0)
    seen = first > 1e-2
    assert (stderr[seen] > 0).all()
    assert (value[~seen] < 2e-2).all()
    value, stderr, first, none = (each[seen] for each in (value, stderr, first, none))
    assert (np.abs(value - first) < 4.5 * stderr + 0.2 * np.abs(first - none)).all()
    misses = [np.sum(((value - law) / stderr) ** 2) for law in (first, none)]
    assert misses[0] < 2 * len(value) < 0.25 * misses[1]
