"""When the standard error of a sample can be believed: known tail indices, and no false alarms."""

import numpy as np
import pytest

from simkit.derivatives.moments import Averages
from simkit.derivatives.tails import grows, tail_of

SEEDS = 40


def verdict(values, level=None, factor=2.0):
    tail = tail_of(values, level, factor)
    return "reliable" if tail is None else tail.verdict


def lognormal(rng, n, s):
    return np.exp(s * rng.standard_normal(n))


LIGHT = {
    "normal": lambda rng, n: rng.standard_normal(n),
    "exponential": lambda rng, n: rng.exponential(size=n),
    "lognormal": lambda rng, n: lognormal(rng, n, 0.5),
    "call": lambda rng, n: np.maximum(lognormal(rng, n, 0.2) - 1, 0),
    "vega": lambda rng, n: (lambda z: np.exp(0.2 * z) * (z - 0.2) * (z > 0))(rng.standard_normal(n)),
    "gamma": lambda rng, n: (lambda z: np.exp(0.2 * z) * (z**2 - 0.2 * z - 1))(rng.standard_normal(n)),
    "event": lambda rng, n: rng.random(n) < 100 / n,
}


@pytest.mark.parametrize("name", LIGHT)
@pytest.mark.parametrize("paths", [1000, 2**16])
def test_no_false_alarms(name, paths):
    assert [verdict(LIGHT[name](np.random.default_rng(seed), paths)) for seed in range(SEEDS)] == [
        "reliable"
    ] * SEEDS


@pytest.mark.parametrize("paths", [1000, 2**16])
def test_distributions_without_a_variance_are_flagged(paths):
    """Student's with one degree of freedom, whose tail index is 1."""
    tails = [tail_of(np.random.default_rng(seed).standard_cauchy(paths)) for seed in range(SEEDS)]
    assert sum(tail.verdict == "heavy" for tail in tails) >= 0.9 * SEEDS
    assert np.median([tail.index for tail in tails]) == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("index", [1.0, 2.0, 4.0])
def test_the_tail_index_is_that_of_the_distribution(index):
    """Pareto's, of both signs; its estimate spreads by one over the root of the paths in the tail."""
    rng = np.random.default_rng(2)
    results = [tail_of((1 + rng.pareto(index, 2**16)) * rng.choice([-1, 1], 2**16)) for _ in range(SEEDS)]
    assert np.mean([1 / tail.index for tail in results]) * index == pytest.approx(
        1, abs=5 / (SEEDS * 65) ** 0.5
    )


def test_one_path_that_makes_the_variance_is_flagged():
    values = np.zeros(100_000)
    values[7] = 1.0
    assert verdict(values) == "heavy"
    assert tail_of(values).largest == pytest.approx(1, abs=1e-4)


def test_a_tail_that_grows_with_the_steps_is_no_variance():
    rng = np.random.default_rng(3)
    shared = rng.standard_cauchy(2**14)
    finer, coarser = shared * 1.5 + rng.standard_normal(2**14), shared
    assert verdict(finer, coarser) == "grows"
    assert verdict(coarser, finer) == "heavy"
    assert grows(finer, coarser)
    assert verdict(rng.standard_normal(2**14) * 2, rng.standard_normal(2**14)) == "reliable"


@pytest.mark.parametrize("values", [np.zeros(0), np.full(5, np.nan), np.ones(1000), np.arange(10.0)])
def test_what_has_no_tail(values):
    assert tail_of(values) is None
    assert verdict(values) == "reliable"


def test_large_numbers_do_not_overflow():
    values = np.random.default_rng(4).standard_cauchy(1000) * 1e200
    assert tail_of(values).largest == pytest.approx(tail_of(values * 1e-200).largest)


@pytest.mark.parametrize("seed", range(5))
def test_tails_without_a_variance_are_distinguished_from_those_with_one(seed):
    """Of as many values as a pilot has."""
    rng = np.random.default_rng(seed)
    sign = rng.choice([-1, 1], 4096)
    for index in (0.8, 1.2):
        assert "a few paths make the variance (tail index" in tail_of(sign * rng.pareto(index, 4096)).fault
    z = rng.standard_normal(4096)
    light = {
        "normal": z,
        "lognormal": np.exp(z),
        "tail index 4": sign * rng.pareto(4.0, 4096),
        "square": z**2 - 1,
        "spikes of all heights": np.where(rng.random(4096) < 0.03, z, 0.02 * z),
        "spikes": np.where(rng.random(4096) < 0.02, 50.0, 0.0),
        "constant": np.ones(4096),
        "zero": np.zeros(4096),
    }
    assert {name: verdict(x) for name, x in light.items()} == dict.fromkeys(light, "reliable")


def test_an_event_on_few_paths_is_heavy_and_does_not_grow():
    """Ten paths on short steps and five on long ones: an accident, and no law."""
    short, long = np.zeros(4096), np.zeros(4096)
    short[:10], long[:5] = 1, 1
    assert verdict(short) == verdict(short, long) == "heavy"
    assert tail_of(short).fault == "a few paths make the variance"  # all of one height: no tail to speak of
    short[:100], long[:50] = 1, 1
    assert verdict(short, long) == "reliable"


def test_growth_decides_where_a_tail_is_in_doubt():
    """Student's distribution with 1.6 degrees of freedom, of which the index alone is not sure."""
    doubtful = 0
    for seed in range(SEEDS):
        shared = np.random.default_rng(seed).standard_t(1.6, 4096)
        assert verdict(shared, shared) == verdict(shared)
        doubtful += verdict(shared) == "reliable" and verdict(1.2 * shared, shared) == "grows"
        assert verdict(shared, 1.2 * shared) == verdict(shared)
        few = shared[:256]  # whose growth may be chance
        assert verdict(few) == "heavy" or verdict(1.2 * few, few) == "reliable"
        assert verdict(shared, 1.2 * shared, 0.5) == verdict(1.2 * shared, shared)
    assert doubtful > 3
    z = np.random.default_rng(0).standard_normal(4096)
    assert verdict(1.5 * z, z) == "reliable"  # it grows, and is a variance all the same


@pytest.mark.parametrize("sign", [1, -1])
def test_the_path_that_makes_most_of_the_variance_may_be_the_lowest(sign):
    values = sign * np.append(np.random.default_rng(0).standard_normal(100), 30.0)
    numbers = {"mean": values.mean(), "variance": values.var(ddof=1)}
    numbers |= {"min": values.min(), "max": values.max()}
    statistics = {f"0_{kind}": np.array([number]) for kind, number in numbers.items()}
    averages = Averages([], [], [], np.array([]), [], statistics | {"n": np.array(len(values))})
    squares = (values - values.mean()) ** 2
    assert averages.largest_part(0) == pytest.approx(squares.max() / squares.sum())
