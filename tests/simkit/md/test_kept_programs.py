"""Programs of molecular dynamics on disk: a second run finds them and gives the same bits."""

import numpy as np
import pytest
from md_examples import fluid

import simkit
from simkit.ensemble import programs, stored_programs

EXPERIMENT = fluid(
    system__species={"A": {"fraction": 0.5}, "B": {}},
    stages={"warm": {"steps": 4, "solver": {"type": "BAOAB", "temperature": 1.2, "friction": 1.0}}},
    observe={"T": "temperature", "g": {"rdf": {"bins": 10, "max": 2.0}}},
    time__steps=20,
)


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """A folder for programs, and the functions of those that were traced."""
    traced, trace = [], programs._traced

    def recorded(request):
        traced.append(request.program.function.__name__)
        return trace(request)

    monkeypatch.setattr(stored_programs, "folder_of_programs", lambda: tmp_path)
    monkeypatch.setattr(programs, "_cache", type(programs._cache)())
    monkeypatch.setattr(programs, "_traced", recorded)
    return tmp_path, traced


@pytest.mark.more
def test_a_second_run_traces_no_program_and_has_the_same_bits(kept):
    folder, traced = kept
    first = simkit.run(EXPERIMENT)
    # Velocities, those without a drift, and the chunks of a stage and of the run.
    assert sorted(traced) == ["chunk_of_steps", "chunk_of_steps", "with_velocities", "without_drift"]
    assert len(list(folder.glob("*.program"))) == 4
    programs._cache.clear()
    traced.clear()
    second = simkit.run(EXPERIMENT)
    assert not traced
    for name in ("T_path", "g", "end_position", "end_velocity"):
        np.testing.assert_array_equal(first[name], second[name])
    longer = EXPERIMENT | {"time": {"dt": 0.002, "steps": 40}, "ensemble": {"seed": 9}}
    simkit.run(longer)
    assert not traced  # numbers are no part of a program
    simkit.run(
        EXPERIMENT | {"solver": {"type": "NoseHooverChains", "temperature": 1.0, "relaxation_time": 0.5}}
    )
    assert traced == ["chunk_of_steps"]
