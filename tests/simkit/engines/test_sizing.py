"""A target in place of a number of paths: reached in 95 of 100 runs, and without a bias."""

import json
import math

import numpy as np
import pytest
import xarray as xr
import yaml
from command import simkit_command

import simkit
from simkit import InputError
from simkit.engines import sizing
from simkit.records import record_file
from simkit.records.recording import Recording, recording
from simkit.results.target_notes import target_notes, target_summary
from simkit.results.variants import each_variant

CALL = 10.450583572185565
EXACT = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 1},
    "observe": {"call": "exp(-0.05*t) * maximum(S - 100, 0)"},
}
STEPS = EXACT | {"solver": "EulerMaruyama", "time": {"t1": 1.0, "steps": 8}}
ARRIVALS = {
    "model": {"type": "ImmigrationDeath", "alpha": 20.0, "mu": 1.0},
    "initial": {"X": 0},
    "time": {"t1": 2.0},
    "observe": {"many": "X > 20"},
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def with_target(experiment=EXACT, seed=1, **target):
    return experiment | {"ensemble": {"target": target, "seed": seed}}


def figures(dataset, name="call"):
    return float(
        dataset[f"{name}_mean"][..., -1] if dataset[f"{name}_mean"].dims else dataset[f"{name}_mean"]
    ), (float(np.atleast_1d(dataset[f"{name}_stderr"])[-1]))


@pytest.mark.more
def test_a_target_is_reached_in_95_of_100_runs_and_the_means_are_honest(monkeypatch):
    """A small pilot, whose variance is uncertain: that has to be allowed for."""
    monkeypatch.setattr(sizing, "FIRST", sizing.LEAST)
    monkeypatch.setattr(sizing, "KNOWN", 1.0)
    runs = [simkit.run(with_target(seed=seed, stderr=0.2)) for seed in range(200)]
    z, reached = np.array([((m - CALL) / e, e / 0.2) for m, e in map(figures, runs)]).T
    assert np.sum(reached > 1) <= 19  # binomial, 5 % of 200, at 0.001 from above
    assert np.sum(reached > 1.05) <= 3
    assert reached.mean() > 0.9
    assert abs(z.mean()) * len(z) ** 0.5 < 3.3
    assert 0.85 < z.std() < 1.15


def test_paths_are_those_of_a_run_with_as_many_of_them():
    """The pilot's paths are others, and nothing of it is in the result."""
    found = simkit.run(with_target(stderr=0.2))
    plain = simkit.run(EXACT | {"ensemble": {"paths": found.attrs["paths"], "seed": 1}})
    assert found.drop_attrs().identical(plain.drop_attrs())
    assert found.attrs["pilot_paths"] == sizing.FIRST
    pilot = sizing._pilot(simkit.load(EXACT), 4096)
    assert (pilot.seed != 0, sizing._pilot(pilot, 1).seed) == (True, 0)


@pytest.mark.parametrize(
    ("target", "name", "most"),
    [
        ({"stderr": 0.01, "relative": True}, "call", lambda mean: 0.01 * mean),
        ({"stderr": 0.5, "of": ["S"]}, "S", lambda mean: 0.5),
        ({"stderr": 0.002, "of": ["ratio"]}, "ratio", lambda mean: 0.002),
    ],
)
def test_of_which_quantity_and_of_what_part_of_it(target, name, most):
    dataset = simkit.run(with_target(EXACT | {"derived": {"ratio": "call / S"}}, **target))
    value = float(np.atleast_1d(dataset.get(f"{name}_mean", dataset.get(f"{name}_value")))[-1])
    error = float(np.atleast_1d(dataset[f"{name}_stderr"])[-1])
    assert 0.9 * most(value) < error < 1.05 * most(value)
    assert dataset.attrs["target_of"] == name


def test_several_quantities_all_reach_it():
    dataset = simkit.run(with_target(EXACT | {"observe": {"a": "S", "b": "S / 100"}}, stderr=0.1))
    assert figures(dataset, "b")[1] < figures(dataset, "a")[1] < 0.105


def test_events_of_a_network_as_well():
    dataset = simkit.run(with_target(ARRIVALS, stderr=0.005))
    assert 0.9 * 0.005 < figures(dataset, "many")[1] < 1.05 * 0.005


@pytest.mark.more
def test_a_total_error_has_the_step_bias_in_it():
    """The root mean square of true errors is at most 1.1 of the target, whatever of it is bias."""
    errors, paths = [], []
    for seed in range(30):
        dataset = simkit.run(with_target(STEPS, seed=seed, total_error=0.1))
        errors.append(figures(dataset)[0] - CALL)
        paths.append(dataset.attrs["paths"])
    assert np.sqrt(np.mean(np.square(errors))) < 1.1 * 0.1
    plain = simkit.run(with_target(STEPS, stderr=0.1)).attrs["paths"]
    assert min(paths) > plain


@pytest.mark.more
def test_a_total_error_below_the_step_bias_says_how_many_steps_to_take():
    with pytest.raises(InputError, match=r"step bias of S is up to .*; use about (\d+) time.steps") as error:
        simkit.run(with_target(STEPS, total_error=0.01, of=["S"]))
    steps = int(error.value.problems[0].split()[-2])
    assert steps % 8 == 0  # as save.points and other dates may need
    exact = 100 * math.exp(0.05)
    bias = abs(100 * (1 + 0.05 / steps) ** steps - exact)
    assert bias < 0.005
    assert steps < 8 * abs(100 * (1 + 0.05 / 8) ** 8 - exact) / 0.001


@pytest.mark.parametrize(
    ("target", "limit"), [({"max_paths": 3000}, "max_paths"), ({"max_time": 1e-9}, "max_time")]
)
def test_limits_leave_a_larger_error_and_say_so(target, limit, folder):
    (folder / "a.yaml").write_text(yaml.safe_dump(with_target(stderr=0.05, **target)))
    result = simkit_command("run", "a.yaml")
    assert result.exit_code == 0
    text = " ".join(result.stdout.split())
    assert "! standard error: 0.05 was the target, reached: call 0." in text
    assert f"{limit} allows no more, and 8" in text


def test_what_was_reached_is_in_the_table_and_in_json(folder):
    (folder / "a.yaml").write_text(yaml.safe_dump(with_target(stderr=0.1)))
    assert "0.1 was the target, reached: call 0.09" in simkit_command("run", "a.yaml").stdout
    assert "as many paths as its target takes" in simkit_command("validate", "a.yaml").stdout
    assert '"limited_by": null' in simkit_command("run", "a.yaml", "--json").stdout
    assert "paths x 1 step" in simkit_command("run", "a.yaml", "--dry-run").stdout


def test_a_dry_run_says_what_each_way_to_reduce_variances_takes(folder):
    """As many paths as the run that takes it, and the cheapest is marked; of jumps there are fewer ways."""
    (folder / "a.yaml").write_text(yaml.safe_dump(with_target(stderr=0.1)))
    printed = simkit_command("run", "a.yaml", "--dry-run")
    assert printed.exit_code == 0
    assert printed.stdout.count("the cheapest") == 1
    ways = json.loads(simkit_command("run", "a.yaml", "--dry-run", "--json").stdout)["variance_reduction"]
    both = "{antithetic: true, control: true}"
    assert [*ways] == ["none", "antithetic", "control", both, "driver: sobol", "importance"]
    for name, how in (("none", None), *((x, x) for x in ("antithetic", "control", "importance"))):
        experiment = with_target(stderr=0.1)
        experiment["ensemble"]["variance_reduction"] = how
        assert ways[name]["paths"] == simkit.run(experiment).attrs["paths"]
    points = simkit.run(
        with_target(stderr=0.1) | {"ensemble": {"driver": "sobol", "target": {"stderr": 0.1}}}
    )
    assert ways["driver: sobol"]["paths"] == points.attrs["paths"]
    assert 1.5 < ways["none"]["paths"] / ways["antithetic"]["paths"] < 3
    network = simkit.load(with_target(ARRIVALS, stderr=0.01))
    assert [*sizing.offers(network)] == ["none", "control"]
    assert sizing.offers(simkit.load(EXACT)) == {}


@pytest.mark.more
def test_a_dry_run_says_what_levels_take_for_a_total_error(folder):
    """As many paths as the run takes; a standard error alone needs no shorter steps."""
    experiment = STEPS | {"solver": "Milstein", "observe": {"call": "maximum(S - 100, 0)"}}
    experiment = with_target(experiment, total_error=0.1, of=["call"])
    (folder / "a.yaml").write_text(yaml.safe_dump(experiment))
    printed = simkit_command("run", "a.yaml", "--dry-run", "--json").stdout
    ways = json.loads(printed)["variance_reduction"]
    levels = {"method": "multilevel", "seed": 1, "target": experiment["ensemble"]["target"]}
    assert ways["method: multilevel"]["paths"] == simkit.run(experiment | {"ensemble": levels}).attrs["paths"]
    part = ways["method: multilevel"]["seconds"] / ways["none"]["seconds"]
    assert part == pytest.approx(1.0, abs=0.7)
    assert not {"method: multilevel"} & {*sizing.offers(simkit.load(with_target(STEPS, stderr=0.1)))}


def test_sobol_points_are_no_more_than_the_limit_allows():
    """The target takes some 1,500 paths, which are 2,048 points."""
    target = {"stderr": 0.2, "of": ["call"], "max_paths": 1600}
    run = simkit.run(EXACT | {"ensemble": {"driver": "sobol", "target": target}})
    assert (run.attrs["paths"], run.attrs["target_limited_by"]) == (1024, "max_paths")
    assert 1024 < run.attrs["target_paths"] < 1600


@pytest.mark.more
def test_sobol_points_reach_a_target_with_far_fewer_paths():
    """A power of two of them, in 29 of 30 runs of a call."""
    target = {"driver": "sobol", "target": {"stderr": 0.005, "of": ["call"]}}
    runs = [simkit.run(EXACT | {"ensemble": target | {"seed": seed}}) for seed in range(30)]
    reached = np.array([figures(run)[1] for run in runs]) / 0.005
    assert np.sum(reached > 1.05) <= 1
    assert all(run.attrs["paths"] & (run.attrs["paths"] - 1) == 0 for run in runs)
    plain = 14.7**2 / 0.005**2
    assert max(run.attrs["paths"] for run in runs) < plain / 100


@pytest.mark.more
def test_a_target_is_reached_where_a_few_paths_make_the_variance():
    """What both reductions leave of a call far out of the money; such a variance needs paths to be known."""
    stock = {"value": "S", "exact": 100 * math.exp(0.05)}
    out = EXACT | {"observe": {"call": "exp(-0.05*t) * maximum(S - 150, 0)", "stock": stock}}
    how = {"antithetic": True, "control": ["stock"]}
    target = {"target": {"stderr": 0.06, "of": ["call"]}, "variance_reduction": how}
    runs = [simkit.run(out | {"ensemble": target | {"seed": seed}}) for seed in range(100)]
    reached = np.array([figures(run)[1] for run in runs]) / 0.06
    assert np.sum(reached > 1.05) <= 1


def test_an_error_that_is_unknown_is_not_reached():
    """No path meets the condition, so that the mean is 0 ± 0; the pilot, of many more, knew such paths."""
    rare = EXACT | {"observe": {"rare": "S > 250"}}
    dataset = simkit.run(with_target(rare, stderr=0.005))
    assert (float(dataset["rare_mean"]), dataset.attrs["paths"]) == (0, sizing.FEWEST)
    (note,) = target_notes(dataset)
    assert note.startswith("! ")
    assert "reached: rare unknown, as all paths have one value" in note


def test_points_of_a_sweep_have_the_paths_of_the_one_that_takes_most():
    """Differences between points are those of the same paths."""
    dataset = simkit.sweep(with_target(stderr=0.1), {"model.sigma": [0.1, 0.2, 0.4]})
    stderr = dataset["call_stderr"].values
    assert 0.09 < stderr[-1] < 0.105
    assert stderr[0] < stderr[1] < stderr[2]
    alone = simkit.run(with_target(stderr=0.1), overrides={"model.sigma": 0.4})
    assert alone.attrs["paths"] == dataset.attrs["paths"]


@pytest.mark.parametrize(("most", "reached"), [(20_000, 1), (3_000, 0)])
def test_a_limit_counts_where_it_binds(most, reached):
    variants = {"variants": {"low": {"model.sigma": 0.1}, "high": {"model.sigma": 0.2}}}
    dataset = simkit.run(with_target(stderr=0.1, max_paths=most) | variants)
    each = [target_summary(one)["limited_by"] for one in each_variant(dataset).values()]
    assert [limit is None for limit in each].count(True) == reached


def test_what_has_its_paths_keeps_them():
    each = {"": simkit.load(with_target(stderr=0.1))}
    found = sizing.sized(each)
    assert found[""].pilot.paths == sizing.FIRST
    assert sizing.sized(found) == found


DECAY = {"model": {"ode": {"x": "-x"}}, "initial": {"x": 1.0}, "time": {"t1": 1, "steps": 4}}
HEAVY = EXACT | {"observe": {"x": "exp(0.5*((log(S/100) - 0.03)/0.2)**2)"}}  # no mean, let alone a variance


@pytest.mark.parametrize(
    ("experiment", "message"),
    [
        (with_target(stderr=0), "target.stderr: must be above 0, got 0"),
        (with_target(stderr=1e-18), "less than the rounding of call"),
        (with_target(stderr=1e-7), r"takes about \d\S+ paths, and 4,294,967,296 are the most; ask for"),
        (with_target(stderr=1, of=["cal"]), r"target.of\[0\]: there is no cal; did you mean 'call'"),
        (with_target(), "give stderr, the standard error of the means, or total_error"),
        (with_target(stderr=1, total_error=1), "give stderr, .* or total_error"),
        (with_target(stderr=1, max_time="soon"), "must be a time such as 90s"),
        (with_target(HEAVY, stderr=1), r"one path of x makes \d+ % of the variance .* may be infinite"),
        (with_target(EXACT | {"observe": {"rare": "S > 1e6"}}, stderr=1e-3), "is the same on all paths"),
        (
            with_target(EXACT | {"observe": {"W": "log(S/100) - 0.03"}}, stderr=0.01, relative=True),
            "the mean of W is too close to 0 for a relative error",
        ),
        (
            with_target() | {"ensemble": {"target": {"stderr": 1}, "paths": 10}},
            "ensemble.paths: a target says how many paths there are",
        ),
        (
            with_target(
                {"model": {"ode": {"x": "-x"}}, "initial": {"x": 1.0}, "time": {"t1": 1, "steps": 4}},
                stderr=1,
            ),
            "all paths of this run are the same",
        ),
        (
            with_target(EXACT | {"initial": {"S": {"values": [90.0, 100.0]}}}, stderr=1),
            "the initial values of S say how many paths there are",
        ),
    ],
)
def test_targets_that_cannot_be_reached_or_known_are_refused(experiment, message, monkeypatch):
    monkeypatch.setattr(sizing, "MOST", 2**17)
    with pytest.raises(InputError, match=message):
        simkit.run(experiment)


@pytest.mark.parametrize(
    ("most", "reduced", "message"),
    [
        (1, {}, "one path has no error; use 2 or more"),
        (3, {"variance_reduction": "antithetic"}, "one pair of antithetic paths .*; use 4 or more"),
    ],
)
def test_a_limit_leaves_enough_paths_for_an_error(most, reduced, message):
    experiment = with_target(stderr=0.1, max_paths=most)
    experiment["ensemble"] |= reduced
    with pytest.raises(InputError, match=f"ensemble.target.max_paths: {message}"):
        simkit.load(experiment)
    experiment["ensemble"]["target"]["max_paths"] = most + 1
    simkit.load(experiment)


def test_commands_that_take_no_target_say_so():
    with pytest.raises(InputError, match=r"ensemble.target: is for `simkit run` and `simkit sweep`"):
        simkit.sensitivity(with_target(stderr=1), "model.sigma")
    uncertain = with_target(stderr=1) | {
        "model": {"type": "GBM", "mu": 0.05, "sigma": {"uniform": [0.1, 0.2]}}
    }
    with pytest.raises(InputError, match=r"ensemble.target: is for `simkit run` and `simkit sweep`"):
        simkit.uncertainty(uncertain)


def test_a_run_that_goes_on_has_the_paths_that_its_pilot_found(folder, monkeypatch):
    """Also where they depend on the time that a pilot took, which is another one every time."""
    each = {"": simkit.load(with_target(stderr=1e-3, max_time=0.01))}
    before = Recording(folder / "record", {})
    with recording(before):
        first = sizing.sized(each)
    before.write()
    monkeypatch.delattr(sizing, "_found")
    with recording(Recording(folder / "record", {}, record_file.read(folder / "record")[0])):
        assert sizing.sized(each) == first


def test_parts_cannot_depend_on_the_time_of_a_pilot(folder):
    """Each would be a part of another number of paths."""
    experiment = with_target(stderr=0.1, max_time="1min") | {"output": "a.zarr"}
    (folder / "a.yaml").write_text(yaml.safe_dump(experiment))
    refused = simkit_command("run", "a.yaml", "--part", "1/2")
    assert refused.exit_code == 2
    assert "max_time: would give each part another number of paths; use max_paths" in refused.stderr
    assert not [*folder.glob("a.zarr*")]


@pytest.mark.more
def test_parts_find_the_same_number_of_paths(folder):
    (folder / "a.yaml").write_text(yaml.safe_dump(with_target(stderr=0.1) | {"output": "a.zarr"}))
    for part in ("1/2", "2/2"):
        assert simkit_command("run", "a.yaml", "--part", part).exit_code == 0
    merged = simkit_command("merge", "a.yaml", "--no-plot")
    assert merged.exit_code == 0, merged.output
    joined, whole = xr.load_dataset("a.zarr", engine="zarr"), simkit.run(with_target(stderr=0.1))
    assert joined.drop_attrs().identical(whole.drop_attrs())
