"""Ensembles in the form for accelerators: the same statistics, from programs that need nothing but XLA."""

import dataclasses
from types import SimpleNamespace
from unittest import mock

import jax
import numpy as np
import pytest
from accelerator import as_on_accelerator, custom_calls, loops, lowered, needs_processor
from ensemble_examples import gbm
from slow_cases import slow_but

from simkit import load
from simkit.ensemble import LEAF, run_ensemble, work
from simkit.ensemble.accumulator import first_paths
from simkit.ensemble.chunks import path_ids, plan_chunks
from simkit.ensemble.reducers.float_bins import ALL_BINS
from simkit.ensemble.reducers.histogram import Counted, Histogram
from simkit.ensemble.run import chunk_plan, chunk_requests
from simkit.ensemble.work import most_in_memory

HESTON = {"type": "Heston", "mu": 0.05, "kappa": 2.0, "theta": 0.04, "xi": 0.3, "rho": -0.7}
LORENZ = {"type": "Lorenz63", "sigma": 10.0, "rho": 28.0, "beta": 2.6667}
DEATH = {"model": {"type": "ImmigrationDeath", "alpha": 50.0, "mu": 1.0}, "initial": {"X": 0}}
CIR = {"type": "CIR", "kappa": 1.5, "theta": 0.04, "sigma": 0.3}
SOURCES = {
    "fixed steps": {
        "model": HESTON,
        "initial": {"S": 100.0, "v": 0.04},
        "time": {"t1": 1.0, "steps": 38},
        "save": {"points": 2},
    },
    "an ordinary equation": {
        "model": LORENZ,
        "initial": {"x": {"normal": {"mean": 1.0, "sd": 0.1}}, "y": 1.0, "z": 20.0},
        "time": {"t1": 0.1, "steps": 24},
    },
    "adaptive steps": {
        "model": {"type": "VanDerPol", "mu": 2.0},
        "initial": {"x": {"normal": {"mean": 1.0, "sd": 0.1}}, "v": 0.0},
        "time": {"t1": 1.0, "rtol": 1e-6, "atol": 1e-8},
    },
    "events": {**DEATH, "time": {"t1": 2.0}},
    "leaps": {**DEATH, "time": {"t1": 2.0}, "solver": "TauLeaping"},
    "exact draws": {
        "model": CIR,
        "initial": {"r": 0.09},
        "solver": "ExactSampling",
        "time": {"t1": 1.0, "steps": 4},
    },
}


def simulation_of(kind: str):
    return load({**SOURCES[kind], "ensemble": {"paths": 2 * LEAF, "seed": 1, "devices": 1}})


@pytest.mark.more
@pytest.mark.parametrize("kind", slow_but(("fixed steps", "events"), SOURCES))
def test_the_same_statistics(kind):
    """Of counts the same bits; of real numbers but for rounding, which exact draws have in float32."""
    simulation = simulation_of(kind)
    expected = run_ensemble(simulation).statistics["moments"]
    with as_on_accelerator():
        result = run_ensemble(simulation).statistics["moments"]
    rtol, atol = (1e-6, 1e-10) if kind == "exact draws" else (1e-9, 1e-13)
    for name, values in expected.items():
        np.testing.assert_allclose(result[name], values, rtol=rtol, atol=atol, err_msg=name)
        if kind in ("events", "leaps"):
            np.testing.assert_array_equal(result[name], values, err_msg=name)


@pytest.mark.more
@pytest.mark.parametrize(
    "kind",
    slow_but(
        ("fixed steps", "an ordinary equation", "events", "exact draws"),
        (each for each in SOURCES if each != "adaptive steps"),
    ),
)
def test_programs_need_nothing_but_xla_and_no_loop_over_groups(kind):
    """No callback to the host, no library that one platform alone has, and one loop less than a processor has
    where paths wait for each other; elsewhere no branch in the loop over blocks.

    But for adaptive steps, where diffrax checks the saved times by a callback, once in a run.
    """
    simulation = simulation_of(kind)
    with jax.enable_x64(True):
        simulated, reduced = chunk_requests(simulation, chunk_plan(simulation))
        here = jax.jit(lambda *x: simulated.program(*x)).lower(*simulated.arguments).as_text()
        there = lowered(simulated.program, *simulated.arguments)
        assert not custom_calls(there)
        assert not custom_calls(lowered(reduced.program, *reduced.arguments))
    if simulation.stepping.group is not None:
        assert loops(there) == loops(here) - 1
    elif kind != "exact draws":
        assert there.count("stablehlo.case") < here.count("stablehlo.case")


@needs_processor
@pytest.mark.parametrize("first", [0, 6000, 2**32 - 1, 2**32 + 4])
def test_ids_made_on_an_accelerator_are_those_made_here(first):
    expected = path_ids(first, 2, 64)
    assert isinstance(expected, np.ndarray)
    with as_on_accelerator(), jax.enable_x64(True):
        result = path_ids(first, 2, 64)
    assert isinstance(result, jax.Array)
    np.testing.assert_array_equal(result, expected, strict=True)
    assert expected[0, 0] == first % 2**32


def test_of_an_accelerator_the_first_paths_are_copied():
    """From a stand-in whose array says that it is on one."""
    x = np.arange(24.0).reshape(2, 3, 4)
    there = mock.MagicMock(shape=x.shape)
    there.devices.return_value = [SimpleNamespace(platform="gpu")]
    there.__getitem__.side_effect = lambda key: x[key]
    for rows in (slice(None), slice(-1, None)):
        for array in (there, x):
            np.testing.assert_array_equal(first_paths(array, 6, rows), x.reshape(2, -1)[rows, :6])
    assert [call.args[0][1] for call in there.__getitem__.call_args_list] == [slice(None, 2)] * 2


def test_bins_counted_on_the_device_give_the_same_histogram():
    """In two parts; also of equal values, of none, and where some are not valid."""
    rng = np.random.default_rng(2)
    shape = (3, ALL_BINS // LEAF + 1, LEAF)
    spread = np.stack(
        [rng.standard_normal(shape[1:]) ** 5, np.full(shape[1:], -3.0), np.full(shape[1:], 2e300)]
    )
    valid = rng.random(shape[1:]) < 0.9
    reducer = Histogram({"x": 3}, (0.1, 0.5))

    def finished(parts):
        state = reducer.init()
        for part in parts:
            partial = jax.jit(reducer.update)({"x": part}, valid)
            state = reducer.merge(state, reducer.on_host(partial))
        return reducer.finish(state)

    expected = finished([spread, 0.5 * spread, spread])
    with as_on_accelerator():
        assert isinstance(reducer.update({"x": spread}, valid), Counted)
        result = finished([spread, 0.5 * spread, spread])
    for name, values in expected.items():
        np.testing.assert_array_equal(result[name], values, err_msg=name)
    with as_on_accelerator():
        nothing = reducer.update({"x": spread}, np.zeros_like(valid))
    assert not any(len(row.counts) for row in reducer.on_host(nothing))


@dataclasses.dataclass(frozen=True)
class Card:
    """An accelerator with so much memory, or one that does not say how much."""

    number: int
    gigabytes: int | None
    platform = "gpu"

    def memory_stats(self):
        return None if self.gigabytes is None else {"bytes_limit": self.gigabytes * 2**30}


@pytest.mark.parametrize("gigabytes", [None, 4, 60])
@pytest.mark.parametrize("cards", [1, 2])
@pytest.mark.parametrize(("paths", "values"), [(10**5, 2), (10**8, 2), (10**8, 1000)])
def test_chunks_fill_accelerators_and_fit_their_memory(monkeypatch, gigabytes, cards, paths, values):
    """A small ensemble is one chunk for each; the rows of its chunks at work take a part of its memory."""
    monkeypatch.setattr(work, "local_devices", lambda count: tuple(Card(i, gigabytes) for i in range(cards)))
    plan = plan_chunks(gbm(paths, 100), paths, values)
    assert 8 * values * plan.paths * most_in_memory(2) <= (gigabytes or 8) * 2**30 / 8
    assert plan.count == cards or paths > 10**5
    assert values > 2 or plan.paths >= min(2**20, paths // cards)
