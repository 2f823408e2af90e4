"""Units of work in threads: results in order, few in memory, and the same bits for any number of threads."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerator import needs_processor
from ensemble_examples import gbm
from slow_cases import slow_but

import simkit
from simkit import NumericalError
from simkit.ensemble import LEAF, in_order, run_ensemble, work, workers_of
from simkit.ensemble.run import chunk_plan, chunk_requests
from simkit.ensemble.work import most_in_memory, workers_on
from simkit.machine.on_each_device import local_devices

CPU = local_devices(1)


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_results_come_in_order_however_long_units_take(threads):
    """The first units take longest, so that later ones finish before them."""

    def slow(unit: int) -> int:
        time.sleep(0.02 if unit % threads == 0 else 0)
        return unit

    assert list(in_order(slow, range(20), CPU * threads)) == list(range(20))


def test_units_run_at_the_same_time():
    """Each waits for the other, and would wait for ever if they came one after the other."""
    together = threading.Barrier(2, timeout=20)
    assert len(list(in_order(lambda _: together.wait(), range(2), CPU * 2))) == 2


def test_no_more_units_are_started_than_memory_holds():
    started, most = 0, 0

    def units():
        nonlocal started
        for unit in range(40):
            started += 1
            yield unit

    for merged, _ in enumerate(in_order(lambda unit: unit, units(), CPU * 3)):
        most = max(most, started - merged)
    assert started == 40
    assert most <= most_in_memory(3)


def test_an_error_ends_all_in_the_order_of_the_units():
    """The second unit's error is raised, though the third fails earlier, and later units do not begin."""
    started = []

    def failing(unit: int) -> int:
        started.append(unit)
        if unit == 1:
            time.sleep(0.05)
        if unit in (1, 2):
            raise NumericalError(f"unit {unit}")
        return unit

    results = in_order(failing, range(1000), CPU * 2)
    assert next(results) == 0
    with pytest.raises(NumericalError, match="unit 1"):
        next(results)
    assert len(started) <= most_in_memory(2)


def test_after_a_shortage_no_unit_is_at_work():
    """What they take is free before smaller ones are tried."""
    ended, begun = [], threading.Event()

    def short(unit: int) -> int:
        if unit == 0:
            begun.wait(20)
            raise MemoryError
        begun.set()
        time.sleep(0.2)
        ended.append(unit)
        return unit

    with pytest.raises(MemoryError):
        list(in_order(short, range(2), CPU * 2))
    assert ended == [1]


def test_an_interrupt_waits_for_no_unit_and_begins_no_other():
    """Of units 1 to 3, which are submitted by then, two are at work and the last has no thread."""
    release, started, finished = threading.Event(), [], []

    def waiting(unit: int) -> None:
        started.append(unit)
        if unit:
            release.wait(5)
        finished.append(unit)

    results = in_order(waiting, range(100), CPU * 2)
    next(results)
    with pytest.raises(KeyboardInterrupt):
        results.throw(KeyboardInterrupt)
    assert finished == [0]
    release.set()
    for thread in threading.enumerate():
        if thread.name.startswith("simkit"):
            thread.join()
    assert 3 not in started


def test_a_unit_is_handed_over_when_its_arrays_are_there():
    """Else errors would come up elsewhere, and more would be in memory than units are counted."""
    product = jax.jit(lambda x: x @ x @ x)
    x = jnp.ones((600, 600))
    assert all(array.is_ready() for array in in_order(lambda _: product(x), range(3), CPU))


@needs_processor
def test_each_worker_has_its_device_and_64_bit_types():
    def place(_) -> tuple:
        time.sleep(0.02)
        x = jnp.arange(2.0)
        return x.dtype, next(iter(x.devices()))

    jax.config.update("jax_enable_x64", False)  # of all threads, unlike `jax.enable_x64(False)`
    try:
        result = list(in_order(place, range(12), local_devices(3)))
    finally:
        jax.config.update("jax_enable_x64", True)
    assert {device for _, device in result} == {*local_devices(3)}
    assert {dtype for dtype, _ in result} == {jnp.dtype("float64")}


@needs_processor
@pytest.mark.parametrize(
    ("devices", "threads", "expected"), [(1, 3, [0, 0, 0]), (2, 3, [0, 1, 0]), (3, 1, [0])]
)
def test_threads_are_dealt_to_the_devices(devices, threads, expected):
    local = local_devices(devices)
    assert workers_on(local, threads) == tuple(local[i] for i in expected)


def test_an_accelerator_has_one_unit_in_work_and_the_next_one_prepared():
    one, two = (SimpleNamespace(platform="gpu") for _ in range(2))
    assert workers_on((one, two), 5) == (one, two, one, two)


@needs_processor
def test_unless_given_there_is_a_thread_for_each_core(monkeypatch):
    monkeypatch.setattr(work, "usable_cores", lambda: 5)
    assert len(workers_of(gbm(10, 1))) == 5
    assert len(workers_of(gbm(10, 1, threads=2))) == 2
    assert {*workers_of(gbm(10, 1, devices=3))} == {*local_devices(3)}


def test_a_run_is_the_same_program_for_any_number_of_threads():
    one, five = (chunk_requests(run, chunk_plan(run)) for run in (gbm(10, 1, threads=n) for n in (1, 5)))
    assert [request.key for request in one] == [request.key for request in five]


PATHS = 3 * LEAF + 77
STOCHASTIC = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 6},
    "observe": {"digital": "S > 100"},
    "sensitivity": {"wrt": ["model.sigma"]},
}
ADAPTIVE = STOCHASTIC | {"time": {"t1": 1.0, "rtol": 0.05, "atol": 0.05}}
JUMPS = {
    "model": {"type": "ImmigrationDeath", "alpha": 6.0, "mu": 1.0},
    "initial": {"X": 3},
    "time": {"t1": 1.0},
    "solver": "DirectMethod",
    "sensitivity": {"wrt": ["model.mu"]},
}
LEAPS = JUMPS | {"solver": "TauLeaping"}
EXERCISED = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 4},
    "observe": {
        "put": {"value": "maximum(105 - S, 0)", "early_exercise": {"dates": 4, "basis": ["S"], "paths": 5000}}
    },
}
STUDY = {
    "constants": {"vol": {"uniform": [0.1, 0.3]}},
    "model": {"type": "GBM", "mu": 0.05, "sigma": "vol"},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 4},
    "observe": {"call": "maximum(S - 100, 0)"},
    "uncertainty": {"points": 64},
}
RANDOM_STARTS = {
    "model": {"ode": {"x": "k*x - x**3"}, "parameters": {"k": 1.0}},
    "initial": {"x": {"normal": [0.5, 0.2]}},
    "time": {"t1": 1.0, "rtol": 0.001, "atol": 0.001},
    "sensitivity": {"wrt": ["k"]},
}
CASES = {
    "fixed steps": (simkit.run, STOCHASTIC),
    "adaptive steps": (simkit.run, ADAPTIVE),
    "jumps": (simkit.run, JUMPS),
    "leaps": (simkit.run, LEAPS),
    "early exercise": (simkit.run, EXERCISED),
    "derivatives": (simkit.sensitivity, STOCHASTIC),
    "derivatives of jumps": (simkit.sensitivity, JUMPS),
    "copies": (simkit.sensitivity, JUMPS | {"sensitivity": {"wrt": ["mu"], "method": "coupled_differences"}}),
    "random starts": (simkit.sensitivity, RANDOM_STARTS),
    "study": (simkit.uncertainty, STUDY),
}


@pytest.mark.user_code
@pytest.mark.more
@pytest.mark.parametrize("name", slow_but(("fixed steps", "copies"), CASES))
def test_threads_devices_and_chunks_leave_every_bit(name):
    function, given = CASES[name]
    given = given | {"ensemble": {"paths": 64 if name == "study" else PATHS, "seed": 3}}

    def run_with(**settings):
        return function(given, overrides={f"ensemble.{key}": x for key, x in settings.items()})

    one = run_with(devices=1, threads=1)
    for settings in (
        {"devices": 1, "threads": 2},
        {"devices": 1, "threads": 4, "chunk": LEAF},
        {"devices": 2},
        {"devices": 1, "threads": 2, "chunk": 2 * LEAF},
    ):
        other = run_with(**settings)
        for variable in one.variables:
            np.testing.assert_array_equal(one[variable].values, other[variable].values, f"{settings}")


EULER = STOCHASTIC | {"solver": "EulerMaruyama", "observe": {"call": "maximum(S - 100, 0)"}}


@needs_processor
@pytest.mark.parametrize(
    ("function", "given"),
    [
        (simkit.run, EULER),
        (simkit.sensitivity, EULER),
        pytest.param(simkit.sensitivity, LEAPS, marks=pytest.mark.slow),
        pytest.param(simkit.run, EXERCISED, marks=pytest.mark.slow),
        (simkit.uncertainty, STUDY),
    ],
    ids=["a run", "levels", "leaps", "early exercise", "a study"],
)
def test_no_part_of_a_run_has_more_threads_than_are_given(monkeypatch, function, given):
    """Nor fewer; the paths on other steps, which show the errors, are parts of a run too."""
    pools = set()

    def recorded(threads, **settings):
        pools.add(threads)
        return ThreadPoolExecutor(threads, **settings)

    monkeypatch.setattr(work, "ThreadPoolExecutor", recorded)
    monkeypatch.setattr(work, "usable_cores", lambda: 7)
    function(given | {"ensemble": {"paths": 64, "seed": 3, "devices": 1, "threads": 3}})
    assert pools == {3}


@pytest.mark.more
def test_fewer_threads_than_devices_leave_devices_idle():
    given = STOCHASTIC | {"ensemble": {"paths": 3 * LEAF, "chunk": LEAF, "devices": 3}}
    used = {n: simkit.run(given, overrides={"ensemble.threads": n}).attrs["devices"] for n in (1, 2, 5)}
    assert used == {1: 1, 2: 2, 5: 3}


@pytest.mark.more
def test_a_failing_path_names_the_same_path_for_any_number_of_threads():
    given = STOCHASTIC | {
        "model": {"sde": {"x": {"drift": "where(x > 2.9, sqrt(-x), 0)", "noise": {"W": 1.0}}}},
        "initial": {"x": 0.0},
        "observe": {},
        "ensemble": {"paths": 8 * LEAF, "seed": 3, "devices": 1, "chunk": LEAF},
    }
    del given["sensitivity"]
    messages = set()
    for threads in (1, 2, 4):
        with pytest.raises(NumericalError) as error:
            simkit.run(given, overrides={"ensemble.threads": threads})
        messages.add(str(error.value))
    assert len(messages) == 1


@pytest.mark.more
@pytest.mark.user_code
def test_threads_leave_every_bit_of_an_ensemble():
    results = [run_ensemble(gbm(PATHS, 42, threads=threads, chunk=LEAF)) for threads in (1, 2, 4)]
    for result in results[1:]:
        for reducer, statistics in results[0].statistics.items():
            for name, array in statistics.items():
                np.testing.assert_array_equal(array, result.statistics[reducer][name], name)
        assert result.bias == results[0].bias
