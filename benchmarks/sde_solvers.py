"""The higher-order stochastic solvers in Euler–Maruyama's own rate: path-steps a second in float32.

Milstein's method draws as much noise as Euler–Maruyama and adds a few operations to some 85. One of order
1.5 draws a Lévy area with each increment, twice the noise, so that half the rate is what it can reach. Such
a step is worth it where its error is smaller by more: see the work-precision diagrams.
"""

import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

from ours import experiment, whole_run
from report import Measurement, parse_arguments, report
from rounds import timed
from simkit_physics import GBM, OrnsteinUhlenbeck
from simkit_solvers import make_solver

TARGETS = {"Milstein": 0.4, "SRIW1": 0.4, "SRA1": 0.4, "ShARK": 0.4}
NOISY = ("EulerMaruyama", "Milstein", "DerivativeFreeMilstein", "SRIW1", "PlatenWeak2", "TamedEuler")
ADDITIVE = ("EulerMaruyama", "SRA1", "ShARK")


def main():
    arguments = parse_arguments(__doc__)
    paths, steps, rounds = (16_384, 200, 3) if arguments.small else (100_000, 500, 5)
    problems = {
        "GBM": (GBM(0.05, 0.2), {"S": 100.0}, NOISY),
        "OU": (OrnsteinUhlenbeck(2.0, 1.0, 0.5), {"X": 3.0}, ADDITIVE),
    }
    programs = {
        f"{model}, {name}": whole_run(
            experiment(problem, make_solver(name), initial, steps, 1.0, paths, "float32")
        )
        for model, (problem, initial, names) in problems.items()
        for name in names
    }
    timings = timed(programs, rounds)
    findings = []
    for label, timing in timings.items():
        model, name = label.split(", ")
        if name != "EulerMaruyama":
            ratio = timings[f"{model}, EulerMaruyama"].best / timing.best
            findings.append(
                Measurement(f"{label}, rate against EulerMaruyama", ratio, "x", TARGETS.get(name))
            )
    report("sde_solvers", findings, timings, dict.fromkeys(programs, paths * steps), arguments)


if __name__ == "__main__":
    main()
