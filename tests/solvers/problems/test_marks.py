"""Numbers of jumps and sums of their sizes, by their distributions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jump_examples import random_words, some_words
from scipy import stats
from simkit_solvers import DoubleExponentialMarks, NormalMarks
from simkit_solvers.problems.marks import jump_count
from user_code import user_jit

LIMIT = 5  # in standard errors: once in a million


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_few_jumps_are_counted_to_the_last_bits(dtype):
    """N is at least k for the words below P(N >= k), also where that is so small that 1 - P is 1."""
    means = np.array([1e-6, 1e-4, 0.01, 0.2])
    tails = stats.poisson.sf(np.array([[0], [1]]), means)  # P(N >= 1) and P(N >= 2)
    places = tails * 2.0**31
    inside, outside = np.floor(places * (1 - 2e-6) - 1.5), np.ceil(places * (1 + 2e-6) + 0.5)
    words = 2 * np.stack([np.maximum(inside, 0), outside]).astype(np.uint32)
    count = user_jit(jax.vmap(lambda w, m: jump_count(w, some_words(), 1, m)))
    for k in (0, 1):
        low, high = (np.asarray(count(row, jnp.asarray(means, dtype))) for row in words[:, k])
        assert (low[inside[k] >= 0] > k).all()
        assert (high <= k).all()


@pytest.mark.more
def test_jumps_of_a_step_follow_poisson_and_their_sum_its_distribution():
    """Mean and variance of the number and of the compound sum, over the change from inversion to times."""
    means = jnp.asarray([0.02, 0.25, 0.3, 4.0, 40.0])
    distributions = {
        "normal": (NormalMarks(-0.1, 0.3), (-0.1, 0.1, -(0.1**3) - 3 * 0.1 * 0.09, 0.0406)),
        "Kou": (DoubleExponentialMarks(0.4, 10.0, 5.0), (0.04 - 0.12, 0.056, None, 24 * (4e-5 + 0.6 / 625))),
    }
    count = 2**15

    @user_jit
    def draws(words):
        def one(words, mean):
            number = jump_count(words.block(0).a, words, 1, mean)
            return {"number": number} | {
                name: distribution.total(words, mean) for name, (distribution, _) in distributions.items()
            }

        return jax.vmap(lambda m: jax.vmap(lambda w: one(w, m))(words))(means)

    result = draws(random_words(count))
    moments = {"number": (1.0, 1.0, None, 1.0)} | {name: known for name, (_, known) in distributions.items()}
    for name, (first, second, _, fourth) in moments.items():
        x, mean, variance = np.asarray(result[name]), np.asarray(means) * first, np.asarray(means) * second
        spread = np.sqrt((np.asarray(means) * fourth + 2 * variance**2) / count)
        assert (np.abs(x.mean(axis=1) - mean) < LIMIT * np.sqrt(variance / count)).all(), name
        assert (np.abs(((x - mean[:, None]) ** 2).mean(axis=1) - variance) < LIMIT * spread).all(), name
