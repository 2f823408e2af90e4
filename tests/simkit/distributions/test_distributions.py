"""Distributions have the quantiles of SciPy's, draws move with their numbers, and wrong ones are refused."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from simkit_solvers import Stream, block, seed_key, stream_key
from simkit_solvers.random.normal import uniform

from simkit.distributions import LogNormal, Normal, Triangular, TruncatedNormal, Uniform
from simkit.distributions.distribution import Beta, Discrete
from simkit.distributions.plain import distribution_of, plain
from simkit.studies.designs import scrambled_sobol

DISTRIBUTION_EXAMPLES = {
    Normal(1, 2): stats.norm(1, 2),
    LogNormal(0.1, 0.5): stats.lognorm(0.5, scale=math.exp(0.1)),
    Uniform(-1, 3): stats.uniform(-1, 4),
    Triangular(0, 1, 4): stats.triang(0.25, 0, 4),
    Triangular(2, 2, 4): stats.triang(0.0, 2, 2),
    TruncatedNormal(0, 1, 1, 5): stats.truncnorm(1, 5),
    TruncatedNormal(3, 2, -1, 4): stats.truncnorm(-2, 0.5, 3, 2),
    Beta(2, 3, -1, 1): stats.beta(2, 3, -1, 2),
}


@pytest.mark.parametrize(
    ("distribution", "reference"), DISTRIBUTION_EXAMPLES.items(), ids=lambda x: type(x).__name__
)
class TestDistributions:
    def test_quantiles(self, distribution, reference):
        u = np.r_[1e-12, 1e-3, np.linspace(0.01, 0.99, 25), 1 - 1e-9]
        np.testing.assert_allclose(distribution.quantile(u), reference.ppf(u), rtol=1e-9, atol=1e-12)
        assert distribution_of(plain(distribution)) == distribution
        assert reference.cdf(distribution.median) == pytest.approx(0.5, abs=1e-9)

    def test_slope_bounds_the_variance(self, distribution, reference):
        """Poincaré's inequality for several functions; x itself makes it sharp for normal distributions."""
        u = (np.arange(20_000) + 0.5) / 20_000
        x = distribution.quantile(u)
        w = distribution.poincare_slope(x)
        for f, slope in ((x, 1.0), (x**2, 2 * x), (np.sin(x), np.cos(x))):
            assert np.var(f) <= np.mean((w * slope) ** 2) * (1 + 1e-3)
        if isinstance(distribution, Normal):
            assert np.var(x) == pytest.approx(np.mean(w**2), rel=1e-3)


@pytest.mark.parametrize("shapes", [(2, 3), (0.5, 0.7), (5, 1)])
def test_the_slope_of_a_beta_distribution_is_that_of_its_mirror_image(shapes):
    """To the far end of either tail, where probabilities are next to 1."""
    x = 0.5 ** np.arange(1, 53)
    one, mirrored = Beta(*shapes), Beta(*shapes[::-1])
    slopes = one.poincare_slope(1 - x)
    assert np.all(slopes > 0)
    np.testing.assert_allclose(slopes, mirrored.poincare_slope(x), rtol=1e-9)


def test_discrete_values_have_their_probabilities():
    distribution = distribution_of({"discrete": {"values": [3, 1, 2], "probabilities": [0.5, 0.25, 0.25]}})
    u = scrambled_sobol(1, 0, 1024, 0, 0)[:, 0]
    values, counts = np.unique(distribution.quantile(u), return_counts=True)
    assert dict(zip(values, counts, strict=True)) == {1: 256, 2: 256, 3: 512}
    assert distribution.quantile(np.array([0.0, 1.0])).tolist() == [1, 3]
    assert distribution_of({"discrete": [1, 2]}) == Discrete((1.0, 2.0))
    assert distribution_of(plain(distribution)) == distribution


def test_the_numbers_of_a_distribution_may_be_expressions():
    assert distribution_of({"uniform": ["-pi", "pi/2"]}) == Uniform(-math.pi, math.pi / 2)
    assert distribution_of({"discrete": ["-w", 1]}, {"w": 2.0}) == Discrete((-2.0, 1.0))


@pytest.mark.parametrize(("median", "cv"), [(3.0, 0.3), (0.2, 2.0), (1.0, 1e-6)])
def test_a_lognormal_number_of_median_and_cv_has_their_moments(median, cv):
    own = distribution_of({"lognormal": {"cv": cv, "median": median}})
    assert own.median == pytest.approx(median, rel=1e-14)
    assert all(type(x) is float for x in vars(own).values())  # as files have them
    assert math.sqrt(math.expm1(own.sd**2)) == pytest.approx(cv, rel=1e-14)
    assert math.exp(own.mean + own.sd**2 / 2) == pytest.approx(median * math.sqrt(1 + cv * cv), rel=1e-14)


def test_median_and_cv_may_be_traced():
    """The logarithm's mean moves with the median as 1/m, its sd with cv as c/(1 + c²)/sd."""
    slopes = jax.jacfwd(lambda m, c: vars(LogNormal.of_numbers(median=m, cv=c)), argnums=(0, 1))(2.0, 0.5)
    sd = math.sqrt(math.log(1.25))
    assert float(slopes["mean"][0]) == pytest.approx(0.5, rel=1e-6)
    assert float(slopes["sd"][1]) == pytest.approx(0.5 / 1.25 / sd, rel=1e-6)


@pytest.mark.parametrize(
    ("kind", "numbers", "message"),
    [
        (Normal, (0.0, -1.0), r"sd must be >= 0, got -1"),
        (LogNormal, (0.0, -0.5), r"sd must be >= 0, got -0\.5"),
        (Uniform, (2.0, 1.0), r"low must be below high, got 2 and 1"),
        (Uniform, (1.0, 1.0), r"low must be below high, got 1 and 1"),
        (Normal, (math.nan, 1.0), r"mean must be finite, got nan"),
        (LogNormal, (0.0, math.inf), r"sd must be finite, got inf"),
        (Uniform, (-math.inf, 0.0), r"low must be finite, got -inf"),
        (
            TruncatedNormal,
            (0.0, 0.0, -1.0, 1.0),
            r"sd must be > 0, got 0; a value that is known .*",
        ),
        (Triangular, (0.0, 2.0, 1.0), r"mode must lie between low and high, got 2"),
    ],
)
def test_parameters_without_a_distribution_are_refused(kind, numbers, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        kind(*numbers)


def slopes_of(own):
    """The derivatives of a draw in the numbers of its distribution, and the probability at the draw."""
    words = block(stream_key(seed_key(3), jnp.uint32(7), Stream.INITIAL), jnp.uint32(0), 2)
    draw = jax.grad(lambda own: own.draw(words, jnp.float64, False))
    return draw(jax.tree.map(jnp.asarray, own)), np.asarray(uniform(words))


MOVING = {
    "u": Uniform(-3.0, 5.0),
    "t": Triangular(-1.0, 0.5, 2.0),
    "cut": TruncatedNormal(0.04, 0.05, 0.0, 0.2),
    "tail": TruncatedNormal(0.0, 1.0, 6.0, 9.0),
}


@pytest.mark.parametrize("name", MOVING)
def test_draws_move_with_the_numbers_of_their_distribution(name):
    """As the quantile at the same probability does, by differences on the host."""
    own, step = MOVING[name], 1e-6
    slopes, u = slopes_of(own)
    for field in dataclasses.fields(own):
        up, down = (
            float(dataclasses.replace(own, **{field.name: getattr(own, field.name) + move}).quantile(u))
            for move in (step, -step)
        )
        assert float(getattr(slopes, field.name)) == pytest.approx(
            (up - down) / (2 * step), rel=1e-5, abs=1e-6
        )


@pytest.mark.parametrize("mode", [1.0, 3.0])
def test_a_side_without_length_leaves_derivatives_finite(mode):
    """They add up to 1, as a distribution that moves as a whole moves its draws."""
    slopes, _ = slopes_of(Triangular(1.0, mode, 3.0))
    assert float(slopes.low + slopes.mode + slopes.high) == pytest.approx(1, rel=1e-12)
