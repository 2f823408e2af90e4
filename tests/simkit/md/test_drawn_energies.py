"""At constant energy errors contain the spread of the energies that were drawn, or a line says that not."""

import jax
import numpy as np
import pytest

import simkit
from simkit.md.dataset import to_particle_dataset
from simkit.md.experiment import load_particles
from simkit.md.replicas import run_particles
from simkit.md.table import closing_lines, summary
from simkit.time_series import FEWEST_REPLICAS

BATH = {"type": "BAOAB", "temperature": 1.2, "friction": 2.0}
FLUID = {
    "system": {"lattice": {"type": "fcc", "cells": 2, "density": 0.6}, "velocities": {"temperature": 1.2}},
    "potential": {
        "type": "LennardJones",
        "epsilon": 1.0,
        "sigma": 1.0,
        "cutoff": 1.8,
        "truncation": "shifted_force",
    },
    "solver": "VelocityVerlet",
    "stages": {"equilibrate": {"solver": BATH, "steps": 200}},
    "time": {"dt": 0.005, "steps": 2000},
    "save": {"every": 5},
    "observe": {"T": "temperature", "D": {"vacf": {"longest": 1.0, "every": 5}}},
}


def run(replicas, **changes):
    return simkit.run(FLUID | {"ensemble": {"paths": replicas, "seed": 3}} | changes)


def said(dataset):
    return [line for line in closing_lines(dataset) if "drawn" in line]


@pytest.fixture(scope="module")
def four():
    """The result of four replicas, and its dataset."""
    result = run_particles(load_particles(FLUID | {"ensemble": {"paths": FEWEST_REPLICAS, "seed": 3}}))
    return result, to_particle_dataset(result, {})


def by_student(each):
    """The error of the mean of four, as wide as Student's t with 3 degrees of freedom makes it."""
    return pytest.approx(1.1969 * np.std(each, ddof=1) / 2, rel=1e-3)


def test_four_energies_have_the_error_of_their_spread(four):
    """That of a temperature is several times the error within a replica."""
    dataset = four[1]
    assert float(dataset["T_stderr"]) == by_student(dataset["T_path"].values.mean(1))
    within = 2 * dataset["T_correlation_time"] / (4 * 10.0) * dataset["T_path"].var("time").mean()
    assert float(dataset["T_stderr"]) > 4 * np.sqrt(float(within))
    assert not said(dataset)


def test_the_error_of_a_function_is_that_between_replicas(four):
    result, dataset = four
    with jax.enable_x64(True):
        alone = [result.observers["D"].result([each.accumulators["D"]]) for each in result.replicas]
    assert dataset["D_diffusion_stderr"].item() == by_student([each.diffusion.value[0] for each in alone])


@pytest.mark.parametrize(
    ("replicas", "begins"), [(1, "the energy was"), (2, "the energies of the 2 replicas")]
)
def test_fewer_have_errors_at_the_energies_drawn_and_say_so(replicas, begins):
    few = run(replicas)
    (line,) = said(few)
    assert line.startswith(begins)
    assert line.endswith("take at least 4 replicas")
    assert summary(few)["errors"] == line


@pytest.mark.parametrize("changes", [{"stages": {}}, {"solver": BATH}])
def test_no_energy_is_drawn_by_exact_velocities_and_none_kept_in_a_bath(changes):
    assert not said(run(2, **changes))


@pytest.mark.more
@pytest.mark.parametrize(("solver", "lines"), [("VelocityVerlet", 1), (BATH, 0)])
def test_a_run_that_goes_on_from_another_keeps_the_energies_of_its_end(tmp_path, solver, lines):
    """They were drawn in that run: at constant energy replicas keep them, in a bath they do not."""
    file, short = tmp_path / "bath.zarr", {"stages": {}, "observe": {"T": "temperature"}}
    short |= {"time": {"dt": 0.005, "steps": 20}}
    simkit.run(FLUID | short | {"solver": BATH, "ensemble": {"paths": 2, "seed": 3}}, out=file)
    rest = run(2, **short, solver=solver, system={"file": str(file)})
    assert len(said(rest)) == lines
