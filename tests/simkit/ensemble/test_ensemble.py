"""Ensembles: the same bits however the work is cut, and what a run stores, reports and leaves alone."""

import dataclasses

import jax
import numpy as np
import pytest
from accelerator import needs_processor
from ensemble_examples import gbm
from hypothesis import given
from hypothesis import strategies as st
from simkit_solvers import Grid

import simkit
from simkit.ensemble import LEAF, run_ensemble
from simkit.ensemble.chunks import plan_chunks


def final_statistics(result) -> dict[str, bytes]:
    """The bits of every statistic of the last row."""
    bits = {}
    for reducer, statistics in result.statistics.items():
        for name, array in statistics.items():
            last = array[-1:] if name.startswith("S_") and "histogram" not in name else array
            bits[f"{reducer}.{name}"] = np.asarray(last).tobytes()
    errors = [(each.bias, each.stderr, each.noise, each.order) for each in result.bias.values()]
    bits["bias"] = np.asarray(errors).tobytes()
    return bits


REFERENCE = gbm(3 * LEAF + 77, 42)


@pytest.fixture(scope="module")
def reference():
    return run_ensemble(REFERENCE)


@pytest.mark.more
@pytest.mark.user_code
@pytest.mark.parametrize(
    "change",
    [
        {"devices": 2},
        pytest.param({"devices": 3}, marks=pytest.mark.slow),
        {"devices": 1, "chunk": 1},
        pytest.param({"devices": 1, "chunk": LEAF + 1}, marks=pytest.mark.slow),
        pytest.param({"devices": 2, "chunk": LEAF}, marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_devices_and_chunks_leave_every_bit(reference, change):
    result = run_ensemble(dataclasses.replace(REFERENCE, **change))
    assert final_statistics(result) == final_statistics(reference)


@pytest.mark.slow
@pytest.mark.user_code
def test_two_devices_run_the_code_of_one():
    """Where a partitioner would compile stages of this solver into other kernels than those of one device."""
    given = {
        "model": {"sde": {"x": {"drift": "x - x**3", "noise": {"W": "0.4 + 0.1*x*x"}}}},
        "initial": {"x": {"normal": [0.4, 0.1]}},
        "solver": "SRIW1",
        "time": {"t1": 1.0, "steps": 60},
        "precision": "float32",
        "ensemble": {"paths": 2 * LEAF + 104, "seed": 5, "devices": 1},
        "save": {"points": 6, "paths": 50},
    }
    one, two = (simkit.run(given, overrides=[f"ensemble.devices={n}"]) for n in (1, 2))
    np.testing.assert_array_equal(one["x_path"], two["x_path"])
    np.testing.assert_array_equal(one["x_mean"], two["x_mean"])


@pytest.mark.more
@pytest.mark.user_code
@pytest.mark.parametrize(
    "every",
    [
        pytest.param(1, marks=pytest.mark.slow),
        pytest.param(7, marks=pytest.mark.more),
        *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 14)),
    ],
)
def test_saved_times_leave_every_bit(reference, every):
    result = run_ensemble(REFERENCE.with_run(grid=Grid(0.0, 1.0 / 42, 42, every)))
    assert final_statistics(result) == final_statistics(reference)
    assert len(result.times) == 42 // every + 1


TWISTED = {
    "model": {
        "sde": {
            "x": {"drift": "a*x*(1 - x*y) - x**3*cos(t)", "noise": {"W1": "0.3*x*y", "W2": "0.1*cos(x)"}},
            "y": {"drift": "sin(x)*y - x*y*y", "noise": {"W2": "0.2*y*x"}},
        },
        "parameters": {"a": 1.3},
        "correlation": {"W1-W2": -0.5},
    },
    "initial": {"x": 0.5, "y": {"normal": [0.7, 0.1]}},
    "time": {"t1": 1.2, "steps": 30},
    "ensemble": {"paths": 3000, "seed": 5, "devices": 1},
    "observe": {
        "product": {"value": "maximum(mean(x*y) - 0.1, 0)*x", "at": "each"},
        "extremes": {"value": "exp(-t)*max(x*x) - integral(y*y)*x", "at": "each"},
        "barrier": "where(min(y) > 0.4, x*y - x, 0)",
    },
}


@pytest.fixture(scope="module", params=[pytest.param("float32", marks=pytest.mark.slow), "float64"])
def twisted(request):
    experiment = {**TWISTED, "precision": request.param}
    return experiment, simkit.run({**experiment, "save": {"points": 30}})


@pytest.mark.user_code
@pytest.mark.slow
@pytest.mark.parametrize("points", [pytest.param(1, marks=pytest.mark.slow), 6])
def test_every_statistic_at_a_time_is_the_same_whatever_else_is_saved(twisted, points):
    """On a model and observables whose products and sums a compiler may contract in many ways."""
    experiment, every_step = twisted
    some = simkit.run({**experiment, "save": {"points": points}})
    assert set(some.data_vars) == set(every_step.data_vars)
    for name, actual in some.data_vars.items():
        expected = every_step[name]
        if "time" in expected.dims:
            expected = expected.isel(time=slice(None, None, 30 // points))
        np.testing.assert_array_equal(actual.values, expected.values, name, strict=True)


@pytest.mark.slow
@pytest.mark.user_code
@pytest.mark.parametrize("paths", [1, pytest.param(700, marks=pytest.mark.slow)])
def test_a_path_is_the_same_whatever_the_ensemble_s_size(paths):
    many, few = (run_ensemble(gbm(n, 20, stored_paths=n)).stored["S"] for n in (2 * LEAF, paths))
    np.testing.assert_array_equal(few, many[:paths])


def test_another_seed_is_another_sample():
    a, b = (run_ensemble(gbm(64, 20, stored_paths=64, seed=seed)).stored["S"][:, -1] for seed in (0, 1))
    assert not np.any(a == b)


@needs_processor
@given(st.integers(1, 10**9), st.integers(1, 10**6), st.integers(1, 500), st.integers(1, 8), st.data())
def test_chunks_cover_every_path_once_and_workers_finish_together(paths, steps, values, workers, data):
    chunk = data.draw(st.none() | st.integers(1, 10**7))
    most = data.draw(st.integers(1, 64)) * LEAF
    simulation = dataclasses.replace(gbm(paths, steps), threads=workers, chunk=chunk)
    plan = plan_chunks(simulation, paths, values, most)
    assert chunk is not None or plan.paths <= most
    assert plan.count * plan.paths >= paths
    assert (plan.count - 1) * plan.paths < paths
    assert plan.lanes == LEAF or plan.count == plan.leaves == 1
    if chunk is None and paths > LEAF:
        # The busiest worker has at most a third more to do than its part, or one leaf.
        busiest = -(-plan.count // workers) * plan.leaves
        part = -(-paths // LEAF) / workers
        assert busiest < max(4 / 3 * part, part + 1)


def test_progress_is_reported_for_every_chunk():
    seen = []
    run_ensemble(gbm(3 * LEAF, 4, chunk=LEAF), lambda done, total: seen.append((done, total)))
    assert seen == [(LEAF, 3 * LEAF), (2 * LEAF, 3 * LEAF), (3 * LEAF, 3 * LEAF)]


@needs_processor
def test_more_devices_than_there_are_is_refused():
    with pytest.raises(ValueError, match="devices: 99 requested, 4 available"):
        run_ensemble(gbm(10, 4, devices=99))


def test_running_leaves_jax_s_configuration_alone():
    with jax.enable_x64(False):
        result = run_ensemble(gbm(64, 4))
        assert result.statistics["moments"]["S_mean"].dtype == np.float64
        assert not jax.config.jax_enable_x64


@pytest.mark.parametrize(("wanted", "kept"), [({}, 20), ({"paths": 64}, 64), ({"paths": 0}, None)])
def test_as_many_paths_are_stored_as_requested(wanted, kept):
    experiment = {"model": {"type": "GBM", "mu": 0.05, "sigma": 0.2}, "initial": {"S": 100.0}}
    few = {"time": {"t1": 1.0, "steps": 4}, "ensemble": {"paths": 64, "devices": 1}, "save": wanted}
    result = simkit.run(experiment | few)
    assert ("S_path" in result) == (kept is not None)
    assert result.sizes.get("path") == kept
