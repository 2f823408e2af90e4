"""Multilevel runs: rates, honest errors, no bias but that of the finest steps, and what is refused."""

import json
import math

import jax
import numpy as np
import pytest
import xarray as xr
import yaml
from command import simkit_command

import simkit
from simkit import InputError, NumericalError
from simkit.multilevel import pilot
from simkit.multilevel.level_paths import LevelPaths, levels_on
from simkit.records import record_file
from simkit.records.recording import Recording, recording

CALL = "exp(-0.05*t) * maximum(S - 100, 0)"
ASIAN = "exp(-0.05*t) * maximum(integral(S) - 100, 0)"
DIGITAL = "exp(-0.05*t) * (S > 100)"
EXACT = {"call": 10.4505835721856, "asian": 5.763088, "digital": 0.532324815453763}
GBM = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "Milstein",
    "time": {"t1": 1.0, "steps": 16},
    "ensemble": {"method": "multilevel", "target": {"total_error": 0.1}, "seed": 1},
    "observe": {"call": {"value": CALL, "exact": EXACT["call"]}},
}
WALK = {
    **GBM,
    "model": {"sde": {"X": {"drift": 0.5, "noise": {"W": 1.0}}}},
    "initial": {"X": 0.0},
    "solver": "EulerMaruyama",
    "observe": {"x": "X"},
}


def changed(experiment=GBM, **changes):
    """The experiment with other sections; those of `ensemble` are added."""
    ensemble = {**experiment["ensemble"], **changes.pop("ensemble", {})}
    return {**experiment, **changes, "ensemble": {k: x for k, x in ensemble.items() if x is not None}}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def moments(experiment, level, paths=4096):
    with jax.enable_x64(True):
        return LevelPaths.of(levels_on(simkit.load(experiment)), level, paths).averages()


def test_increments_of_the_coarse_grid_are_sums_of_those_of_the_fine_one():
    """Where the solver is exact but for rounding, a path ends at one place on both grids."""
    first, second = (moments(WALK, level) for level in (0, 1))
    assert float(first.sd[0][-1]) == pytest.approx(1.0, rel=0.05)
    assert float(second.sd[0][-1]) < 1e-6  # normals in float32


def test_levels_have_paths_of_their_own_and_a_pilot_has_others():
    levels = levels_on(simkit.load(GBM))
    grids = [
        grid
        for level in range(4)
        for pilot in (False, True)
        for grid in LevelPaths.of(levels, level, 100, pilot).grids
    ]
    seeds = [(grid.seed, grid.grid.steps * grid.draws_per_step) for grid in grids]
    assert len({seed for seed, _ in seeds}) == 8
    assert len({*seeds}) == 8  # both grids of a level have as many draws
    assert levels.costs(())[:3] == [16, 48, 96]


@pytest.mark.more
def test_a_run_says_what_it_averaged_and_what_that_cost():
    dataset = simkit.run(GBM)
    paths, cost = dataset["paths"].values, dataset["cost"].values
    assert list(dataset["steps"].values) == [16 * 2**level for level in range(len(paths))]
    assert list(cost) == [n * (16 if level == 0 else 24 * 2**level) for level, n in enumerate(paths)]
    assert dataset.attrs["cost"] == cost.sum()
    assert dataset["call_mean"].dims == ()
    assert float(dataset["call_mean"]) == pytest.approx(float(dataset["call_level_mean"].sum()))
    errors = dataset["call_level_stderr"].values
    assert float(dataset["call_stderr"]) == pytest.approx(math.hypot(*errors))
    assert np.allclose(errors**2 * paths, dataset["call_level_variance"].values)
    total = math.hypot(float(dataset["call_stderr"]), float(dataset["call_bias"]))
    assert 0.5 * 0.1 < total < 1.05 * 0.1
    assert abs(float(dataset["call_z"])) < 5
    again = simkit.run(dataset.attrs["configuration"])
    assert again.drop_attrs().identical(dataset.drop_attrs())


@pytest.mark.more
@pytest.mark.parametrize("how", [{"chunk": 3000}, {"threads": 1}, {"devices": 2}], ids=str)
def test_bits_do_not_depend_on_chunks_threads_and_devices(how):
    first, second = (simkit.run(changed(ensemble=each)) for each in ({}, how))
    assert first.drop_attrs().identical(second.drop_attrs())


@pytest.mark.more
@pytest.mark.parametrize(("solver", "beta"), [("EulerMaruyama", 1.0), ("Milstein", 2.0)])
def test_variances_fall_as_the_strong_error_squared(solver, beta):
    """Giles (2008): beta is 1 of Euler-Maruyama and 2 of Milstein, where payoffs are Lipschitz."""
    observe = {"call": CALL, "asian": ASIAN}
    few = {"t1": 1.0, "steps": 4}
    dataset = simkit.run(
        changed(solver=solver, observe=observe, time=few, ensemble={"target": {"total_error": 0.02}})
    )
    for name in ("call", "S", *(["asian"] if beta == 2 else [])):
        assert abs(float(dataset[f"{name}_beta"]) - beta) < 0.3
    alpha, error = (float(dataset[f"S_alpha{end}"]) for end in ("", "_stderr"))
    assert abs(alpha - 1.0) < 0.2 + 3 * error


@pytest.mark.more
@pytest.mark.parametrize("solver", ["EulerMaruyama", "Milstein"])
def test_the_mean_is_that_of_the_finest_grid_and_its_error_is_honest(solver):
    """Of Euler-Maruyama and of Milstein the mean of S on n steps is known."""
    z, reached = [], []
    for seed in range(100):
        of_seed = {"seed": seed, "target": {"total_error": 0.25}}
        one = simkit.run(changed(solver=solver, observe={}, time={"t1": 1.0, "steps": 4}, ensemble=of_seed))
        n = int(one["steps"][-1])
        grid = 100 * (1 + 0.05 / n) ** n
        z.append((float(one["S_mean"]) - grid) / float(one["S_stderr"]))
        reached.append(math.hypot(float(one["S_stderr"]), float(one["S_bias"])) / 0.25)
    assert abs(np.mean(z)) * len(z) ** 0.5 < 3.3
    assert 0.85 < np.std(z) < 1.15
    assert np.mean(np.array(reached) > 1.0) < 0.15
    assert max(reached) < 1.1


@pytest.mark.more
@pytest.mark.parametrize(
    ("observe", "solver", "target"),
    [
        ({"call": CALL}, "Milstein", 0.1),
        ({"asian": ASIAN}, "Milstein", 0.1),
        ({"digital": DIGITAL}, "EulerMaruyama", 0.005),
    ],
    ids=str,
)
def test_the_true_error_is_as_wanted(observe, solver, target):
    (name,) = observe
    errors, z = [], []
    for seed in range(60):
        of_seed = {"seed": seed, "target": {"total_error": target}}
        few = {"t1": 1.0, "steps": 4}
        one = simkit.run(changed(observe=observe, solver=solver, time=few, ensemble=of_seed))
        errors.append(float(one[f"{name}_mean"]) - EXACT[name])
        z.append((errors[-1] - float(one[f"{name}_bias"])) / float(one[f"{name}_stderr"]))
    assert np.sqrt(np.mean(np.square(errors))) < 1.1 * target
    assert 0.8 < np.std(z) < 1.2


HESTON = {"type": "Heston", "mu": -0.01, "kappa": 4.0, "theta": 0.25, "xi": 1.0, "rho": -0.5}
MERTON = {"type": "Merton", "mu": 0.08, "sigma": 0.2165063509, "lam": 1.0, "m": -0.0078125, "delta": 0.125}


@pytest.mark.more
@pytest.mark.parametrize(
    ("value", "exact", "error", "changes"),
    [
        # The dates of an observable are the same on all levels: twelve of them, and not ever more.
        ("exp(-0.05*t) * maximum(mean(S) - 100, 0)", 6.156040766, 0.03, {"time": {"t1": 1.0, "steps": 12}}),
        (f"{CALL} * (min(S) > 90)", 9.57337242, 0.03, {"time": {"t1": 1.0, "steps": 12}}),
        (CALL, EXACT["call"], 0.02, {"precision": "float32"}),
        ("S", 105.12710963760242, 0.02, {"initial": {"S": {"uniform": [90.0, 110.0]}}}),
        (
            "exp(-0.01*t) * maximum(S - 100, 0)",
            16.070154917028834,
            0.1,
            {"model": HESTON, "initial": {"S": 100.0, "v": 0.04}, "solver": "EulerMaruyama"},
        ),
        (
            "exp(-0.08*t) * maximum(S - 100, 0)",
            5.8753140278,
            0.02,
            {"model": MERTON, "solver": "EulerMaruyama", "time": {"t1": 0.25, "steps": 4}},
        ),
    ],
    ids=["fixings", "barrier", "float32", "random start", "Heston", "Merton"],
)
def test_other_runs_have_their_known_means(value, exact, error, changes):
    target = {"total_error": error, "of": ["x"]}
    dataset = simkit.run(changed(observe={"x": value}, ensemble={"target": target}, **changes))
    bias, doubt = (float(dataset[f"x_bias{end}"]) for end in ("", "_stderr"))
    z = (float(dataset["x_mean"]) - bias - exact) / math.hypot(float(dataset["x_stderr"]), doubt)
    assert abs(z) < 4.5


@pytest.mark.more
def test_doses_and_curves_are_those_of_the_coarsest_grid_on_all_levels():
    """A jump of the state at half the time, and a drift that doubles there."""
    experiment = changed(
        WALK,
        curves={"a": {"times": [0.0, 0.5, 1.0], "values": [1.0, 2.0, 2.0], "interpolation": "previous"}},
        model={"sde": {"X": {"drift": "a * X", "noise": {"W": "0.1 * X"}}}},
        initial={"X": 1.0},
        events={"dose": {"at": 0.5, "set": {"X": "X + 1"}}},
        time={"t1": 1.0, "steps": 4},
        ensemble={"target": {"total_error": 0.02}},
    )
    dataset = simkit.run(experiment)
    exact = (math.exp(0.5) + 1) * math.exp(1.0)
    error = math.hypot(float(dataset["X_stderr"]), float(dataset["X_bias_stderr"]))
    assert abs(float(dataset["X_mean"]) - float(dataset["X_bias"]) - exact) < 4.5 * error


class StoppedError(Exception):
    pass


@pytest.mark.more
def test_a_run_that_goes_on_has_the_same_bits_and_no_second_pilot(folder, monkeypatch):
    experiment = changed(ensemble={"chunk": 2048, "target": {"total_error": 0.05}})
    whole = simkit.run(experiment)

    def stop(done, total):
        if done > total / 2:
            raise StoppedError

    before = Recording(folder / "record", {})
    with recording(before), pytest.raises(StoppedError):
        simkit.run(experiment, progress=stop)
    before.write()
    monkeypatch.delattr(pilot, "_LevelPilot")
    with recording(Recording(folder / "record", {}, record_file.read(folder / "record")[0])):
        again = simkit.run(experiment)
    assert again.drop_attrs().identical(whole.drop_attrs())


@pytest.mark.more
def test_jumps_are_those_of_the_same_path_on_both_grids():
    model = {"type": "Merton", "mu": 0.05, "sigma": 0.2, "lam": 1.0, "m": -0.1, "delta": 0.1}
    experiment = changed(model=model, solver="EulerMaruyama", observe={})
    assert float(moments(experiment, 1).sd[0][-1]) < 0.05 * float(moments(experiment, 0).sd[0][-1])


@pytest.mark.more
def test_the_table_json_and_the_picture_have_the_levels(folder):
    (folder / "a.yaml").write_text(yaml.safe_dump(GBM))
    text = " ".join(simkit_command("run", "a.yaml", "--out", "a.nc").stdout.split())
    assert "total error: 0.1 was the target, reached: call 0.0" in text
    assert "× 16 steps" in text
    assert "plain paths would take" in text
    assert (folder / "a.png").exists()
    sizes = json.loads(simkit_command("run", "a.yaml", "--dry-run", "--json").stdout)
    told = simkit_command("run", "a.yaml", "--dry-run").stdout
    assert f"levels: {sizes['levels'][0]['paths']:,} x 16 steps, " in told
    levels = json.loads(simkit_command("run", "a.yaml", "--json").stdout)["levels"]
    assert [each["steps"] for each in levels] == [16 * 2**level for level in range(len(levels))]
    assert [each["paths"] for each in levels] == [each["paths"] for each in sizes["levels"]]
    assert sum(each["cost"] for each in levels) == sizes["path_steps"]
    assert levels[0]["call"]["mean"] == pytest.approx(10.4, abs=0.5)
    assert xr.open_dataset(folder / "a.nc").attrs["method"] == "multilevel"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ensemble": {"target": {"stderr": 0.1}}}, "give ensemble.target: {total_error: 0.01}"),
        ({"ensemble": {"target": None}}, "give ensemble.target: {total_error: 0.01}"),
        (
            {"ensemble": {"target": {"total_error": 0.1, "max_paths": 9}}},
            "target.max_paths limits paths on one",
        ),
        ({"solver": "ExactSampling"}, "the solver samples exactly and makes no step error"),
        ({"time": {"t1": 1.0, "rtol": 1e-3, "atol": 1e-3}, "solver": None}, "on steps of one length"),
        ({"ensemble": {"variance_reduction": "antithetic"}}, "leave variance_reduction and driver out"),
        ({"observe": {"x": {"value": "S", "at": "each"}}}, "x is observed at each saved time"),
        ({"observe": {"x": "hitting_time(S > 110)"}}, "x waits for a condition"),
        ({"save": {"points": 4}}, "has means at the end only"),
        ({"derived": {"ratio": "call / S"}}, "not built for quantities derived from means"),
        (
            {"observe": {"put": {"value": "maximum(100 - S, 0)", "early_exercise": {"dates": 4}}}},
            "put is exercised early",
        ),
        ({"cluster": {"address": "tcp://x:1"}}, "runs on this machine"),
        (
            {
                "model": {"type": "ImmigrationDeath", "alpha": 20.0, "mu": 1.0},
                "initial": {"X": 0},
                "time": {"t1": 2.0},
                "observe": {"many": "X > 20"},
                "solver": None,
            },
            "every event exact and no error to take out; use solver: TauLeaping",
        ),
    ],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_levels_cannot_do_is_refused_by_name(changes, message):
    experiment = changed(**changes)
    with pytest.raises(InputError, match=message):
        simkit.load({key: section for key, section in experiment.items() if section is not None})


def test_variants_sweeps_and_studies_are_refused():
    with pytest.raises(InputError, match="multilevel is for one experiment"):
        simkit.run({**GBM, "variants": {"a": {"model.sigma": 0.1}, "b": {"model.sigma": 0.2}}})
    with pytest.raises(InputError, match="multilevel is for one experiment"):
        simkit.sweep(GBM, {"model.sigma": [0.1, 0.2]})
    with pytest.raises(InputError, match=r"--set ensemble\.method=null"):
        simkit.uncertainty({**GBM, "model": {**GBM["model"], "sigma": {"uniform": [0.1, 0.2]}}})


def test_parts_are_refused(folder):
    (folder / "a.yaml").write_text(yaml.safe_dump(GBM))
    assert (
        "multilevel has no parts" in simkit_command("run", "a.yaml", "--part", "1/2", "--out", "a.nc").stderr
    )


@pytest.mark.more
def test_a_pilot_refuses_what_it_cannot_measure():
    with pytest.raises(InputError, match="x is the same on all paths"):
        simkit.run(changed(observe={"x": "S > 1e6"}))
    with pytest.raises(InputError, match="too close to 0 for a relative error"):
        simkit.run(
            changed(
                WALK, observe={"x": "X - 0.5"}, ensemble={"target": {"total_error": 0.1, "relative": True}}
            )
        )
    with pytest.raises(NumericalError, match=r"path \d+: S = nan|inf"):
        simkit.run(changed(observe={"x": "S / (S - S)"}))
