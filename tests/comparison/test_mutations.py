"""Each known fault can be put in, and the tests that are to catch it are there."""

from mutations import FAULTS, ROOT, SOURCES, named_tests, places, texts


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
