"""What `simkit.run` adds to the bare compiled loop, and what float64 costs, on GBM with end statistics.

`simkit.run` takes moments, covariance and histogram of every chunk, checks for paths that failed, and keeps
the first ones; its own `elapsed_s` leaves compilation out.
"""

import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

from ours import bare_loop, experiment, whole_run
from report import Measurement, parse_arguments, report
from rounds import timed, waited_for
from simkit_physics import GBM
from simkit_solvers import EulerMaruyama


def main():
    arguments = parse_arguments(__doc__)
    paths, steps, rounds = (65_536, 200, 3) if arguments.small else (400_000, 1000, 7)
    programs = {}
    for precision in ("float32", "float64"):
        model = experiment(GBM(0.05, 0.2), EulerMaruyama(), {"S": 100.0}, steps, 1.0, paths, precision)
        bare = bare_loop(model)
        programs[f"simkit.run, {precision}"] = whole_run(model)
        programs[f"bare loop, {precision}"] = lambda bare=bare: waited_for(bare)
    timings = timed(programs, rounds)
    best = {name: timing.best for name, timing in timings.items()}
    findings = [
        Measurement(
            f"simkit.run, {precision}, against the bare loop",
            best[f"bare loop, {precision}"] / best[f"simkit.run, {precision}"],
            "x",
            0.85,
        )
        for precision in ("float32", "float64")
    ]
    for program in ("simkit.run", "bare loop"):
        ratio = best[f"{program}, float32"] / best[f"{program}, float64"]
        target = 0.7 if program == "simkit.run" else None
        findings.append(Measurement(f"float64 against float32, {program}", ratio, "x", target))
    report("run_overhead", findings, timings, dict.fromkeys(programs, paths * steps), arguments)


if __name__ == "__main__":
    main()
