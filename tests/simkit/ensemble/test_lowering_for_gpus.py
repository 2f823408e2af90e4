"""Programs that are made here also lower for NVIDIA GPUs, and call nothing but the compiler's own kernels."""

import re

import jax
import pytest
from md_examples import fluid

import simkit
from simkit.ensemble import programs

SMALL = {"ensemble": {"paths": 64, "seed": 1}}
STEPS = {"time": {"t1": 1.0, "steps": 4}} | SMALL
GBM = STEPS | {"model": {"type": "GBM", "mu": 0.05, "sigma": 0.2}, "initial": {"S": 100.0}}
CASES = {
    "steps": (
        simkit.run,
        GBM | {"observe": {"call": "maximum(max(S), 0)", "first": "hitting_time(S > 101)"}},
    ),
    "float32": (simkit.run, GBM | {"precision": "float32"}),
    "exact": (simkit.run, GBM | {"solver": "ExactSampling"}),
    "exact CIR": (
        simkit.run,
        STEPS
        | {"model": {"type": "CIR", "kappa": 1.0, "theta": 0.05, "sigma": 0.2}, "initial": {"r": 0.04}}
        | {"solver": "ExactSampling"},
    ),
    "jumps": (
        simkit.run,
        STEPS
        | {
            "model": {
                "type": "Merton",
                "mu": 0.05,
                "sigma": 0.2,
                "lam": 1.0,
                "m": 0.0,
                "delta": 0.1,
            }
        }
        | {"initial": {"S": 100.0}},
    ),
    "tolerances": (simkit.run, GBM | {"time": {"t1": 1.0, "rtol": 1e-2, "atol": 1e-2}}),
    "stiff": (
        simkit.run,
        {"model": {"ode": {"x": "-1e3*(x - t)"}}, "initial": {"x": 1.0}, "solver": "Rodas5P"}
        | {"time": {"t1": 1.0, "rtol": 1e-4, "atol": 1e-6}, "events": {"a": {"at": [0.5], "set": {"x": 2}}}},
    ),
    "triggered events": (
        simkit.run,
        {"model": {"ode": {"h": "v", "v": -9.81}}, "initial": {"h": 1.0, "v": 0.0}}
        | {"time": {"t1": 1.0, "rtol": 1e-6, "atol": 1e-6}}
        | {"events": {"bounce": {"when": "h < 0", "set": {"h": 0, "v": "-0.8*v"}}}},
    ),
    "reactions": (
        simkit.run,
        SMALL
        | {"model": {"type": "ImmigrationDeath", "alpha": 5.0, "mu": 1.0}, "initial": {"X": 3}}
        | {"time": {"t1": 1.0}},
    ),
    "leaps": (
        simkit.run,
        SMALL
        | {"model": {"type": "ImmigrationDeath", "alpha": 500.0, "mu": 1.0}, "initial": {"X": 500}}
        | {"time": {"t1": 1.0}, "solver": "TauLeaping"},
    ),
    "derivatives": (simkit.sensitivity, GBM | {"sensitivity": {"wrt": ["sigma", "S"]}}),
    "second derivatives": (simkit.sensitivity, GBM | {"sensitivity": {"wrt": ["S"], "second": ["S"]}}),
    "study": (
        simkit.uncertainty,
        GBM
        | {"model": {"type": "GBM", "mu": 0.05, "sigma": {"uniform": [0.1, 0.3]}}}
        | {"uncertainty": {"points": 8, "replicates": 2, "paths": 2}},
    ),
    "molecules": (simkit.run, fluid(time__steps=4, save__every=2)),
}


@pytest.mark.more
@pytest.mark.parametrize("case", CASES)
def test_programs_lower_for_cuda_without_calls_to_the_host(monkeypatch, case):
    """A host callback does not: it would need a process with such a device."""
    command, experiment = CASES[case]
    monkeypatch.setattr(programs, "_cache", type(programs._cache)())
    traced, called = programs._traced, {}

    def also_for_cuda(request):
        jitted = jax.jit(request.program, donate_argnums=request.donated)
        text = jitted.trace(*request.arguments).lower(lowering_platforms=("cuda",)).as_text()
        called[type(request.program).__name__] = {*re.findall(r"custom_call @([\w.$]+)", text)}
        return traced(request)

    monkeypatch.setattr(programs, "_traced", also_for_cuda)
    command(experiment)
    assert called
    assert not set().union(*called.values()) - ALLOWED, called


ALLOWED: set[str] = set()


def test_a_call_to_the_host_does_not_lower():
    """So that the test above would notice one."""

    def with_callback(x):
        return jax.pure_callback(lambda x: x, jax.ShapeDtypeStruct((), x.dtype), x)

    with pytest.raises(ValueError, match="different from the lowering platform cuda"):
        jax.jit(with_callback).trace(1.0).lower(lowering_platforms=("cuda",))
