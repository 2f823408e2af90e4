"""Studies of random simulations: the noise is taken off what it adds to."""

import dataclasses

import numpy as np
import pytest
from study_examples import PI, method

from simkit.distributions import Normal, Uniform
from simkit.studies.estimators import Evaluated, variance
from simkit.studies.methods import Derivatives, Morris, Rank, Sobol
from simkit.studies.values import Values


class TestNoise:
    """A random simulation: noise in the same row is shared, and is taken off what it adds to."""

    def values(self, sobol, replicates, rows, paths, seed, interaction=0.0):
        """f = x0 + 2 x1 + 3 Z + interaction x2 Z on the paths Z of each row."""
        rng = np.random.default_rng(seed)
        inputs = sobol.inputs(0, rows, seed, replicates)
        x = inputs.base[:, :, sobol.design.take]
        noise = rng.standard_normal((replicates, rows, 2, paths))
        Z = noise[:, :, sobol.design.streams]
        f = (x[..., 0] + 2 * x[..., 1])[..., None] + 3 * Z + interaction * x[..., 2:3] * Z
        return Values.of(f, random=True, keep=True), inputs

    def test_variance_is_split_without_bias(self):
        sobol = method(3)
        values, inputs = self.values(sobol, 800, 32, 2, 1)
        measures, _ = sobol.measured(values, inputs)
        exact = {"parameter_variance": 5 * PI**2 / 3, "noise_variance": 9.0}
        for name, value in exact.items():
            each = measures[name][1].values
            z = (each.mean() - value) / (each.std(ddof=1) / np.sqrt(len(each)))
            # A variance of 32 scrambled points, not of independent ones, is biased by far less than 1/32.
            assert abs(z) < 4.9 or abs(each.mean() / value - 1) < 0.01, (name, z)
        fraction, _ = measures["noise_fraction"][1].interval(0.95)
        assert fraction == pytest.approx(9 / (9 + 5 * PI**2 / 3), rel=0.02)

    def test_the_noise_of_few_runs_is_taken_off_without_bias(self):
        """Of four points about their own mean it adds seven eighths of itself, with A and B together."""
        A, B = np.random.default_rng(0).standard_normal((2, 10_000, 4))
        noisy = Evaluated(A, B, A[..., None], None, np.ones_like(A), np.ones_like(B))
        result = variance(noisy)
        assert abs(result.mean()) < 4 * result.std() / 100
        result = Values(A[..., None], np.ones_like(A)[..., None]).split()["parameters"]
        assert abs(result.mean()) < 4 * result.std() / 100

    def test_indices_are_those_of_the_conditional_mean(self):
        sobol = method(3, estimator="jansen")
        values, inputs = self.values(sobol, 400, 64, 2, 2, interaction=1.0)
        for estimator in ("saltelli", "jansen", "janon"):
            own = Sobol(sobol.distributions, sobol.groups, estimator)
            measures, _ = own.measured(values, inputs)
            for name in ("first", "total"):
                value, half = measures[name][1].interval(0.999999)
                assert np.all(np.abs(value - [0.2, 0.8, 0.0]) <= half + 0.005), (estimator, name, value, half)
                assert np.max(half) < 0.08

    def test_effects_lose_the_noise(self):
        distributions = {name: Uniform(0, 1) for name in ("a", "b")}
        morris = Morris(distributions, {"a": [0], "b": [1]})
        inputs = morris.inputs(0, 500, 0, 4)
        x = inputs.base[:, :, morris.design.take]
        Z = np.random.default_rng(0).standard_normal((4, 500, 1, 4))
        measures, _ = morris.measured(
            Values.of((2 * x[..., 0])[..., None] + x[..., 1:2] * Z, True, True), inputs
        )
        assert measures["mu"][1].interval(0.95)[0][0] == pytest.approx(2)
        assert measures["sigma"][1].interval(0.95)[0][1] < 0.12
        assert measures["effect_noise"][1].interval(0.95)[0][1] == pytest.approx(0.5, rel=0.05)

    @pytest.mark.parametrize("shape", [lambda u: u, lambda u: np.exp(6 * u), lambda u: u**4])
    def test_rank_correlations_lose_the_noise(self, shape):
        """Ranks of f = g(a) + noise with g increasing: 1 with a, 0 with b, from replicates that know no g."""
        rank = Rank({name: Uniform(0, 1) for name in "ab"}, {"a": [0], "b": [1]})
        rng, covered = np.random.default_rng(0), []
        for seed in range(20):
            inputs = rank.inputs(0, 256, seed, 8)
            mean = shape(inputs.base[..., 0])[..., None, None]
            noise = 4 * shape(np.linspace(0, 1, 100)).std() * rng.standard_normal((8, 256, 1, 16))
            measures, _ = rank.measured(Values.of(mean + noise, True, True), inputs)
            value, half = measures["spearman"][1].interval(0.95)
            covered.append(np.abs(value - [1, 0]) <= half)
            assert np.all(half < 0.5)
        assert np.all(np.mean(covered, 0) >= 0.85)

    def test_rank_correlations_lose_what_noise_does_to_expected_ranks(self):
        """Where an output is nearly flat over much of its range noise smooths its ranks, as quarters show.

        The ranks of halves alone say 0.94 where 1 is right, and their interval does not hold it.
        """
        rank = Rank({"a": Uniform(0, 1)}, {"a": [0]})
        rng, covered, values = np.random.default_rng(0), [], []
        for seed in range(12):
            inputs = rank.inputs(0, 256, seed, 8)
            mean = np.exp(6 * inputs.base[..., 0])[..., None, None]
            noise = np.exp(6 * np.linspace(0, 1, 100)).std() * rng.standard_normal((8, 256, 1, 16))
            measures, _ = rank.measured(Values.of(mean + noise, True, True), inputs)
            value, half = measures["spearman"][1].interval(0.95)
            covered.append(abs(value[0] - 1) <= half[0])
            values.append(value[0])
        assert np.mean(covered) > 0.85
        assert 0.945 < np.mean(values) < 0.965

    def test_of_noise_alone_no_rank_correlation_is_known(self):
        rank = Rank({"a": Uniform(0, 1)}, {"a": [0]})
        noise = np.random.default_rng(0).standard_normal((8, 64, 1, 16))
        measures, _ = rank.measured(Values.of(noise, True, True), rank.inputs(0, 64, 0, 8))
        for name in ("spearman", "partial"):
            value, half = measures[name][1].interval(0.95)
            assert (value[0], half[0]) == (0, 1)

    def test_squared_derivatives_lose_the_noise(self):
        """f = x²/2 + 2 x Z: E[E[f'|x]²] = 1, and the mean over two paths has 2 more."""
        derivatives = Derivatives({"x": Normal(0, 1)}, {"x": [0]})
        inputs = derivatives.inputs(0, 64, 0, 64)
        Z = np.random.default_rng(0).standard_normal((64, 64, 1, 2))
        x = inputs.base[..., None]
        values = Values.of(x**2 / 2 + 2 * x * Z, random=True)
        each = x + 2 * Z
        noise = each.var(-1, ddof=1) / 2
        values = dataclasses.replace(values, gradient=each.mean(-1), gradient_noise=noise)
        measures, _ = derivatives.measured(values, inputs)
        value, half = measures["nu"][1].interval(0.999999)
        assert abs(value[0] - 1) <= half[0] < 0.7
