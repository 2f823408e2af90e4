"""How long each solver takes to compile: tracing, lowering and compilation of a run of 1024 paths or members.

Every registered solver on a fixed grid of 1000 steps, on a small problem with the most general noise that it
takes, and those with an error estimate with adaptive steps too, in groups like simkit's, of them those for
stiff problems on the eight variables of HIRES as well. Methods for jump processes run an epidemic, those of a
few models a model of theirs. Nothing is cached between them. Times are the clock's, of what is above the
target the better of two: run this on a quiet machine. `simkit.run` compiles up to three programs: the
ensemble, its step bias on another grid, and the replay of a path that failed.
"""

import functools
import sys
import time

from simkit import load, tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

import diffrax
import jax
import jax.numpy as jnp
from report import Measurement, parse_arguments, report
from rich.console import Console
from rich.table import Table
from simkit_physics import MODELS
from simkit_solvers import (
    SOLVERS,
    AbstractRosenbrock,
    AdaptiveGrid,
    CounterNoise,
    Grid,
    States,
    Tolerances,
    check_solver,
    in_calculus,
    integrate,
    integrate_adaptive,
    make_solver,
    seed_key,
)

from simkit.ensemble import path_ids, path_program

PATHS, STEPS, GROUP = 1024, 1000, 32
TARGET = 5.0
STIFF = (diffrax.AbstractImplicitSolver, AbstractRosenbrock)
PENDULUM = {"x": "v", "v": "-sin(x)"}
NOISES = {
    "additive": {"x": {"W1": 0.5}, "y": {"W1": 0.2, "W2": 0.3}, "z": {}},
    "diagonal": {"x": {"W1": "0.5*sqrt(1 + x**2)"}, "y": {"W2": "0.3*sin(y)"}, "z": {"W3": "0.2*z"}},
    "commutative": {"x": {"W1": "0.5*sqrt(1 + x**2)"}, "y": {"W2": "0.3*sin(y)"}, "z": {}},
    "general": {"x": {"W1": "cos(y)"}, "y": {"W1": "0.4*x", "W2": "0.3*cos(x*y)"}, "z": {}},
}
EXPERIMENTS = {
    ("jump",): ({"type": "SIR", "beta": 0.5, "gamma": 0.2, "N": 1000}, {"S": 990, "I": 10, "R": 0}),
    ("model",): ({"type": "CIR", "kappa": 1.5, "theta": 0.04, "sigma": 0.3}, {"r": 0.04}),
}
DRIFTS = {"x": "sin(y) - x", "y": "x - 0.5*y", "z": "x*y - z"}
INITIAL = {"x": 0.4, "y": -0.9, "z": 0.1}


def inline(model, initial):
    """The problem that equations in a file would be."""
    experiment = {"model": model, "initial": initial, "time": {"t1": 1, "steps": 1}}
    return load(experiment).problem


def problem_for(name: str, kind: str):
    """A problem that a solver takes, its noise as general as it may be, in its calculus."""
    info = SOLVERS[name]
    if kind == "ode":
        return inline({"ode": PENDULUM}, {"x": 0.4, "v": 0.1})
    if info.langevin:
        model = MODELS["DoubleWellLangevin"]
        return model(**model.example)
    noises = NOISES[info.noise_kinds[-1]]
    equations = {
        name: {"drift": DRIFTS[name]} | ({"noise": noises[name]} if noises[name] else {}) for name in DRIFTS
    }
    return in_calculus(inline({"sde": equations}, INITIAL), info.calculus)


def on_a_fixed_grid(name: str, kind: str, dtype):
    solver, problem = make_solver(name), problem_for(name, kind)
    check_solver(solver, problem)

    def end(path):
        noise = CounterNoise.of(seed_key(1), path) if problem.stochastic else None
        grid = Grid(0.0, 1 / STEPS, STEPS, STEPS)
        return integrate(problem, solver, start(problem, path, dtype), grid, noise, States())

    ids = jax.ShapeDtypeStruct((PATHS,), jnp.uint32)
    return jax.vmap(end), ids


def with_adaptive_steps(name: str, problem, dtype):
    solver = make_solver(name)

    def end(path):
        grid = AdaptiveGrid(0.0, 1.0, Tolerances(1e-5, 1e-7))
        return integrate_adaptive(problem, solver, start(problem, path, dtype), grid, States()).rows

    ids = jax.ShapeDtypeStruct((PATHS // GROUP, GROUP), jnp.uint32)
    return lambda ids: jax.lax.map(jax.vmap(end), ids), ids


def in_an_experiment(name: str, model: dict, initial: dict, dtype):
    """The program that `simkit.run` compiles, without its statistics."""
    file = {
        "model": model,
        "initial": initial,
        "time": {"t1": 1.0} | ({} if SOLVERS[name].problem == ("jump",) else {"steps": STEPS}),
        "solver": name,
        "precision": dtype.name,
        "ensemble": {"paths": PATHS},
    }
    simulation = load(file)
    program, inputs = path_program(simulation, simulation.grid)
    return program, inputs, path_ids(0, 1, PATHS)


def start(problem, path, dtype):
    """Initial values of a path's own, so that nothing is the same for all."""
    return problem.State(*(0.3 + 1e-4 * path.astype(dtype) for _ in problem.State._fields))


def seconds_to_compile(function, *arguments) -> float:
    """Seconds of tracing, lowering and compiling, with nothing cached; what is too long is tried again."""

    def once():
        jax.clear_caches()
        began = time.perf_counter()
        jax.jit(function).lower(*arguments).compile()
        return time.perf_counter() - began

    first = once()
    return first if first <= TARGET else min(first, once())


def programs():
    """Label, and the function of a dtype that gives the program."""
    for name, info in SOLVERS.items():
        if info.problem in EXPERIMENTS:
            yield name, functools.partial(in_an_experiment, name, *EXPERIMENTS[info.problem])
            continue
        for kind in info.problem:
            yield f"{name}, {kind}", lambda dtype, n=name, k=kind: on_a_fixed_grid(n, k, dtype)
        if "ode" in info.problem and issubclass(info.cls, diffrax.AbstractAdaptiveSolver):
            small = problem_for(name, "ode")
            yield f"{name}, adaptive", functools.partial(with_adaptive_steps, name, small)
            if issubclass(info.cls, STIFF):
                eight = MODELS["HIRES"]
                yield f"{name}, HIRES", functools.partial(with_adaptive_steps, name, eight(**eight.example))


def main():
    arguments = parse_arguments(__doc__)
    chosen = list(programs())
    if arguments.small:
        chosen = chosen[::10]
    result = {}
    with jax.enable_x64(True):
        for label, program in chosen:
            result[label] = {
                dtype: seconds_to_compile(*program(jnp.dtype(dtype))) for dtype in ("float64", "float32")
            }
            print(label, *(f"{seconds:.2f} s" for seconds in result[label].values()), flush=True)
    table = Table("seconds to compile", "float64", "float32", "")
    for label, seconds in sorted(result.items(), key=lambda item: -max(item[1].values())):
        shown = [f"{value:.2f}" for value in seconds.values()]
        table.add_row(label, *shown, "too long" if max(seconds.values()) > TARGET else "")
    Console(width=110).print(table)
    slowest = max(max(seconds.values()) for seconds in result.values())
    finding = Measurement("slowest of all solvers to compile", slowest, "s", TARGET, "at most")
    report("compile_time", [finding], {}, {}, arguments, {"seconds": result})


if __name__ == "__main__":
    main()
