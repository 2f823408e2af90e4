"""How often what a user writes is traced, where it is differentiated."""

import jax.numpy as jnp
import pytest
from simkit_physics import MultiAssetGBM
from simkit_solvers.problems.directions import released

import simkit


@pytest.mark.more
def test_a_step_is_traced_seldom_whatever_is_differentiated(monkeypatch):
    """Once for all places of the loop, levels of derivatives, normals and directions, and programs."""
    steps, transition = [], MultiAssetGBM.transition

    def counted(self, *args):
        steps.append(self)
        return transition(self, *args)

    monkeypatch.setattr(MultiAssetGBM, "transition", counted)
    experiment = {
        "model": {"type": "MultiAssetGBM", "mu1": 0.03, "mu2": 0.03, "mu3": 0.03}
        | {"sigma1": 0.2, "sigma2": 0.3, "sigma3": 0.25, "rho12": 0.6, "rho13": 0.3, "rho23": 0.1},
        "initial": {"S1": 100.0, "S2": 95.0, "S3": 110.0},
        "solver": "ExactSampling",
        "time": {"t1": 1.0, "steps": 1},
        "ensemble": {"paths": 64},
        "observe": {"digital": "S1 + S2 + S3 > 301", "call": "maximum(S1 + S2 + S3 - 301, 0)"},
    }
    counts = {}
    gamma = {"second": ["S1"]}
    for name, second in (("digital", {}), ("call", gamma)):
        section = {"wrt": ["S1", "S2", "S3", "mu1"], "of": [name]} | second
        steps.clear()
        simkit.sensitivity(experiment | {"sensitivity": section})
        counts[name, bool(second)] = len(steps)
    assert counts["digital", False] <= 18
    assert counts["call", True] <= 10  # with the probes of its rival, which is smoothed


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_step_is_differentiated_once_along_each_normal(count):
    """However many weights there are: the slopes of shifts are those of one traced shift."""
    calls = []

    def advance(z):
        calls.append("end")
        return [x * (1 + 0.1 * x) for x in z]

    def along(z):
        calls.append("slope")
        return [3 * x for x in z]

    normals = tuple(jnp.float64(0.1 * (i + 1)) for i in range(count))
    _, weight = released(advance, along, normals, 1.0, tuple(range(count)))
    assert calls.count("end") == count
    assert calls.count("slope") == 2
    # u = 3 z / (1 + 0.2 z), of slope 3 / (1 + 0.2 z)^2
    exact = sum(3 * z * z / (1 + 0.2 * z) - 3 / (1 + 0.2 * z) ** 2 for z in (0.1, 0.2, 0.3)[:count])
    assert float(weight) == pytest.approx(exact, rel=1e-13)
