"""How many cores a process may use."""

import os

import pytest

from simkit.machine import cores


def written(root, texts: dict[str, str]):
    for name, text in texts.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


OWN = "proc/self/cgroup"
V2, V1 = "sys/fs/cgroup/{}/cpu.max", "sys/fs/cgroup/cpu,cpuacct/{}/cpu.cfs_{}_us"


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ({}, None),
        ({OWN: "0::/jobs/mine\n", V2.format("jobs/mine"): "250000 100000\n"}, 2.5),
        ({OWN: "0::/jobs/mine\n", V2.format("jobs/mine"): "max 100000\n"}, None),
        ({OWN: "0::/jobs/mine\n", V2.format("jobs"): "150000 100000", V2.format("jobs/mine"): "max 1"}, 1.5),
        (
            {
                OWN: "0::/jobs/mine\n",
                V2.format("jobs"): "150000 100000",
                V2.format("jobs/mine"): "250000 100000",
            },
            1.5,
        ),
        ({OWN: "0::/jobs/mine\n", V2.format("jobs/others"): "50000 100000"}, None),
        ({OWN: "0::/\n", "sys/fs/cgroup/cpu.max": "300000 100000"}, 3.0),
        (
            {
                OWN: "5:memory:/a\n4:cpu,cpuacct:/docker/ab\n0::/\n",
                V1.format("docker/ab", "quota"): "50000\n",
                V1.format("docker/ab", "period"): "100000\n",
            },
            0.5,
        ),
        (
            {OWN: "4:cpu,cpuacct:/x\n", V1.format("x", "quota"): "-1", V1.format("x", "period"): "100000"},
            None,
        ),
        (  # a container that sees its own group as the root
            {
                OWN: "4:cpu,cpuacct:/docker/unseen\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "200000",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            2.0,
        ),
    ],
)
def test_the_limit_of_the_control_group(tmp_path, texts, expected):
    assert cores.group_limit(written(tmp_path, texts)) == expected


@pytest.mark.parametrize(
    ("limit", "expected"), [("max", 6), ("1000000", 6), ("250000", 3), ("10000", 1)], ids=str
)
def test_cores_are_those_of_affinity_and_of_the_group(tmp_path, monkeypatch, limit, expected):
    """A part of a core is one more thread, or its time would go unused."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 5, 6, 7}, raising=False)
    root = written(tmp_path, {OWN: "0::/\n", "sys/fs/cgroup/cpu.max": f"{limit} 100000"})
    assert cores.usable_cores(root) == expected
