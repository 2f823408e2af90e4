"""What differs between a record and a run is named: each key of either, and no more lines than one reads."""

import io
import re

import pytest

from simkit.records import same_run
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


CPU = """\
processor\t: 0
model name\t: Some CPU
flags\t\t: fpu sse{}

processor\t: 1
model name\t: Another
"""


def test_the_version_of_python_decides_too(monkeypatch):
    monkeypatch.setattr("platform.python_version", lambda: "3.11.7")
    first = of_this_machine()
    monkeypatch.setattr("platform.python_version", lambda: "3.12.1")
    (line,) = differences(first, of_this_machine())
    assert re.fullmatch("versions: recorded simkit=.* python=3.11.7, now simkit=.* python=3.12.1", line)


@pytest.mark.parametrize("package", ["jax", "jaxlib", "diffrax", "equinox", "numpy"])
def test_each_package_that_computes_decides(monkeypatch, package):
    first = of_this_machine()
    known = same_run.version
    monkeypatch.setattr(same_run, "version", lambda name: "0.0.1" if name == package else known(name))
    (line,) = differences(first, of_this_machine())
    assert f"{package}=0.0.1 " in line


def test_what_the_processor_can_do_decides_too(monkeypatch):
    """XLA compiles for that: of two of a name one may be in a virtual machine that hides some of it."""

    def on(text: str) -> dict[str, str]:
        monkeypatch.setattr("builtins.open", lambda path, **_: io.StringIO(text))
        identity = of_this_machine()
        monkeypatch.undo()
        return identity

    first = on(CPU.format(" avx"))
    assert differences(first, on(CPU.format(" avx"))) == []
    assert differences(first, on(CPU.format(" avx avx512f"))) == ["processor: now `avx512f`"]
    assert differences(first, on(CPU.format(""))) == ["processor: recorded `avx`"]
    other = differences(first, on(CPU.format(" avx").replace("Some CPU", "Other")))
    assert other == ["processor: recorded `Some CPU`; now `Other`"]


def test_flags_of_the_compiler_decide_the_bits_too(monkeypatch):
    of_this_machine()  # XLA reads them once, and ends the process at flags that it does not know
    monkeypatch.setenv("XLA_FLAGS", "--a")
    first = of_this_machine()
    monkeypatch.setenv("XLA_FLAGS", "--b")
    assert differences(first, of_this_machine()) == ["XLA_FLAGS: recorded --a, now --b"]
    monkeypatch.setenv("XLA_FLAGS", "--b --xla_cpu_prefer_vector_width=512")  # which changes no bit
    assert differences(first, of_this_machine()) == ["XLA_FLAGS: recorded --a, now --b"]
