"""What is kept of a path between two dates of exercise."""

import numpy as np
import pytest

from simkit import load
from simkit.ensemble.early_exercise.exercise_sample import option_groups
from simkit.ensemble.early_exercise.martingale import INTERVALS

MU, SIGMA, DATES = 0.1, 0.3, 3
FIELDS = ("starts", "normals")


@pytest.mark.parametrize("each", [1, 3])
def test_the_normals_of_an_interval_are_those_that_move_the_price_over_it(each):
    """However many steps it has; an exact step of a price is its exponential."""
    early = {"dates": DATES, "basis": ["log(S)"], "paths": 256}
    simulation = load(
        {
            "model": {"type": "GBM", "mu": MU, "sigma": SIGMA},
            "initial": {"S": 100.0},
            "solver": "ExactSampling",
            "time": {"t1": 1.0, "steps": each * INTERVALS * DATES},
            "ensemble": {"paths": 256, "seed": 7, "devices": 1},
            "observe": {"call": {"value": "maximum(S - 100, 0)", "early_exercise": early}},
        }
    )
    samples = []
    (group,) = option_groups(simulation)
    assert group.every == each
    group.sample(0, 256, samples.append)
    starts, normals = (np.concatenate([getattr(s["call"], name)[0] for s in samples], 1) for name in FIELDS)
    dt = 1 / (INTERVALS * DATES)
    moved = (MU - SIGMA**2 / 2) * dt + SIGMA * np.sqrt(dt) * normals
    np.testing.assert_allclose(np.diff(starts, axis=0), moved[:-1], rtol=0, atol=1e-6)
