"""A reverse-mode gradient over many steps: its memory and time against a plain run.

Heston, 10⁵ steps of 10⁴ paths in one chunk, five derivatives of the mean call: what the reverse pass keeps
within its budget, what it would keep without, the peak memory of a process that does nothing else, and the
time in plain runs.
"""

import os
import subprocess
import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

import jax
import jax.numpy as jnp
from ours import experiment
from report import Measurement, parse_arguments, report
from rounds import interleaved
from simkit_physics import Heston
from simkit_solvers import EulerMaruyama

from simkit.ensemble import LEAF, path_ids, path_program

MODEL = Heston(0.05, 4.0, 0.25, 1.0, -0.5)
BYTES = 1 if sys.platform == "darwin" else 1024
ALONE = "--alone"  # the gradient in this process, and nothing else


def programs(paths: int, steps: int):
    """The mean call, its gradient, the point to take them at, and gigabytes that the reverse pass keeps."""
    model = experiment(MODEL, EulerMaruyama(), {"S": 100.0, "v": 0.04}, steps, 1.0, paths, "float64")
    ids = path_ids(0, -(-paths // LEAF), LEAF)
    program, inputs = path_program(model, model.grid)
    everything, _ = path_program(model, model.grid, reverse_bytes=2**60)

    def call(problem):
        S = program(inputs._replace(problem=problem), ids)["S"][-1]
        return jnp.mean(jnp.maximum(S - 100.0, 0).reshape(-1))

    kept = [each.reverse_pass(inputs, ids).bytes * ids.size / 1e9 for each in (program, everything)]
    return call, jax.value_and_grad(call), inputs.problem, kept


def main():
    if ALONE in sys.argv:
        with jax.enable_x64(True):
            _, gradient, problem, _ = programs(*map(int, sys.argv[-2:]))
            jax.block_until_ready(jax.jit(gradient)(problem))
        return
    arguments = parse_arguments(__doc__)
    paths, steps, rounds = (2048, 10_000, 1) if arguments.small else (10_000, 100_000, 1)
    command = [sys.executable, __file__, ALONE, str(paths), str(steps)]
    with subprocess.Popen(command) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"the gradient failed with exit code {process.returncode}")
    with jax.enable_x64(True):
        call, gradient, problem, (kept, all_of_it) = programs(paths, steps)
        run = {
            name: jax.jit(f).lower(problem).compile() for name, f in (("plain", call), ("reverse", gradient))
        }
        result = interleaved({name: lambda f=f: f(problem) for name, f in run.items()}, rounds)
    what = f"Heston, float64, {steps:.0e} steps, reverse mode, 5 derivatives"
    findings = [
        Measurement(f"{what}: peak memory", usage.ru_maxrss * BYTES / 1e9, "GB", 1.0, "at most"),
        Measurement(f"{what}: kept", kept, "GB"),
        Measurement(f"{what}: kept without a budget", all_of_it, "GB"),
        Measurement(
            f"{what}: in plain runs", result["reverse"].best / result["plain"].best, "x", 6, "at most"
        ),
    ]
    report("long_gradient", findings, result, dict.fromkeys(result, paths * steps), arguments)


if __name__ == "__main__":
    main()
