"""Uncertain parameters of experiments: in the file, on the command line, and against exact values."""

import io
import json
import math

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

import simkit
from simkit import InputError, NumericalError, OutputError, load, uncertainty
from simkit.cli import app
from simkit.distributions import Normal, Uniform
from simkit.ensemble import chunks
from simkit.studies.experiments import UNUSED
from simkit.studies.methods import NEVER_CHANGES, NO_INFLUENCE, ONLY_NOISE
from simkit.studies.plan import load_uncertain
from simkit.studies.simulations import simulated_design
from simkit.studies.table import print_table, summary

pytestmark = pytest.mark.more

NOISY = """\
constants:
  theta: {normal: {mean: 1, sd: 0.5}}
  k: {uniform: [1, 3]}
  spare: {uniform: [0, 1]}
model: {sde: {x: {drift: theta, noise: {W: 0.5}}}}
initial: {x: 0}
solver: EulerMaruyama
time: {t1: 1, steps: 4}
observe: {y: k*x, fixed: 2 + 0*x, z: x}
uncertainty: {points: 128, replicates: 4, paths: 4, seed: 3}
"""
GROWTH = """\
model: {ode: {x: mu*x}, parameters: {mu: {normal: [0.3, 0.2]}}}
initial: {x: 1}
time: {t1: 1, steps: 8}
uncertainty: {method: propagate, points: 1024}
"""


EULER = """\
constants: {x0: {uniform: [1, 3]}, k: {uniform: [0.5, 1.5]}}
model: {ode: {x: -k*x}}
initial: {x: x0}
solver: Euler
time: {t1: 1, steps: 4}
uncertainty: {method: propagate, points: 64}
"""


def test_the_step_bias_at_the_centre_of_the_parameters_is_next_to_the_measures():
    """With x0 = 2 and k = 1 four Euler steps give 2 (3/4)^4 instead of 2/e, which no interval covers."""
    dataset, file = uncertainty(EULER), io.StringIO()
    bias, error = (float(dataset[key].sel(observable="x")) for key in ("step_bias", "step_bias_stderr"))
    assert abs(bias - (2 * 0.75**4 - 2 / math.e)) < error < abs(bias)
    print_table(dataset, file)
    assert file.getvalue().splitlines()[0].endswith("; ± is half of an interval of 95 %")
    assert "x: step bias -0.1088 ± 0.0272 (one standard error), at the centre of" in file.getvalue()
    assert summary(dataset)["observables"]["x"]["step_bias"]["value"] == bias


@pytest.mark.parametrize(
    "change",
    [
        {"model": {"type": "GBM", "mu": "k", "sigma": 0.2}, "initial": {"S": 1}, "solver": "ExactSampling"},
        {
            "model": {"reactions": {"decay": {"equation": "A -> 0", "rate": "k"}}},
            "initial": {"A": 20},
            "solver": "DirectMethod",
        },
    ],
)
def test_exact_methods_have_no_step_bias(change):
    settings = {"uncertainty": {"method": "propagate", "points": 16, "paths": 4}, "ensemble": {"paths": 64}}
    times = {"t1": 1} if "reactions" in change["model"] else {"t1": 1, "steps": 4}
    dataset = uncertainty({"constants": {"k": {"uniform": [0.5, 1.5]}}, "time": times} | settings | change)
    assert "step_bias" not in dataset


@pytest.fixture(scope="module")
def sobol():
    return uncertainty(NOISY)


def within(dataset, name, observable, exact, times=3.0, **place):
    value, half = (
        float(dataset[key].sel(observable=observable, **place)) for key in (name, f"{name}_halfwidth")
    )
    return abs(value - exact) <= times * half


@pytest.mark.user_code
def test_indices_and_the_split_of_the_variance_are_exact(sobol):
    """y = k x with x = theta + 0.5 W: E[y|k, theta] = k theta, Var[y|k, theta] = k² / 4."""
    first_k, first_theta, both = 1 / 3, 4 * 0.25, 0.25 / 3
    total = first_k + first_theta + both
    assert within(sobol, "parameter_variance", "y", total)
    assert within(sobol, "noise_variance", "y", (4 + 1 / 3) * 0.25)
    assert within(sobol, "first", "y", first_k / total, parameter="k")
    assert within(sobol, "first", "y", first_theta / total, parameter="theta")
    assert within(sobol, "total", "y", (first_k + both) / total, parameter="k")
    assert within(sobol, "total", "y", (first_theta + both) / total, parameter="theta")
    assert within(sobol, "mean", "y", 2.0)
    assert float(sobol["total_halfwidth"].sel(observable="y", parameter="k")) < 0.1
    assert within(sobol, "parameter_variance", "z", 0.25)
    assert within(sobol, "noise_variance", "z", 0.25)


@pytest.mark.user_code
def test_what_has_no_influence_is_exactly_zero_and_says_why(sobol):
    for name in ("first", "total"):
        assert np.all(sobol[name].sel(parameter="spare") == 0)
        assert float(sobol[name].sel(observable="z", parameter="k")) == 0
        assert np.all(sobol[name].sel(observable="fixed") == 0)
    assert sobol["note"].sel(observable="y", parameter="spare") == UNUSED
    assert sobol["note"].sel(observable="z", parameter="k") == NO_INFLUENCE
    assert sobol["note"].sel(observable="fixed", parameter="k") == NEVER_CHANGES
    assert float(sobol["mean"].sel(observable="fixed")) == 2.0


@pytest.mark.user_code
@pytest.mark.parametrize("changes", [{"ensemble.devices": 2}, {"ensemble.chunk": 2048}])
def test_neither_devices_nor_chunks_change_a_bit(sobol, changes):
    other = uncertainty(NOISY, overrides=changes)
    for name in sobol.data_vars:
        assert np.array_equal(sobol[name].values, other[name].values), name


def test_derivatives_along_paths_are_exact():
    """dy/dk = x and dy/dtheta = k; E[E[x|theta]²] = 1.25 without the noise in x."""
    study = uncertainty(NOISY, overrides={"uncertainty.method": "derivatives", "uncertainty.of": "[y, z]"})
    assert within(study, "nu", "y", 1.25, parameter="k")
    assert within(study, "nu", "y", 4 + 1 / 3, parameter="theta")
    assert within(study, "derivative", "y", 2.0, parameter="theta")
    assert float(study["nu"].sel(observable="z", parameter="theta")) == pytest.approx(1, abs=1e-12)
    assert float(study["nu"].sel(observable="z", parameter="k")) == 0
    assert np.all(study["bound"].sel(observable="y") >= 0)


def test_propagation_through_an_ordinary_equation_is_exact():
    study = uncertainty(GROWTH)
    variance = math.exp(0.6 + 0.04) * math.expm1(0.04)
    assert within(study, "mean", "x", math.exp(0.3 + 0.02))
    assert within(study, "sd", "x", math.sqrt(variance))
    assert study["quantiles"].values[0, 2] == pytest.approx(math.exp(0.3), rel=1e-3)
    assert "noise_fraction" not in study
    assert study.attrs["runs"] == 8 * 1024


@pytest.mark.user_code
def test_every_point_of_a_row_meets_the_same_paths(monkeypatch):
    """Those of one stream; others, and other rows, meet their own."""
    loaded = load_uncertain(NOISY)
    from simkit.studies.designs import saltelli_design

    simulated = simulated_design(loaded.simulation, ("theta", "k", "spare"), ("z",), 2, 4, keep=True)
    design = saltelli_design([[0], [1], [2]], 3, False)
    values = simulated(design, np.ones((4, 16, 6)), 0)["z"].each
    assert simulated.bindings.unused == ("spare",)
    assert np.all(values[:, :, 2:] == values[:, :, :1])
    assert len(np.unique(values)) == 4 * 16 * 2 * 2
    later = simulated(design, np.ones((4, 8, 6)), 8)["z"].each
    assert np.array_equal(later, values[:, 8:])
    monkeypatch.setattr(chunks, "MOST_BYTES", 4 * 8 * 4 * 5 * 8)  # of eight rows
    assert np.array_equal(simulated(design, np.ones((4, 16, 6)), 0)["z"].each, values)


def test_a_jump_process_can_be_studied():
    reactions = """\
constants: {birth: {uniform: [10, 30]}, start: {discrete: [5, 15]}}
model: {reactions: {born: {equation: 0 -> X, rate: birth}, dies: {equation: X -> 0, rate: 1}}}
initial: {X: start}
time: {t1: 1}
uncertainty: {points: 64, replicates: 4, paths: 4}
"""
    study = uncertainty(reactions)
    gone = math.exp(-1)
    assert within(study, "mean", "X", 20 * (1 - gone) + 10 * gone, times=4)
    assert within(study, "parameter_variance", "X", (1 - gone) ** 2 * 400 / 12 + gone**2 * 25, times=4)
    mean_variance = 20 * (1 - gone) + 10 * gone * (1 - gone)
    assert within(study, "noise_variance", "X", mean_variance, times=4)


@pytest.mark.slow
def test_an_adaptive_equation_can_be_studied():
    adaptive = uncertainty(
        GROWTH, overrides={"time": "{t1: 1, rtol: 1e-8, atol: 1e-8}", "uncertainty.points": 64}
    )
    assert float(adaptive["mean"][0]) == pytest.approx(math.exp(0.32), rel=1e-2)


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

    def test_the_resolved_configuration_gives_the_same_study(self, sobol):
        loaded = load_uncertain(sobol.attrs["configuration"])
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
            "first": {"value": 0.0, "halfwidth": 0.0},
            "total": {"value": 0.0, "halfwidth": 0.0},
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


PRICED = """\
model: {type: GBM, mu: {uniform: [0, 0.1]}, sigma: {uniform: [0.1, 0.3]}}
initial: {S: 100}
solver: ExactSampling
time: {t1: 1, steps: 1}
observe: {stock: S}
uncertainty: {method: rank, points: 256, paths: 64}
"""


def test_noise_does_not_lower_rank_correlations():
    """E[S] grows with mu and does not depend on sigma: 1 and 0, where ranks of noisy means give 0.75."""
    study = uncertainty(PRICED).sel(observable="stock")
    value, half = study["spearman"].values, study["spearman_halfwidth"].values
    assert np.all(np.abs(value - [1, 0]) <= half)
    assert np.all(half < 0.2)
    assert abs(float(study["partial"][0]) - 1) <= float(study["partial_halfwidth"][0]) < 0.1
    with pytest.raises(
        InputError, match=r"paths: must be at least 4 where paths differ, whose quarters .* 3"
    ):
        uncertainty(PRICED, overrides={"uncertainty.paths": 3})


def test_effects_that_may_be_noise_say_so():
    """sigma does not change the mean of S; mu does."""
    from simkit.studies.table import print_table

    study = uncertainty(PRICED, overrides={"uncertainty": "{method: morris, points: 16, paths: 64}"})
    assert list(study["note"].values[0]) == ["", ONLY_NOISE]
    with io.StringIO() as file:
        print_table(study, file)
        text = file.getvalue()
    noise = float(study["effect_noise"].sel(observable="stock", parameter="sigma"))
    assert "noise of effects" in text
    assert f"{noise:.4f}"[:4] in text


def test_a_distribution_may_use_constants_that_are_not_uncertain():
    text = (
        "constants: {a: {uniform: [-pi*turns, half]}, turns: 2, half: turns/2, b: {normal: [EXPR, 1]}}\n"
        "model: {ode: {x: 0}}\ninitial: {x: 0}\ntime: {t1: 1, steps: 1}\nobserve: {f: a + b}\n"
    )
    distributions = load_uncertain(text.replace("EXPR", "half")).distributions
    assert distributions == {"a": Uniform(-2 * math.pi, 1.0), "b": Normal(1.0, 1.0)}
    with pytest.raises(InputError, match=r"constants.b: normal: mean must be .* unknown name 'a'"):
        load_uncertain(text.replace("EXPR", "a"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"constants.theta": "{normal: [0, -1]}"}, r"constants.theta: normal: sd must be >= 0, got -1"),
        (
            {"constants.theta": "{norml: [0, 1]}"},
            r"constants.theta: unknown distribution 'norml'; did you mean",
        ),
        ({"uncertainty.of": "[w]"}, r"uncertainty.of: no observable or state variable 'w'"),
        ({"uncertainty.groups": "{g: []}"}, r"uncertainty.groups: g must be a list of parameters such as"),
        ({"uncertainty.groups": "{g: [mu]}"}, r"uncertainty.groups.g: no uncertain parameter 'mu'"),
        ({"uncertainty.groups": "{g: [k], h: [k]}"}, r"groups.h: k is in g too"),
        ({"uncertainty.groups": "{k: [theta]}"}, r"groups.k: k is a parameter"),
        ({"uncertainty.points": 100}, r"uncertainty.points: must be a power of two.* 64 or 128"),
        ({"uncertainty.points": "many"}, r"uncertainty.points: must be a whole number"),
        ({"uncertainty.paths": 1}, r"uncertainty.paths: must be at least 2 where paths differ"),
        ({"uncertainty.method": "sobl"}, r"must be sobol or morris .* did you mean 'sobol'"),
        ({"uncertainty.method": "rank", "uncertainty.order": 2}, r"order: is for method sobol, not for rank"),
        ({"uncertainty.levels": 6}, r"levels: is for method morris, not for sobol; remove it"),
        ({"uncertainty.budget": 6000}, r"budget: says when to stop .* add width, or remove it"),
        (
            {"uncertainty.method": "morris", "uncertainty.levels": 5},
            r"levels: must be an even number .* got 5",
        ),
        ({"uncertainty.width": 0}, r"uncertainty.width: must be > 0"),
        ({"uncertainty.replicates": 1}, r"uncertainty.replicates: must be at least 2"),
        ({"uncertainty.wdith": 1}, r"uncertainty.wdith: unknown key; did you mean 'width'"),
        ({"uncertainty.method": "derivatives", "observe.up": "x > 0"}, r"observe.up: a condition jumps"),
        (
            {"uncertainty.method": "derivatives", "constants.k": "{discrete: [1, 2]}"},
            r"constants.k: is discrete, and has no derivative",
        ),
        ({"time.t1": "{normal: [1, 0.1]}"}, r"time.t1: a distribution is allowed only under constants"),
        ({"variants": "{a: {constants.k: 1}}"}, r"variants: a study takes one experiment"),
        ({f"constants.{n}": 1 for n in ("theta", "k", "spare")}, r"nothing is uncertain: give a constant"),
    ],
)
def test_wrong_studies_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        uncertainty(NOISY, overrides=changes)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            {
                "model": {
                    **{"type": "Heston", "mu": 0.05, "kappa": 1, "theta": 0.04, "rho": -0.5},
                    "xi": {"uniform": [0.3, 0.5]},
                },
                "initial": {"S": 100, "v": 0.04},
                "solver": "AndersenQE",
            },
            r"no derivative in xi: AndersenQE switches from one distribution to another; choose sobol",
        ),
        (
            {
                "model": {
                    "type": "Merton",
                    "mu": 0,
                    "sigma": 0.1,
                    "lam": {"uniform": [1, 2]},
                    "m": 0,
                    "delta": 1,
                }
            }
            | {"initial": {"S": 1}},
            r"no derivative in lam: the rate decides how many jumps a path has",
        ),
        (
            {
                "constants": {"c": {"uniform": [0, 1]}},
                "model": {"ode": {"x": "where(x > c, -1, 1)"}},
                "initial": {"x": 0},
            },
            r"no derivative in c: the equations jump with c",
        ),
    ],
    ids=["solver", "jumps", "equations"],
)
def test_derivatives_of_paths_that_jump_are_refused(source, message):
    settings = {"time": {"t1": 1, "steps": 4}, "uncertainty": {"method": "derivatives"}}
    with pytest.raises(InputError, match=message):
        uncertainty(source | settings)


def test_paths_that_are_all_one_are_refused():
    source = {
        "constants": {"c": {"uniform": [0, 1]}},
        "model": {"ode": {"x": "-c*x"}},
        "initial": {"x": 1},
        "time": {"t1": 1, "steps": 4},
        "uncertainty": {"paths": 16},
    }
    with pytest.raises(
        InputError, match=r"uncertainty.paths: 16 paths of the same parameters would all be one"
    ):
        uncertainty(source)


def test_laws_that_leave_the_range_of_a_parameter_are_refused():
    model = {"type": "OrnsteinUhlenbeck", "theta": {"normal": [1, 1]}, "mu": 0, "sigma": 1}
    source = {"model": model, "initial": {"X": 0}, "time": {"t1": 1, "steps": 4}}
    with pytest.raises(InputError, match=r"model.theta: must be >= 0, and the distributions give it -"):
        uncertainty(source)
    model["theta"], model["mu"] = 1, {"normal": [0, 1]}
    with pytest.raises(InputError, match=r"mu is a constant too"):
        uncertainty({**source, "constants": {"mu": 1}})


def test_runs_that_are_not_finite_are_named():
    with pytest.raises(NumericalError, match=r"x is nan in 8,192 of 8,192 runs, first at mu = "):
        uncertainty(GROWTH, overrides={"model.parameters.mu": "{uniform: [0, 1e60]}"})


def test_the_first_run_that_is_not_finite_is_named_by_its_parameters():
    """All four paths of a point, where a is negative."""
    experiment = {
        "model": {"sde": {"x": {"drift": "sqrt(a)", "noise": {"W": 0.1}}}, "parameters": {"a": 1.0}},
        "initial": {"x": 0.0},
        "time": {"t1": 1.0, "steps": 2},
        "uncertainty": {"method": "rank", "points": 64, "paths": 4, "seed": 1},
    }
    law = {"model.parameters.a": "{uniform: [-0.02, 1]}"}
    with pytest.raises(NumericalError, match=r"x is nan in \d+ of 2,048 runs, first at a = -0\.\d+; choose"):
        uncertainty(experiment, overrides=law)


def test_derivatives_that_are_not_finite_are_named_where_values_are_finite():
    """The root of what is always 0 has an infinite slope."""
    changes = {"uncertainty.method": "derivatives", "observe.y": "(x - x)**0.5"}
    with pytest.raises(NumericalError, match=r"the derivative of y is (nan|inf) in "):
        uncertainty(NOISY, overrides=changes)


def test_early_exercise_is_refused():
    put = "{value: maximum(1 - x, 0), early_exercise: {dates: 2, paths: 64}}"
    with pytest.raises(InputError, match="early exercise finds a policy for one set of parameters"):
        uncertainty(NOISY, overrides={"observe.put": put})
