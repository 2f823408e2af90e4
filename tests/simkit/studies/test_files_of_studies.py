"""Files and commands of studies of uncertain experiments."""

import json
import math

import pytest
import yaml
from study_examples import NOISY
from typer.testing import CliRunner

import simkit
from simkit import InputError, OutputError, load, uncertainty
from simkit.cli import app
from simkit.distributions import Normal, Uniform
from simkit.studies.methods import NO_INFLUENCE
from simkit.studies.plan import load_uncertain

pytestmark = pytest.mark.more


class TestFiles:
    def test_both_spellings_and_both_places_mean_the_same(self):
        loaded = load_uncertain(NOISY)
        short = yaml.safe_load(NOISY)
        short["constants"]["theta"] = {"normal": [1, 0.5]}
        assert load_uncertain(short).distributions == loaded.distributions
        assert loaded.simulation.experiment.constants == {"theta": 1.0, "k": 2.0, "spare": 0.5}
        named = {
            "model": {"type": "GBM", "mu": 0.05, "sigma": {"uniform": [0.1, 0.3]}},
            "initial": {"S": 100},
            "time": {"t1": 1, "steps": 4},
        }
        result = load_uncertain(named)
        assert list(result.distributions) == ["sigma"]
        assert result.simulation.experiment.constants == {"sigma": 0.2}

    def test_the_resolved_configuration_gives_the_same_study(self):
        loaded = load_uncertain(uncertainty(NOISY).attrs["configuration"])
        assert loaded.resolved() == load_uncertain(NOISY).resolved()
        assert loaded.distributions == load_uncertain(NOISY).distributions

    def test_run_refuses_what_is_uncertain_with_the_remedy(self):
        for take in (load, simkit.run):
            with pytest.raises(
                InputError,
                match=r"constants.theta: study this file by `simkit uncertainty`, .*constants.theta=NUMBER",
            ):
                take(NOISY)
        numbers = {f"constants.{name}": 1 for name in ("theta", "k", "spare")}
        assert load(NOISY, numbers).experiment.constants["k"] == 1

    def test_a_budget_below_the_first_runs_is_refused(self, tmp_path):
        (tmp_path / "noisy.yaml").write_text(NOISY)
        budget = {"uncertainty.width": 0.1, "uncertainty.budget": 9}
        where = r"uncertainty.budget: must be at least .* runs, 10,240 \(.* × 5 runs of 4 paths\), got 9$"
        with pytest.raises(InputError, match=where):
            simkit.uncertainty(tmp_path / "noisy.yaml", overrides=budget)

    def test_command(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "noisy.yaml").write_text(NOISY)
        run = CliRunner().invoke
        result = run(app, ["uncertainty", "noisy.yaml", "--out", "noisy.nc"])
        assert result.exit_code == 0, result.output
        for text in ("no influence: nothing", "± ", "4 replicates of 128 points, 4 paths each: 10,240 runs"):
            assert text in result.output
        assert "y: " in result.output
        assert (tmp_path / "noisy.png").stat().st_size > 10_000
        assert run(app, ["plot", "noisy.nc", "--out", "again.png"]).exit_code == 0
        again = run(app, ["uncertainty", "noisy.yaml", "--out", "noisy.nc"])
        assert (again.exit_code, "exists already" in again.output) == (4, True)
        result = run(app, ["uncertainty", "noisy.yaml", "--json", "--set", "uncertainty.of=[z]"])
        content = json.loads(result.stdout)
        assert list(content["observables"]) == ["z"]
        assert content["observables"]["z"]["parameters"]["k"] == {
            "first": {"value": 0.0, "halfwidth": None},
            "total": {"value": 0.0, "halfwidth": None},
            "note": NO_INFLUENCE,
        }
        valid = run(app, ["validate", "noisy.yaml"])
        assert "valid" in valid.output
        assert "3 uncertain parameters" in valid.output
        refused = run(app, ["run", "noisy.yaml"])
        assert (refused.exit_code, "simkit uncertainty" in refused.output) == (2, True)

    def test_a_study_that_cannot_be_written_is_not_started(self, tmp_path):
        with pytest.raises(OutputError, match="does not exist"):
            uncertainty(NOISY, out=tmp_path / "none" / "x.nc")

    @pytest.mark.parametrize("method", ["morris", "rank", "propagate"])
    def test_each_method_has_a_table_and_a_picture(self, method, tmp_path):
        from simkit import save_picture
        from simkit.studies.table import print_table

        changes = {"uncertainty.method": method, "uncertainty.points": 32, "uncertainty.of": "[y, z]"}
        study = uncertainty(NOISY, overrides=changes)
        save_picture(study, tmp_path / "picture.png")
        assert (tmp_path / "picture.png").stat().st_size > 10_000
        with (tmp_path / "table.txt").open("w", encoding="ascii") as file:
            print_table(study, file)
        text = (tmp_path / "table.txt").read_text()
        assert {"morris": "mean |effect|", "rank": "partial", "propagate": "0.95 quantile"}[method] in text
        if method != "propagate":
            assert (
                float(
                    study[{"morris": "mu", "rank": "spearman"}[method]].sel(observable="y", parameter="spare")
                )
                == 0
            )


def test_a_distribution_may_use_constants_that_are_not_uncertain():
    text = (
        "constants: {a: {uniform: [-pi*turns, half]}, turns: 2, half: turns/2, b: {normal: [EXPR, 1]}}\n"
        "model: {ode: {x: 0}}\ninitial: {x: 0}\ntime: {t1: 1, steps: 1}\nobserve: {f: a + b}\n"
    )
    distributions = load_uncertain(text.replace("EXPR", "half")).distributions
    assert distributions == {"a": Uniform(-2 * math.pi, 1.0), "b": Normal(1.0, 1.0)}
    with pytest.raises(InputError, match=r"constants.b: normal: mean must be .* unknown name 'a'"):
        load_uncertain(text.replace("EXPR", "a"))
