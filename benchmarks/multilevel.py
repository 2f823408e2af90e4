"""What multilevel Monte Carlo with Milstein costs against plain Euler-Maruyama paths at equal total errors.

The continuously averaged Asian call. Plain paths have the best number of steps for each error, and as many
paths as a known variance and step bias take; of multilevel runs the pilots count. Where plain paths would
take too long, their cost is that of ten times the error a thousandfold, as theory says and the errors before
show. Seconds are those of the loops over paths, compilation not among them.
"""

import math
from typing import NamedTuple

from report import Measurement, parse_arguments, report
from rounds import Timing

import simkit

PRICE = 5.763088
EXPERIMENT = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "observe": {"asian": "exp(-0.05*t) * maximum(integral(S) - 100, 0)"},
}
FIRST = 16  # steps on which variance and step bias of plain paths are measured


class Cost(NamedTuple):
    """Path-steps, and seconds of the loops over them."""

    steps: float
    seconds: float


def plain_run(steps: int, paths: int):
    return simkit.run(
        EXPERIMENT
        | {
            "solver": "EulerMaruyama",
            "time": {"t1": 1.0, "steps": steps},
            "ensemble": {"paths": paths, "seed": 1},
            "save": {"paths": 0},
        }
    )


def plain(error: float, variance: float, bias: float) -> Cost:
    """Of the best steps, whose bias is a third of the squared error; `bias` is that of one step."""
    steps = math.ceil(math.sqrt(3) * bias / error)
    paths = math.ceil(variance / (error**2 - (bias / steps) ** 2))
    return Cost(steps * paths, plain_run(steps, paths).attrs["elapsed_s"])


def multilevel(error: float) -> Cost:
    target = {"method": "multilevel", "target": {"total_error": error}, "seed": 1}
    experiment = {"solver": "Milstein", "time": {"t1": 1.0, "steps": 4}, "ensemble": target}
    run = simkit.run(EXPERIMENT | experiment).attrs
    with_pilot = 1 + run["pilot_cost"] / run["cost"]
    return Cost(run["cost"] * with_pilot, run["elapsed_s"] * with_pilot)


def main():
    arguments = parse_arguments(__doc__)
    errors = (1e-2, 1e-3) if arguments.small else (1e-2, 1e-3, 1e-4)
    first = plain_run(FIRST, 1_000_000)
    variance, bias = float(first["asian_variance"]), abs(float(first["asian_bias"])) * FIRST
    findings, seconds, work = [], {}, {}
    before = Cost(math.nan, math.nan)
    for error in errors:
        measured = error >= 1e-3
        one = plain(error * PRICE, variance, bias) if measured else Cost(*(1000 * x for x in before))
        other = multilevel(error * PRICE)
        before = one
        at = f"error {error:g} of the price" + ("" if measured else ", plain extrapolated")
        goal = (10, "at least") if error == 1e-4 else ()
        for what, ours, theirs in (
            ("path-steps", other.steps, one.steps),
            ("seconds", other.seconds, one.seconds),
        ):
            findings.append(Measurement(f"{what}, plain in multilevel, {at}", theirs / ours, "x", *goal))
        for name, cost in ((f"multilevel, {at}", other), (f"plain, {at}", one)):
            seconds[name], work[name] = Timing((cost.seconds,)), cost.steps
    report("multilevel", findings, seconds, work, arguments)


if __name__ == "__main__":
    main()
