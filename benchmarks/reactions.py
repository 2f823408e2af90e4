"""Reaction networks: the direct method against one written for numba on the same cores, and tau-leaping.

Immigration–death with about a hundred molecules, whose direct method in numba is six lines, and a ring of ten
species and twenty reactions. Both sides simulate as many paths on all cores. Tau-leaping is compared with the
direct method on ten and a hundred thousand molecules near rest, at an epsilon that widens the spread by one
percent, with the errors of its mean and standard deviation next to it. Times are those of the processors, all
cores together.
"""

import math
import os
import sys

from simkit import load, tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

import jax

jax.config.update("jax_num_cpu_devices", os.cpu_count())

import numpy as np
from report import Measurement, parse_arguments, report
from rounds import processor_time, timed

from simkit.ensemble import Request, compiled, in_order, path_ids, path_program, workers_of

try:
    import numba
except ImportError:
    sys.exit("this benchmark needs numba: pip install --group benchmarks")

ARRIVALS = {
    "model": {"type": "ImmigrationDeath", "alpha": 1000.0, "mu": 10.0},
    "initial": {"X": 0},
    "time": {"t1": 10.0},
}
RING = {
    "model": {
        "reactions": {
            f"r{i}": {"equation": f"X{i % 10} -> X{(i + 1 + 6 * (i // 10)) % 10}", "rate": 1 + 0.1 * (i % 10)}
            for i in range(20)
        }
    },
    "initial": {f"X{i}": 100 for i in range(10)},
    "time": {"t1": 1.0},
}
EPSILON = 0.02  # of which leaps widen the variance by as much, the standard deviation by half
MOLECULES = (10_000, 100_000)


def many(molecules: int) -> dict:
    """Immigration and death until the mean is within a percent of so many molecules."""
    model = {"type": "ImmigrationDeath", "alpha": 10.0 * molecules, "mu": 10.0}
    return {"model": model, "initial": {"X": 0}, "time": {"t1": 0.5}}


def ours(experiment: dict, solver, paths: int):
    """A compiled run of all paths on every core: the rows by name."""
    simulation = load({**experiment, "solver": solver})
    workers = workers_of(simulation)
    lanes = 32 * -(-paths // (32 * len(workers)))
    with jax.enable_x64(True):
        program, numbers = path_program(simulation, simulation.grid)
        (run,), _ = compiled(Request(program, (numbers, path_ids(0, 1, lanes))))

    def all_paths(number: int = 0) -> dict[str, np.ndarray]:
        firsts = [number * paths + lanes * place for place in range(len(workers))]
        parts = list(in_order(lambda first: run(numbers, path_ids(first, 1, lanes)), firsts, workers))
        return {name: np.concatenate([part[name] for part in parts], axis=1) for name in parts[0]}

    return all_paths


@numba.njit(parallel=True)
def arrivals(paths, alpha, mu, end):
    result = np.empty(paths, np.int64)
    for i in numba.prange(paths):
        x, t = 0, 0.0
        while True:
            total = alpha + mu * x
            t -= math.log(1.0 - np.random.random()) / total
            if t > end:
                break
            x += 1 if np.random.random() * total < alpha else -1
        result[i] = x
    return result


@numba.njit(parallel=True)
def first_order(paths, start, rates, reactant, change, end):
    result = np.empty((paths, start.size), np.int64)
    for i in numba.prange(paths):
        x, t = start.copy(), 0.0
        a = np.empty(rates.size)
        while True:
            total = 0.0
            for j in range(rates.size):
                a[j] = rates[j] * x[reactant[j]]
                total += a[j]
            t -= math.log(1.0 - np.random.random()) / total
            if t > end:
                break
            level = np.random.random() * total
            j, below = 0, a[0]
            while below <= level and j < rates.size - 1:
                j += 1
                below += a[j]
            for s in range(x.size):
                x[s] += change[j, s]
        result[i] = x
    return result


def ring_by_numba(paths: int):
    rates = np.array([1 + 0.1 * (i % 10) for i in range(20)])
    reactant = np.arange(20) % 10
    change = np.zeros((20, 10), np.int64)
    for i in range(20):
        change[i, i % 10] -= 1
        change[i, (i + 1 + 6 * (i // 10)) % 10] += 1
    return lambda: first_order(paths, np.full(10, 100), rates, reactant, change, 1.0)


def main():
    arguments = parse_arguments(__doc__)
    paths, rounds = (1024, 2) if arguments.small else (9984, 5)
    few = 64 if arguments.small else 512
    programs = {
        "arrivals, simkit": ours(ARRIVALS, "DirectMethod", paths),
        "arrivals, numba": lambda: arrivals(paths, 1000.0, 10.0, 10.0),
        "ring, simkit": ours(RING, "DirectMethod", paths),
        "ring, numba": ring_by_numba(paths),
    }
    for molecules in MOLECULES:
        leaps = {"type": "TauLeaping", "epsilon": EPSILON}
        programs[f"{molecules} molecules, DirectMethod"] = ours(many(molecules), "DirectMethod", few)
        programs[f"{molecules} molecules, TauLeaping"] = ours(many(molecules), leaps, few)
    timings = timed({name: lambda f=f: processor_time(f) for name, f in programs.items()}, rounds)
    more = {}
    for molecules in MOLECULES:
        name = f"{molecules} molecules, TauLeaping"
        more[name] = errors(programs[name], molecules * -math.expm1(-5.0), 2 if arguments.small else 256)
        print(f"{name}: " + ", ".join(f"{what} {off:+.2%} off" for what, off in more[name].items()))
    findings = [
        Measurement(
            f"direct method, {what}, against numba", ratio(timings, f"{key}, numba", f"{key}, simkit"), "x", 1
        )
        for key, what in (("arrivals", "immigration–death"), ("ring", "20 reactions"))
    ]
    for molecules in MOLECULES:
        gain = ratio(timings, f"{molecules} molecules, DirectMethod", f"{molecules} molecules, TauLeaping")
        what = f"{molecules:,}".replace(",", " ")
        findings.append(
            Measurement(f"tau-leaping at 1 % error, {what} molecules, against the direct method", gain)
        )
    report("reactions", findings, timings, {}, arguments, {"errors": more})


def errors(program, exact: float, batches: int) -> dict[str, float]:
    """Relative errors of the mean and standard deviation against Poisson's, over batches of paths."""
    x = np.concatenate([np.asarray(program(number)["X"])[-1].ravel() for number in range(batches)])
    return {"mean": x.mean() / exact - 1, "standard deviation": x.std() / math.sqrt(exact) - 1}


def ratio(timings, slow: str, fast: str) -> float:
    return timings[slow].best / timings[fast].best


if __name__ == "__main__":
    main()
