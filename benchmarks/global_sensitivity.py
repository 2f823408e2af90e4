"""Sobol' indices of Ishigami's function with intervals, points and analysis, with SALib.

Both make 2²⁰ evaluations (2¹⁷ points of three parameters with second order), and both give first, total and
second order with intervals. SALib's are from a bootstrap, of 100 resamples unless said otherwise; with two
they say nothing, and show what the indices alone take. simkit's are from 16 independent scramblings. Its own
time has the program compiled; what one call from the start takes is next to it. SALib evaluates by numpy.
"""

import math
import time

import jax.numpy as jnp
import numpy as np
from report import Measurement, parse_arguments, report
from rounds import timed
from SALib.analyze import sobol as salib_analyze
from SALib.sample import sobol as salib_sample

from simkit.studies import sobol_indices

EXACT = np.array([0.5575888552, 0.4424111448, 0.2436836641])
REPLICATES = 16
PROBLEM = {"num_vars": 3, "names": ["a", "b", "c"], "bounds": [[-math.pi, math.pi]] * 3}


def ishigami(x):
    return jnp.sin(x[0]) + 7 * jnp.sin(x[1]) ** 2 + 0.1 * x[2] ** 4 * jnp.sin(x[0])


def on_numpy(x):
    return np.sin(x[:, 0]) + 7 * np.sin(x[:, 1]) ** 2 + 0.1 * x[:, 2] ** 4 * np.sin(x[:, 0])


def ours(points: int) -> float:
    start = time.perf_counter()
    distributions = [{"uniform": [-math.pi, math.pi]}] * 3
    result = sobol_indices(
        ishigami, distributions, points=points // REPLICATES, replicates=REPLICATES, order=2
    )
    seconds = time.perf_counter() - start
    assert np.all(np.abs(result["total"].values[0] - EXACT) <= 4 * result["total_halfwidth"].values[0])
    return seconds


def theirs(points: int, resamples: int) -> float:
    start = time.perf_counter()
    sample = salib_sample.sample(PROBLEM, points, calc_second_order=True, seed=1)
    result = salib_analyze.analyze(PROBLEM, on_numpy(sample), num_resamples=resamples, seed=1)
    seconds = time.perf_counter() - start
    assert np.max(np.abs(result["ST"] - EXACT)) < 0.01
    return seconds


def main():
    arguments = parse_arguments(__doc__)
    points, rounds = (2**12, 2) if arguments.small else (2**17, 3)
    first, full = ours(points), theirs(points, 100)  # half a minute, and once is enough
    programs = {
        "simkit": lambda: ours(points),
        "SALib, 2 resamples": lambda: theirs(points, 2),
    }
    timings = timed(programs, rounds)
    best = {name: timing.best for name, timing in timings.items()}
    bare = best["SALib, 2 resamples"]
    findings = [
        Measurement("Sobol' indices of 2²⁰ evaluations, against SALib", full / best["simkit"], "x", 10),
        Measurement("the same, SALib with 2 resamples", bare / best["simkit"], "x"),
        Measurement("the same, 100 resamples, simkit compiling", full / first, "x"),
    ]
    report("global_sensitivity", findings, timings, {}, arguments)


if __name__ == "__main__":
    main()
