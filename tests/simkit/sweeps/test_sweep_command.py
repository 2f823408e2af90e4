"""`simkit sweep`: its options, table, files and mistakes."""

import csv
import json

import pytest
from command import files_in, simkit_command

import simkit
from simkit import InputError
from simkit.cli.run import Execution
from simkit.sweeps.plan import read_over

FILE = """\
model: {type: GBM, mu: 0.05, sigma: 0.2}
initial: {S: 100.0}
time: {t1: 1.0, steps: 4}
ensemble: {paths: 200, seed: 1}
observe: {call: "maximum(S - 100, 0)"}
"""
LIST = "sweep: {over: {model.sigma: [0.1, 0.3]}}\n"


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gbm.yaml").write_text(FILE)
    (tmp_path / "list.yaml").write_text(FILE + LIST)
    return tmp_path / "gbm.yaml"


def test_options_are_ranges_or_values_with_commas():
    assert read_over(["model.sigma=0.1:0.5:9"]) == {"model.sigma": "0.1:0.5:9"}
    assert read_over(["solver=EulerMaruyama, Milstein", "a=1,2.5"]) == {
        "solver": ["EulerMaruyama", "Milstein"],
        "a": [1, 2.5],
    }
    assert read_over(["a=[1, 2]", "b=[1, 2], [3, 4]", "c={x: 1, y: 2}, null"]) == {
        "a": [1, 2],
        "b": [[1, 2], [3, 4]],
        "c": [{"x": 1, "y": 2}, None],
    }
    assert read_over([" a = 1e-3:1:4:log"]) == {"a": "1e-3:1:4:log"}
    assert read_over(["a=x:y"]) == {"a": "x:y"}  # for the section to refuse
    assert read_over(["a=0.5-0.1", "b=1-1", "c=-1:1:3"]) == {"a": ["0.5-0.1"], "b": ["1-1"], "c": "-1:1:3"}


def test_the_table_has_a_column_for_each_key_and_the_files_all_points(file):
    options = ("--over", "model.sigma=0.1:0.3:3", "--over", "solver=EulerMaruyama,Milstein")
    result = simkit_command("sweep", "gbm.yaml", *options, "--out", "s.csv", "--no-plot")
    assert result.exit_code == 0, result.output
    head = next(line for line in result.output.splitlines() if "mean" in line)
    assert head.index("model.sigma") < head.index("solver") < head.index("mean")
    assert "minus the first" in head
    assert "6 points x 200 paths" in result.output.replace("×", "x")
    with open("s.csv") as text:
        lines = list(csv.DictReader(text))
    ends = [line for line in lines if line["quantity"] == "call" and float(line["time"]) == 1]
    assert [(line["model.sigma"], line["solver"]) for line in ends] == [
        (sigma, solver) for sigma in ("0.1", "0.2", "0.3") for solver in ("EulerMaruyama", "Milstein")
    ]
    alone = simkit.run("gbm.yaml", overrides={"model.sigma": 0.3})
    assert float(ends[4]["mean"]) == float(alone["call_mean"])


def test_json_has_each_point_by_its_name(file):
    result = simkit_command("sweep", "list.yaml", "--json", "--out", "s.zarr")
    content = json.loads(result.stdout)
    assert list(content["variants"]) == ["model.sigma=0.1", "model.sigma=0.3"]
    assert files_in(file.parent) >= {"s.zarr", "s.png"}


def test_a_run_of_a_file_is_not_resumed_as_its_sweep(file):
    """What the record is of stands in it."""
    from simkit.sweeps.plan import load_sweep

    points = load_sweep("list.yaml").points
    assert points.identity("sweep") != points.identity("run")


def test_dry_run_says_how_much_it_would_be(file):
    result = simkit_command("sweep", "list.yaml", "--dry-run")
    assert result.exit_code == 0
    assert "2 points, each: 200 paths" in result.output


MISTAKES = {
    "no sweep": ((), "gbm.yaml: sweep: is missing; say which values of which keys, as in --over KEY"),
    "unknown key": (
        ("--over", "model.sigmma=0.1,0.2"),
        "--over model.sigmma: unknown parameter of GBM; did you mean 'sigma'?",
    ),
    "empty": (("--over", "model.sigma="), "--over 'model.sigma=': expected KEY=VALUES"),
    "no sign": (("--over", "model.sigma"), "--over 'model.sigma': expected KEY=VALUES"),
    "difference": (
        ("--over", "model.sigma=0.1-0.5"),
        "--over model.sigma: a range is first:last:count, as in 0.1:0.5:9, and a list 0.1,0.5; got 0.1-0.5",
    ),
    "two dots": (
        ("--over", "model.sigma=0.1..0.5"),
        "--over model.sigma: a range is first:last:count, as in 0.1:0.5:9, and a list 0.1,0.5; got 0.1..0.5",
    ),
    "difference with blanks": (
        ("--over", "model.sigma=.1 - .5"),
        "a range is first:last:count, as in .1:.5:9",
    ),
    "twice": (
        ("--over", "model.sigma=1,2", "--over", "model.sigma=3,4"),
        "--over model.sigma: is given twice",
    ),
    "one": (
        ("--over", "model.sigma=0.1:0.5:1"),
        "--over model.sigma: must have from 2 to 100000 values",
    ),
    "no range": (
        ("--over", "model.sigma=0.1:0.1:5"),
        "sigma: must end with another number than it begins with",
    ),
    "log of 0": (
        ("--over", "model.sigma=0:1:5:log"),
        "sigma: must begin and end with numbers of one sign",
    ),
    "not whole": (
        ("--over", "model.sigma=0:1:2.5"),
        "sigma: must be a range of two numbers and how many",
    ),
    "same value": (("--over", "model.sigma=0.1,0.1"), "model.sigma: has the value 0.1 twice"),
    "same number": (("--over", "model.sigma=1,2,1.0"), "model.sigma: has the value 1.0 twice"),
    "same text": (("--over", "save.times=1,'1'"), "save.times: has the value 1 twice"),
    "nested": (
        ("--over", "model.sigma=0.1,0.2", "--over", "model={type: GBM},{type: CIR}"),
        "model.sigma: is swept twice",
    ),
    "output": (("--over", "output=a.zarr,b.zarr"), "output: is the same at all points, and cannot be swept"),
    "paths": (
        ("--over", "ensemble.paths=100,200"),
        "has another number of paths: 200, and ensemble.paths=100 has 100",
    ),
    "zip": (
        ("--over", "model.sigma=0.1,0.2", "--over", "model.mu=1,2,3", "--zip"),
        "sweep.zip: takes lists of one length, side by side; here there are 2 of model.sigma, 3 of model.mu",
    ),
    "many": (
        ("--over", "model.sigma=0:1:1000", "--over", "model.mu=0:1:1000"),
        "has 1,000,000 combinations, and 100,000 are the most",
    ),
    "value": (
        ("--over", "model.sigma=0.1,-0.1"),
        "at model.sigma=-0.1: --over model.sigma: must be >= 0",
    ),
    "set": (
        ("--over", "model.sigma=0.1,0.2", "--set", "model.sigma=0.3"),
        "--set model.sigma: changes nothing, since the sweep varies it; leave it out, here or in the sweep\n",
    ),
    "threads": (
        ("--over", "ensemble.threads=1,2"),
        "gbm.yaml: sweep.over: ensemble.threads: says how to compute, so that all points would be the same; "
        "give it once, as in --set ensemble.threads=1\n",
    ),
    "memory": (("--over", "ensemble.memory=1GB,2GB"), "as in --set ensemble.memory=1GB"),
    "cluster": (("--over", "cluster=local:1,local:2"), "cluster: says how to compute"),
    "timeout": (("--over", "cluster.timeout=10,20"), "cluster.timeout: says how to compute"),
    "inline": (
        ("--over", "model.k=1,2", "--set", "model={ode: {S: -k*S}, parameters: {k: 1.0}}"),
        "--over model.k: unknown key; did you mean model.parameters.k?",
    ),
    "no value": (
        ("--over", "model.sigma=0.1,0.2", "--set", "observe.call="),
        "--set observe.call: has no value; to remove the key write observe.call=null",
    ),
    "variants": (
        ("--over", "model.sigma=0.1,0.2", "--set", "variants={a: {model.mu: 0.1}}"),
        "variants: a sweep takes one experiment; leave them out",
    ),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_named_with_a_remedy_and_write_nothing(file, case):
    options, message = MISTAKES[case]
    result = simkit_command("sweep", "gbm.yaml", *options, "--out", "s.zarr")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (file.parent / "s.zarr").exists()


@pytest.mark.parametrize(("options", "said"), [((), True), (("--quiet",), False)])
def test_many_points_are_announced_before_they_are_read(file, monkeypatch, options, said):
    """And those of a wrong sweep too, which takes as long."""
    monkeypatch.setattr("simkit.sweeps.plan.MANY", 3)
    many = simkit_command("sweep", "gbm.yaml", "--over", "model.sigma=0.1,0.2,-1", *options)
    assert many.exit_code == 2
    assert many.stderr.startswith("note: reading 3 points\n") == said
    assert "note:" not in simkit_command("sweep", "gbm.yaml", "--over", "model.sigma=0.1,-1").stderr


def test_a_mistake_in_the_section_has_its_place():
    with pytest.raises(InputError, match=r"<text>:6:15: sweep.over: model.sigma must be a list such as"):
        simkit.sweep(FILE + "sweep: {over: {model.sigma: 0.1}}\n")
    with pytest.raises(InputError, match=r"<text>:6:9: sweep.ovr: unknown key; did you mean 'over'"):
        simkit.sweep(FILE + "sweep: {ovr: {model.sigma: [0.1, 0.2]}}\n")
    with pytest.raises(InputError, match=r"<text>:6:35: at model.sigma=-1: model.sigma: must be"):
        simkit.sweep(FILE + "sweep: {over: {model.sigma: [0.1, -1]}}\n")


@pytest.mark.parametrize("flag", ["no_plot", "overwrite", "resume", "quiet", "as_json", "dry_run"])
def test_each_option_of_a_run_is_its_own(file, monkeypatch, flag):
    given = []
    monkeypatch.setattr(Execution, "run", lambda how, points, *rest: given.append((how, points)))
    option = "--json" if flag == "as_json" else f"--{flag.replace('_', '-')}"
    result = simkit_command(
        "sweep", "list.yaml", option, "--max-time", "1h", "--out", "s.nc", "--threads", "1"
    )
    assert result.exit_code == 0, result.output
    ((how, points),) = given
    assert how.max_time == 3600
    assert str(how.out) == "s.nc"
    flags = {"no_plot", "overwrite", "resume", "quiet", "as_json", "dry_run"}
    assert {name for name in flags if getattr(how, name)} == {flag}
    assert all(each.threads == 1 for each in points.each.values())
