"""Each known fault can be put in, and the tests that are to catch it are there."""

import re

import pytest
from mutations import FAULTS, ROOT, SOURCES, named_tests, places, run_tests, texts


def test_every_fault_is_read_and_has_a_name_of_its_own():
    heads = (ROOT / "tests/comparison/faults.txt").read_text("utf-8").count("\n[")
    assert heads == len(FAULTS) == len({fault.name for fault in FAULTS}) > 80


def test_every_fault_has_one_place_and_changes_it():
    sources = texts(ROOT, SOURCES)
    wrong = {fault.name: len(matches) for fault in FAULTS if len(matches := places(sources, fault)) != 1}
    assert not wrong
    assert not [fault.name for fault in FAULTS if fault.snippet == fault.replacement]


def test_every_fault_names_tests_that_exist():
    tests = texts(ROOT, ("tests",), "test_*.py")
    files = {fault.name: named_tests(tests, fault.tests) for fault in FAULTS}
    assert not {name: named for name, named in files.items() if not named or not all(named.values())}


def selects(expression: str, test: str) -> bool:
    """Whether `pytest -k` selects a test, in lower case, by the expression."""
    return eval(re.sub(r"\b(?!(?:and|or|not)\b)\w+", lambda word: str(word[0].lower() in test), expression))


@pytest.mark.more  # collecting takes ten seconds
def test_every_fault_names_a_test_that_is_not_slow():
    """Slow ones are not run for a change."""
    run = run_tests(ROOT, sorted({fault.tests for fault in FAULTS}), "--collect-only")
    assert run.returncode == 0, run.stdout
    tests = [line.rsplit("/", 1)[-1].lower() for line in run.stdout.splitlines() if "::" in line]
    unnoticed = [fault.name for fault in FAULTS if not any(selects(fault.tests, test) for test in tests)]
    assert not unnoticed
