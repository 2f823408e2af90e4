"""Runs of molecular dynamics: the same bits however they are cut, energy and stages, and what blows up."""

import numpy as np
import pytest
from accelerator import needs_processor
from md_examples import fluid

import simkit
from simkit import NumericalError
from simkit.md import pace, preparation, replica
from simkit.md.experiment import load_particles
from simkit.md.table import closing_lines, print_table
from simkit.results.number_text import with_error
from simkit.time_series import of_series

CHUNKED = fluid(
    solver={"type": "BAOAB", "temperature": 1.0, "friction": 0.5},
    observe={"T": "temperature", "P": "pressure"},
    save__every=2,
)


WITH_MORE = {
    "stages": {"warm": {"steps": 40}},
    "observe": CHUNKED["observe"] | {"g": {"rdf": {"bins": 20, "max": 2.0, "every": 4}}},
}


@pytest.mark.parametrize(
    "more", [pytest.param({}, marks=pytest.mark.slow), pytest.param(WITH_MORE, marks=pytest.mark.more)]
)
@pytest.mark.more
def test_a_run_has_the_same_bits_in_chunks_of_any_length(monkeypatch, more):
    whole = simkit.run(CHUNKED | more)
    monkeypatch.setattr(replica, "ROWS", 3)
    monkeypatch.setattr(pace, "CHUNK_SECONDS", 1e-9)
    cut = simkit.run(CHUNKED | more)
    for name in ("T_path", "P_path", "T_mean", *(["g"] if more else [])):
        np.testing.assert_array_equal(whole[name], cut[name])
    assert len(whole["time"]) == 21


@needs_processor
@pytest.mark.slow
def test_threads_share_one_large_system_and_change_it_by_round_off_only(monkeypatch):
    monkeypatch.setattr(preparation, "CHUNKS_EACH", 2)
    experiment = fluid(system__lattice__cells=10, time__steps=20, observe=WITH_MORE["observe"])
    runs, shared = [], []
    for threads in (1, 2, 3):
        experiment["ensemble"]["threads"] = threads
        simulation = load_particles(experiment)
        shared.append(len(preparation.sharing(simulation, preparation.chosen_forces(simulation))))
        runs.append(simkit.run(experiment))
    assert shared == [1, 2, 3]  # of eight chunks of clusters
    experiment["ensemble"]["paths"] = 2
    simulation = load_particles(experiment)
    assert preparation.sharing(simulation, preparation.chosen_forces(simulation)) == ()
    for run in runs[1:]:
        for name, values in runs[0].drop_vars("state").data_vars.items():
            # The end is stored in float32.
            error = 1e-6 if str(name).startswith("end_") else 1e-9
            np.testing.assert_allclose(values, run[name], rtol=error, atol=error, err_msg=str(name))


def test_replicas_differ_and_each_is_the_same_alone_or_among_others():
    shear = {"observe.S": "pressure_xy"}
    several = simkit.run(CHUNKED, overrides={"ensemble.paths": 3, "ensemble.threads": 2} | shear)
    at_rest = simkit.run(CHUNKED, overrides={"ensemble.paths": 3, "system.velocities": None})
    alone = simkit.run(CHUNKED)
    np.testing.assert_array_equal(several["T_path"][0], alone["T_path"][0])
    # By their velocities at the start, and by their noise where they start at rest.
    assert (
        np.ptp(several["T_path"].values[:, 0])
        < 1e-12
        < 1e-3
        < np.diff(np.sort(several["S_path"][:, 0])).min()
    )
    assert len(set(at_rest["T_path"].values[:, -1])) == 3
    other = simkit.run(CHUNKED, overrides={"ensemble.seed": 5})
    assert other["T_path"].values[0, -1] != alone["T_path"].values[0, -1]


def test_a_potential_that_is_no_number_at_a_distance_of_pairs_ends_the_run():
    """Its slope is finite there, and forces are."""
    potential = {"energy": "log(r - 3)", "cutoff": 2.0}
    for run in (simkit.run, simkit.single_point):
        with pytest.raises(simkit.NumericalError, match="step 0: the potential energy is nan"):
            run(fluid(potential=potential, time__steps=10))


def test_energy_is_conserved_and_its_drift_is_printed(capsys):
    run = simkit.run(
        fluid(potential__truncation="shifted_force", time__steps=400, time__dt=0.002, save__every=10)
    )
    energy = run["E_path"].values[0]
    assert np.ptp(energy) < 2e-3
    assert abs(float(run["drift"])) < 1e-3
    print_table(run)
    printed = capsys.readouterr().out
    assert "drift of the conserved energy" in printed
    assert "LennardJones, VelocityVerlet (NVE), units lj" in printed


def test_a_correlation_time_is_a_time_with_its_error_and_unit(capsys):
    run = simkit.run(fluid(time__steps=400, time__dt=0.002, save__every=5))
    expected = of_series(run["T_path"].values[:, :, None])
    for figure, samples in (("", expected.tau), ("_stderr", expected.tau_stderr)):
        time = run[f"T_correlation_time{figure}"]
        assert float(time) == pytest.approx(0.01 * float(samples[0]), rel=1e-12)
        assert time.attrs["units"] == run["time"].attrs["units"]
    print_table(run)
    printed = capsys.readouterr().out
    assert "correlated for [tau]" in printed
    assert with_error(float(run["T_correlation_time"]), float(run["T_correlation_time_stderr"])) in printed


@pytest.mark.more
def test_a_stage_that_minimises_is_followed_by_motion_at_the_temperature():
    system = {
        "random": {"count": 60, "density": 0.4, "least_distance": 0.5},
        "velocities": {"temperature": 0.7},
    }
    observe = {"T": "temperature", "U": "potential_energy/atoms"}
    run = simkit.run(
        fluid(system=system, stages={"minimise": {"solver": "FIRE", "steps": 60}}, observe=observe)
    )
    assert run["time"].values.tolist() == pytest.approx([0, 0.04, 0.08, 0.12, 0.16])
    assert float(run["T_path"][0, 0]) == pytest.approx(0.7, rel=1e-12)
    start = simkit.run(fluid(system=system, observe=observe, time__steps=0))
    assert float(run["U_path"].max()) < 0 < float(start["U_mean"])


@pytest.mark.more
def test_the_time_of_a_curve_begins_with_its_stage():
    """The bath is hot as long as the second stage lasts, and cold after that."""
    baths = {"cold": 0.7, "hot": "bath"}
    stages = {
        name: {"solver": {"type": "BAOAB", "temperature": bath, "friction": 10.0}, "steps": 97}
        for name, bath in baths.items()
    }
    curves = {"bath": {"times": [0, 0.39, 0.4], "values": [5.0, 5.0, 0.5], "outside": "hold"}}
    run = simkit.run(fluid(stages=stages, curves=curves, observe={"T": "temperature"}))
    # Of 108 particles the standard deviation is 0.4.
    assert 3 < float(run["T_path"][0, 0]) < 7


def test_what_blows_up_names_the_particle_and_the_step():
    particle = r"particle \d+ \(counted from 0\)"
    what = rf"^step \d+ of 40 blew up: {particle} moves by .* or check the units; dt is 0.5 here; before, the"
    with pytest.raises(NumericalError, match=what):
        simkit.run(fluid(time__dt=0.5))


@pytest.mark.parametrize(
    ("source", "number"),
    [
        ({"lattice": {"type": "fcc", "cells": 3, "density": 50}}, "lattice.density, 50, may be too high"),
        ({"lattice": {"type": "fcc", "cells": 3, "spacing": 0.5}}, "lattice.spacing, 0.5, may be too small"),
        (
            {"random": {"count": 9, "density": 1.0, "least_distance": 0.1}},
            "random.density, 1, may be too high",
        ),
    ],
)
def test_what_blows_up_at_once_names_the_number_that_may_be_wrong(source, number):
    with pytest.raises(NumericalError, match=rf"; if that is too close, system\.{number}$"):
        simkit.run(fluid(system=source | {"velocities": {"temperature": 1.0}}))


@pytest.mark.parametrize(("distance", "apart"), [(0.92, True), (0.5, False)])
def test_a_smaller_step_is_the_remedy_where_no_particles_overlap(tmp_path, distance, apart):
    (tmp_path / "a.xyz").write_text(f"2\n\nA 0 0 0\nA {distance} 0 0\n")
    system = {"file": str(tmp_path / "a.xyz"), "box": {"sides": [6, 6, 6]}}
    with pytest.raises(NumericalError) as caught:
        simkit.run(fluid(system=system, time__dt=1.0))
    assert ("; no particles overlap, so take a smaller time step" in str(caught.value)) == apart


def test_what_blows_up_in_a_stage_names_it_and_counts_from_its_beginning():
    with pytest.raises(NumericalError, match=r"^step \d of 40 of the stage run blew up: particle"):
        simkit.run(fluid(stages={"gentle": {"dt": 1e-4, "steps": 30}}, time__dt=0.5))


def test_functions_without_errors_are_below_the_table():
    run = simkit.run(fluid(observe={"g": {"rdf": {"bins": 10, "max": 2.0, "every": 4}}}))
    unknown = np.isnan(run["g_stderr"].values)
    assert 0 < unknown.sum() < 10
    (line,) = [line for line in closing_lines(run) if line.startswith("error of g")]
    assert line.startswith(f"error of g ({unknown.sum()} of 10 values) unknown: ")
    assert "run " in line


def test_particles_that_overlap_at_the_start_are_named_with_their_distance(tmp_path):
    (tmp_path / "a.xyz").write_text("4\n\nA 0 0 0\nA 0 2 0\nA 0 0 2\nA 0.3 0 0\n")
    system = {"file": str(tmp_path / "a.xyz"), "box": {"sides": [6, 6, 6]}}
    with pytest.raises(
        NumericalError,
        match=r"the closest were the particles on lines 3 and 6 of a\.xyz, at a distance of 0\.3$",
    ):
        simkit.run(fluid(system=system))
