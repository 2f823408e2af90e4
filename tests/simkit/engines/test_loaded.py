"""Whatever an experiment simulates, its variants run one after the other, and what is said names them."""

import json
import threading

import pytest
from command import simkit_command
from md_examples import fluid

from simkit import InputError, NumericalError
from simkit.engines.loaded import load_each

PATHS = {
    "constants": {"a": 1.0},
    "model": {"sde": {"x": {"drift": "-a*x", "noise": {"W": 0.1}}}},
    "initial": {"x": 1.0},
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"paths": 64},
    "observe": {"end": "x"},
    "sensitivity": {"wrt": ["a"], "of": ["end"]},
}
PARTICLES = fluid()


@pytest.fixture(params=["paths", "particles"])
def kind(request) -> str:
    return request.param


@pytest.fixture
def experiment(kind) -> dict:
    return {"paths": PATHS, "particles": PARTICLES}[kind]


def test_progress_of_variants_is_that_of_one_run(experiment, kind):
    loaded = load_each(experiment | {"variants": {"a": {}, "b": {}, "c": {}}})
    work = [loaded.engine.work(simulation) for simulation in loaded.each.values()]
    seen: list[tuple[int, int]] = []
    loaded.run(lambda *counts: seen.append(counts))
    done = [each for each, _ in seen]
    assert {total for _, total in seen} == {sum(work)}
    assert done == sorted(done)
    assert {work[0], work[0] + work[1]} <= {*done}
    assert done[-1] == sum(work)


def test_means_that_are_no_result_are_kept_silently_only_where_all_variants_say_so():
    keep = {"ensemble.unresolved": "keep"}
    for variants, kept in (({"a": keep, "b": keep}, True), ({"a": keep, "b": {}}, False)):
        assert load_each(PATHS | {"variants": variants}).keeps_unresolved is kept


def test_a_run_without_variants_has_no_such_dimension(experiment):
    loaded = load_each(experiment)
    assert list(loaded.each) == [""]
    assert "variant" not in loaded.run().dims


def test_a_constant_that_nothing_uses_is_remarked_once_at_its_place(experiment, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    given = experiment.get("constants", {}) | {"b": 1.0, "c": "2*b", "in_b": 3.0}
    (tmp_path / "one.yaml").write_text(json.dumps(experiment | {"constants": given}))
    length = {"paths": "time.t1", "particles": "time.dt"}[kind]
    variants = {"a": {length: 3.0}, "b": {length: "in_b"}}
    several = experiment | {"constants": given, "variants": variants}
    (tmp_path / "two.yaml").write_text(json.dumps(several))
    unused = "no expression uses it; use it, or remove it"
    for file, names in (("one.yaml", ("c", "in_b")), ("two.yaml", ("c",))):
        lines = simkit_command("validate", file).stderr.splitlines()
        assert [line.rpartition(": constants.")[2] for line in lines] == [f"{n}: {unused}" for n in names]
        assert all(line.startswith(f"warning: {file}:1:") for line in lines)
        assert simkit_command("run", "--dry-run", file).stderr.splitlines() == lines
        assert simkit_command("run", "--dry-run", "--quiet", file).stderr == ""


def test_a_curve_that_nothing_uses_is_remarked_at_its_place(tmp_path, monkeypatch):
    """A curve is used where an expression names it, and not where a file or an interpolation is called so."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "q.csv").write_text("when,what\n0,1\n10,2\n")
    drawn = {"times": [0, 10], "values": [1, 2], "interpolation": "linear"}
    from_file = {"file": "q.csv", "time": "when", "value": "what"}
    curves = {"k": drawn, "observed": drawn, "in_b": drawn, "linear": drawn, "q": from_file}
    equations = PATHS["model"] | {"parameters": {"rate": "2*k"}}
    given = PATHS | {"curves": curves, "model": equations, "observe": {"end": "x*observed*rate"}}
    (tmp_path / "one.yaml").write_text(json.dumps(given))
    variants = {"a": {}, "b": {"observe.end": "x + in_b"}}
    (tmp_path / "two.yaml").write_text(json.dumps(given | {"variants": variants}))
    for file, names in (("one.yaml", ("in_b", "linear", "q")), ("two.yaml", ("linear", "q"))):
        result = simkit_command("validate", file)
        assert result.exit_code == 0, result.stderr
        lines = result.stderr.splitlines()
        unused = "no expression uses it; use it, or remove it"
        assert [line.rpartition(": curves.")[2] for line in lines] == [f"{n}: {unused}" for n in names]
        assert all(line.startswith(f"warning: {file}:1:") for line in lines)


def test_a_parameter_that_nothing_uses_is_remarked_at_its_place(tmp_path, monkeypatch):
    """Of a model in the file, also where it has the value of a constant called the same."""
    monkeypatch.chdir(tmp_path)
    equations = {"sde": {"x": {"drift": "-rate*x", "noise": {"W": "s"}}}}
    parameters = {"rate": 2.0, "never": 2.0, "s": 0.1, "a": "a", "seen": 1.0, "in_b": 1.0}
    given = PATHS | {"model": equations | {"parameters": parameters}, "observe": {"end": "x*seen"}}
    given["sensitivity"] = {"wrt": ["rate"], "of": ["end"]}
    (tmp_path / "one.yaml").write_text(json.dumps(given))
    variants = {"a": {}, "b": {"observe.end": "x + in_b", "model.parameters.rate": 3.0}}
    (tmp_path / "two.yaml").write_text(json.dumps(given | {"variants": variants}))
    for file, names in (("one.yaml", ("never", "a", "in_b")), ("two.yaml", ("never", "a"))):
        lines = simkit_command("validate", file).stderr.splitlines()
        unused = "no expression uses it; use it, or remove it"
        assert [line.rpartition(": model.parameters.")[2] for line in lines] == [
            f"{n}: {unused}" for n in names
        ]
        assert all(line.startswith(f"warning: {file}:1:") for line in lines)
        assert simkit_command("run", "--dry-run", file).stderr.splitlines() == lines


def test_what_only_a_variant_sets_and_nothing_uses_is_remarked_there(tmp_path, monkeypatch):
    """Whether a constant, curve or parameter; not what another variant uses, nor what a variant removes."""
    monkeypatch.chdir(tmp_path)
    model = {"sde": {"x": {"drift": "-rate*x", "noise": {"W": 0.1}}}, "parameters": {"rate": 2.0}}
    small = {
        "model.parameters.rat": 3.0,
        "constants.other": 1.0,
        "constants.late": 1.0,
        "constants.idle": None,
    }
    small["curves"] = {"drawn": {"times": [0, 10], "values": [1, 2]}}
    large = {"observe.end": "x*late", "constants.late": 2.0}
    given = PATHS | {"model": model, "constants": {"idle": 1.0}, "variants": {"small": small, "large": large}}
    given["sensitivity"] = {"wrt": ["rate"], "of": ["end"]}
    (tmp_path / "two.yaml").write_text(json.dumps(given))
    lines = simkit_command("validate", "two.yaml").stderr.splitlines()
    places = [line.split("two.yaml:1:")[1] for line in lines]
    assert [place.partition(": ")[2] for place in places] == [
        f"{where}: no expression uses it; use it, or remove it"
        for where in (
            "constants.idle",
            *("variant small: constants.other", "variant small: curves.drawn"),
            "variant small: model.parameters.rat",
        )
    ]
    key = json.dumps(given).index('"model.parameters.rat"')
    assert places[-1].startswith(f"{key + 1}: ")


def test_what_is_wrong_with_derivatives_of_a_variant_names_it():
    second = {"a": {}, "b": {"sensitivity.wrt": ["x0"], "constants.x0": 1.0, "initial.x": "x0"}}
    with pytest.raises(InputError, match=r"^variant b: has sensitivity\.wrt: \['x0'\], and a has \['a'\]"):
        load_each(PATHS | {"variants": second}).differentiate()
    for key, own in (("of", ["x"]), ("second", ["a"]), ("check", True)):
        other = {"a": {}, "b": {f"sensitivity.{key}": own}}
        with pytest.raises(InputError, match=rf"^variant b: has sensitivity\.{key}: "):
            load_each(PATHS | {"variants": other}).differentiate()
    wrong = {"a": {"sensitivity.method": "pathwise"}, "b": {}}
    with pytest.raises(InputError, match=r"^variant a: sensitivity\.method: "):
        load_each(PATHS | {"observe": {"end": "x > 0.5"}, "variants": wrong}).differentiate()


def test_what_can_be_differentiated_is_asked_for(experiment, kind):
    example = {"paths": "sigma", "particles": "epsilon"}[kind]
    plain = {key: value for key, value in experiment.items() if key != "sensitivity"}
    with pytest.raises(InputError, match=rf"^sensitivity: is missing; .* --wrt {example}$"):
        load_each(plain).differentiate()
    one_without = {"a": {}, "b": {"sensitivity": None}}
    with_section = experiment | {"sensitivity": {"wrt": [example]}, "variants": one_without}
    if kind == "paths":
        with_section["sensitivity"] = PATHS["sensitivity"]
    with pytest.raises(InputError, match=rf"^variant b: sensitivity: is missing; .* --wrt {example}$"):
        load_each(with_section).differentiate()


def test_commands_say_the_same_of_a_file_and_of_its_variants(experiment, kind, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.yaml").write_text(json.dumps(experiment))
    (tmp_path / "two.yaml").write_text(json.dumps(experiment | {"variants": {"a": {}, "b": {}}}))
    for command in (("validate",), ("run", "--dry-run")):
        alone = simkit_command(*command, "one.yaml", "--json")
        both = simkit_command(*command, "two.yaml", "--json")
        said = json.loads(alone.stdout)
        for own in json.loads(both.stdout)["variants"].values():
            free = own.keys() - {"memory_available_bytes"}
            assert {key: own[key] for key in free} == {key: said[key] for key in free}
    line = simkit_command("validate", "one.yaml").stdout.removeprefix("one.yaml: ")
    assert line.startswith("valid (")
    expected = [f"two.yaml: variant {name}: {line}" for name in "ab"]
    assert simkit_command("validate", "two.yaml").stdout == "".join(expected)


def test_a_point_is_finished_while_the_next_one_runs():
    """The end of the first one waits here for the start of the second."""
    loaded, second_runs = load_each(PATHS | {"variants": {"a": {}, "b": {}, "c": {}}}), threading.Event()
    order = iter("abc")

    def run(simulation, progress):
        name = next(order)
        if name == "b":
            second_runs.set()
        return name

    def finish(simulation, name):
        assert second_runs.wait(60)
        return name.upper()

    assert loaded.engine.one_by_one(loaded.each, run, None, finish) == {"a": "A", "b": "B", "c": "C"}


def test_of_two_points_that_fail_the_first_is_named():
    """The second one's run fails before the first one's end does."""
    loaded, failed = load_each(PATHS | {"variants": {"a": {}, "b": {}}}), threading.Event()
    order = iter("ab")

    def run(simulation, progress):
        if next(order) == "b":
            failed.set()
            raise InputError("too little memory")

    def finish(simulation, made):
        assert failed.wait(60)
        raise NumericalError("nothing to average")

    with pytest.raises(NumericalError, match=r"^variant a: nothing to average$"):
        loaded.engine.one_by_one(loaded.each, run, None, finish)
