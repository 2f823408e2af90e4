"""Derivatives of averages of molecular dynamics from files: what is refused, datasets, tables, commands."""

import csv
import io
import json

import numpy as np
import pytest
import xarray as xr
import yaml
from md_examples import fluid
from typer.testing import CliRunner

import simkit
from simkit import InputError, plot_dataset, read_dataset
from simkit.cli import app
from simkit.derivatives.table import print_table
from simkit.results.variants import one_variant

pytestmark = pytest.mark.more

BATH = {"type": "BAOAB", "temperature": 1.2, "friction": 2.0}
CURVE = {"bath": {"times": [0, 1], "values": [2.0, 1.0], "outside": "hold"}}
SMOOTH = {"potential__truncation": "shifted_force"}


def studied(wrt=("epsilon",), of=None, **changes):
    section = {"wrt": list(wrt)} | ({"of": of} if of else {})
    return fluid(**{"solver": BATH, "sensitivity": section} | changes)


def problem(experiment) -> str:
    with pytest.raises(InputError) as caught:
        simkit.sensitivity(experiment)
    (line,) = caught.value.problems
    return line


REFUSED = {
    "constant energy": (
        studied(solver={"type": "VelocityVerlet"}),
        "sensitivity: fluctuations give derivatives at constant temperature, and VelocityVerlet keeps the "
        "energy; take BAOAB, NoseHooverChains, StochasticVelocityRescaling or BrownianDynamics",
    ),
    "a curve": (
        studied(solver=BATH | {"temperature": "bath"}, curves=CURVE),
        "sensitivity: needs a constant temperature, and that of the solver follows a curve; let a stage",
    ),
    "no steps": (studied(time={"steps": 0}), "sensitivity: needs averages over a run, and time.steps is 0"),
    "a step at the cutoff": (
        studied(potential__truncation="plain"),
        "sensitivity: with truncation: plain the energy jumps at the cutoff, which the motion does not feel",
    ),
    "a cutoff with a force": (
        studied(["cutoff"]),
        "sensitivity.wrt: cutoff moves the cutoff, where the force jumps; take truncation: shifted_force",
    ),
    "a size with its cutoff": (
        studied(["size"], constants={"size": 1.0}, potential__sigma="size", potential__cutoff="2*size"),
        "sensitivity.wrt: size moves the cutoff, where the force jumps; take truncation: shifted_force",
    ),
    "a density": (
        studied(["rho"], constants={"rho": 0.8}, system__lattice__density="rho"),
        "sensitivity.wrt: rho moves system.lattice.density, and fluctuations give derivatives by the "
        "potential and the temperature; compare variants at two values of it",
    ),
    "a friction": (
        studied(["friction"]),
        "sensitivity.wrt: friction moves solver.friction, and fluctuations",
    ),
    "a step length": (
        studied(["h"], constants={"h": 0.004}, time__dt="h"),
        "sensitivity.wrt: h moves time.dt, and fluctuations",
    ),
    "what has no mean": (
        studied(observe={"C": "conserved_energy"}),
        "sensitivity: C names conserved_energy, which has no mean in a heat bath; name total_energy",
    ),
    "a jump": (
        studied(observe={"C": "potential_energy > -600"}),
        "sensitivity: C jumps as epsilon moves what is in it, which its derivative would miss; compare",
    ),
    "nothing": (
        studied(observe={"g": {"rdf": {"max": 2.0}}}),
        "sensitivity: nothing to differentiate; add an expression to observe",
    ),
    "no section": (
        fluid(solver=BATH),
        "sensitivity: is missing; say what to differentiate with respect to, as in sensitivity: "
        "{wrt: [epsilon]}",
    ),
    "unknown": (studied(["epsilom"]), "sensitivity.wrt[0]: unknown name 'epsilom'; did you mean 'epsilon'?"),
    "twice": (
        studied(["epsilon", "potential.epsilon"]),
        "sensitivity.wrt[1]: potential.epsilon is epsilon, which is there already",
    ),
    "unknown observable": (
        studied(of=["V"], observe={"P": "pressure"}),
        "sensitivity.of[0]: unknown name 'V'",
    ),
    "a function": (
        studied(of=["g"], observe={"P": "pressure", "g": {"rdf": {"max": 2.0}}}),
        "sensitivity.of[0]: g is no single number; only expressions have derivatives",
    ),
    "a method": (
        studied(sensitivity={"wrt": ["epsilon"], "method": "score"}),
        "sensitivity.method: unknown key; in molecular dynamics there is one, fluctuations",
    ),
}


@pytest.mark.parametrize(("experiment", "message"), REFUSED.values(), ids=REFUSED)
def test_what_fluctuations_do_not_give_is_refused(experiment, message):
    assert problem(experiment).startswith(message)


@pytest.mark.slow
def test_a_jump_is_no_obstacle_where_only_the_temperature_moves():
    found = simkit.sensitivity(studied(["temperature"], observe={"C": "potential_energy > -600"}))
    assert np.isfinite(float(found["C_derivative"][0]))


def test_a_number_at_the_end_of_its_range_has_a_derivative():
    """An epsilon of 0: the energy is proportional to it, so that it has the slope of a tiny one."""
    experiment = studied(["epsilon"], potential__epsilon=0.0, observe={"U": "potential_energy"})
    found, tiny = (
        simkit.sensitivity(experiment),
        simkit.run(experiment, overrides={"potential.epsilon": 1e-9}),
    )
    assert float(found["U_mean"]) == 0
    assert float(found["U_derivative"][0]) == pytest.approx(float(tiny["U_mean"]) * 1e9, rel=1e-5)


VARIANTS = {"cold": None, "warm": {"solver.temperature": 1.5}}


@pytest.fixture(scope="module")
def found() -> xr.Dataset:
    experiment = studied(["epsilon", "T0"], constants={"T0": 1.2}, time__steps=80, save__every=1, **SMOOTH)
    experiment["solver"] = BATH | {"temperature": "T0"}
    return simkit.sensitivity(experiment | {"variants": {"cold": None, "warm": {"constants.T0": 1.5}}})


@pytest.mark.slow
def test_the_dataset_is_like_that_of_an_ensemble(found, tmp_path):
    one = one_variant(found, "warm")
    assert found["P_derivative"].dims == ("variant", "parameter")
    assert one["P_derivative"].dims == ("parameter",)
    assert list(one["parameter"].values) == ["epsilon", "T0"]
    assert list(one["parameter_value"].values) == [1.0, 1.5]
    assert list(one["parameter_unit"].values) == ["epsilon", ""]
    assert one["P_mean"].attrs["units"] == "epsilon/sigma^3"
    assert set(one["P_derivative_estimator"].values) == {"fluctuations"}
    assert one.attrs["quantities"] == "T P U E"
    assert one.attrs["solver"] == "BAOAB"
    for ending in ("zarr", "nc"):
        simkit.write_dataset(found, tmp_path / f"a.{ending}")
        back = read_dataset(tmp_path / f"a.{ending}")
        np.testing.assert_array_equal(back["P_derivative"], found["P_derivative"])


def test_errors_that_are_unknown_say_why_and_are_no_numbers(found):
    out = io.StringIO()
    print_table(found, out)
    text = out.getvalue()
    assert text.startswith("LennardJones, BAOAB, cold: derivatives of means; ± is one standard error\n")
    assert " ± ? " in text
    reasons = [line for line in text.splitlines() if line.startswith("error of ")]
    assert any("autocorrelation times of data, at least 50 are needed" in line for line in reasons)
    assert "108 particles × 80 steps in " in text
    unknown = np.isnan(found["P_derivative_stderr"].values)
    assert unknown.any()
    np.testing.assert_array_equal(unknown, found["P_derivative_unknown"].values != "")


def test_an_elasticity_has_a_question_mark_where_the_error_of_the_mean_is_unknown(found):
    """Though that of the derivative is known: an elasticity is a quotient of both."""
    one, name = one_variant(found, "cold"), "P_derivative"
    length = one[name].size
    known = one.assign(
        {
            "P_mean": one["P_mean"].assign_attrs(stderr_unknown="too short"),
            "P_mean_stderr": xr.full_like(one["P_mean_stderr"], np.nan),
            f"{name}_stderr": xr.ones_like(one[name]),
            f"{name}_unknown": (one[name].dims, [""] * length),
        }
    )
    known.attrs["quantities"] = "P"
    out = io.StringIO()
    print_table(known, out)
    rows = [line for line in out.getvalue().splitlines() if "fluctuations" in line]
    assert len(rows) == length
    cells = [[cell.strip() for cell in line.split("│")] for line in rows]
    assert all(derivative.endswith("± 1.00") for _, _, _, derivative, *_ in cells)
    assert all(elasticity.endswith("± ?") for _, _, _, _, elasticity, *_ in cells)


def test_the_picture_has_bars_for_each_variant(found):
    figure = plot_dataset(found)
    assert "LennardJones, BAOAB: what the mean depends on" in figure.get_suptitle()
    titles = [axes.get_title(loc="right") for axes in figure.axes]
    assert titles == ["cold", "warm"] * 4


def test_the_command_prints_json_and_a_table_and_writes_nothing_of_a_run(tmp_path):
    file = tmp_path / "fluid.yaml"
    experiment = studied(time__steps=80, save__end=str(tmp_path / "end.xyz"), **SMOOTH)
    file.write_text(yaml.safe_dump(experiment | {"output": "run.zarr"}))
    arguments = ["sensitivity", str(file), "--wrt", "temperature", "--wrt", "sigma"]
    result = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "a.csv"), "--no-plot", "--json"])
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    pressure = content["quantities"]["P"]
    assert list(pressure["derivatives"]) == ["temperature", "sigma"]
    own = pressure["derivatives"]["sigma"]
    assert own["estimator"] == "fluctuations"
    assert own["elasticity"] == pytest.approx(own["derivative"] / pressure["mean"])
    assert (own["stderr"] is None) == ("stderr_unknown" in own)
    assert (own["elasticity_stderr"] is None) == (own["stderr"] is None or pressure["stderr"] is None)
    with (tmp_path / "a.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    (row,) = [row for row in rows if (row["quantity"], row["wrt"]) == ("P", "sigma")]
    assert float(row["value"]) == own["derivative"]
    assert {each.name for each in tmp_path.iterdir()} == {"fluid.yaml", "a.csv"}
    assert "nothing is written: output: run.zarr is for" in CliRunner().invoke(app, arguments).stderr
