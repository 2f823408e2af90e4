"""Compiled programs in a private folder: where, refused when, the same bits, a run that survives it."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from simkit import InputError, tune_process
from simkit.machine import compilation_cache
from simkit.machine.compilation_cache import (
    cache_folder,
    fault_of,
    folder_of_programs,
    keep_compiled_programs,
    machine,
)
from simkit.machine.doctor import _cache


@pytest.fixture
def before_jax(monkeypatch, tmp_path):
    """A process that has not imported jax and whose user has a home."""
    monkeypatch.delitem(sys.modules, "jax")
    for name in ("JAX_COMPILATION_CACHE_DIR", "TF_CPP_MIN_LOG_LEVEL"):
        monkeypatch.setenv(name, "restored afterwards")
        monkeypatch.delenv(name)
    monkeypatch.delenv("SIMKIT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(compilation_cache, "_own", [])
    return tmp_path / "simkit" / "xla"


def test_where_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "relative, which the standard says to ignore")
    monkeypatch.delenv("SIMKIT_CACHE")
    assert cache_folder() == tmp_path / ".cache/simkit/xla"
    for word in ("off", "OFF", "0"):
        monkeypatch.setenv("SIMKIT_CACHE", word)
        assert cache_folder() is None
    monkeypatch.setenv("SIMKIT_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.setenv("SIMKIT_CACHE", "own")
    with pytest.raises(InputError, match="SIMKIT_CACHE: 'own' is not an absolute path"):
        cache_folder()
    assert _cache().status == "warning"


def test_a_new_folder_is_private(before_jax):
    assert keep_compiled_programs() is None
    assert stat.S_IMODE(before_jax.stat().st_mode) == 0o700
    assert folder_of_programs() == before_jax / machine()
    assert str(before_jax) in _cache().value


@pytest.mark.parametrize(("kib", "shown"), [(512, "0.5 MiB"), (12_800, "12 MiB")])
def test_a_small_folder_is_not_of_no_size(before_jax, kib, shown):
    before_jax.mkdir(parents=True, mode=0o700)
    with (before_jax / "program").open("wb") as file:
        file.truncate(kib * 1024)
    assert _cache().value.startswith(f"{shown} in ")


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_folder_that_others_may_write_to_is_refused(before_jax, mode):
    before_jax.mkdir(parents=True)
    before_jax.chmod(mode)
    assert "can be written to by others" in str(keep_compiled_programs())
    assert folder_of_programs() is None
    assert _cache().status == "warning"


def test_a_folder_of_another_user_is_refused(before_jax, monkeypatch):
    monkeypatch.setattr(compilation_cache.os, "geteuid", lambda: before_jax.parents[2].stat().st_uid + 1)
    assert "belongs to another user" in str(keep_compiled_programs())


def test_a_file_in_its_place_is_only_a_warning(before_jax):
    before_jax.parent.mkdir()
    before_jax.write_text("")
    assert "compiled programs are not stored" in str(keep_compiled_programs())
    assert fault_of(before_jax / "below") is not None


def test_what_the_user_has_set_is_left_alone(before_jax, monkeypatch):
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "theirs")
    assert keep_compiled_programs() is None
    assert folder_of_programs() is None
    assert not before_jax.exists()


def test_nothing_is_kept_once_jax_is_imported(monkeypatch, tmp_path):
    monkeypatch.setenv("SIMKIT_CACHE", str(tmp_path / "own"))
    assert keep_compiled_programs() is None
    assert not (tmp_path / "own").exists()


def test_other_processors_have_other_programs(tmp_path):
    names = set()
    for flags in ("sse2 avx2", "avx2 sse2", "sse2"):
        (tmp_path / "cpuinfo").write_text(f"processor: 0\nflags : {flags}\n")
        names.add(machine(tmp_path / "cpuinfo"))
    assert len(names) == 2


def test_the_oldest_make_room(before_jax, monkeypatch):
    own = before_jax / machine()
    own.mkdir(parents=True, mode=0o700)
    before_jax.chmod(0o700)
    for age, name in enumerate(("new", "old", "older")):
        (own / name).write_bytes(bytes(1000))
        os.utime(own / name, (1e9 - age, 1e9 - age))
    monkeypatch.setattr(compilation_cache, "MOST_BYTES", 2500)
    assert keep_compiled_programs() is None
    assert {path.name for path in own.iterdir()} == {"new", "old"}


EXPERIMENT = """
model: {type: GBM, mu: 0.05, sigma: 0.2}
initial: {S: 100.0}
solver: ExactSampling
time: {t1: 1.0, steps: 12}
ensemble: {paths: 64, seed: 1}
"""


@pytest.mark.more
def test_programs_from_the_folder_give_the_same_bits(tmp_path):
    """Compiled, read back, under another name, damaged, and without: one table, and nothing on stderr.

    With another setting of jax the programs have other names, and the same machine code.
    """
    (tmp_path / "gbm.yaml").write_text(EXPERIMENT)
    folder = tmp_path / "cache"
    environment = {name: text for name, text in os.environ.items() if name != "XLA_FLAGS"}

    def run(cache: Path | str, **settings: str) -> dict:
        done = subprocess.run(
            [sys.executable, "-m", "simkit", "run", "gbm.yaml", "--json"],
            cwd=tmp_path,
            env=environment | {"SIMKIT_CACHE": str(cache)} | settings,
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        result = json.loads(done.stdout)
        for name in [name for name in result if name.endswith("_s") or "per_s" in name]:
            del result[name]
        return result

    expected = run("off")
    assert not folder.exists()
    assert run(folder) == expected
    stored = list(folder.rglob("*.program"))
    assert stored
    assert run(folder) == expected
    for _ in range(2):
        assert run(folder, JAX_TRACEBACK_FILTERING="off") == expected
    assert len(list(folder.rglob("*.program"))) == 2 * len(stored)
    for path in stored:
        path.write_bytes(path.read_bytes()[:100])
    assert run(folder) == expected


SCRIPT = """
import simkit
simkit.tune_process(keep_programs={keep})
import sys
dataset = simkit.run("gbm.yaml")
print(float(dataset["S_mean"][-1]).hex())
"""


@pytest.mark.more
def test_scripts_keep_programs_where_they_ask_for_it(tmp_path):
    """The second run reads the files that the first one stored, and writes none."""
    (tmp_path / "gbm.yaml").write_text(EXPERIMENT)
    folder = tmp_path / "cache"
    environment = {name: text for name, text in os.environ.items() if name != "XLA_FLAGS"}

    def run(keep: bool) -> str:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT.format(keep=keep)],
            cwd=tmp_path,
            env=environment | {"SIMKIT_CACHE": str(folder)},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    expected = run(keep=False)
    assert not folder.exists()
    assert run(keep=True) == expected
    stored = {path: path.stat().st_ino for path in folder.rglob("*.program")}
    assert stored
    assert run(keep=True) == expected
    assert {path: path.stat().st_ino for path in folder.rglob("*.program")} == stored


def test_a_script_is_warned_where_nothing_can_be_kept(before_jax):
    before_jax.parent.mkdir(parents=True)
    before_jax.write_text("")
    with pytest.warns(UserWarning, match="compiled programs are not stored: .* cannot be made"):
        tune_process(keep_programs=True)
