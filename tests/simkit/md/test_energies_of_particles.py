"""Energies, forces and pressures of particles are published ones, or sums over all pairs, in any units."""

import numpy as np
import pytest
from checkout import EXAMPLES
from md_examples import fluid, lennard_jones, pair_sum

import simkit
from simkit import InputError
from simkit.md.files.frame import Cell

KELVIN = 1.380649e-23 / 1.602176634e-19  # eV


def test_the_lattice_of_the_melt_has_its_energy_and_pressure():
    """Per atom -6.773368053253 and the virial -22.158199254035, which no lattice sum of ours gave."""
    start = simkit.run(
        EXAMPLES / "particles/lj_melt.yaml",
        overrides={
            "system.lattice.cells": 4,
            "time.steps": 0,
            "observe.g": None,
            "output": None,
            "observe.K": "kinetic_energy/atoms",
        },
    )
    temperature = 1.44 * (1 - 1 / 256)  # with 3N - 3 degrees of freedom
    assert float(start["T_mean"]) == pytest.approx(1.44, rel=1e-12)
    assert float(start["K_mean"]) == pytest.approx(1.5 * temperature, rel=1e-12)
    assert float(start["U_mean"]) == pytest.approx(-6.773368053253, abs=1e-11)
    assert float(start["E_mean"]) == pytest.approx(-6.773368053253 + 1.5 * temperature, abs=1e-11)
    assert float(start["P_mean"]) == pytest.approx(0.8442 * (temperature - 22.158199254035 / 3), abs=1e-10)


@pytest.mark.slow
def test_the_melt_of_lammps_begins_with_its_energy_and_pressure_and_goes_on():
    """The lines that LAMMPS prints for bench/in.lj at steps 0 and 100, with the spread of its seeds."""
    run = simkit.run(
        EXAMPLES / "particles/lj_melt.yaml", overrides={"observe.g": None, "output": None, "save.every": 100}
    )
    assert run.attrs["particles"] == 32_000
    start, end = (run.isel(path=0, time=row) for row in (0, -1))
    assert float(start["T_path"]) == pytest.approx(1.44, rel=1e-12)
    assert float(start["E_path"]) == pytest.approx(-4.613435553253, abs=1e-11)
    assert float(start["P_path"]) == pytest.approx(-5.019707259086, abs=1e-11)
    for name, mean, sd in (("T", 0.75860, 0.0015), ("U", -5.7602, 0.0024), ("P", 0.198, 0.012)):
        assert abs(float(end[f"{name}_path"]) - mean) < 5 * sd, name


def mixture(count: int = 40):
    """Two species in a triclinic box, which the cutoff reaches across several times."""
    generator = np.random.default_rng(8)
    cell = Cell((4.0, 4.2, 3.9), (0.5, -0.4, 0.7))
    places = (np.indices((4, 4, 3)).reshape(3, -1).T[:count] + 0.5) / (4, 4, 3)
    positions = (places + 0.04 * generator.standard_normal((count, 3))) % 1 @ cell.vectors
    return positions, np.arange(count) % 2, cell


@pytest.mark.parametrize("truncation", ["plain", pytest.param("shifted", marks=pytest.mark.slow)])
def test_a_single_point_is_the_sum_over_all_pairs_and_images(tmp_path, truncation):
    positions, species, cell = mixture()
    lines = [
        f"{'AB'[kind]} {' '.join(map(repr, row))}"
        for kind, row in zip(species, positions.tolist(), strict=True)
    ]
    (tmp_path / "a.xyz").write_text(f"{len(lines)}\n\n" + "\n".join(lines) + "\n")
    epsilon, sigma = np.array([[1.0, 1.5], [1.5, 0.5]]), np.array([[1.0, 0.8], [0.8, 0.88]])
    experiment = {
        "system": {
            "file": str(tmp_path / "a.xyz"),
            "box": {"sides": list(cell.sides), "tilts": list(cell.tilts)},
        },
        "potential": {
            "type": "LennardJones",
            "cutoff": 2.5,
            "truncation": truncation,
            "pairs": {
                f"{a}-{b}": {"epsilon": epsilon[i, j], "sigma": sigma[i, j]}
                for i, a in enumerate("AB")
                for j, b in enumerate("AB")
                if i <= j
            },
        },
        "time": {"steps": 0},
    }

    def pair(r2, i, near):
        kinds = species[i], species[near]
        energy, rf = lennard_jones(r2, epsilon[kinds], sigma[kinds])
        at_cutoff = lennard_jones(2.5**2, epsilon[kinds], sigma[kinds])[0]
        return energy - at_cutoff * (truncation == "shifted"), rf

    moved = positions + 0.01 * np.random.default_rng(1).standard_normal(positions.shape)
    for at, given in ((positions, None), (moved, moved)):
        energy, forces, virial = pair_sum(at, cell.vectors, 2.5, pair)
        found = simkit.single_point(experiment, given)
        assert found.energy == pytest.approx(energy, rel=1e-12)
        np.testing.assert_allclose(found.forces, forces, atol=1e-11 * np.abs(forces).max())
        volume = np.prod(cell.sides)
        six = virial[[0, 1, 2, 0, 0, 1], [0, 1, 2, 1, 2, 2]] / volume
        np.testing.assert_allclose(found.pressure, six, atol=1e-11 * np.abs(six).max())
        if given is None:
            dataset = simkit.run(experiment)
            np.testing.assert_array_equal(dataset["pressure"][0], found.pressure)
            np.testing.assert_array_equal(dataset["force"][0], found.forces)
            assert list(dataset["component"].values) == ["xx", "yy", "zz", "xy", "xz", "yz"]
    with pytest.raises(InputError, match=r"positions: must be finite numbers in the shape \(40, 3\)"):
        simkit.single_point(experiment, positions[:3])


@pytest.mark.slow
def test_an_energy_written_in_the_file_is_the_potential_of_that_name():
    named = simkit.single_point(fluid())
    text = "4*epsilon*((sigma/r)**12 - (sigma/r)**6)"
    written = {"energy": text, "parameters": {"epsilon": 1.0, "sigma": "s"}, "cutoff": 2.0}
    own = simkit.single_point(fluid(potential=written, constants={"s": 1.0}))
    assert own.energy == pytest.approx(named.energy, rel=1e-12)
    np.testing.assert_allclose(own.pressure, named.pressure, rtol=1e-10)


@pytest.mark.more
def test_argon_is_the_same_in_four_systems_of_units():
    """A temperature of 2 epsilon/k, in units whose sizes are those of the CODATA constants."""
    mass, epsilon, sigma = 39.948, 120.0, 3.4  # g/mol, kelvin, angstrom
    calorie = 4184 / 6.02214076e23 / 1.602176634e-19  # eV
    joule, kilogram = KELVIN * 1.602176634e-19, 1e-3 / 6.02214076e23
    systems = {
        "lj": (1.0, 1.0, 1.0, 1.0),
        "metal": (mass, epsilon * KELVIN, sigma, epsilon),
        "real": (mass, epsilon * KELVIN / calorie, sigma, epsilon),
        "si": (mass * kilogram, epsilon * joule, sigma * 1e-10, epsilon),
    }
    seconds = sigma * 1e-10 * (mass * kilogram / (epsilon * joule)) ** 0.5
    found = {}
    for units, (m, e, s, kelvin) in systems.items():
        unit = {"lj": 1.0, "metal": seconds * 1e12, "real": seconds * 1e15, "si": seconds}[units]
        experiment = fluid(
            system__units=units,
            system__species={"A": {"mass": m}},
            system__lattice__density=0.8 / s**3,
            system__velocities__temperature=1.2 * kelvin,
            potential__epsilon=e,
            potential__sigma=s,
            potential__cutoff=2.0 * s,
            time__dt=0.004 * unit,
            time__steps=20,
        )
        run = simkit.run(experiment)
        at_end = [run[f"{name}_path"].values[0, -1] for name in "TUE"]
        found[units] = np.array(at_end) / (kelvin, e, e)
    exact = found.pop("lj")
    for units, values in found.items():
        np.testing.assert_allclose(values, exact, rtol=1e-9, err_msg=units)
