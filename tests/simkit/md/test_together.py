"""Replicas that step together, as lanes of one program."""

import numpy as np
import pytest
import xarray as xr
from shared.md_examples import fluid
from shared.slow_cases import slow_but

import simkit
from simkit.md import preparation, replicas
from simkit.md.together import Together

OPTIONS = {
    "VelocityVerlet": {},
    "BAOAB": {"temperature": 0.9, "friction": 1.0},
    "NoseHooverChains": {"temperature": 0.9, "relaxation_time": 0.1},
    "StochasticVelocityRescaling": {"temperature": 0.9, "relaxation_time": 0.1},
    "BrownianDynamics": {"temperature": 0.9, "friction": 20.0},
}
FUNCTIONS = {
    "T": "temperature",
    "P": "pressure",
    "E": "total_energy",
    "S": "pressure_xy",
    "g": {"rdf": {"bins": 20, "max": 1.5, "every": 20}},
    "d": {"msd": {"every": 1}},
    "v": {"vacf": {"every": 1}},
}
# In quick code programs may differ in the last bits of normals, which are float32: where noise is drawn, runs
# then differ by 1e-8 or so.
SMALL = fluid(system__lattice__cells=2, potential__cutoff=1.5, time__dt=0.002, ensemble__paths=17)


def runs(monkeypatch, experiment, *lanes, command=simkit.run):
    """The run in programs of so many lanes; with 1 each replica is on its own."""
    datasets = []
    for number in lanes:
        monkeypatch.setattr(replicas, "lanes_for", lambda *_, number=number: number)
        datasets.append(command(experiment).drop_vars("state", errors="ignore"))
    return datasets


def assert_agree(a, b, error):
    for name, values in a.data_vars.items():
        if values.dtype.kind == "f":
            # The end is stored in float32.
            tolerance = max(error, 1e-6) if str(name).startswith("end_") else error
            np.testing.assert_allclose(values, b[name], rtol=tolerance, atol=tolerance, err_msg=str(name))
        else:
            np.testing.assert_array_equal(values, b[name], err_msg=str(name))


@pytest.mark.more
def test_each_replica_is_measured_as_it_is_alone(monkeypatch):
    experiment = SMALL | {"observe": FUNCTIONS}
    experiment["potential"] = experiment["potential"] | {"cutoff": 2.0}  # with images
    alone, together = runs(monkeypatch, experiment, 1, 20)
    assert_agree(alone, together, 1e-9)


@pytest.mark.more
@pytest.mark.parametrize("solver", slow_but({"BAOAB"}, OPTIONS))
def test_each_replica_moves_as_it_does_alone(monkeypatch, solver):
    stages = {"rest": {"solver": "FIRE", "steps": 20}, "heat": {"steps": 30}}
    experiment = SMALL | {"solver": {"type": solver, **OPTIONS[solver]}, "stages": stages}
    alone, together = runs(monkeypatch, experiment, 1, 20)
    assert_agree(alone, together, 1e-9 if solver in ("VelocityVerlet", "NoseHooverChains") else 1e-7)


@pytest.mark.more
def test_derivatives_of_averages_and_their_errors_are_those_of_replicas_alone(monkeypatch):
    """By two numbers of the potential and by the temperature."""
    section = {"wrt": ["sigma", "temperature", "epsilon"]}
    experiment = SMALL | {
        "solver": {"type": "BAOAB", "temperature": 0.9, "friction": 5.0},
        "stages": {"heat": {"steps": 100}},
        "time": {"dt": 0.004, "steps": 600},
        "observe": {name: FUNCTIONS[name] for name in "TPE"},
        "sensitivity": section,
    }
    alone, together = runs(monkeypatch, experiment, 1, 20, command=simkit.sensitivity)
    errors = [together[f"{name}_derivative_stderr"] for name in "PE"]
    assert np.isfinite(errors).all()
    assert np.all(np.abs(together["P_derivative"]) > 1e-3)
    assert_agree(alone, together, 1e-5)


@pytest.mark.more
@pytest.mark.user_code
def test_how_many_step_together_changes_no_bit(monkeypatch):
    experiment = SMALL | {"solver": {"type": "BAOAB", **OPTIONS["BAOAB"]}}
    few, many = runs(monkeypatch, experiment, 9, 17)
    xr.testing.assert_identical(few.drop_attrs(), many.drop_attrs())


def test_one_that_blows_up_ends_all_with_its_message(monkeypatch):
    monkeypatch.setattr(preparation, "FEWEST", 3)
    with pytest.raises(simkit.NumericalError, match=r"step \d+ of 40 blew up: particle"):
        simkit.run(SMALL, overrides={"time.dt": 0.5, "ensemble.paths": 3})


def test_the_first_error_ends_all_and_is_raised_by_each():
    from concurrent.futures import ThreadPoolExecutor

    together = Together(3, 3)

    def replica(number):
        def run(lane):
            assert lane.agreed(5 + number) == 5
            if number == 1:
                raise ValueError("of replica 1")
            lane.agreed(1)

        return together.run(number, run)

    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(replica, number) for number in range(3)]
    assert {str(future.exception()) for future in futures} == {"of replica 1"}
