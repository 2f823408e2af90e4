r"""Energy and pressure of a run are the integrals of its g(r):

$$U = \sum_{a \le b} \int n_{ab}\,u_{ab}\,dr,\quad 3 P V = 2K - \sum_{a \le b} \int n_{ab}\,r u'_{ab}\,dr,$$
where $n_{ab} = (1 - \tfrac12 \delta_{ab}) N_a N_b\,4\pi r^2 g_{ab} / V$ are the pairs at each distance. With
bins of width w the integrals are off by about $w^2 u''/24$ of each pair. Reference: Hansen & McDonald (2013),
Theory of Simple Liquids, section 2.5, doi:10.1016/C2010-0-66723-X.
"""

import numpy as np
import pytest
from md_examples import fluid, lennard_jones

import simkit

EPSILON, SIGMA = np.array([[1.0, 1.5], [1.5, 0.5]]), np.array([[1.0, 0.8], [0.8, 0.88]])
CUTOFF = 2.3
BINS = 2000


def run_of(species: int, box=None):
    """A liquid of one or two species, with everything measured at the same steps."""
    kinds = {"A": {"fraction": 0.6}, "B": {}} if species == 2 else {"A": {}}
    pairs = {
        f"{'AB'[i]}-{'AB'[j]}": {"epsilon": float(EPSILON[i, j]), "sigma": float(SIGMA[i, j])}
        for i in range(species)
        for j in range(i, species)
    }
    return simkit.run(
        fluid(
            system__species=kinds,
            system__lattice__density=0.85,
            potential={
                "type": "LennardJones",
                "mixing": "explicit",
                "cutoff": CUTOFF,
                "truncation": "plain",
                "pairs": pairs,
            },
            solver={"type": "BAOAB", "temperature": 1.2, "friction": 1.0},
            time__steps=400,
            save__every=5,
            observe={
                "U": "potential_energy",
                "K": "kinetic_energy",
                "P": "pressure",
                "g": {"rdf": {"bins": BINS, "max": CUTOFF, "every": 5}},
            },
        )
    )


@pytest.mark.more
@pytest.mark.parametrize("species", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_energy_and_pressure_are_the_integrals_of_the_radial_distribution(species):
    run = run_of(species)
    count = np.array([108]) if species == 1 else np.array([65, 43])
    volume = 108 / 0.85
    edges = np.linspace(0, CUTOFF, BINS + 1)
    shells, r = 4 / 3 * np.pi * np.diff(edges**3), 0.5 * (edges[1:] + edges[:-1])
    energy = virial = 0.0
    rows = [(a, b) for a in range(species) for b in range(a, species)]
    for row, (a, b) in enumerate(rows):
        pairs = (0.5 if a == b else 1) * count[a] * count[b] / volume * shells * run["g"].values[row]
        u, rf = lennard_jones(r**2, EPSILON[a, b], SIGMA[a, b])
        energy, virial = energy + np.sum(pairs * u), virial + np.sum(pairs * rf)
        below = 2 * pairs.sum() / count[a] if a == b else pairs.sum() / count[a]
        assert below == pytest.approx(float(run["g_coordination"][row, -1]), rel=1e-12)
    pressure = (2 * float(run["K_mean"]) + virial) / (3 * volume)

    assert energy == pytest.approx(float(run["U_mean"]), rel=3e-5)
    assert pressure == pytest.approx(float(run["P_mean"]), abs=1e-3)
