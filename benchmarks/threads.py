"""An ensemble on one core and on all of them, and GBM against C with OpenMP.

Each number of threads has a process of its own, which may use as many cores: XLA makes no more threads than
that. Processes take turns, a round each. The C is `gbm.c`, compiled here; without a compiler, or on other
systems than Linux, it is left out.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

import numpy as np
from in_c import compiled
from report import Measurement, parse_arguments, report
from rounds import Timing, ratio, timed, waited_for

import simkit
from simkit.machine import usable_cores

GOAL, OF_C = 0.9, 1.2
GBM = {"model": {"type": "GBM", "mu": 0.05, "sigma": 0.2}, "initial": {"S": 100.0}, "solver": "EulerMaruyama"}
HESTON = {
    "model": {"type": "Heston", "mu": 0.05, "kappa": 4.0, "theta": 0.25, "xi": 1.0, "rho": -0.5},
    "initial": {"S": 100.0, "v": 0.04},
    "solver": "EulerMaruyama",
}
VAN_DER_POL = {
    "model": {"ode": {"x": "v", "v": "mu*(1 - x**2)*v - x"}, "parameters": {"mu": 5.0}},
    "initial": {"x": {"normal": [2.0, 0.1]}, "v": 0.0},
}
IMMIGRATION = {
    "model": {"type": "ImmigrationDeath", "alpha": 100.0, "mu": 1.0},
    "initial": {"X": 0},
    "solver": "DirectMethod",
}
GREEKS = {
    "constants": {"r": 0.05, "K": 100.0},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "EulerMaruyama",
    "observe": {"call": "exp(-r*t) * maximum(S - K, 0)"},
    "sensitivity": {"wrt": ["S", "sigma", "r"]},
}
EPIDEMIC = {
    "constants": {"R0": {"uniform": [2, 4]}, "infectious": {"uniform": [3, 7]}},
    "model": {"ode": {"S": "-R0/infectious * S*I", "I": "R0/infectious * S*I - I/infectious"}},
    "initial": {"S": 0.999, "I": 0.001},
    "observe": {"peak": "max(I)"},
    "uncertainty": {"method": "sobol", "points": 4096, "seed": 1},
}
# Experiments, with paths in full and as a quick try. Those with the section of a study are studied.
PROBLEMS = {
    "GBM, float32": (GBM | {"time": {"t1": 1.0, "steps": 1000}, "precision": "float32"}, 2**22, 2**14),
    "Heston, float64": (HESTON | {"time": {"t1": 1.0, "steps": 200}}, 2**20, 2**12),
    "adaptive Van der Pol": (VAN_DER_POL | {"time": {"t1": 10.0, "rtol": 1e-6, "atol": 1e-8}}, 2**15, 2**12),
    "direct method": (IMMIGRATION | {"time": {"t1": 5.0}}, 2**16, 2**12),
    "derivatives of GBM": (GREEKS | {"time": {"t1": 1.0, "steps": 252}}, 2**23, 2**12),
    "Sobol study of an epidemic": (EPIDEMIC | {"time": {"t1": 100.0, "steps": 1000}}, 1, 1),
}
CHILD = "--runs"  # of experiments on standard input, one JSON a line; seconds on standard output


class Process:
    """A process on so many cores, which runs experiments one at a time."""

    def __init__(self, threads: int):
        cores = ",".join(str(core) for core in sorted(os.sched_getaffinity(0))[:threads])
        command = ["taskset", "-c", cores, sys.executable, __file__, CHILD, str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def seconds(self, experiment: dict) -> float:
        """Those of the paths of one run, neither compilation nor step bias among them."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(experiment) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self) -> None:
        """Let it end, which it does without further experiments."""
        self.process.communicate()


def runs(threads: int) -> None:
    """What a process does."""
    for line in sys.stdin:
        experiment = json.loads(line)
        studies = {"sensitivity": simkit.sensitivity, "uncertainty": simkit.uncertainty}
        study = next((studies[section] for section in studies if section in experiment), simkit.run)
        dataset = study(experiment, overrides={"ensemble.threads": threads})
        print(dataset.attrs["elapsed_s"], flush=True)


def gbm_in_c(folder: Path, paths: int, steps: int):
    """The last values of all paths by C on all cores; None without a compiler."""
    library = compiled("gbm", folder)
    if library is None:
        return None
    gbm = library.gbm
    numbers = [ctypes.c_float] * 3
    gbm.argtypes = [ctypes.c_long, ctypes.c_long, *numbers, ctypes.c_uint32, ctypes.c_void_p]
    last = np.empty(paths, np.float32)

    def run() -> np.ndarray:
        gbm(paths, steps, 0.05, 0.2, 100.0, 1, last.ctypes.data)
        return last

    z = (run().mean(dtype=float) - 100 * np.exp(0.05)) / (last.std(dtype=float) / np.sqrt(paths))
    if abs(z) > 6:
        sys.exit(f"gbm.c: the mean is {z:.1f} standard errors from the exact one")
    return run


def main():
    if CHILD in sys.argv:
        return runs(int(sys.argv[-1]))
    arguments = parse_arguments(__doc__)
    cores = usable_cores()
    if sys.platform != "linux" or cores < 2:
        sys.exit("threads: takes two cores or more on Linux, where processes can be pinned to cores")
    findings, timings, work = [], {}, {}
    one, all_cores = Process(1), Process(cores)
    with tempfile.TemporaryDirectory() as folder:
        for name, (experiment, paths, few) in PROBLEMS.items():
            paths = few if arguments.small else paths
            steps = experiment["time"].get("steps", 1)
            given = experiment | {"ensemble": {"paths": paths, "seed": 1, "unresolved": "keep"}}
            programs = {
                f"{name}, 1 thread": lambda given=given: one.seconds(given),
                f"{name}, {cores} threads": lambda given=given: all_cores.seconds(given),
            }
            in_c = gbm_in_c(Path(folder), paths, steps) if experiment["model"] is GBM["model"] else None
            if in_c is not None:
                programs["GBM in C with OpenMP"] = lambda in_c=in_c: waited_for(in_c)
            measured: dict[str, Timing] = timed(programs, 1 if arguments.small else 5)
            timings |= measured
            work |= dict.fromkeys(measured, paths * steps)
            alone, together, *c = measured.values()
            scaling = ratio(alone, together) / cores
            findings.append(Measurement(f"{name}, {cores} threads, of linear scaling", scaling, "x", GOAL))
            findings += [
                Measurement(
                    "GBM, float32, all cores, of the time of C", ratio(together, each), "x", OF_C, "at most"
                )
                for each in c
            ]
    one.end()
    all_cores.end()
    report("threads", findings, timings, work, arguments)


if __name__ == "__main__":
    main()
