"""Compiled programs in files: found where they are the same, never where anything differs."""

import functools
import os
import subprocess
import sys
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerator import needs_processor
from derivative_examples import requests_of_study
from simkit_solvers import over_shared_parts

import simkit
from simkit import load
from simkit.ensemble import ChunkProgram, programs, stored_programs
from simkit.ensemble.program_digest import NoDigestError, digest_of
from simkit.machine.on_each_device import local_devices

GBM = {
    "constants": {"r": 0.05, "K": 100.0},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "EulerMaruyama",
    "time": {"t1": 1.0, "steps": 8},
    "ensemble": {"paths": 64, "seed": 1, "devices": 1},
    "observe": {"call": "maximum(S - K, 0)"},
    "sensitivity": {"wrt": ["S"], "method": "pathwise"},
}


def first_request(overrides=()):
    """The program of the run's own paths in a study, which is not compiled."""
    return requests_of_study(GBM, overrides)[0]


def digest_with(overrides=()):
    """The digest of that program."""
    request = first_request(overrides)
    return digest_of((request.program, request.quick))


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """A folder for programs, and the list of those that were traced; none is in memory."""
    traced, trace = [], programs._traced

    def recorded(request):
        traced.append(request.program)
        return trace(request)

    monkeypatch.setattr(stored_programs, "folder_of_programs", lambda: tmp_path)
    monkeypatch.setattr(programs, "_cache", type(programs._cache)())
    monkeypatch.setattr(programs, "_traced", recorded)
    return tmp_path, traced


def figures():
    """The derivative with all its errors, as bytes, by programs that are not in memory."""
    programs._cache.clear()
    result = simkit.sensitivity(GBM)
    return {name: np.asarray(x).tobytes() for name, x in result.data_vars.items() if x.dtype.kind == "f"}


@pytest.mark.more
def test_a_stored_program_is_not_traced_and_gives_the_same_bits(kept, monkeypatch):
    folder, traced = kept
    first = figures()
    assert len(traced) == len(list(folder.glob("*.program"))) > 3
    traced.clear()
    assert figures() == first
    assert not traced

    for i, file in enumerate(sorted(folder.glob("*.program"))):
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content[:100] if i % 2 else content)
    assert figures() == first
    assert len(traced) == len(list(folder.glob("*.program")))

    traced.clear()
    monkeypatch.setattr(stored_programs, "_code", lambda: "another version")
    assert figures() == first
    assert len(traced) > 3


def test_another_request_has_another_file(kept, monkeypatch):
    """Of another type, made another way, using up arguments, or by jax or XLA with another setting."""
    request = first_request()
    floats = jax.tree.map(
        lambda x: jnp.asarray(x, jnp.float32) if jnp.result_type(x) == jnp.float64 else x, request.arguments
    )
    changes = ({}, {"quick": True}, {"arguments": floats}, {"donated": (0,)})
    others = [request._replace(**each) for each in changes]
    files = [stored_programs.file_of(each) for each in others]
    jax.config.update("jax_default_matmul_precision", "highest")
    try:
        files.append(stored_programs.file_of(request))
    finally:
        jax.config.update("jax_default_matmul_precision", None)
    monkeypatch.setenv("XLA_FLAGS", f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_enable_fast_math=true")
    files.append(stored_programs.file_of(request))
    assert None not in files
    assert len({*files}) == len(files)


@pytest.fixture
def jax_cache(monkeypatch):
    """The settings of jax's own cache, restored afterwards."""
    names = ("jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs")
    before = {name: jax.config.values[name] for name in names}
    yield names[0]
    for name, value in before.items():
        jax.config.update(name, value)


@needs_processor
def test_a_program_that_processors_share_is_stored_too(kept):
    folder, traced = kept
    numbers, squares = np.arange(5.0), functools.partial(over_shared_parts, jax.lax.square)
    values = []
    for devices in (1, 2, 2):
        request = programs.Request(squares, (numbers,), local_devices(devices), together=devices > 1)
        (program,), _ = programs.compiled(request)
        values.append(program(numbers))
        programs._cache.clear()
    assert traced == [squares] * 2
    assert len(list(folder.glob("*.program"))) == 2
    for value in values:
        np.testing.assert_array_equal(value, numbers**2)


def test_nothing_is_stored_in_addition_to_a_cache_of_jax(kept, jax_cache, tmp_path):
    """What jax has read from its cache is not whole when it is serialized again."""
    request = first_request()
    assert stored_programs.file_of(request) is not None
    jax.config.update(jax_cache, str(tmp_path / "jax"))
    assert stored_programs.file_of(request) is None


def test_other_devices_leave_storing_to_jax(kept, jax_cache):
    folder, _ = kept
    card = SimpleNamespace(platform="gpu", device_kind="a card")
    assert stored_programs.file_of(first_request()._replace(devices=(card,))) is None
    assert jax.config.values[jax_cache] == str(folder)


@pytest.mark.more
def test_a_full_disk_leaves_nothing_behind(kept, monkeypatch):
    folder, _ = kept

    def full(*_):
        raise OSError("No space left on device")

    monkeypatch.setattr(stored_programs.os, "replace", full)
    assert figures()
    assert not list(folder.iterdir())


def test_different_programs_have_different_digests():
    same = digest_with()
    assert digest_with() == same
    assert digest_with({"ensemble.seed": 5}) == same  # an argument of the program
    changes = [
        {"observe.call": "maximum(S - 2*K, 0)"},
        {"observe.call": "maximum(S - K, 1)"},
        {"observe.call": "maximum(K - S, 0)"},
        {"time.steps": 16},
        {"solver": "Milstein"},
        {"precision": "float32"},
        {"ensemble.normals": "float64"},
        {"ensemble.threads": 97},  # which share the memory of the reverse pass
        {"sensitivity.method": "reverse"},
        {"sensitivity.wrt": ["S", "r"], "sensitivity.method": "score"},
    ]
    assert len({same, *map(digest_with, changes)}) == 1 + len(changes)
    assert digest_of((1, 2)) != digest_of((12,)) != digest_of(("1", "2"))
    assert len({digest_of(x) for x in (1, 1.0, True, np.float64(1), np.float32(1), "1", [1], (1,))}) == 8
    assert digest_of({"a", "b", "c"}) == digest_of({"c", "b", "a"})
    assert (
        len({digest_of(x) for x in (np.zeros(2), np.ones(2), np.zeros((2, 1)), np.zeros(2, np.float32))}) == 4
    )
    assert len({digest_of(x) for x in ({"a": 1}, {"a": 2}, {"b": 1}, {"a": 1, "b": 1})}) == 4


def equation_of(drift):
    return {"sde": {"S": {"drift": drift, "noise": {"W1": "sigma * S"}}}, "parameters": {"sigma": 0.2}}


def reactions_of(rate):
    return {"reactions": {"birth": {"equation": "0 -> S", "rate": rate}}, "parameters": {"sigma": 0.2}}


def energies_of(potential):
    energy = {"kinetic": "p**2 / 2", "potential": potential}
    return {"hamiltonian": energy, "coordinates": {"S": "p"}, "parameters": {"sigma": 0.2}}


@pytest.mark.parametrize(
    ("model", "texts"),
    [
        (equation_of, ("0.05 * S", "0.06 * S", "0.05 + S")),
        (reactions_of, ("sigma", "2 * sigma", "sigma + 1")),
        (energies_of, ("S**2", "2 * S**2", "S**4")),
    ],
)
def test_a_model_in_the_file_is_identified_by_its_text(model, texts):
    def class_of(text):
        given = {"S": 100.0} | ({"p": 0.0} if model is energies_of else {})
        grid = {"t1": 1.0} | ({} if model is reactions_of else {"steps": 8})
        return type(load({"model": model(text), "initial": given, "time": grid}).problem)

    assert digest_of(class_of(texts[0])) == digest_of(class_of(texts[0]))
    assert len({digest_of(class_of(text)) for text in texts}) == 3


@pytest.mark.more
def test_a_program_that_calls_python_is_not_stored(kept):
    """Adaptive steps of an ordinary equation do, where they fail."""
    folder, traced = kept
    ode = {"model": {"type": "VanDerPol", "mu": 1.0}, "initial": {"x": 1.0, "v": 0.5}, "solver": "Tsit5"}
    run = {"time": {"t1": 1.0, "rtol": 1e-6, "atol": 1e-8}, "ensemble": {"paths": 64, "devices": 1}}
    simkit.run(ode | run)
    adaptive = [program for program in traced if isinstance(program, ChunkProgram)]
    assert adaptive
    assert len(list(folder.glob("*.program"))) <= len(traced) - len(adaptive)


def test_what_says_nothing_of_what_it_does_has_no_digest():
    def local(x):
        return x

    def pretended(x):
        return x

    pretended.__module__ = "simkit.ensemble.program_digest"
    for thing in (local, pretended, lambda x: x, functools.partial(local, 1), object(), pytest.approx(1)):
        with pytest.raises(NoDigestError):
            digest_of((1, thing))
    assert digest_of(np.sin) != digest_of(np.cos)


@pytest.mark.slow
def test_another_process_gives_the_same():
    """Whatever the order of its sets."""
    code = "import jax; jax.config.update('jax_enable_x64', True); import test_stored_programs as tests\n"
    names = {
        subprocess.run(
            [sys.executable, "-c", code + "print(tests.digest_with())"],
            env=os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(names) == 1
