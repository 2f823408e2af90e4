"""Means and variances of the arrays that derivatives are made of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit.derivatives.moments import MomentsReduction, average
from simkit.ensemble import compiled
from simkit.ensemble.chunks import Chunks
from simkit.ensemble.work import workers_on
from simkit.machine.on_each_device import local_devices


@pytest.mark.parametrize("counts", [(1,), (1, 1), (1, 1, 1), (3, 1, 3, 1, 3)])
def test_any_number_of_arrays_is_averaged_by_the_programs_of_two(counts):
    """With means as of NumPy, each in its place, over the paths where all are finite."""
    rng, ids = np.random.default_rng(1), (2, 64)
    arrays = [rng.standard_normal((count, *ids)) for count in counts]
    arrays[-1][0, 1, 5] = np.nan
    present = np.arange(128).reshape(ids) < 120
    with jax.enable_x64(True):
        reduction = MomentsReduction(counts)
        requests = reduction.requests(ids, "float64", ())
        assert {request.key for request in requests} == {
            request.key
            for count in counts
            for request in MomentsReduction((count,) * 2).requests(ids, "float64", ())
        }
        result, valid = reduction.compiled(compiled(*requests)[0])([jnp.asarray(x) for x in arrays], present)
        reducer = reduction.reducer
        statistics = reducer.finish(reducer.merge(reducer.init(), reduction.nodes(result)))
    kept = present.copy()
    kept[1, 5] = False
    np.testing.assert_array_equal(np.asarray(valid)[0], kept)
    for place, array in enumerate(arrays):
        np.testing.assert_allclose(statistics[f"{place}_mean"], array[:, kept].mean(1), rtol=1e-13)
        np.testing.assert_allclose(statistics[f"{place}_variance"], array[:, kept].var(1, ddof=1), rtol=1e-12)


def test_failed_paths_are_known_by_their_ids_in_every_chunk():
    """Of three chunks of four paths, the last one partly empty; the means are those of the others."""
    plan, reduction = Chunks(10, 1, 4), MomentsReduction((1,))

    def simulate(ids):
        value = jnp.asarray(ids, jnp.float64)
        return (jnp.where((ids % 4 == 1) | (ids == 6), jnp.nan, value)[None],)

    result = average(simulate, reduction, plan, workers_on(local_devices(1), 2))
    assert list(result.failed) == [1, 5, 6, 9]
    assert result.mean[0] == pytest.approx(np.mean([0, 2, 3, 4, 7, 8]))
    later = Chunks(5, 1, 4, first=3)
    of_later_policy = average(simulate, reduction, later, workers_on(local_devices(1), 2))
    assert list(of_later_policy.failed) == [5, 6]
    assert of_later_policy.mean[0] == pytest.approx(np.mean([3, 4, 7]))
