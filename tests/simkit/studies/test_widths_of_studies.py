"""Intervals of a study: how wide they are, and that points are added until they are narrow."""

import re

import jax.numpy as jnp
import numpy as np
import pytest
from study_examples import PI, on_numpy

from simkit.distributions import Uniform
from simkit.studies import (
    derivative_measures,
    elementary_effects,
    propagate,
    rank_correlations,
)
from simkit.studies.methods import Morris, Propagate, Sobol
from simkit.studies.replicates import Measure
from simkit.studies.study import StudyPlan, run_study
from simkit.studies.table import closing_lines
from simkit.studies.values import Values


def counting(function, sizes):
    def evaluate(design, base, first):
        sizes.append((first, base.shape[1]))
        return {"y": Values.of(function(base[:, :, design.take])[..., None], False, True)}

    return evaluate


@pytest.mark.parametrize("kind", [Sobol, Morris, Propagate])
def test_points_are_added_until_intervals_are_narrow(kind):
    distributions = {f"x{i}": Uniform(-PI, PI) for i in range(3)}
    each = kind(distributions, {name: [i] for i, name in enumerate(distributions)})
    sizes = []
    width = {Sobol: 0.1, Morris: 0.05, Propagate: 0.02}[kind]
    result = run_study(each, StudyPlan(16, 8, width=width), counting(on_numpy, sizes))
    assert result.stopped == "width"
    assert result.widest <= width
    assert result.points > 32
    assert sizes == [(0, 16), *((16 << i, 16 << i) for i in range(len(sizes) - 1))]
    at_once = run_study(each, StudyPlan(result.points, 8), counting(on_numpy, []))
    for name, estimate in result.estimates["y"].items():
        assert np.array_equal(estimate.value, at_once.estimates["y"][name].value), name
    short = run_study(each, StudyPlan(16, 8, width=1e-9, budget=10_000), counting(on_numpy, []))
    assert short.stopped == "budget"
    assert short.runs <= 10_000 < 2 * short.runs


@pytest.mark.parametrize("points", [64, 1024])
def test_a_variance_on_sobol_points_is_not_that_of_independent_ones(points):
    """Their mean is nearly exact, and a division by n - 1 would be too large by a thousand half-intervals."""
    distribution = {"uniform": [0, 1]}
    spread = propagate(lambda a: a, {"a": distribution}, points=points)
    away = abs(float(spread["sd"].item()) - 12**-0.5)
    assert away < 2.5 * float(spread["sd_halfwidth"].item()) < 0.002
    bound = derivative_measures(
        lambda a: jnp.cos(jnp.pi * a), {"a": distribution}, points=points
    )  # equal to S_T = 1
    assert abs(bound["bound"].item() - 1) < 2.5 * bound["bound_halfwidth"].item()


def test_a_width_has_its_unit():
    def said(study, **options):
        dataset = study(lambda a: 100.0 * a, {"a": {"uniform": [0, 1]}}, width=0.5, **options)
        return next(line for line in closing_lines(dataset) if line.startswith("stopped by width"))

    assert said(elementary_effects).endswith(" of the largest mu_star")
    assert said(propagate).endswith(" standard deviations of the output")
    assert re.fullmatch(r"stopped by width: the widest interval is [0-9.e-]+", said(rank_correlations))


def test_the_interval_of_a_root_has_the_width_of_that_of_its_square():
    """The squares of its ends lie as far apart as the ends of the mean's interval; of 0 it ends there."""
    values = np.array([[4.0, 0.0], [5.0, 1.0], [6.0, -1.0]])
    mean, half = Measure(values).interval(0.95)
    root, own = Measure(values, root=True).interval(0.95)
    assert root == pytest.approx(np.sqrt(mean))
    assert (root[0] + own[0]) ** 2 - (root[0] - own[0]) ** 2 == pytest.approx(2 * half[0])
    assert own[1] ** 2 == pytest.approx(half[1])
