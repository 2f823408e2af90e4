"""The compile time of ten step counts: one program for all, against a program for each.

GBM by Euler–Maruyama as `simkit.run` runs it, step bias and statistics included, with nothing cached. Both
give the same numbers. Seconds are the processors'.
"""

import functools
import sys
from contextlib import ExitStack
from unittest import mock

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

import jax
from report import Measurement, parse_arguments, report
from rounds import processor_time, timed

import simkit

STEPS = (64, 96, 128, 192, 256, 384, 512, 768, 1024, 2048)
# What makes the number of steps an argument, in the run and in its step bias.
TRACED = [f"simkit.ensemble.{module}.with_traced_steps" for module in ("run", "step_bias.coupled_steps")]


def compiling(steps: tuple[int, ...], traced: bool):
    """The ends of runs with each number of steps, with no program kept from before."""
    with ExitStack() as changed:
        changed.enter_context(mock.patch.dict("simkit.ensemble.programs._cache", clear=True))
        for name in () if traced else TRACED:
            changed.enter_context(mock.patch(name, lambda problem, grid: grid))
        return jax.numpy.asarray([end(count) for count in steps])


def end(steps: int) -> float:
    result = simkit.run(
        {
            "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
            "initial": {"S": 100.0},
            "time": {"t1": 1.0, "steps": steps},
            "ensemble": {"paths": 2048, "devices": 1},
        }
    )
    return float(result["S_mean"][-1])


def main():
    arguments = parse_arguments(__doc__)
    steps = STEPS[:3] if arguments.small else STEPS
    runs = {
        "steps traced": functools.partial(compiling, steps, True),
        "a program for each": functools.partial(compiling, steps, False),
    }
    timings = timed({name: functools.partial(processor_time, run) for name, run in runs.items()}, 1)
    ratio = timings["a program for each"].best / timings["steps traced"].best
    findings = [
        Measurement(
            f"{len(steps)} numbers of steps, a program for each", ratio, "x", 1.0 if arguments.small else 3.0
        )
    ]
    report("numbers_of_steps", findings, timings, dict.fromkeys(runs, len(steps)), arguments)


if __name__ == "__main__":
    main()
