"""How often what a user writes is traced, where it is differentiated."""

import pytest
from simkit_physics import MultiAssetGBM

import simkit


@pytest.mark.more
def test_a_step_is_traced_seldom_whatever_is_differentiated(monkeypatch):
    """Once for each place of the loop and each level of derivatives, not for each normal and direction."""
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
    for name, second in (("call", {}), ("digital", {}), ("digital", {"second": ["S1"]})):
        section = {"wrt": ["S1", "S2", "S3", "mu1"], "of": [name]} | second
        steps.clear()
        simkit.sensitivities(experiment | {"sensitivity": section})
        counts[name, bool(second)] = len(steps)
    assert counts["call", False] <= 12
    assert counts["digital", False] <= 40
    assert counts["digital", True] <= 40
