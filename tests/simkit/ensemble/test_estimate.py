"""What a run is said to take before it is made."""

import pytest
from ensemble_examples import gbm

from simkit import load
from simkit.ensemble import LEAF
from simkit.ensemble.chunks import COPIES
from simkit.ensemble.sizes import estimate, estimate_text


@pytest.mark.parametrize(("chunks", "at_once"), [(1, 1), (2, 2), (7, 3)])
def test_memory_is_that_of_the_chunks_in_flight_and_of_stored_paths(chunks, at_once):
    """One thread has a chunk at work and one that is finished, while the host merges a third."""
    simulation = gbm(chunks * LEAF, 10, every=2, chunk=LEAF, stored_paths=50, devices=1, threads=1)
    sizes = estimate(simulation)
    assert (sizes["chunks"], sizes["paths_per_chunk"], sizes["saved_times"]) == (chunks, LEAF, 6)
    assert sizes["memory_bytes"] == 8 * 6 * (COPIES * at_once * LEAF + 50)


def test_one_path_of_one_step_is_counted_in_the_singular():
    decay = {"model": {"ode": {"x": "-x"}}, "initial": {"x": 1.0}, "time": {"t1": 1.0, "steps": 1}}
    assert estimate_text(estimate(load(decay))).startswith("1 path x 1 step, 1 path-step\n")
