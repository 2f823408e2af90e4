"""Means and variances of the arrays that derivatives are made of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit.derivatives.moments import MomentsReduction
from simkit.ensemble import compiled


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
