"""The programs of a run at each stage of compilation, with XLA's own analyses and the time it took."""

import dataclasses
import time
from typing import Any

import jax
from jax.sharding import SingleDeviceSharding
from simkit_solvers.numerics.platforms import traced_for

from simkit.ensemble.programs import Request
from simkit.machine.on_each_device import local_devices, shapes_on


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes of a compiled program: what it is given, what it gives, what it needs between, and its code.

    On several devices they are those of one.
    """

    arguments: int
    outputs: int
    temporaries: int
    code: int


@dataclasses.dataclass(frozen=True)
class CompiledProgram:
    """One program of a run at each stage, with XLA's analyses.

    `cost` is XLA's, in which the body of a loop counts once, however often it runs, and integer operations
    count as `flops`. The seconds are those to trace Python, to lower to StableHLO, and to compile that.
    """

    jaxpr: str
    stablehlo: str
    hlo: str
    cost: dict[str, float]
    memory: Memory
    trace_s: float
    lower_s: float
    compile_s: float


def compile_anew(request: Request) -> CompiledProgram:
    """Trace, lower and compile the program of a request as a run would, and keep everything on the way."""

    def simkit(*arguments):  # a function that no cache knows
        return request.program(*arguments)

    device, *_ = request.devices or local_devices(1)
    jitted, arguments = jax.jit(simkit), shapes_on(SingleDeviceSharding(device), request.arguments)
    start = time.perf_counter()
    with traced_for(device):
        traced = jitted.trace(*arguments)
    traced_at = time.perf_counter()
    lowered = traced.lower()
    lowered_at = time.perf_counter()
    compiled = lowered.compile()
    end = time.perf_counter()
    return CompiledProgram(
        jaxpr=str(traced.jaxpr),
        stablehlo=lowered.as_text(),
        hlo=compiled.as_text() or "",
        cost=_cost(compiled.cost_analysis()),
        memory=_memory(compiled.memory_analysis()),
        trace_s=traced_at - start,
        lower_s=lowered_at - traced_at,
        compile_s=end - lowered_at,
    )


def _cost(result: Any) -> dict[str, float]:
    """XLA's totals by name, without those of single operands; empty where a backend has none."""
    totals = ("flops", "transcendentals", "bytes accessed")
    return {name: float(result[name]) for name in totals if result and name in result}


def _memory(result: Any) -> Memory:
    if result is None:
        return Memory(0, 0, 0, 0)
    return Memory(
        arguments=int(result.argument_size_in_bytes),
        outputs=int(result.output_size_in_bytes),
        temporaries=int(result.temp_size_in_bytes),
        code=int(result.generated_code_size_in_bytes),
    )
