"""Initial values from files: which path begins where, what is refused, and that a run can be repeated."""

import hashlib

import jax.monitoring
import numpy as np
import pytest
import xarray as xr

import simkit
from simkit import InputError, load

ROWS = np.random.default_rng(7).uniform(0.5, 2.0, (96, 2))
STILL = {
    "model": {"sde": {"x": {"noise": {"W": "s*x"}}, "y": "-y"}, "parameters": {"s": 0.3}},
    "time": {"t1": 1.0, "steps": 4},
    "save": {"paths": "all"},
    "ensemble": {"seed": 1},
}
DECAY = {"model": {"reactions": {"decay": {"equation": "X -> 0", "rate": 1.0}}}, "time": {"t1": 1.0}}

compilations = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: compilations.append(event) if "backend_compile" in event else None
)


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name, rows, header="x,y"):
    with open(name, "w") as file:
        file.write(header + "\n" + "".join(",".join(map(str, row)) + "\n" for row in rows))


def run(initial, *overrides):
    return simkit.run({**STILL, "initial": initial}, overrides=overrides)


def starts(dataset, name):
    return dataset[f"{name}_path"].values[:, 0]


@pytest.mark.more
@pytest.mark.parametrize("paths", [pytest.param(96, marks=pytest.mark.more), 192])
def test_path_i_begins_at_row_i_modulo_rows(paths):
    write("start.csv", ROWS)
    result = run({"file": "start.csv"}, f"ensemble.paths={paths}")
    for k, name in enumerate("xy"):
        np.testing.assert_array_equal(starts(result, name), np.tile(ROWS[:, k], paths // 96))


def test_paths_default_to_the_rows_and_columns_may_have_other_names_and_order():
    write("start.csv", np.hstack([ROWS[:, 1:], ROWS, ROWS]), "b,a,ignored,c,d")
    result = run({"x": {"file": "start.csv", "column": "a"}, "y": {"file": "start.csv", "column": "b"}})
    assert result.attrs["paths"] == 96
    np.testing.assert_array_equal(starts(result, "x"), ROWS[:, 0])
    np.testing.assert_array_equal(starts(result, "y"), ROWS[:, 1])


def test_another_file_of_the_same_length_compiles_nothing():
    write("start.csv", ROWS)
    run({"file": "start.csv"})
    before = len(compilations)
    write("start.csv", 1 + ROWS)
    assert starts(run({"file": "start.csv"}), "x")[0] == 1 + ROWS[0, 0]
    assert len(compilations) == before


def test_one_row_is_a_number_for_all_paths_and_the_number_of_paths_is_the_usual_one():
    write("start.csv", [[1.25, 0.5]])
    experiment = load({**STILL, "initial": {"file": "start.csv", "y": 3.0}}).experiment
    assert experiment.initial == {"x": 1.25, "y": 3.0}
    assert experiment.ensemble.paths == 10_000


def test_a_run_goes_on_where_another_ended():
    write("start.csv", ROWS)
    simkit.run({**STILL, "initial": {"file": "start.csv"}}, out="first.nc")
    second = run({"file": "first.nc"}, "ensemble.seed=2")
    np.testing.assert_array_equal(starts(second, "x"), run({"file": "start.csv"})["x_path"].values[:, -1])
    with pytest.raises(InputError, match=r"ensemble\.seed: 1 is also the seed of first\.nc"):
        run({"file": "first.nc"})


def test_the_noise_of_the_run_that_made_the_start_would_correlate_with_it():
    """What the refused seed prevents: the end of a path and its next step from the same noise."""
    write("start.csv", np.ones((96, 2)))
    first = run({"file": "start.csv"})
    write("next.csv", np.stack([first["x_path"].values[:, -1], np.ones(96)], 1))
    again, other = (run({"file": "next.csv"}, f"ensemble.seed={seed}") for seed in (1, 2))

    def correlation(second):
        steps = [np.diff(np.log(each["x_path"].values), axis=1)[:, -1] for each in (first, second)]
        return np.corrcoef(steps)[0, 1]

    assert correlation(again) > 0.9
    assert abs(correlation(other)) * np.sqrt(96) < 5


@pytest.mark.parametrize(("rows", "inline"), [(32, True), (33, False)])
def test_the_resolved_configuration_repeats_the_run(folder, rows, inline):
    write("start.csv", ROWS[:rows])
    first = load({**STILL, "initial": {"file": "start.csv"}})
    checksum = hashlib.sha256((folder / "start.csv").read_bytes()).hexdigest()
    listed = {"values": ROWS[:rows, 0].tolist()}
    wanted = listed if inline else {"file": "start.csv", "column": "x", "sha256": checksum}
    resolved = first.experiment.resolved()
    assert resolved["initial"]["x"] == wanted
    again = load(resolved)
    assert again.experiment.resolved() == resolved
    for simulation in (first, again):
        np.testing.assert_array_equal(simulation.initial["x"].numbers, ROWS[:rows, 0])
    write("start.csv", 1 + ROWS[:rows])
    if inline:
        load(resolved)
    else:
        with pytest.raises(InputError, match=r"start\.csv is not the file that the run began from"):
            load(resolved)


def test_a_file_is_searched_next_to_the_experiment(folder):
    (folder / "study").mkdir()
    write("study/start.csv", ROWS)
    text = "model: {ode: {x: -x, y: x}}\ninitial: {y: 1, x: {file: start.csv}}\ntime: {t1: 1.0, steps: 4}\n"
    (folder / "study" / "decay.yaml").write_text(text)
    simulation = load(folder / "study" / "decay.yaml")
    assert simulation.paths == 96
    np.testing.assert_array_equal(simulation.initial["x"].numbers, ROWS[:, 0])


def test_counts_are_whole_and_each_path_has_its_own():
    write("counts.csv", [[5], [60]], "X")
    settings = {**DECAY, "initial": {"file": "counts.csv"}, "save": {"paths": "all"}}
    result = simkit.run(settings, overrides=["ensemble.paths=64"])
    np.testing.assert_array_equal(starts(result, "X"), np.tile([5, 60], 32))
    write("counts.csv", [[5], [6.5]], "X")
    with pytest.raises(InputError, match=r"initial\.X: counts\.csv:3: must be a whole number .*got 6\.5"):
        load(settings)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", r"start\.csv: is empty"),
        ("x,y\n", r"start\.csv: has no row"),
        ("x,z\n1,2\n", r"initial\.file: start\.csv has no column 'y'"),
        ("x,yy\n1,2\n", r"start\.csv has no column 'y'; did you mean 'yy'\?"),
        ("x,y\n1,2\n\n3,abc\n", r"start\.csv:4: column y: must be a finite number, got 'abc'"),
        ("x,y\n1,2\n3,nan\n", r"start\.csv:3: column y: must be a finite number, got 'nan'"),
        ("x,y\n1,\n", r"start\.csv:2: column y: must be a finite number, got nothing"),
        ("x;y\n1,5;2\n", r"column x: must be a finite number, got '1,5'; write a decimal point: 1\.5$"),
        ("x,y\n1,5,2\n", r"got 3; where commas separate columns, write decimal points$"),
        ("x,y\n1\n", r"start\.csv:2: must have 2 values separated by commas, got 1"),
        ("1,2\n3,4\n", r"start\.csv:1: the first line must name the columns, got 1"),
        ("x,x\n3,4\n", r"start\.csv:1: two columns are called 'x'"),
        ("x,y\n1,2\n3,4\n5,6\n", r"ensemble\.paths: 100 is not a multiple of the 3 .* use 99 or 102"),
    ],
)
def test_errors_name_the_file_and_the_place(folder, content, message):
    (folder / "start.csv").write_text(content)
    with pytest.raises(InputError, match=message):
        load({**STILL, "initial": {"file": "start.csv"}, "ensemble": {"paths": 100}})


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"file": "other.csv"}, r"initial\.x: other\.csv: no such file; .* the working directory"),
        ({"file": "start.txt"}, r"must end in \.csv, \.nc, \.zarr, got 'start\.txt'"),
        ({"file": "start.csv", "colum": "x"}, r"initial\.x\.colum: unknown key; did you mean 'column'\?"),
        ({"file": "start.csv", "variant": "low"}, r"variant chooses from the result of a run"),
        ({"values": []}, r"initial\.x\.values: must be a list of numbers"),
        ({"values": [1.0, float("nan")]}, r"initial\.x\.values: must be finite"),
    ],
)
def test_errors_in_an_entry(entry, message):
    write("start.csv", ROWS)
    with pytest.raises(InputError, match=message):
        load({**STILL, "initial": {"x": entry, "y": 1.0}})


def test_a_run_without_stored_paths_is_no_start():
    write("start.csv", ROWS)
    simkit.run({**STILL, "initial": {"file": "start.csv"}, "save": {"paths": 0}}, out="bare.nc")
    with pytest.raises(InputError, match=r"bare\.nc holds no paths of x; .*paths: all"):
        load({**STILL, "initial": {"file": "bare.nc"}})


@pytest.mark.parametrize(
    ("kind", "content"),
    [("particles", "molecular dynamics"), ("sensitivity", "derivatives"), ("uncertainty", "a study")],
)
def test_other_datasets_are_no_start(kind, content):
    xr.Dataset(attrs={"simkit_format": 1, "simkit_kind": kind}).to_netcdf("other.nc")
    with pytest.raises(
        InputError, match=rf"other\.nc holds {content}, not paths of a model; give the dataset"
    ):
        load({**STILL, "initial": {"file": "other.nc"}})


def test_some_of_a_run_s_paths_are_not_taken_for_all():
    write("start.csv", ROWS)
    simkit.run({**STILL, "initial": {"file": "start.csv"}, "save": {"paths": 4}}, out="few.nc")
    few = {**STILL, "initial": {"file": "few.nc"}}
    for ensemble in ({"seed": 2}, {"seed": 2, "paths": 8}):
        with pytest.raises(InputError, match=r"few\.nc holds 4 of the \d+ paths; .*paths: all.*paths: 4"):
            load({**few, "ensemble": ensemble})
    assert load({**few, "ensemble": {"seed": 2, "paths": 4}}).experiment.ensemble.paths == 4
