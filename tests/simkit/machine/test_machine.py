"""The machine: vector width, known-bad jax."""

import os
import sys

import jax
import pytest
from user_code import user_jit

from simkit.machine import doctor, xla_flags

CPUINFO = "processor\t: 0\nmodel name\t: avx512f in a name only\nflags\t\t: fpu sse2 avx2{}\n"


@pytest.fixture
def avx512_machine(monkeypatch):
    """One where nothing speaks against wide vectors."""
    monkeypatch.setenv("XLA_FLAGS", "restored afterwards")
    monkeypatch.delenv("XLA_FLAGS")
    monkeypatch.setattr(xla_flags, "has_avx512", lambda: True)
    monkeypatch.setattr(xla_flags.importlib.metadata, "version", lambda name: "0.10.1")
    monkeypatch.delitem(sys.modules, "jaxlib")


@pytest.mark.parametrize(("flags", "expected"), [("", False), (" avx512f avx512dq", True)])
def test_avx512_is_read_from_the_flags_of_the_processor(tmp_path, monkeypatch, flags, expected):
    monkeypatch.setattr(xla_flags.platform, "system", lambda: "Linux")
    monkeypatch.setattr(xla_flags.platform, "machine", lambda: "x86_64")
    (tmp_path / "cpuinfo").write_text(CPUINFO.format(flags))
    assert xla_flags.has_avx512(tmp_path / "cpuinfo") is expected
    assert xla_flags.has_avx512(tmp_path / "absent") is False


@pytest.mark.parametrize(("system", "machine"), [("Darwin", "x86_64"), ("Linux", "aarch64")])
def test_other_systems_keep_the_default(tmp_path, monkeypatch, system, machine):
    monkeypatch.setattr(xla_flags.platform, "system", lambda: system)
    monkeypatch.setattr(xla_flags.platform, "machine", lambda: machine)
    (tmp_path / "cpuinfo").write_text(CPUINFO.format(" avx512f"))
    assert xla_flags.has_avx512(tmp_path / "cpuinfo") is False


@pytest.mark.usefixtures("avx512_machine")
def test_wide_vectors_are_requested_on_avx512():
    assert xla_flags.prefer_wide_vectors() is True
    assert os.environ["XLA_FLAGS"] == "--xla_cpu_prefer_vector_width=512"


@pytest.mark.usefixtures("avx512_machine")
def test_flags_of_the_user_are_kept_with_the_vector_width(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
    for _ in range(2):
        assert xla_flags.prefer_wide_vectors() is True
        assert os.environ["XLA_FLAGS"] == (
            "--xla_force_host_platform_device_count=4 --xla_cpu_prefer_vector_width=512"
        )


@pytest.mark.usefixtures("avx512_machine")
def test_a_vector_width_of_the_user_is_left_alone(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_prefer_vector_width=256")
    assert xla_flags.prefer_wide_vectors() is False
    assert os.environ["XLA_FLAGS"] == "--xla_cpu_prefer_vector_width=256"
    assert xla_flags.reason_against_wide_vectors() == "XLA_FLAGS already says which"


@pytest.mark.usefixtures("avx512_machine")
def test_an_untested_jaxlib_gets_no_flag_because_an_unknown_one_aborts(monkeypatch):
    monkeypatch.setattr(xla_flags.importlib.metadata, "version", lambda name: "0.13.0")
    assert xla_flags.prefer_wide_vectors() is False
    assert "XLA_FLAGS" not in os.environ
    assert xla_flags.reason_against_wide_vectors() == (
        "not tested with jaxlib 0.13.0 (tested: 0.10.1, 0.12.0, 0.12.0.1)"
    )


@pytest.mark.usefixtures("avx512_machine")
def test_nothing_is_set_once_jax_is_imported(monkeypatch):
    monkeypatch.setitem(sys.modules, "jaxlib", object())
    assert xla_flags.prefer_wide_vectors() is False
    assert "XLA_FLAGS" not in os.environ


def test_jitted_matrix_product_and_sum_of_squares_agrees_with_numpy(monkeypatch):
    """jax issue 39103: jax 0.10.2 is wrong by 0.008."""
    monkeypatch.setattr(jax, "jit", user_jit)
    assert doctor.reduction_error() < 1e-12


def test_doctor_notices_a_wrong_reduction(monkeypatch):
    right = jax.jit
    monkeypatch.setattr(jax, "jit", lambda f: lambda x: right(f)(x).at[-1].multiply(0.998))
    finding = doctor._reduction()
    assert finding.status == "failed"
    assert not doctor.healthy([finding])
    assert finding.value == "wrong by 0.002 (jax issue 39103): install another jax"


@pytest.mark.parametrize("version", ["0.10.2", "0.11.0", "0.11.1"])
def test_doctor_warns_of_versions_known_to_be_bad(monkeypatch, version):
    monkeypatch.setattr(doctor.importlib.metadata, "version", lambda name: version)
    for package in ("jax", "jaxlib"):
        finding = doctor._version(package)
        assert finding.status == "warning"
        assert finding.value.startswith(f"{version}: ")
    assert doctor._version("numpy").status == "ok"
