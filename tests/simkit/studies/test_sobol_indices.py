"""Sobol' indices: known ones, honest intervals, published formulas, and those of another program."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_examples import CUBE, ISHIGAMI, PI, ishigami, method, on_numpy, within_three

from simkit.studies import sobol_indices
from simkit.studies.designs import scrambled_sobol
from simkit.studies.method import DesignRows
from simkit.studies.methods import NEVER_CHANGES, NO_INFLUENCE
from simkit.studies.values import Values

G_WEIGHTS = np.array([0, 1, 4.5, 9, 99, 99, 99, 99])
G = {
    "first": [0.716192, 0.179048, 0.023676, 0.007162, *[0.000072] * 4],
    "total": [0.787144, 0.242198, 0.034317, 0.010460, *[0.000105] * 4],
}
_own = 1 / (3 * (1 + G_WEIGHTS) ** 2)
_whole = np.prod(1 + _own)
G_EXACT = {"first": _own / (_whole - 1), "total": _own / (1 + _own) * _whole / (_whole - 1)}  # all digits
SALIB = {  # of SALib 1.6.0 on `given_points`
    "first": [0.3228887577251906, 0.525620211688294, 0.003362530542321865],
    "total": [0.46511930490196385, 0.4313111151825874, 0.2140362281136231],
    "second": [  # the mean of those with A and B as they are, and exchanged
        *(math.nan, -0.05375468322061186, 0.14641160300789613),
        *(math.nan, math.nan, -0.019405126805849014, math.nan, math.nan, math.nan),
    ],
}
SMALL = {"points": 1024, "replicates": 8}


def g_function(x):
    return jnp.prod((jnp.abs(4 * x - 2) + G_WEIGHTS) / (1 + G_WEIGHTS))


def g_on_cube(x):
    """Sobol's g on arrays of points in the cube of Ishigami's function."""
    return np.prod((np.abs(2 * x / PI) + G_WEIGHTS) / (1 + G_WEIGHTS), -1)


def measured(sobol, function, points=64, replicates=8, seed=0):
    """The measures of a function of numpy arrays."""
    inputs = sobol.inputs(0, points, seed, replicates)
    return sobol.measured(Values(function(inputs.base[:, :, sobol.design.take])), inputs)


class TestSobol:
    @pytest.mark.parametrize("estimator", ["saltelli", "jansen", "janon"])
    def test_ishigami(self, estimator):
        study = sobol_indices(ishigami, CUBE, order=2, estimator=estimator, **SMALL)
        assert within_three(study, "first", ISHIGAMI["first"])
        assert within_three(study, "total", ISHIGAMI["total"])
        pairs, half = (study[key].values[0] for key in ("second", "second_halfwidth"))
        exact = np.zeros((3, 3))
        exact[0, 2] = exact[2, 0] = ISHIGAMI["pair"]
        off = ~np.eye(3, dtype=bool)
        assert np.all(np.abs(pairs - exact)[off] <= 3 * half[off])
        assert np.all(np.isnan(np.diag(pairs)))
        assert np.max(study["first_halfwidth"]) < 0.02
        assert study.attrs["runs"] == 8 * 1024 * 8

    @pytest.mark.parametrize("estimator", ["saltelli", "jansen", "janon"])
    def test_g_function(self, estimator):
        study = sobol_indices(g_function, [{"uniform": [0, 1]}] * 8, estimator=estimator, **SMALL)
        assert within_three(study, "first", G["first"], 1e-6)  # the published digits
        assert within_three(study, "total", G["total"], 1e-6)

    @pytest.mark.slow
    def test_intervals_are_honest(self):
        """Of 200 repetitions 90 to 98 % of the intervals hold the exact index."""
        kinds = [method(3, estimator=estimator) for estimator in ("saltelli", "jansen")]
        inside = []
        for seed in range(200):
            inputs = kinds[0].inputs(0, 64, seed, 8)
            values = Values(on_numpy(inputs.base[:, :, kinds[0].design.take]))
            for sobol in kinds:
                measures, _ = sobol.measured(values, inputs)
                intervals = ((name, *measures[name][1].interval(0.95)) for name in ("first", "total"))
                inside.append([np.abs(value - ISHIGAMI[name]) <= half for name, value, half in intervals])
        coverage = np.mean(np.reshape(inside, (200, 2, 2, 3)), (0, 3))
        assert np.all((coverage >= 0.90) & (coverage <= 0.98)), coverage  # 600 intervals each

    @pytest.mark.slow
    @pytest.mark.parametrize("estimator", ["saltelli", "jansen", "janon"])
    @pytest.mark.parametrize("points", [256, 1024])
    @pytest.mark.parametrize("name", ["ishigami", "g"])
    def test_intervals_of_all_estimators_are_honest(self, name, points, estimator):
        """The same of all indices together, and of each alone as far as 200 intervals can show."""
        d, function, exact = {"ishigami": (3, on_numpy, ISHIGAMI), "g": (8, g_on_cube, G_EXACT)}[name]
        sobol = method(d, estimator=estimator)
        held = {"first": [], "total": []}
        for seed in range(200):
            measures, _ = measured(sobol, function, points, 16, 1000 + seed)
            for index, each in held.items():
                value, half = measures[index][1].interval(0.95)
                each.append(np.abs(value - exact[index]) <= half)
        for index, each in held.items():
            coverage = np.mean(each, 0)
            # Of one index four standard errors about 0.95, of all together what is promised.
            assert np.all(np.abs(coverage - 0.95) <= 0.062), (index, coverage)
            assert 0.90 <= np.mean(coverage) <= 0.98, (index, coverage)

    def test_the_formulas_are_those_published(self):
        """Saltelli 2002, Saltelli et al. 2010 and Jansen 1999 as SALib writes them, on the same points."""
        sobol = method(3, order=2)
        inputs = sobol.inputs(0, 256, 3, 2)
        values = on_numpy(inputs.base[:, :, sobol.design.take])
        measures, _ = sobol.measured(Values(values), inputs)
        for replicate, Y in enumerate(values):
            Y = (Y - Y.mean()) / Y.std()
            A, B, AB, BA = Y[:, 0], Y[:, 1], Y[:, 2:5], Y[:, 5:8]
            scale = np.var(np.r_[A, B])
            S = np.mean(B[:, None] * (AB - A[:, None]), 0) / scale
            T = 0.5 * np.mean((A[:, None] - AB) ** 2, 0) / scale
            for name, exact in (("first", S), ("total", T)):
                measure = measures[name][1]
                assert measure.values[replicate] / measure.over[replicate] == pytest.approx(exact, abs=1e-12)
            both = (S + np.mean(A[:, None] * (BA - B[:, None]), 0) / scale) / 2
            closed = np.mean((BA[:, 0] * AB[:, 2] + BA[:, 2] * AB[:, 0]) / 2 - A * B) / scale
            second = measures["second"][1]
            assert second.values[replicate, 0, 2] / second.over[replicate, 0, 2] == pytest.approx(
                closed - both[0] - both[2], abs=1e-12
            )

    def test_what_salib_gives_on_the_same_points(self):
        result = self.on_given_points()
        for name, theirs in SALIB.items():
            mine = np.ravel(result[name])
            known = ~np.isnan(theirs)
            assert mine[known] == pytest.approx(np.asarray(theirs)[known], abs=1e-10), name

    @pytest.mark.slow
    def test_salib_gives_what_is_written_here(self):
        analyze = pytest.importorskip("SALib.analyze.sobol")
        problem = {"num_vars": 3, "names": ["a", "b", "c"], "bounds": [[-PI, PI]] * 3}
        values = on_numpy(self.given_points())
        orders = [0, 2, 3, 4, 5, 6, 7, 1], [1, 5, 6, 7, 2, 3, 4, 0]  # A, AB, BA, B, and A and B exchanged
        theirs, other = (
            analyze.analyze(problem, values[:, order].reshape(-1), num_resamples=2, seed=1)
            for order in orders
        )
        second = (theirs["S2"] + other["S2"]) / 2
        for name, figures in (("first", theirs["S1"]), ("total", theirs["ST"]), ("second", second)):
            np.testing.assert_allclose(np.ravel(figures), SALIB[name], atol=1e-12)

    def given_points(self):
        """128 rows of a design of order 2 on multiples of square roots, the same with every library."""
        base = np.modf(np.arange(1, 129)[:, None] * np.sqrt([2, 3, 5, 7, 11, 13]))[0]
        return (PI * (2 * base - 1))[:, method(3, order=2).design.take]

    def on_given_points(self):
        measures, _ = method(3, order=2).measured(
            Values(on_numpy(self.given_points())[None]), DesignRows(np.empty(0))
        )
        return {name: measures[name][1].values[0] / measures[name][1].over[0] for name in SALIB}

    @given(
        scale=st.sampled_from([-1e6, -2.0, 1e-6, 3.0]),
        shift=st.floats(-1e3, 1e3),
        estimator=st.sampled_from(["saltelli", "jansen", "janon"]),
        weights=st.lists(st.floats(-2, 2), min_size=4, max_size=4),
    )
    @settings(max_examples=20)
    def test_distributions(self, scale, shift, estimator, weights):
        """Units change nothing, what is not used is exactly 0, all together are 1, sums lie about 1."""
        a, b, c, d = (*weights[:2], 1 + abs(weights[2]), weights[3])

        def f(x):
            return a * x[..., 0] + b * np.sin(x[..., 1]) + c * x[..., 2] + d * x[..., 0] * x[..., 2]

        sobol = method(4, estimator=estimator, order=2)
        measures, notes = measured(sobol, f)
        other, _ = measured(sobol, lambda x: scale * f(x) + scale * shift)
        estimates = {name: measure.interval(0.95) for name, (_, measure) in measures.items()}
        for name in ("first", "total", "second"):
            np.testing.assert_allclose(other[name][1].interval(0.95)[0], estimates[name][0], atol=1e-6)
        for name in ("first", "total"):
            assert estimates[name][0][3] == estimates[name][1][3] == 0
        assert notes[3] == NO_INFLUENCE
        assert notes[2] == ""
        assert np.sum(estimates["first"][0]) <= 1 + np.sum(3 * estimates["first"][1])
        assert np.sum(estimates["total"][0]) >= 1 - np.sum(3 * estimates["total"][1])
        whole, _ = measured(method(4, {"all": [0, 1, 2, 3]}, estimator=estimator), f)
        for name in ("first", "total"):
            value, half = whole[name][1].interval(0.95)
            assert abs(value[0] - 1) <= 3 * half[0] + 1e-9

    def test_of_a_sum_first_and_total_are_one(self):
        measures, _ = measured(method(3), lambda x: x @ np.array([1.0, 2.0, 3.0]), points=256)
        for name in ("first", "total"):
            value, half = measures[name][1].interval(0.95)
            assert np.all(np.abs(value - np.array([1, 4, 9]) / 14) <= 3 * half)
            assert np.max(half) < 0.02

    def test_a_group_has_what_its_members_and_their_pairs_have(self):
        study = sobol_indices(
            lambda a, b, c: ishigami([a, b, c]),
            dict(zip("abc", CUBE, strict=True)),
            groups={"ac": ["a", "c"]},
            **SMALL,
        )
        assert list(study["parameter"].values) == ["ac", "b"]
        both = ISHIGAMI["first"][0] + ISHIGAMI["pair"]
        assert within_three(study, "first", [both, ISHIGAMI["first"][1]])
        assert within_three(study, "total", [both, ISHIGAMI["total"][1]])

    def test_an_output_that_never_changes_is_zero_with_the_reason(self):
        study = sobol_indices(lambda x: {"y": 3.0 + 0 * x[0], "z": x[1]}, CUBE, points=64, replicates=4)
        assert list(study["note"].values[0]) == [NEVER_CHANGES] * 3
        assert np.all(study["first"].values[0] == 0)
        assert float(study["mean"][0]) == 3.0
        assert list(study["note"].values[1]) == [NO_INFLUENCE, "", NO_INFLUENCE]


def test_each_replicate_is_its_own_scrambling():
    one, other = scrambled_sobol(4, 0, 64, 1, 0), scrambled_sobol(4, 0, 64, 1, 1)
    assert not np.array_equal(one, other)
    assert np.array_equal(scrambled_sobol(4, 32, 32, 1, 0), one[32:])
    assert np.all((one > 0) & (one < 1))
    for column in one.T:  # one point in each of 64 cells
        assert sorted(np.floor(column * 64).astype(int)) == list(range(64))


def test_a_pair_interacts_no_more_than_its_members_act():
    """Cauchy and Schwarz, of the estimates themselves: no error is left where a member has no effect."""
    measures, _ = measured(method(3, order=2), lambda x: np.exp(x[..., 0]) + 1e-6 * x[..., 1] * x[..., 2])
    total, second = (measures[name][1].interval(0.95)[0] for name in ("total", "second"))
    most = 2 * np.sqrt(total[:, None] * total)
    off = ~np.eye(3, dtype=bool)
    assert np.all(np.abs(second)[off] <= most[off])


def test_a_parameter_that_acts_in_one_half_of_the_design_alone_has_influence():
    values = np.zeros((2, 4, 6))  # A, B, AB and BA of two parameters
    values[:, :2, :2] = 1
    values[:, :, 2:] = values[:, :, [0, 0, 1, 1]]
    values[:, 1, 5] += 1
    _, notes = method(2, order=2).measured(Values(values), DesignRows(np.empty(0)))
    assert notes == [NO_INFLUENCE, ""]
