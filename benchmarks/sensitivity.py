"""Sensitivities against a plain run: what each estimator of a derivative costs, and how it varies.

A call and a digital on geometric Brownian motion and on Heston's model, by Euler-Maruyama steps. Costs are
those of the compiled programs of one chunk without statistics, as large as a study takes it: processor time,
the median over rounds of the ratio to the plain run of the same round. The deviations are per path, of the
digital's derivatives, by the gradual release of derivatives into weights and by the score of each step.
"""

import sys

from simkit import load, tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

import jax
import numpy as np
from report import Measurement, parse_arguments, report
from rounds import processor_time, ratio, timed
from simkit_solvers import Release, Smoothing

from simkit.derivatives import (
    DerivativeProgram,
    Moves,
    changes,
    find_target,
    program_of,
    reverse_mode,
    smoothed,
    smoothing_of,
    with_tangents,
)
from simkit.ensemble import IN_CACHE, LEAF, ChunkProgram, path_ids
from simkit.observe import Observer

MODELS = {
    "GBM": ({"type": "GBM", "mu": "r", "sigma": 0.2}, {"S": 100.0}, ["r", "sigma", "S"]),
    "Heston": (
        {"type": "Heston", "mu": "r", "kappa": 2.0, "theta": 0.04, "xi": 0.1, "rho": -0.7},
        {"S": 100.0, "v": 0.04},
        ["r", "xi", "S", "kappa", "rho"],
    ),
}


def programs(model: str, steps: int, precision: str, leaves: int):
    """The programs by name, each to be called without arguments, and how many parameters each moves."""
    section, initial, names = MODELS[model]
    simulation = load(
        {
            "constants": {"r": 0.05, "K": 100.0},
            "model": section,
            "initial": initial,
            "solver": "EulerMaruyama",
            "time": {"t1": 1.0, "steps": steps},
            "ensemble": {"paths": leaves * LEAF, "devices": 1},
            "precision": precision,
            "observe": {
                "call": "exp(-r*t) * maximum(S - K, 0)",
                "digital": "exp(-r*t) * (S > K)",
            },
        }
    )
    paths, inputs = program_of(simulation)
    first, _ = changes(simulation, [find_target(simulation, name) for name in names])
    ids = path_ids(0, leaves, LEAF)
    call, digital = (("call", 1),), (("digital", 1),)
    every = Moves(inputs, first)
    observer = simulation.observer
    assert isinstance(observer, Observer)
    variables = frozenset(simulation.problem.State._fields)
    smoothing = smoothing_of(observer.observables[1], simulation.problem, variables, steps, kinks=False)
    assert isinstance(smoothing, Smoothing)
    wanted = {
        "plain run": (ChunkProgram(paths, call), (inputs, ids), 0),
        "pathwise, 1 parameter": (
            DerivativeProgram(paths, call, with_tangents),
            (Moves(inputs, first[:1]), ids),
            1,
        ),
        f"pathwise, {len(names)} parameters": (
            DerivativeProgram(paths, call, with_tangents),
            (every, ids),
            len(names),
        ),
        f"reverse, {len(names)} parameters": (DerivativeProgram(paths, call, reverse_mode), (every, ids), 0),
        "score, drift": (
            DerivativeProgram(paths, digital, with_tangents, Release(steps)),
            (Moves(inputs, first[:1]), ids),
            0,
        ),
        "score, volatility": (
            DerivativeProgram(paths, digital, with_tangents, Release(steps)),
            (Moves(inputs, first[1:2]), ids),
            0,
        ),
        "smoothing, volatility": (
            DerivativeProgram(paths, digital, smoothed, smoothing),
            (Moves(inputs, first[1:2]), ids),
            0,
        ),
        "score step by step, volatility": (
            DerivativeProgram(paths, digital, with_tangents, Release(1)),
            (Moves(inputs, first[1:2]), ids),
            0,
        ),
    }
    compiled = {name: jax.jit(f).lower(*x).compile() for name, (f, x, _) in wanted.items()}
    calls = {name: lambda f=compiled[name], x=x: f(*x) for name, (_, x, _) in wanted.items()}
    return calls, {name: count for name, (*_, count) in wanted.items()}


def main():
    arguments = parse_arguments(__doc__)
    leaves, steps, rounds = (2, 32, 2) if arguments.small else (IN_CACHE // LEAF, 252, 9)
    findings, timings, work = [], {}, {}
    with jax.enable_x64(True):
        for model in MODELS:
            for precision in ("float32", "float64"):
                calls, counts = programs(model, steps, precision, leaves)
                result = timed(
                    {
                        f"{model} {precision} {name}": lambda f=f: processor_time(f)
                        for name, f in calls.items()
                    },
                    rounds,
                )
                timings |= result
                work |= dict.fromkeys(result, leaves * LEAF * steps)
                plain = result[f"{model} {precision} plain run"]
                for name, count in counts.items():
                    if name == "plain run":
                        continue
                    cost = ratio(result[f"{model} {precision} {name}"], plain)
                    target = (
                        1 + 1.2 * count
                        if count
                        else {"reverse": 6.0, "score, drift": 1.6}.get(
                            name if name.startswith("score") else name.split(",")[0]
                        )
                    )
                    text = f"{model}, {precision}, {name}, in plain runs"
                    findings.append(Measurement(text, cost, "x", target, "at most"))
                if model == "GBM" and precision == "float64":
                    gradual, step, smoothed = (
                        float(np.std(np.asarray(calls[f"{name}, volatility"]()[1])))
                        for name in ("score", "score step by step", "smoothing")
                    )
                    findings.append(Measurement("deviation, gradual over smoothing", gradual / smoothed, "x"))
                    findings.append(Measurement("deviation, step by step over gradual", step / gradual, "x"))
    report("sensitivity", findings, timings, work, arguments)


if __name__ == "__main__":
    main()
