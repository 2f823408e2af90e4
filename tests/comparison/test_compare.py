"""The comparison of two checkouts reports what differs."""

import numpy as np
import pytest
from cases import Case, all_cases
from checkout import ROOT
from compare import differences, without_arrays

from simkit.engines.loaded import load_each
from simkit.studies.plan import load_uncertain


def result(path, values, printed="S 1.5"):
    np.savez(path, S_mean=np.array(values))
    return {"exit_code": 0, "printed": printed, "json": "", "arrays": str(path)}


def test_a_last_bit_is_a_difference_unless_there_is_a_tolerance(tmp_path):
    old = result(tmp_path / "old.npz", [1.5, 2.0])
    new = result(tmp_path / "new.npz", [1.5, np.nextafter(2.0, 3.0)])
    (line,) = differences(old, new, 0.0)
    assert line.startswith("S_mean: differs by 2.22e-16")
    assert differences(old, new, 1e-12) == []
    assert differences(old, old, 0.0) == []


def test_what_is_printed_ends_otherwise_or_is_missing_differs(tmp_path):
    old = result(tmp_path / "old.npz", [1.0])
    assert "before: S 1.5" in differences(old, old | {"printed": "S 1.6"}, 0.0)[0]
    assert differences(old, old | {"exit_code": 3}, 1e-12) == ["exit_code: 0 and 3"]
    assert differences(old, old | {"arrays": None}, 1e-12) == ["S_mean: only before"]


def test_a_case_without_arrays_is_named_unless_it_is_one_with_errors():
    cases = [Case("ran", "run", ("",)), Case("failed", "run", ("",)), Case("error", "validate", ("",))]
    results = {case.name: {"arrays": "x.npz" if case.name == "ran" else None} for case in cases}
    assert without_arrays(cases, results) == ["failed"]


def is_valid(case: Case, text: str) -> bool:
    load = load_uncertain if case.command == "uncertainty" else load_each
    try:
        load(text, case.settings)
    except ValueError:
        return False
    return True


@pytest.mark.slow
def test_every_case_has_a_text_that_is_valid():
    cases = [case for case in all_cases(ROOT) if case.command != "validate"]
    assert len(cases) > 250
    assert not [case.name for case in cases if not any(is_valid(case, text) for text in case.texts)]
