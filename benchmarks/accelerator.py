"""Ensembles on a GPU: whole runs with all statistics, the bare loop, and diffrax or a plain `scan` beside it.

A step of GBM takes 38 integer operations for its half of a block of Threefry, 45 of floating point for the
normal and 4 for itself (`gbm.py` counts them). An H100 starts 128 of these a cycle in each of 132 processors,
of integers half as many: at 1.98 GHz at most 3.8e11 path-steps in a second. Heston needs 75, 90 and 20, a
limit of 1.8e11; three shares in one path 113, 135 and 12, a limit of 3.9e11 normals; Lorenz by Tsit5 some 100
instructions where products and sums are fused, and compensated sums in float32 besides: 2.9e11 at the best.
"""

import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

from collections.abc import Callable

import diffrax
import heston
import lorenz
import three_state
from adaptive_ode import ATOL, RTOL, T1, Oscillator
from adaptive_ode import by_diffrax as oscillators_by_diffrax
from gbm import MU, S0, SIGMA
from gbm import by_diffrax as gbm_by_diffrax
from gbm import by_hand as gbm_by_hand
from ours import bare_loop, experiment, whole_run
from report import Measurement, needs_accelerator, parse_arguments, report
from rounds import by_the_clock, timed
from simkit_physics import GBM, Heston
from simkit_solvers import AdaptiveGrid, EulerMaruyama, Tolerances

from simkit import load
from simkit.distributions import Normal, Uniform
from simkit.ensemble import Simulation, run_ensemble

EVENTS = 19_900  # of an immigration–death path from zero to t = 10, in the mean
LIMIT = 132 * 128 * 1.98e9  # instructions that an H100 starts in a second
INSTRUCTIONS = {"GBM": 87, "Heston": 185, "Lorenz": 116, "three shares": 87}  # of a path-step, or of a normal


def gbm_run(paths: int, steps: int) -> Simulation:
    return experiment(GBM(MU, SIGMA), EulerMaruyama(), {"S": S0}, steps, 1.0, paths, "float32")


def heston_run(paths: int, steps: int) -> Simulation:
    start = {"S": heston.S0, "v": heston.V0}
    return experiment(Heston(**heston.PARAMETERS), EulerMaruyama(), start, steps, 1.0, paths, "float32")


def lorenz_run(paths: int, steps: int) -> Simulation:
    start = {name: Normal(mean, 0.5) for name, mean in (("x", 1.0), ("y", 1.0), ("z", 20.0))}
    model = lorenz.Lorenz(lorenz.SIGMA, lorenz.RHO, lorenz.BETA)
    return experiment(model, diffrax.Tsit5(), start, steps, steps * lorenz.DT, paths, "float32")


def shares_run(paths: int, steps: int) -> Simulation:
    start = dict.fromkeys(three_state.Three._fields, three_state.S0)
    return experiment(three_state.Shares(0.05, 0.2), EulerMaruyama(), start, steps, 1.0, paths, "float32")


def jumps_run(paths: int) -> Simulation:
    model = {"type": "ImmigrationDeath", "alpha": 1000.0, "mu": 10.0}
    ensemble = {"paths": paths, "seed": 1}
    return load({"model": model, "initial": {"X": 0}, "time": {"t1": 10.0}, "ensemble": ensemble})


def oscillators_run(paths: int) -> Simulation:
    start = {"x": 1.0, "v": 0.0, "u": Uniform(0.0, 1.0)}
    fixed = experiment(Oscillator(), diffrax.Tsit5(), start, 1, T1, paths, "float64")
    return fixed.with_run(grid=AdaptiveGrid(0.0, T1, Tolerances(RTOL, ATOL)))


def main():
    arguments = parse_arguments(__doc__)
    needs_accelerator()
    paths, steps, rounds = (2**17, 40, 2) if arguments.small else (2**23, 1000, 3)
    few = paths // 8  # of what takes seconds
    clocks: dict[str, Callable[[], float]] = {}
    work: dict[str, float] = {}

    def add(name: str, amount: float, program: Callable[[], float]) -> None:
        clocks[name], work[name] = program, amount

    models = {"GBM": gbm_run, "Heston": heston_run, "Lorenz": lorenz_run}
    for name, model in models.items():
        add(f"{name}, whole run", paths * steps, whole_run(model(paths, steps)))
        bare = by_the_clock({"": bare_loop(model(paths, steps))})[""]
        add(f"{name}, bare loop", paths * steps, bare)
    add("three shares, whole run", 3 * paths * 256, whole_run(shares_run(paths, 256)))
    peers = {
        "GBM, diffrax": gbm_by_diffrax(paths, steps),
        "GBM, scan": gbm_by_hand(paths, steps),
        "Heston, diffrax": heston.by_diffrax(paths, steps),
        "Lorenz, diffrax": lorenz.by_diffrax(few, steps, "float32"),
    }
    for name, program in by_the_clock(peers).items():
        add(name, (few if name.startswith("Lorenz") else paths) * steps, program)
    jumps = jumps_run(few)
    add("immigration–death, whole run", few * EVENTS, lambda: run_ensemble(jumps).elapsed_s)
    oscillators = oscillators_run(few // 8)
    points = bare_loop(oscillators)()["u"].reshape(-1)
    add("oscillators, whole run", few // 8, whole_run(oscillators))
    add("oscillators, diffrax", few // 8, by_the_clock({"": oscillators_by_diffrax(points)})[""])
    timings = timed(clocks, rounds)
    rate = {name: work[name] / timings[name].best for name in clocks}
    findings = [
        Measurement(
            f"GPU: {name}, {kind}, of its limit on an H100", rate[f"{name}, {kind}"] * instructions / LIMIT
        )
        for name, instructions in INSTRUCTIONS.items()
        for kind in ("whole run", "bare loop")
        if f"{name}, {kind}" in rate
    ]
    for peer in (*peers, "oscillators, diffrax"):
        name, _, whom = peer.partition(", ")
        findings.append(
            Measurement(f"GPU: {name}, whole run, against {whom}", rate[f"{name}, whole run"] / rate[peer])
        )
    report("accelerator", findings, timings, work, arguments)


if __name__ == "__main__":
    main()
