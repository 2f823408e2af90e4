"""What differs between a record and a run is named: each key of either, and no more lines than one reads."""

import pytest

from simkit.records.same_run import SHOWN, differences, of_this_machine

FILE = "model:\n  type: GBM\n  sigma: {}\ntime:\n  t1: 1\n"


def test_points_that_only_one_of_two_sweeps_has_are_named_without_their_configurations():
    recorded = {f"variant sigma={x}": FILE.format(x) for x in (0.1, 0.2)} | {"task": "sweep"}
    now = {f"variant sigma={x}": FILE.format(x) for x in (0.2, 0.3)} | {"task": "sweep"}
    assert differences(recorded, now) == [
        "recorded only: variant sigma=0.1",
        "now only: variant sigma=0.3",
    ]


def test_of_many_points_the_first_are_named():
    (line,) = differences({}, {f"variant x={i}": FILE.format(i) for i in range(100)})
    assert line.startswith("now only: variant x=0, variant x=1, ")
    assert line.endswith("variant x=11, and 88 more")


def test_keys_of_the_record_alone_and_of_the_run_alone_differ():
    assert differences({"a": "1", "task": "run"}, {"a": "1"}) == ["recorded only: task"]
    assert differences({"a": "1"}, {"a": "1", "task": "run"}, "there", "here") == ["here only: task"]
    assert differences({"a": "1"}, {"a": "1"}) == []


def test_lines_say_which_of_both_has_them():
    (text,) = differences({"experiment": "x: 1\ny: 2"}, {"experiment": "x: 1\ny: 3"})
    assert text == "experiment: recorded `y: 2`; now `y: 3`"


@pytest.mark.parametrize("more", [0, 3])
def test_of_many_lines_the_first_are_shown_and_the_others_counted(more):
    lines = [f"line {i}" for i in range(SHOWN + more)]
    (text,) = differences({"experiment": "\n".join(["same", *lines])}, {"experiment": "same\n"})
    assert text.count("recorded `line ") == SHOWN
    assert text.endswith(f", and {more} more lines" if more else f"`line {SHOWN - 1}`")


def test_flags_of_the_compiler_decide_the_bits_too(monkeypatch):
    of_this_machine()  # XLA reads them once, and ends the process at flags that it does not know
    monkeypatch.setenv("XLA_FLAGS", "--a")
    first = of_this_machine()
    monkeypatch.setenv("XLA_FLAGS", "--b")
    assert differences(first, of_this_machine()) == ["XLA_FLAGS: recorded --a, now --b"]
    monkeypatch.setenv("XLA_FLAGS", "--b --xla_cpu_prefer_vector_width=512")  # which changes no bit
    assert differences(first, of_this_machine()) == ["XLA_FLAGS: recorded --a, now --b"]
