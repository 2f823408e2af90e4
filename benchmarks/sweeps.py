"""A sweep over 100 values of a GBM parameter against one run of as many paths in total."""

import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

from report import Measurement, parse_arguments, report
from rounds import interleaved, ratio

import simkit

POINTS = 100
STEPS = 50, 250  # a year in weeks, and in trading days
GBM = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "EulerMaruyama",
    "time": {"t1": 1.0},
    "observe": {"call": "exp(-0.05) * maximum(S - 100, 0)"},
}


def main():
    arguments = parse_arguments(__doc__)
    paths, rounds = (20_000, 1) if arguments.small else (1_000_000, 2)

    def settings(count, steps):
        return GBM | {"time": {"t1": 1.0, "steps": steps}, "ensemble": {"paths": count, "seed": 1}}

    def of_steps(steps):
        return {
            f"one run, {steps} steps": lambda: simkit.run(settings(POINTS * paths, steps)),
            f"sweep, {steps} steps": lambda: simkit.sweep(
                settings(paths, steps), {"model.sigma": f"0.1:0.5:{POINTS}"}
            ),
        }

    findings, timings, work = [], {}, {}
    for steps in STEPS:
        programs = of_steps(steps)
        timings |= interleaved(programs, rounds)
        one, sweep = programs
        points = f"{POINTS} points x {paths:.0e} GBM paths x {steps} steps"
        what = f"time of a sweep of {points}, in one run of as many"
        findings.append(Measurement(what, ratio(timings[sweep], timings[one]), "x", 1.1, "at most"))
        work |= dict.fromkeys(programs, POINTS * paths * steps)
    report("sweeps", findings, timings, work, arguments)


if __name__ == "__main__":
    main()
