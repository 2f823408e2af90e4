"""Exact draws of the CIR process, `ExactSampling` against NumPy's `noncentral_chisquare`.

One step of each path in float64, by processor time and by the clock; NumPy on one thread, as one calls it.
With more than one degree of freedom simkit draws a normal and a gamma variate, with fewer a Poisson one too.
"""

import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

import numpy as np
from ours import bare_loop, experiment
from report import Measurement, parse_arguments, report
from rounds import interleaved, processor_time, timed
from simkit_physics import CIR
from simkit_solvers import ExactSampling

KAPPA, THETA, START, TIME = 1.5, 0.04, 0.09, 0.7


def by_numpy(sigma: float, paths: int):
    """The same distribution from NumPy's generator."""
    c = sigma**2 * -np.expm1(-KAPPA * TIME) / (4 * KAPPA)
    d, l = 4 * KAPPA * THETA / sigma**2, START * np.exp(-KAPPA * TIME) / c
    rng = np.random.default_rng(1)
    return lambda: c * rng.noncentral_chisquare(d, l, paths)


def main():
    arguments = parse_arguments(__doc__)
    paths, rounds = (2**18, 2) if arguments.small else (5_000_000, 5)
    programs = {}
    for sigma, freedom in ((0.3, "2.7"), (0.6, "0.67")):
        run = experiment(CIR(KAPPA, THETA, sigma), ExactSampling(), {"r": START}, 1, TIME, paths, "float64")
        programs[f"simkit, d = {freedom}"] = bare_loop(run)
        programs[f"numpy, d = {freedom}"] = by_numpy(sigma, paths)
    clock = interleaved(programs, rounds)
    spent = timed({name: lambda f=f: processor_time(f) for name, f in programs.items()}, rounds)
    findings = []
    for freedom in ("2.7", "0.67"):
        ours, numpy = f"simkit, d = {freedom}", f"numpy, d = {freedom}"
        for what, seconds in (("by the clock", clock), ("by processor time", spent)):
            value = seconds[numpy].best / seconds[ours].best
            target = 1.0 if what == "by the clock" else None
            findings.append(
                Measurement(
                    f"exact CIR draws, {freedom} degrees of freedom, over NumPy, {what}", value, "x", target
                )
            )
    report("exact_sampling", findings, clock, {name: float(paths) for name in programs}, arguments)


if __name__ == "__main__":
    main()
