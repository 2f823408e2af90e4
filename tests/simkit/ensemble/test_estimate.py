"""What a run is said to take before it is made."""

import pytest
from ensemble_examples import gbm

from simkit.ensemble.chunks import LEAF
from simkit.ensemble.sizes import estimate


@pytest.mark.parametrize(("chunks", "at_once"), [(1, 1), (2, 2), (7, 2)])
def test_memory_is_that_of_the_chunks_in_flight_and_of_stored_paths(chunks, at_once):
    """The host merges one chunk while the devices step the next: never more than two are there."""
    simulation = gbm(chunks * LEAF, 10, every=2, chunk=LEAF, stored_paths=50)
    sizes = estimate(simulation)
    assert (sizes["chunks"], sizes["paths_per_chunk"], sizes["saved_times"]) == (chunks, LEAF, 6)
    assert sizes["memory_bytes"] == 8 * 6 * (at_once * LEAF + 50)
