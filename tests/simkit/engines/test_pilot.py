"""How long a run will take is known from its first seconds, of which nothing is left."""

import json

import pytest
from command import EXPERIMENT, files_in, simkit_command
from md_examples import fluid

from simkit.engines import pilot
from simkit.engines.loaded import load_each
from simkit.engines.pilot import Pilot

PATHS = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"paths": 200, "seed": 1},
}


@pytest.fixture
def patient(monkeypatch):
    """A busy machine takes its time to compile."""
    monkeypatch.setattr(pilot, "PATIENCE", 600.0)


@pytest.mark.more
@pytest.mark.usefixtures("patient")
def test_a_long_run_is_stopped_and_its_time_is_known():
    large = {"ensemble": {"paths": 4_000_000_000}, "time": {"t1": 1.0, "steps": 1000}}
    stopped = Pilot(load_each(PATHS | large))
    assert stopped.seconds > 600
    assert not stopped.busy


@pytest.mark.usefixtures("patient")
def test_a_short_run_has_been_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    loaded = load_each(fluid(save__trajectory={"every": 10, "file": "a.xyz"}, save__end="end.xyz"))
    assert loaded.files("a.zarr")
    assert Pilot(loaded).seconds > 0
    assert not files_in(tmp_path)


@pytest.mark.usefixtures("patient")
def test_why_it_is_not_known():
    growing = {"model": {"ode": {"x": "x**2"}}, "initial": {"x": 1.0}, "solver": "Euler"}
    failing = Pilot(load_each(growing | {"time": {"t1": 100.0, "steps": 100}}))
    assert failing.seconds is None
    assert failing.why.startswith("it fails: ")


@pytest.mark.usefixtures("patient")
def test_a_bug_is_not_lost(monkeypatch):
    monkeypatch.setattr("simkit.engines.paths.simulate_paths", None)
    with pytest.raises(TypeError, match="not callable"):
        Pilot(load_each(PATHS))


def test_patience_ends(monkeypatch):
    monkeypatch.setattr(pilot, "PATIENCE", 0.0)
    late = Pilot(load_each(PATHS))
    assert (late.seconds, late.busy) == (None, True)
    advice = "what makes it shorter: a smaller time.t1, fewer ensemble.paths, or fewer time.steps"
    assert late.why == f"no part of it is done in 0 seconds; {advice}"
    late._thread.join()


GENE = {
    "on": {"equation": "Off -> On", "rate": 1.0},
    "off": {"equation": "On -> Off", "rate": 1.0},
    "make": {"equation": "On -> On + M", "rate": 1.0},
}
LEAPS = "solver: TauLeaping, which takes many events at once"
GROWS = "; split makes M of M, so that numbers may grow and events come ever faster"


@pytest.mark.parametrize(
    ("change", "advice"),
    [
        ({}, LEAPS),
        ({"solver": "TauLeaping"}, "a larger solver.epsilon"),
        ({"events": {"full": {"when": "M > 9", "set": {"M": 0}}}}, "smaller numbers of molecules"),
        ({"model": {"reactions": GENE | {"split": {"equation": "M -> 2 M", "rate": 1.0}}}}, LEAPS + GROWS),
        ({"solver": {"type": "EulerMaruyama"}, "time": {"t1": 1.0, "steps": 9}}, "fewer time.steps"),
    ],
)
def test_advice_for_a_run_that_takes_long_is_of_its_kind(change, advice):
    """A species grows by a reaction that makes more of it the more there is, not by one that only uses it."""
    gene = {"model": {"reactions": GENE}, "initial": {"Off": 1, "On": 0, "M": 0}, "time": {"t1": 1.0}}
    expected = f"what makes it shorter: a smaller time.t1, fewer ensemble.paths, or {advice}"
    assert load_each(gene | {"ensemble": {"paths": 2}} | change).shorter == expected


def test_one_path_cannot_be_fewer():
    growing = {
        "model": {"ode": {"x": "x"}},
        "initial": {"x": 1.0},
        "time": {"t1": 1.0, "rtol": 1e-6, "atol": 1e-9},
    }
    advice = "a smaller time.t1 or larger tolerances or another solver"
    assert load_each(growing).shorter == f"what makes it shorter: {advice}"
    assert load_each(fluid()).shorter == "what makes it shorter: fewer time.steps or fewer particles"


@pytest.mark.usefixtures("patient")
def test_dry_run_says_how_long(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    assert simkit_command("run", "small.yaml", "--dry-run").stdout.endswith(
        "\nless than a minute on this machine\n"
    )
    assert json.loads(simkit_command("run", "small.yaml", "--dry-run", "--json").stdout)["seconds"] > 0
    kept = simkit_command("run", "small.yaml", "--dry-run", "--set", "output=null").stdout
    assert kept.endswith(
        "; nothing but the table is kept: to keep the results give --out FILE.zarr, or output: in the file\n"
    )
    assert files_in(tmp_path) == {"small.yaml"}
