"""How much memory a process may take, and an allocation that fails."""

import resource
import subprocess
import sys

import pytest

from simkit import OutOfMemoryError
from simkit.machine import memory

MACHINE = "MemTotal: 99 kB\nMemAvailable: 50 kB\n"
OWN = "proc/self/cgroup"
V2 = "sys/fs/cgroup/{}/memory.{}"
V1 = "sys/fs/cgroup/memory/{}/memory.{}"


def written(root, texts: dict[str, str]):
    for name, text in ({"proc/meminfo": MACHINE} | texts).items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def group(place: str, limit: str, limits: tuple[str, str], stat: str) -> dict[str, str]:
    texts = {limits[0]: limit, limits[1]: "20000", "stat": stat}
    return {place.format("mine", name): text for name, text in texts.items()}


V2_FILES, V1_FILES = ("max", "current"), ("limit_in_bytes", "usage_in_bytes")


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({}, 51_200),
        ({OWN: "0::/mine", **group(V2, "30000", V2_FILES, "anon 5\ninactive_file 4000")}, 14_000),
        ({OWN: "0::/mine", **group(V2, "max", V2_FILES, "inactive_file 4000")}, 51_200),
        ({OWN: "0::/other", **group(V2, "30000", V2_FILES, "inactive_file 4000")}, 51_200),
        ({OWN: "0::/mine/inner", **group(V2, "19000", V2_FILES, "inactive_file 0")}, 0),
        ({OWN: "6:memory:/mine", **group(V1, "30000", V1_FILES, "total_inactive_file 1000")}, 11_000),
    ],
)
def test_the_least_of_what_is_free_in_the_machine_and_in_the_group(tmp_path, texts, expected):
    """The pages of files that a group caches are free too."""
    assert memory.available_memory(written(tmp_path, texts)) == expected


def test_unknown_where_the_system_does_not_say(tmp_path):
    assert memory.available_memory(tmp_path) is None


@pytest.mark.parametrize(("limit", "field"), [("RLIMIT_AS", 0), ("RLIMIT_DATA", 5)])
def test_limits_of_the_process_count(limit, field):
    code = (
        "import resource, simkit.machine.memory as memory; "
        f"resource.setrlimit(resource.{limit}, (10**9, -1)); "
        f"held = int(open('/proc/self/statm').read().split()[{field}]) * resource.getpagesize(); "
        "free = memory.available_memory(); "
        "assert 10**9 - held - 2**20 < free < 10**9 - held + 2**20, (free, held)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("limit", [900_000_000, 10**9])
def test_jax_is_not_started_where_it_has_no_room(monkeypatch, limit):
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, -1))
    if limit >= memory.LEAST_ADDRESS_SPACE:
        memory.check_address_space()
    else:
        with pytest.raises(OutOfMemoryError, match=r"900MB of address space \(ulimit -v\).*raise the limit"):
            memory.check_address_space()


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 462. MiB"),
        RuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 40542208 bytes."),
    ],
)
def test_an_allocation_that_fails_has_a_remedy(error):
    with (
        pytest.raises(OutOfMemoryError, match=r"^not enough memory: .*B are left; take less$") as raised,
        memory.failures_named("take less"),
    ):
        raise error
    assert "RESOURCE" not in str(raised.value)


def test_other_errors_and_those_named_already_stay():
    for error in (RuntimeError("of another kind"), OutOfMemoryError("named")):
        with pytest.raises(type(error)) as raised, memory.failures_named("take less"):
            raise error
        assert raised.value is error
