"""A sweep over 100 values of a GBM parameter against one run of as many paths in total."""

import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

from report import Measurement, parse_arguments, report
from rounds import interleaved, ratio

import simkit

POINTS, STEPS = 100, 50
GBM = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "EulerMaruyama",
    "time": {"t1": 1.0, "steps": STEPS},
    "observe": {"call": "exp(-0.05) * maximum(S - 100, 0)"},
}


def main():
    arguments = parse_arguments(__doc__)
    paths, rounds = (20_000, 1) if arguments.small else (1_000_000, 2)

    def with_paths(count):
        return GBM | {"ensemble": {"paths": count, "seed": 1}}

    programs = {
        "one run": lambda: simkit.run(with_paths(POINTS * paths)),
        "sweep": lambda: simkit.sweep(with_paths(paths), {"model.sigma": f"0.1:0.5:{POINTS}"}),
    }
    timings = interleaved(programs, rounds)
    cost = ratio(timings["sweep"], timings["one run"])
    what = f"time of a sweep of {POINTS} points x {paths:.0e} GBM paths, in one run of as many paths"
    findings = [Measurement(what, cost, "x", 1.1, "at most")]
    report("sweeps", findings, timings, dict.fromkeys(programs, POINTS * paths * STEPS), arguments)


if __name__ == "__main__":
    main()
