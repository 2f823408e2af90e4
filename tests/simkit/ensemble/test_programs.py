"""Programs are compiled once for all runs that differ in numbers, and never mistaken for another."""

import dataclasses

import jax
import jax.monitoring
import numpy as np
import pytest
from simkit_solvers.numerics.traced import Static

import simkit
from simkit import load
from simkit.ensemble import ChunkProgram, path_program, programs
from simkit.ensemble.chunk_program import quantity_rows
from simkit.ensemble.run import Reduction

BASE = {
    "constants": {"K": 1.0, "s": 0.3},
    "model": {
        "sde": {"x": {"drift": "-a*x", "noise": {"W1": "s*x"}}, "y": {"drift": "x", "noise": {"W2": "s"}}},
        "parameters": {"a": 1.0, "s": "s"},
    },
    "initial": {"x": 1.0, "y": {"normal": [0.0, 1.0]}},
    "time": {"t1": 1.0, "steps": 12},
    "ensemble": {"paths": 100, "seed": 1},
    "observe": {"call": "maximum(x - K, 0)"},
}

compilations = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: compilations.append(event) if "backend_compile" in event else None
)


@pytest.mark.more
def test_other_numbers_compile_nothing_and_count():
    simkit.run(BASE)
    before = len(compilations)
    seen = set()
    for change in (
        "constants.K=0.8",
        "constants.s=0.4",
        "model.parameters.a=2",
        "initial.x=1.5",
        "initial.y={normal: [0.0, 2.0]}",
        "time.t1=2",
        "ensemble.seed=2",
        "ensemble.paths=120",
    ):
        result = simkit.run(BASE, overrides=[change])
        seen.add((float(result["x_mean"][-1]), float(result["call_mean"]), float(result["y_variance"][-1])))
    assert len(compilations) == before
    assert len(seen) == 8


@pytest.mark.more
@pytest.mark.parametrize(
    "change", ["ensemble.paths=100", pytest.param("save.points=2", marks=pytest.mark.slow)]
)
def test_other_numbers_of_steps_compile_nothing(change):
    """Nor do the step biases; ten numbers of steps, and rows that fall into blocks at the same places."""
    first = simkit.run(BASE, overrides=["time.steps=64", change])
    before, ends = len(compilations), {float(first["x_mean"][-1])}
    for steps in (96, 128, 160, 192, 224, 256, 512, 1024, 2048):
        ends.add(float(simkit.run(BASE, overrides=[f"time.steps={steps}", change])["x_mean"][-1]))
    assert len(compilations) == before
    assert len(ends) == 10


def program_of(*changes: str, initial=None, **fields):
    simulation = dataclasses.replace(load(BASE, list(changes)), **fields)
    simulation = simulation if initial is None else simulation.with_run(initial=initial)
    with jax.enable_x64(True):
        paths, inputs = path_program(simulation, simulation.grid)
        program = ChunkProgram(paths, tuple(quantity_rows(simulation).items()))
        return programs.Request(program, (inputs,)).key


@pytest.mark.parametrize(
    "change",
    [
        ("model.sde.x.drift=-a*x*x",),
        ("model.sde.x.noise.W1=s*x*x",),
        ("model.correlation={W1-W2: 0.5}",),
        ("initial.y=0.0",),
        ("initial.y={uniform: [0.0, 1.0]}",),
        ("solver=Milstein", "model.sde.y.noise={W2: s*y}"),
        ("time.steps=24",),
        ("time={t1: 1.0, rtol: 1e-3, atol: 1e-3}", "solver=Milstein"),
        ("save.points=3",),
        ("precision=float32",),
        ("ensemble.normals=float64",),
        ("observe.call=maximum(x - K, 0)*2",),
        ("observe.call.value=maximum(x - K, 0)", "observe.call.at=each"),
        ("observe.call=maximum(max(x) - K, 0)",),
        ("observe.call.value=maximum(max(x) - K, 0)", "observe.call.every=3"),
    ],
    ids=str,
)
def test_another_program_is_not_taken_for_the_same(change):
    assert program_of() == program_of()
    assert hash(program_of()) == hash(program_of())
    assert program_of(*change) != program_of()


def test_fields_without_a_key_in_the_file_distinguish_programs_too():
    assert program_of(convert=True) != program_of()
    simulation = load(BASE)
    turned = dict(reversed(list(simulation.initial.items())))
    assert program_of(initial=turned) != program_of()  # the position in it is that of the noise


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1, 1.0),
        (1, True),
        (np.array([1, 2]), np.array([1, 3])),
        (np.array([1, 2]), np.array([1, 2], np.int8)),
        ((1, 2), [1, 2]),
        ({"a": 1}, {"b": 1}),
    ],
    ids=str,
)
def test_trees_are_equal_by_structure_type_and_value(one, other):
    assert Static(one) == Static(one)
    assert hash(Static(one)) == hash(Static(one))
    assert Static(one) != Static(other)


@dataclasses.dataclass(frozen=True)
class Times:
    factor: float

    def __call__(self, x):
        return self.factor * x


def times(*factors, x=3.0):
    return programs.compiled(*(programs.Request(Times(factor), (np.float32(x),)) for factor in factors))[0]


def test_the_last_used_are_kept(monkeypatch):
    monkeypatch.setattr(programs, "CACHED", 2)
    monkeypatch.setattr(programs, "_cache", type(programs._cache)())
    x = np.float32(3.0)
    (first,) = times(2.0)
    assert first(x) == 6.0
    assert times(3.0)[0](x) == 9.0
    assert times(2.0)[0] is first
    times(4.0)
    assert times(2.0)[0] is first
    assert {program.factor for program, *_ in programs._cache} == {2.0, 4.0}
    assert times(2.0, x=(0.0, 0.0))[0] is not first


def test_a_program_that_uses_up_its_arguments_is_another_one():
    requests = [programs.Request(Times(8.0), (np.float32(3.0),), donated=each) for each in ((), (0,))]
    keeping, using_up = programs.compiled(*requests)[0]
    given = jax.numpy.float32(3.0)
    assert keeping(given) == using_up(given) == 24.0
    assert given.is_deleted()


def test_several_are_compiled_at_once_each_its_own():
    result = times(5.0, 6.0, 5.0, 7.0)
    assert [each(np.float32(1.0)) for each in result] == [5.0, 6.0, 5.0, 7.0]
    assert result[0] is result[2]


@pytest.mark.more
def test_models_that_keep_as_many_rows_share_their_reduction():
    def reductions():
        return {key for key in programs._cache if isinstance(key[0], Reduction)}

    simkit.run(BASE)
    before = reductions()
    simkit.run(BASE, overrides=["model.sde.x.drift=-a*x*x", "observe={put: 'maximum(K - x, 0)'}"])
    assert reductions() <= before  # old programs may make room
