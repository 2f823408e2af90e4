"""Debugging: the first value that is not finite and its cause, rows of the run, random words used twice."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from checkout import EXAMPLES
from simkit_physics.finance.gbm import GBM
from simkit_solvers import CounterNoise, seed_key
from typer.testing import CliRunner

import simkit
from simkit import InputError, check_keys, load
from simkit.cli import app
from simkit.diagnostics.debugging.cause import bad_operation, bad_part
from simkit.diagnostics.debugging.finding import find
from simkit.diagnostics.debugging.random_words import following
from simkit.diagnostics.debugging.report import as_dict, text
from simkit.ensemble import compiled, failures
from simkit.ensemble.run import chunk_plan, chunk_requests
from simkit.expressions import compile_expression

STEPS, DT, PATHS = 40, 0.05, 64
# sqrt(1 - x) has no value once x has gone past 1.
CROSSING = {
    "model": {"sde": {"x": {"drift": "a*sqrt(1 - x)", "noise": {"W": 0.2}}}, "parameters": {"a": 0.5}},
    "initial": {"x": 0.0},
    "time": {"t1": STEPS * DT, "steps": STEPS},
    "ensemble": {"paths": PATHS, "seed": 5, "devices": 1, "failures": "exclude"},
    "save": {"every": 1, "paths": "all"},
}
EXPLOSION = {
    "model": {"ode": {"x": "x**2"}},
    "initial": {"x": 1.0},
    "solver": "Euler",
    "time": {"t1": 100.0, "steps": 100},
    "ensemble": {"devices": 1},
}
PRICES = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"paths": 4, "seed": 1, "devices": 1},
}


def replayed_in_numpy():
    """For each path the first step that gives NaN, and the state before it."""
    first, increments = jnp.uint32(0), []
    for path in range(PATHS):
        noise = CounterNoise.of(seed_key(5), jnp.uint32(path))
        increments.append([float(draw.W[0]) * np.sqrt(DT) for draw in noise.draws(1, 0, first, STEPS)])
    failing = {}
    for path, dW in enumerate(np.array(increments)):
        x = 0.0
        for step in range(STEPS):
            with np.errstate(invalid="ignore"):
                new = x + 0.5 * np.sqrt(1 - x) * DT + 0.2 * dW[step]
            if np.isnan(new):
                failing[path] = step + 1, x, dW[step]
                break
            x = new
    return failing


@pytest.mark.more
@pytest.mark.user_code
def test_the_first_nan_is_that_of_a_replay_in_numpy():
    expected = replayed_in_numpy()
    assert 5 < len(expected) < PATHS
    report = simkit.debug(CROSSING)
    assert (report.screened, report.failed) == (PATHS, tuple(expected))
    assert [finding.path for finding in report.findings] == list(expected)[:3]
    for finding in report.findings:
        step, before, dW = expected[finding.path]
        assert finding.step == step
        assert finding.time == pytest.approx(step * DT)
        assert finding.before["x"] == pytest.approx(before, rel=1e-9)
        assert finding.before["x"] > 1
        assert finding.increments == {"dW": pytest.approx(dW, rel=1e-6)}
        assert finding.terms["noise of x"] == pytest.approx(0.2 * dW, rel=1e-6)
        assert np.isnan(finding.terms["drift of x"])
        assert np.isnan(finding.values["x"])
        assert finding.cause.startswith("drift of x: sqrt(1 - x) = nan, with x = 1.")


@pytest.mark.more
@pytest.mark.user_code
def test_printed_values_are_the_bits_of_the_stored_rows():
    simulation = load(CROSSING)
    with jax.enable_x64(True):
        request, _ = chunk_requests(simulation, chunk_plan(simulation))
        (chunk,), _ = compiled(request)  # that of the run, which stores what it gives
        ((rows,), _) = chunk(*request.arguments)
    number = min(set(range(PATHS)) - set(replayed_in_numpy()))
    (trace,) = simkit.debug(CROSSING, path=number, values=["x", "dW"], every=4).traces
    assert trace.steps is not None
    assert trace.steps.tolist() == list(range(0, STEPS + 1, 4))
    assert trace.values["x"].tobytes() == np.asarray(rows)[::4, 0, number].tobytes()
    noise = CounterNoise.of(seed_key(5), jnp.uint32(number))
    drawn = [float(draw.W[0]) * np.sqrt(DT) for draw in noise.draws(1, 0, jnp.uint32(0), STEPS)][::4]
    np.testing.assert_allclose(trace.values["dW"][:-1], drawn, rtol=1e-12)
    assert np.isnan(trace.values["dW"][-1])


@pytest.mark.more
def test_a_step_between_distant_rows_is_found(monkeypatch):
    exact = find(load(EXPLOSION), 0)
    monkeypatch.setattr(failures, "REPLAY_ROWS", 10)
    halved = find(load(EXPLOSION), 0)
    assert exact is not None
    assert exact == halved
    assert exact.step == 11
    assert exact.cause.startswith("drift of x: x ** 2 = inf, with x = 2.73924503e+208")


def test_an_observable_is_explained_by_its_part():
    observe = {"never": "log(S - 1000)", "average": "mean(sqrt(S - 1000))", "fine": "S"}
    (finding,) = simkit.debug(PRICES | {"observe": observe}, path=2).findings
    assert set(finding.values) == {"never", "average"}
    assert "never: log(S - 1000) = nan, with S = " in finding.cause
    assert "average: mean(sqrt(S - 1000)) at t = 0.25: sqrt(S - 1000) = nan, with S = " in finding.cause


def test_an_operation_on_path_functionals_is_shown_with_their_values():
    """An average from t0 on is 0 / 0 there; what a functional itself reads is not listed."""
    observe = {
        "average": {"value": "1 + integral(S)/t", "at": "each"},
        "root": {"value": "sqrt(min(S) - max(S) - t)", "at": "end"},
    }
    (finding,) = simkit.debug(PRICES | {"observe": observe}, path=2).findings
    assert finding.cause == "average: integral(S) / t = nan, with integral(S) = 0, t = 0"
    (finding,) = simkit.debug(PRICES | {"observe": {"root": observe["root"]}}, path=2).findings
    path = simkit.run(PRICES | {"save": {"points": 4, "paths": 3}})["S_path"].values[2]
    known = f"max(S) = {path.max():.9g}, min(S) = {path.min():.9g}, t = 1"
    assert finding.cause == f"root: sqrt(min(S) - max(S) - t) = nan, with {known}"


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("1 + sqrt(x) * 2", {"x": -4.0}, "sqrt(x) = nan, with x = -4"),
        ("where(x > 0, log(x), log(-x))", {"x": -4.0}, None),
        ("where(x < 0, sqrt(-x), log(-x))", {"x": 4.0}, "log(-x) = nan, with x = 4"),
        ("x / (y - y)", {"x": 1.0, "y": 2.0}, "x / (y - y) = inf, with x = 1, y = 2"),
        ("x + y", {"x": 1.0, "y": 2.0}, None),
    ],
)
def test_the_innermost_part_is_found_and_a_side_not_taken_is_not(text, values, expected):
    assert bad_part(compile_expression(text, None), values) == expected


def test_the_first_operation_is_found_with_its_line():
    def inner(x):
        return jnp.where(x > 5, jnp.log(-x), 1.0) + x

    assert (
        bad_operation(lambda x: jax.jit(inner)(x) * 2, jnp.float64(1.0)) is not None
    )  # log(-1), though masked
    said = bad_operation(lambda x: jnp.log(x) + x, jnp.float64(-3.0))
    assert said is not None
    assert said.startswith("log(-3) at ")
    assert "test_debug.py" in said
    assert bad_operation(lambda x: x + 1, jnp.float64(1.0)) is None


def test_the_words_of_a_value_are_followed_through_a_choice():
    def function(key, path, second):
        noise = CounterNoise.of(key, path)
        a, b = (draw.W[0] for draw in noise.draws(1, 0, jnp.uint32(0), 2))
        return a, b, jnp.where(second, b, a), a + b

    arguments = seed_key(1), jnp.uint32(0), jnp.bool_(True)
    first, other, chosen, both = following(function, *arguments)(*arguments)
    assert len(first) == len(other) == 1
    assert not first & other
    assert chosen == other
    assert both == first | other


@pytest.mark.parametrize(
    "example",
    ["epidemic", "langevin", *(pytest.param(x, marks=pytest.mark.more) for x in ("heston", "merton"))],
)
def test_no_word_of_an_example_is_used_twice(example):
    report = check_keys(load(EXAMPLES / f"{example}.yaml"))
    assert report.reused == ()
    assert report.words > 30


@pytest.mark.slow
def test_no_word_of_adaptive_steps_is_used_twice():
    report = check_keys(load(EXAMPLES / "adaptive_sde.yaml"))
    assert report.reused == ()
    assert report.words > 100


class StuckNoise(CounterNoise):
    """Broken: the steps from 4 on draw what those before drew."""

    def draws(self, components, areas, first, count):
        sound = CounterNoise(self.increments, self.areas, self.float64, self.variates)
        return (sound.draws(components, areas, first, 4) * count)[:count]


def stuck(key, path, float64_normals):
    sound = CounterNoise.of(key, path, float64_normals)
    return StuckNoise(sound.increments, sound.areas, sound.float64, sound.variates)


def same_for_neighbours(key, path, float64_normals):
    return CounterNoise.of(key, path >> jnp.uint32(1), float64_normals)


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        (stuck, "path 0, step 0, W of W and path 0, step 4, W of W share a random word"),
        (same_for_neighbours, "path 0, step 0, W of W and path 1, step 0, W of W share a random word"),
    ],
)
def test_a_noise_that_uses_a_word_twice_is_found(driver, said):
    assert said in check_keys(load(PRICES), driver).reused


class SameEveryStep(GBM):
    """Broken: draws the same number at each step of each path."""

    def drift(self, t, y):
        return self.State(S=y.S * jax.random.normal(jax.random.key(0), dtype=y.S.dtype))


class SameEveryPath(GBM):
    """Broken: all paths draw the same number at a step."""

    def drift(self, t, y):
        key = jax.random.fold_in(jax.random.key(0), (t * 1000).astype(jnp.uint32))
        return self.State(S=y.S * jax.random.normal(key, dtype=y.S.dtype))


class TwiceInAStep(GBM):
    """Broken: uses one key twice."""

    def drift(self, t, y):
        key = jax.random.fold_in(jax.random.key(0), (y.S * 1000).astype(jnp.uint32))
        a, b = (jax.random.normal(key, dtype=y.S.dtype) for _ in range(2))
        return self.State(S=a + b)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (SameEveryStep, "the same key at every step of every path"),
        (SameEveryPath, "the same keys on every path"),
        (TwiceInAStep, "uses a jax.random key twice in a step"),
    ],
)
def test_keys_of_a_model_of_ones_own_are_checked(model, said):
    simulation = load(PRICES).with_run(problem=model(mu=0.05, sigma=0.2))
    reused = check_keys(simulation).reused
    assert len(reused) == 1
    assert said in reused[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"path": 4}, "path 4: the paths are 0 to 3"),
        ({"paths": 5}, "paths 5: must be from 1 to the 4"),
        ({"path": 1, "paths": 2}, "not both"),
        ({"every": 2}, "every 2: is for values to print"),
        ({"values": ["X"]}, "values to print: there is no X"),
        ({"values": ["S"], "every": 3}, "every 3"),
        ({"values": ["S"], "every": 0}, "every 0: must be at least 1"),
    ],
)
def test_what_cannot_be_shown_is_refused_before_anything_runs(options, said):
    with pytest.raises(InputError, match=said):
        simkit.debug(PRICES, **options)


def test_the_command_says_where_and_exits_with_3(tmp_path):
    file = tmp_path / "explosion.yaml"
    file.write_text(yaml.safe_dump(EXPLOSION), encoding="utf-8")
    result = CliRunner().invoke(app, ["debug", str(file), "--path", "0", "--json"])
    assert result.exit_code == 3, result.output
    report = json.loads(result.stdout)
    assert report["failed"] == [0]
    assert report["findings"][0]["step"] == 11
    assert report["findings"][0]["values"] == {"x": "inf"}
    shown = CliRunner().invoke(app, ["debug", str(file), "--print", "x", "--every", "50", "--path", "0"])
    assert "x = inf at t = 11 (step 11 of 100)" in shown.stdout
    assert "cause: drift of x: x ** 2 = inf" in shown.stdout
    assert shown.stdout.startswith("path 0\nstep")


def test_a_report_says_how_many_of_all_paths_were_run():
    experiment = {"model": {"type": "GBM", "mu": 0.05, "sigma": 0.2}, "initial": {"S": 100.0}}
    experiment |= {"time": {"t1": 1.0, "steps": 2}, "ensemble": {"paths": 12_000}}
    assert (
        text(simkit.debug(experiment, paths=16)) == "checked 16 of 12,000 paths: all saved values are finite"
    )
    report = simkit.debug(experiment | {"ensemble": {"paths": 16}})
    assert text(report) == "checked 16 paths: all saved values are finite"
    assert as_dict(report)["paths"] == 16
