"""Variants on the same Brownian paths at several step sizes: their paths, strong errors and orders."""

import json

import numpy as np
import pytest
from pictures import assert_nothing_overlaps
from simkit_solvers import CounterNoise, HalvedNoise, seed_key
from simkit_solvers.random.noise import on_sums
from typer.testing import CliRunner

import simkit
from simkit import InputError, load, plot_dataset
from simkit.cli import app
from simkit.ensemble.coupling import OnSums, claimed_order, strong_error, strong_order
from simkit.results.table import strong_order_notes

pytestmark = pytest.mark.more

GBM = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.5},
    "initial": {"S": 1.0},
    "time": {"t1": 1.0, "steps": 256},
    "ensemble": {"paths": 2048, "seed": 3, "couple": "steps", "devices": 1},
    "variants": {"fine": {}, **{f"n{n}": {"time.steps": n} for n in (16, 32, 64)}},
}
GBM_ALONE = {key: value for key, value in GBM.items() if key not in ("ensemble", "variants")}


@pytest.mark.parametrize(
    ("solver", "order"), [pytest.param("EulerMaruyama", 0.5, marks=pytest.mark.slow), ("Milstein", 1.0)]
)
def test_the_measured_strong_order_is_that_of_the_solver(solver, order):
    result = simkit.run(GBM | {"solver": solver})
    measured, error = (float(result[f"S_strong_order{end}"]) for end in ("", "_stderr"))
    assert measured == pytest.approx(order, abs=0.1)
    assert 0 < error < 0.05
    assert abs(measured - order) < 5 * error
    errors = result["S_strong_error"].values
    assert errors[0] == 0
    assert np.all(errors[1:] > 0)


def test_the_picture_shows_strong_errors_and_slopes_to_compare_them_with():
    """Means and distributions of the same paths would hide each other."""
    result = simkit.run(GBM)
    (axes,) = plot_dataset(result).axes
    (points, _, (bars,)) = axes.containers[0]
    order = np.argsort(points.get_xdata())
    np.testing.assert_allclose(points.get_xdata()[order], [1 / 64, 1 / 32, 1 / 16])
    np.testing.assert_array_equal(points.get_ydata()[order], np.sort(result["S_strong_error"].values)[1:])
    assert len(bars.get_segments()) == 3
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    lines = {line.get_label(): np.log(line.get_xydata()) for line in axes.lines}
    for label, slope in (("slope 1/2", 0.5), ("slope 1", 1.0)):
        rise, run = np.ptp(lines[label][:, 1]), np.ptp(lines[label][:, 0])
        assert rise / run == pytest.approx(slope)
    assert f"order {float(result['S_strong_order']):.2g}" in axes.get_title("right")
    assert_nothing_overlaps(plot_dataset(result))


@pytest.mark.slow
def test_increments_of_longer_steps_are_sums_and_the_finest_are_as_ever():
    """x = W: all variants end where the finest does, and that is where it ends by itself."""
    brownian = {
        "model": {"sde": {"x": {"drift": 0.0, "noise": {"W": 1.0}}}},
        "initial": {"x": 0.0},
        "time": {"t1": 1.0, "steps": 48},
        "solver": "EulerMaruyama",
        "ensemble": {"paths": 64, "couple": "steps", "normals": "float64", "devices": 1},
        "variants": {"coarse": {"time.steps": 8}, "fine": {}, "odd": {"time.steps": 16}},
    }
    result = simkit.run(brownian)
    np.testing.assert_array_less(result["x_strong_error"], 1e-14)
    alone = simkit.run(
        {key: value for key, value in brownian.items() if key != "variants"}
        | {"ensemble": {"paths": 64, "normals": "float64", "devices": 1}}
    )
    np.testing.assert_array_equal(result["x_path"].sel(variant="fine"), alone["x_path"])
    uncoupled = simkit.run(brownian | {"ensemble": alone_ensemble(brownian)})
    assert "x_strong_error" not in uncoupled
    assert float(uncoupled["x_difference_stderr"].sel(variant="fine")) > 0.05


def alone_ensemble(experiment):
    return {key: value for key, value in experiment["ensemble"].items() if key != "couple"}


def test_areas_of_long_steps_are_those_of_the_sums():
    """A noise of sums of 6 is that of sums of 2 of sums of 3, areas included; so of the bias."""
    base = CounterNoise.of(seed_key(1), 5, float64=True)
    longer = OnSums(CounterNoise.of, 2)(seed_key(1), 5, True)
    nested = on_sums(longer, 3).draws(2, 2, 0, 2)
    for one, other in zip(nested, on_sums(base, 6).draws(2, 2, 0, 2), strict=True):
        for kind in ("W", "H", "K"):
            np.testing.assert_allclose(getattr(one, kind), getattr(other, kind), rtol=1e-12, atol=1e-14)
    halves = on_sums(HalvedNoise.of(seed_key(1), 5, True), 6).draws(1, 0, 0, 2)
    whole = on_sums(base, 6).draws(1, 0, 0, 1)[0]
    assert float(halves[0].W[0] + halves[1].W[0]) / 2**0.5 == pytest.approx(float(whole.W[0]))


def test_strong_errors_of_many_samples_spread_as_their_standard_errors_say():
    samples = np.random.default_rng(5).standard_normal((2000, 500))
    errors, stderrs = np.array([strong_error(3 * sample) for sample in samples]).T
    assert abs(errors.mean() - 3) < 0.01
    assert errors.std() / stderrs.mean() == pytest.approx(1, abs=5 / np.sqrt(2 * len(samples)))


@pytest.mark.parametrize("order", [0.5, 1.0, 1.5])
def test_the_order_of_errors_made_up(order):
    """Orthogonal errors whose mean squares are differences of powers, the model of the fit."""
    draw, ratios = np.random.default_rng(4), (16, 8, 4, 2)
    sizes = np.array([ratio ** (2 * order) - 1 for ratio in ratios])
    estimate, error, asymptotic = strong_order(made_up(sizes, draw), ratios)
    assert abs(estimate - order) < 5 * error
    assert error < 0.02
    assert asymptotic


def made_up(sizes, draw):
    """Differences with these mean squares, each the next finer one and an independent part."""
    steps = np.sqrt(sizes - np.append(sizes[1:], 0.0))
    return list(np.cumsum((steps[:, None] * draw.normal(size=(len(sizes), 20_000)))[::-1], axis=0)[::-1])


def test_where_long_steps_show_another_order_the_error_says_so():
    """Mean squares of a part of order 1/2 and a part of order 1, which is the larger one at long steps."""
    ratios = np.array([32.0, 16.0, 8.0, 4.0])
    sizes = (ratios - 1) + 0.1 * (ratios**2 - 1)
    differences = made_up(sizes, np.random.default_rng(7))
    estimate, error, asymptotic = strong_order(differences, ratios)
    assert not asymptotic
    assert 0.6 < estimate < 1
    assert abs(estimate - 0.5) < 3 * error
    assert strong_order(differences[:2], ratios[:2]).asymptotic  # one pair has nothing to differ from


def ends_of_gbm(seed, drift, lengths, finest=256, paths=1000):
    """Differences of Euler-Maruyama's ends from those of the finest steps, one for each number of steps."""
    increments = np.random.default_rng(seed).normal(size=(finest, paths)) / finest**0.5

    def end(n):
        return np.prod(1 + drift / n + 0.2 * increments.reshape(n, -1, paths).sum(1), axis=0)

    return [end(n) - end(finest) for n in lengths]


@pytest.mark.parametrize("drift", [0.05, 0.5, 1.0])
def test_an_order_beyond_the_claim_of_the_solver_has_an_error_that_reaches_it(drift):
    """Of few paths with a small noise, whose long steps show the drift's errors of order 1."""
    lengths = (8, 16, 32, 64)
    results = [
        strong_order(ends_of_gbm(seed, drift, lengths), [256 / n for n in lengths], 0.5) for seed in range(20)
    ]
    assert np.mean([abs(each.order - 0.5) < 2 * each.stderr for each in results]) >= 0.85
    marked = np.mean([not each.asymptotic for each in results])
    assert marked <= 0.15 if drift == 0.05 else marked == 1
    assert drift == 0.05 or np.mean([each.order for each in results]) > 0.7


def test_the_largest_claim_of_variants_counts():
    simulations = [load(GBM_ALONE | {"solver": solver}) for solver in ("EulerMaruyama", "Milstein")]
    assert claimed_order(simulations[:1]) == 0.5
    assert claimed_order(simulations) == 1.0


@pytest.mark.slow
def test_the_table_marks_an_order_of_steps_that_are_too_long():
    falling = {"type": "GBM", "mu": -1.0, "sigma": 0.4}
    lengths = {f"n{n}": {"time.steps": n} for n in (8, 16, 32, 64)}
    result = simkit.run(GBM | {"model": falling, "variants": {"a": {}} | lengths})
    assert result["S_strong_order"].attrs["note"] == "not in the asymptotic regime"
    assert float(result["S_strong_order"]) - 0.5 > 0.1
    [note] = strong_order_notes(result)
    assert note.endswith(", not in the asymptotic regime")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"variants": {"a": {}, "b": {"time.steps": 60}}}, "60 do not divide the 256"),
        ({"variants": {"a": {}, "b": {"time.steps": 64, "ensemble.seed": 5}}}, "ensemble.seed: differs"),
        ({"time": {"t1": 1.0, "rtol": 1e-3, "atol": 1e-3}, "solver": "Milstein"}, "fixed steps"),
        ({"solver": "ExactSampling"}, "no step error"),
        ({"model": {"ode": {"S": "S"}}}, "stochastic equations"),
    ],
)
def test_what_cannot_be_coupled_is_refused(change, reason):
    experiment = GBM | {"variants": {"a": {}, "b": {"ensemble.seed": 3}}} | change
    with pytest.raises(InputError, match=reason):
        simkit.run(experiment)


def test_coupling_without_variants_is_refused():
    with pytest.raises(InputError, match=r"ensemble\.couple: .*there are none"):
        simkit.run({key: value for key, value in GBM.items() if key != "variants"})


def test_table_and_json_show_strong_errors_and_orders(tmp_path):
    file = tmp_path / "order.yaml"
    file.write_text(json.dumps(GBM), "utf-8")
    shown = CliRunner().invoke(app, ["run", str(file)]).output
    assert "strong error" in shown
    assert "strong order of S: 0." in shown
    result = json.loads(CliRunner().invoke(app, ["run", str(file), "--json"]).stdout)
    figures = result["variants"]["n16"]["state"]["S"]
    assert figures["strong_error"] > 10 * figures["strong_error_stderr"] > 0
    assert figures["strong_order"] == pytest.approx(0.5, abs=0.15)
