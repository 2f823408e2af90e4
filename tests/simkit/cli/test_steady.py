"""`simkit steady`: what it prints, writes and ends with."""

import csv
import json
import math

import pytest
import xarray as xr
from command import files_in, simkit_command

import simkit

WELL = """\
model:
  sde: {x: {drift: a*x - x**3, noise: {W: 0.3}}}
  parameters: {a: 1.0}
initial: {x: 0.1}
time: {t1: 1.0, steps: 10}
ensemble: {seed: 4}
variants: {left: {initial.x: -0.1}, right: {model.parameters.a: 4.0}}
output: well.zarr
"""
ISOMERS = """\
model:
  reactions: {there: {equation: A -> B, rate: k}, back: {equation: B -> A, rate: 0.5}}
  parameters: {k: 2.0}
initial: {A: 10, B: 1}
time: {t1: 1.0, unit: h}
"""
SIR = """\
model: {type: SIR, beta: 0.3, gamma: 0.1, N: 1000}
initial: {S: 990, I: 10, R: 0}
time: {t1: 100}
"""
PREDATORS = """\
model: {ode: {x: x - x*y, y: x*y - y}}
initial: {x: 2.0, y: 1.0}
time: {t1: 1.0, steps: 10}
"""
NONE = """\
model: {ode: {x: 1 + x**2}}
initial: {x: 0.5}
time: {t1: 1.0, steps: 10}
"""


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in (("well", WELL), ("isomers", ISOMERS), ("none", NONE)):
        (tmp_path / f"{name}.yaml").write_text(text)
    return tmp_path


def steady(*arguments: str, **options):
    return simkit_command("steady", *arguments, **options)


def test_the_table_has_values_with_errors_stability_and_totals():
    result = steady("isomers.yaml", "--derivatives")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "Reactions of A, B: steady state of the rate equation; ± is the estimated error"
    (row,) = (line for line in lines if "1: stable node" in line)
    name, value, rate, eigenvalue, time = (cell.strip() for cell in row.strip("│").split("│")[1:])
    assert (name, rate) == ("A", "0")
    assert float(value.split(" ± ")[0]) == pytest.approx(2.2, abs=1e-14)
    assert 0 < float(value.split(" ± ")[1]) < 1e-13
    assert float(eigenvalue.split(" ± ")[0]) == pytest.approx(-2.5)
    assert float(time.split(" ± ")[0]) == pytest.approx(0.4)
    (row,) = (line for line in lines if "│ 1 " in line and "A" in line)
    assert float(row.split("│")[4].split(" ± ")[0]) == pytest.approx(-11 * 0.5 / 2.5**2)
    assert (
        "Reactions of A, B: steady state of the rate equation, derivatives; ± is the estimated error" in lines
    )
    assert "conserved, as at the start: A + B = 11; eigenvalues are those at the same totals" in lines
    assert any(line.startswith("the model reaches steady state 1 from its") for line in lines)
    assert lines[-2].endswith(" h")


@pytest.mark.parametrize("a", ["0.001", "1e-6", "1e-9"])
def test_digits_of_the_table_end_at_the_first_digit_of_the_error(files, a):
    """Of 1 + sqrt(a), which is known less well the nearer it is to a fold; a zero at the end is left out."""
    (files / "none.yaml").write_text(NONE.replace("1 + x**2", f"{a} - 1 + 2*x - x**2"))
    lines = steady("none.yaml", "--set", "initial.x=2").stdout.splitlines()
    (row,) = (line for line in lines if "1: stable node" in line)
    value, error = (text.strip() for text in row.strip("│").split("│")[2].split(" ± "))
    assert len(error.partition("e")[0]) == 1
    assert len(value.partition(".")[2]) <= -int(error.partition("e")[2])
    assert abs(float(value) - 1 - math.sqrt(float(a))) <= float(error)


def test_json_and_python_have_the_same_figures(files):
    printed = json.loads(steady("isomers.yaml", "--json", "--wrt", "k").stdout)
    dataset = simkit.steady(files / "isomers.yaml", "k")
    (state,) = printed["steady_states"]
    assert state["values"]["B"]["value"] == float(dataset["value"].sel(root=1, quantity="B"))
    own = state["values"]["B"]["derivatives"]["k"]
    assert own["derivative"] == float(dataset["derivative"].sel(root=1, quantity="B", parameter="k"))
    assert state["eigenvalues"][0]["real"] == float(dataset["eigenvalue_real"][0, 0])
    assert (state["kind"], state["stable"], state["reached"]) == ("stable node", True, True)
    assert printed["conserved"] == {"A + B": 11.0}
    assert (printed["output"], printed["picture"]) == (None, None)


def test_variants_are_searched_side_by_side_and_written(files):
    result = steady("well.yaml", "--search", "12", "--from", "x=-3:3", "--out", "found.zarr")
    assert result.exit_code == 0, result.output
    assert "Stochastic equations of x, left: fixed point of the drift" in result.stdout
    assert result.stderr == "wrote found.zarr\n"
    assert files_in(files) == {"found.zarr", "isomers.yaml", "none.yaml", "well.yaml"}
    with xr.open_zarr(files / "found.zarr") as dataset:
        values = dataset["value"].sel(quantity="x").values
        for row, ends in zip(values, ([-1, 0, 1], [2, -2, 0]), strict=True):
            assert row.tolist() == pytest.approx(ends, abs=1e-12)
    refused = steady("well.yaml", "--out", "found.zarr")
    assert refused.exit_code == 4
    assert "found.zarr: exists already" in refused.stderr


def test_one_variant_from_standard_input_as_a_table(files):
    result = steady(
        "-", "--variant", "left", "--out", "found.csv", "-q", "--set", "model.parameters.a=9", input=WELL
    )
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    with open(files / "found.csv") as file:
        (value, *rest) = csv.DictReader(file)
    assert (value["variant"], value["quantity"], value["figure"]) == ("left", "x", "value")
    assert float(value["value"]) == pytest.approx(-3)
    assert [row["figure"] for row in rest] == ["real", "imag"]


def test_the_output_of_the_file_is_not_written():
    result = steady("well.yaml", "--variant", "left")
    assert result.exit_code == 0
    assert result.stderr.startswith(
        "note: nothing is written: output: well.zarr is for the dataset of `simkit"
    )


@pytest.mark.parametrize(
    ("arguments", "code"), [(("well.yaml", "--variant", "left", "--wrt", "q"), 2), (("none.yaml",), 3)]
)
def test_nothing_is_said_of_the_output_where_nothing_is_found(arguments, code):
    result = steady(*arguments, "--set", "output=o.zarr")
    assert result.exit_code == code
    assert "nothing is written" not in result.stderr


def test_no_steady_state_is_exit_code_3():
    result = steady("none.yaml", "--json")
    assert result.exit_code == 3
    error = json.loads(result.stdout)["error"]
    assert error["kind"] == "NumericalError"
    assert error["message"].startswith("no steady state was found; the best point is x = ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.yaml", "--from", "x=a:2"), "--from 'x=a:2': expected NAME=LOW:HIGH, as in --from x=0:2"),
        (
            ("none.yaml", "--from", "x=0:2"),
            "--from x (in Python ranges): is for a search; give how many starts, too",
        ),
        (("none.yaml", "--search", "0"), "must be at least 1, got 0"),
        (("none.yaml", "--at", "now"), "must be a number, got 'now'"),
        (("none.yaml", "--search", "5", "--wrt", "q"), "wrt: unknown name 'q'"),
        (
            ("none.yaml", "--set", "model.ode.x=sin(t)"),
            "none.yaml:1:8: model: its equations depend on",
        ),
    ],
)
def test_bad_input_is_exit_code_2_and_writes_nothing(files, arguments, message):
    before = files_in(files)
    result = steady(*arguments, "--out", "found.zarr")
    assert result.exit_code == 2
    assert message in result.stderr
    assert files_in(files) == before


def test_a_table_file_says_what_it_leaves_out():
    result = steady("isomers.yaml", "--out", "found.csv")
    assert result.stderr == (
        "wrote found.csv (without rates of change and conserved totals, which .zarr or .nc holds too)\n"
    )


@pytest.mark.more
def test_one_of_a_continuum_has_a_note_in_place_of_derivatives(files):
    (files / "sir.yaml").write_text(SIR)
    lines = steady("sir.yaml", "--wrt", "beta").stdout.splitlines()
    assert not any("with respect to" in line for line in lines)
    assert any(line.startswith("no derivatives of a state where") for line in lines)


@pytest.mark.more
def test_an_eigenvalue_that_is_zero_within_its_error_prints_as_zero(files):
    lines = steady("none.yaml", "--set", "model.ode.x=-x**3").stdout.splitlines()
    (row,) = (line for line in lines if "│ 1: degenerate" in line)
    assert "(0.0 ± " in row.strip("│").split("│")[-1]


@pytest.mark.more
def test_a_model_that_never_rests_says_for_how_long_it_was_followed(files):
    (files / "predators.yaml").write_text(PREDATORS)
    output = steady("predators.yaml").stdout
    assert "from its initial values the model had not come to rest within a time of " in output


def test_a_picture_is_refused_with_what_to_do(files):
    assert steady("isomers.yaml", "--out", "found.nc", "-q").exit_code == 0
    result = simkit_command("plot", "found.nc")
    assert result.exit_code == 2
    assert "steady states have no picture: draw their `value` along `root`" in result.stderr


def test_an_unstable_state_that_a_symmetric_start_reaches_is_said_to_be_one(files):
    """A switch of two genes, each of which keeps the other off: from equal amounts it stays between."""
    (files / "switch.yaml").write_text(
        "model: {ode: {A: 3/(1 + B**2) - A, B: 3/(1 + A**2) - B}}\n"
        "initial: {A: 0.2, B: 0.2}\ntime: {t1: 10, rtol: 1e-6, atol: 1e-9}\n"
    )
    said = "; it is unstable, and values next to these lead elsewhere"
    lines = steady("switch.yaml").stdout.splitlines()
    assert any("1: saddle" in line for line in lines)
    assert any(line.startswith("the model reaches steady state 1") and line.endswith(said) for line in lines)
    assert said not in steady("switch.yaml", "--set", "initial.A=2").stdout
