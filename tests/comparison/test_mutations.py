"""Each known fault can be put in, and the tests that are to catch it are there."""

import pytest
from mutations import FAULTS, ROOT, places, test_files


def test_faults_have_names_of_their_own():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) > 90
    assert (ROOT / "tests/comparison/faults.txt").read_text("utf-8").count("\n[") == len(FAULTS)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_has_one_place_and_tests_that_exist(fault):
    assert len(places(ROOT, fault)) == 1
    assert fault.replacement != fault.snippet
    files = test_files(ROOT, fault.tests)
    assert files
    assert all(files.values()), files
