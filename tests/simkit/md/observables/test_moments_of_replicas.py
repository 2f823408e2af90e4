"""Means and covariances of several numbers, over replicas and without one of their blocks."""

import numpy as np

from simkit.md.observables.moments import Centred, MomentSums, mean_and_covariance


def test_the_covariance_without_a_block_is_about_the_mean_of_each_replica():
    """Two replicas with means of their own, of which one has lost a quarter of its samples."""
    rng = np.random.default_rng(4)
    whole = [rng.normal(size=(400, 2)) + mean for mean in ((3.0, -1.0), (-5.0, 2.0))]
    origin = np.array([0.5, 0.5])
    about = [rows - rows.mean(0) for rows in whole]
    kept = [about[0][:300], about[1]]
    sums = MomentSums(sum(d.sum(0) for d in kept), sum(d.T @ d for d in kept))
    total = (whole[0][:300] - origin).sum(0) + (whole[1] - origin).sum(0)
    mean, covariance = mean_and_covariance(Centred(total, sums), 700, origin, 2)
    np.testing.assert_allclose(mean, np.concatenate([whole[0][:300], whole[1]]).mean(0), rtol=1e-12)
    deviations = np.concatenate([rows - rows.mean(0) for rows in (whole[0][:300], whole[1])])
    exact = deviations.T @ deviations / 700
    # The replica without a block has 3/7 of the samples, and is counted as half of them.
    lost = np.outer(sums.first, sums.first) / 700
    np.testing.assert_allclose(covariance, exact + lost * (1 / 300 - 1 / 350), rtol=1e-12)
