"""Which solver for which problem: the error of each against the time it takes, as a picture.

Stochastic equations run at several lengths of step. Their error is the mean distance at the end from a run
with far shorter steps on the same Brownian paths, or the error of a mean; their time that of a larger
ensemble without that bookkeeping, in simkit's default precision. Ordinary ones run at tolerances from 1e-3
to 1e-10; their error is the largest of the variables' relative errors at the end. Times are those of a whole
ensemble divided by its members, without compilation. Draws `docs/images/work_precision.png`.
"""

import sys
from pathlib import Path

from simkit import load, tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import matplotlib
import numpy as np
from report import Measurement, parse_arguments, report
from rounds import waited_for
from simkit_solvers import (
    SOLVERS,
    AbstractNoise,
    AdaptiveGrid,
    CoarsenedNoise,
    CounterNoise,
    Draw,
    Grid,
    States,
    Tolerances,
    in_calculus,
    integrate,
    integrate_adaptive,
    make_solver,
    seed_key,
    stepper_for,
)

PICTURE = Path(__file__).parents[1] / "docs/images/work_precision.png"
# Okabe and Ito's colours, which the colour-blind can distinguish: Wong (2011), doi:10.1038/nmeth.1618.
MARKS = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#000000", "v"))
MORE = 16  # times the paths, where means are compared and no finer steps are needed


class Size(NamedTuple):
    """How much is run: paths for the error and the time, members, steps, tolerances, rounds."""

    paths: int = 1024
    timed_paths: int = 65_536
    members: int = 256
    finest: int = 4096
    steps: tuple[int, ...] = (4, 16, 64, 256)
    tolerances: tuple[float, ...] = tuple(10.0**-k for k in range(3, 11))
    rounds: int = 3


SMALL = Size(128, 2048, 32, 256, (4, 16), (1e-3, 1e-6), 1)


class Stochastic(NamedTuple):
    """An Itô equation to time 1.

    The error is the distance from a run of the solver `reference` with the shortest steps, or with `exact`,
    the end's squares as a function of the Brownian motion there, that of the square's mean.
    """

    sde: Mapping
    initial: Mapping[str, float]
    solvers: tuple[str, ...]
    reference: str
    exact: Callable | None = None
    unit = "time of a path in microseconds"

    @property
    def error(self) -> str:
        return "mean distance at the end" if self.exact is None else "relative error of E[X²]"


class Ordinary(NamedTuple):
    """An equation to `t1`; variables below `small` need not be known to a relative precision."""

    ode: Mapping
    initial: Mapping[str, float]
    solvers: tuple[str, ...]
    reference: str
    t1: float
    small: float = 1.0
    error = "relative error at the end"
    unit = "time of a member in microseconds"


class ErrorCurve(NamedTuple):
    """Seconds for one path or member, and errors."""

    seconds: list[float]
    errors: list[float]

    def seconds_to(self, error: float) -> float:
        """The time that an error costs, on straight lines between the points; NaN outside of them."""
        errors, seconds = np.log(np.minimum.accumulate(self.errors)), np.log(self.seconds)
        return float(np.exp(np.interp(-np.log(error), -errors, seconds, np.nan, np.nan)))


def squares_of_growth(W):
    """X² at time 1 of dX = 1.5 X dt + 0.1 X dW, X = 1 at 0, by the value of the Brownian motion."""
    return np.exp(2 * (1.5 - 0.005 + 0.1 * W))


CASES: dict[str, Stochastic | Ordinary] = {
    "Diagonal noise: dX = 1.01 X dt + 0.87 X dW": Stochastic(
        {"x": {"drift": "1.01*x", "noise": {"W": "0.87*x"}}},
        {"x": 0.5},
        ("EulerMaruyama", "EulerHeun", "Milstein", "SRIW1", "SlowRK"),
        "SlowRK",
    ),
    "Easy: DETEST B3, three variables": Ordinary(
        {"y1": "-y1", "y2": "y1 - y2**2", "y3": "y2**2"},
        {"y1": 1, "y2": 0, "y3": 0},
        ("Bosh3", "Tsit5", "Dopri8", "Rodas5P", "Kvaerno5"),
        "Dopri8",
        20.0,
        1e-3,
    ),
    "Additive noise: dX = (X - X³) dt + 0.5 dW": Stochastic(
        {"x": {"drift": "x - x**3", "noise": {"W": 0.5}}},
        {"x": 0.2},
        ("EulerMaruyama", "Heun", "SRA1", "ShARK", "SRIW1"),
        "ShARK",
    ),
    "Close encounters: Arenstorf's orbit": Ordinary(
        {
            "x": "u",
            "y": "v",
            "u": "x + 2*v - 0.987722529*(x + 0.012277471)/((x + 0.012277471)**2 + y**2)**1.5"
            " - 0.012277471*(x - 0.987722529)/((x - 0.987722529)**2 + y**2)**1.5",
            "v": "y - 2*u - 0.987722529*y/((x + 0.012277471)**2 + y**2)**1.5"
            " - 0.012277471*y/((x - 0.987722529)**2 + y**2)**1.5",
        },
        {"x": 0.994, "y": 0, "u": 0, "v": -2.00158510637908252240537862224},
        ("Bosh3", "Tsit5", "Dopri5", "Dopri8"),
        "Dopri8",
        17.0652165601579625588917206249,
    ),
    "Two noises that do not commute": Stochastic(
        {
            "x": {"drift": "-x", "noise": {"W1": "cos(y)"}},
            "y": {"drift": "-y", "noise": {"W1": "0.4*x", "W2": "0.3*cos(x*y)"}},
        },
        {"x": 0.4, "y": -0.9},
        ("EulerMaruyama", "EulerHeun", "GeneralShARK", "SPaRK"),
        "SPaRK",
    ),
    "Stiff: HIRES, eight variables": Ordinary(
        {
            "y1": "-1.71*y1 + 0.43*y2 + 8.32*y3 + 0.0007",
            "y2": "1.71*y1 - 8.75*y2",
            "y3": "-10.03*y3 + 0.43*y4 + 0.035*y5",
            "y4": "8.32*y2 + 1.71*y3 - 1.12*y4",
            "y5": "-1.745*y5 + 0.43*y6 + 0.43*y7",
            "y6": "-280*y6*y8 + 0.69*y4 + 1.71*y5 - 0.43*y6 + 0.69*y7",
            "y7": "280*y6*y8 - 1.81*y7",
            "y8": "-280*y6*y8 + 1.81*y7",
        },
        {"y1": 1, "y2": 0, "y3": 0, "y4": 0, "y5": 0, "y6": 0, "y7": 0, "y8": 0.0057},
        ("Tsit5", "Rosenbrock23", "Rodas5P", "Kvaerno5"),
        "Rodas5P",
        321.8122,
        1e-3,
    ),
    "Means: dX = 1.5 X dt + 0.1 X dW": Stochastic(
        {"x": {"drift": "1.5*x", "noise": {"W": "0.1*x"}}},
        {"x": 1.0},
        ("EulerMaruyama", "Milstein", "PlatenWeak2", "SRIW1"),
        "",
        squares_of_growth,
    ),
    "Very stiff: Robertson's reaction, three variables": Ordinary(
        {"y1": "-0.04*y1 + 1e4*y2*y3", "y2": "0.04*y1 - 1e4*y2*y3 - 3e7*y2**2", "y3": "3e7*y2**2"},
        {"y1": 1, "y2": 0, "y3": 0},
        ("Rosenbrock23", "Rodas5P", "Kvaerno3", "Kvaerno5"),
        "Rodas5P",
        1000.0,
        1e-6,
    ),
}
# What is printed of each panel in addition to the picture: the time of one solver in that of another at an
# error.
QUESTIONS = {
    "Diagonal noise: dX = 1.01 X dt + 0.87 X dW": ("SRIW1", "EulerMaruyama", 5e-2),
    "Additive noise: dX = (X - X³) dt + 0.5 dW": ("ShARK", "EulerMaruyama", 1e-3),
    "Two noises that do not commute": ("SPaRK", "EulerMaruyama", 1e-2),
    "Means: dX = 1.5 X dt + 0.1 X dW": ("PlatenWeak2", "EulerMaruyama", 1e-2),
    "Easy: DETEST B3, three variables": ("Tsit5", "Kvaerno5", 1e-6),
    "Close encounters: Arenstorf's orbit": ("Dopri8", "Tsit5", 1e-5),
    "Stiff: HIRES, eight variables": ("Rodas5P", "Kvaerno5", 1e-6),
    "Very stiff: Robertson's reaction, three variables": ("Rodas5P", "Kvaerno5", 1e-6),
}


def problem_of(equations: Mapping, kind: str, initial: Mapping[str, float]):
    """The problem that equations in a file would be."""
    experiment = {"model": {kind: equations}, "initial": initial, "time": {"t1": 1, "steps": 1}}
    return load(experiment).problem


def best(program: Callable[[], object], rounds: int) -> float:
    """Seconds of the fastest round, after one that does not count."""
    program()
    return min(waited_for(program) for _ in range(rounds))


def stochastic(case: Stochastic, size: Size) -> dict[str, ErrorCurve]:
    """For each solver the times of a path and the errors, by length of step."""
    problem = problem_of(case.sde, "sde", case.initial)
    components = len(problem.Noise._fields)
    paths = size.paths if case.exact is None else MORE * size.paths
    finest = size.finest if case.exact is None else size.finest // MORE
    fine = np.random.default_rng(1).standard_normal((2, finest, components, paths))

    def prepared(name):
        """Solver, problem in its calculus, and the state at the start."""
        converted = in_calculus(problem, SOLVERS[name].calculus)
        start = (jnp.asarray(case.initial[n], jnp.float64) for n in converted.State._fields)
        return make_solver(name), converted, converted.State(*start)

    def coupled(name, steps):
        """The ends of the paths whose normals are kept, in a plain scan, where those are read once."""
        solver, converted, y0 = prepared(name)
        stepper, dt = stepper_for(solver), jnp.asarray(1 / steps)

        def end(normals):
            def step(carry, given):
                k, draw = given
                return stepper.step(converted, k * dt, dt, carry[0], draw, carry[1]), None

            start = y0, stepper.init(converted, 0 * dt, dt, y0)
            return jnp.stack(jax.lax.scan(step, start, (jnp.arange(steps) * 1.0, normals))[0][0])

        draws = coarsened(fine, finest // steps, stepper.areas)
        return jax.jit(jax.vmap(end, in_axes=-1))(draws)

    def seconds(name, steps):
        """The time of a path in simkit's own loop."""
        solver, converted, y0 = prepared(name)
        grid = Grid(0.0, 1 / steps, steps, steps)

        def end(path):
            noise = CounterNoise.of(seed_key(1), path)
            return [x[-1] for x in integrate(converted, solver, y0, grid, noise, States()).values()]

        ids, program = jnp.arange(size.timed_paths, dtype=jnp.uint32), jax.jit(jax.vmap(end))
        return best(lambda: program(ids), size.rounds) / size.timed_paths

    if case.exact is None:
        exact = coupled(case.reference, finest)
    else:
        exact = case.exact(np.sum(fine[0], axis=0).T / np.sqrt(finest))

    def error(result):
        if case.exact is None:
            return jnp.mean(jnp.linalg.norm(result - exact, axis=-1))
        return jnp.abs(jnp.mean(result**2 - exact)) / jnp.mean(exact)

    return {
        name: ErrorCurve(
            [seconds(name, steps) for steps in size.steps],
            [float(error(coupled(name, steps))) for steps in size.steps],
        )
        for name in case.solvers
    }


class Kept(AbstractNoise):
    """Normals (kind, step, component, step of the longer ones, path), for all longer steps at once."""

    normals: np.ndarray
    capacity = 2**20
    refinement = 1

    def group(self, components):
        return 1

    def draws(self, components, areas, first, count):
        kinds = self.normals[: areas + 1]
        return [Draw(*(tuple(kind[i]) for kind in kinds)) for i in range(count)]

    def words(self, purpose, first, count):
        raise ValueError("only normals were given")


def coarsened(fine, factor: int, areas: int) -> Draw:
    """The normals of steps `factor` times as long: for each kind and component an array (step, path)."""
    kinds, steps, components, paths = fine.shape
    parts = np.moveaxis(fine.reshape(kinds, steps // factor, factor, components, paths), 1, 3)
    return CoarsenedNoise(Kept(parts), factor).draws(components, areas, 0, 1)[0]


def ordinary(case: Ordinary, size: Size) -> dict[str, ErrorCurve]:
    """For each solver the times of a member and the errors, by tolerance."""
    problem = problem_of(case.ode, "ode", case.initial)

    def ensemble(name):
        """A function of the tolerance for the ends of all members, all alike, in groups like simkit's."""
        solver = make_solver(name)

        def end(tolerance, shift):
            grid = AdaptiveGrid(0.0, case.t1, Tolerances(tolerance, case.small * tolerance))
            y0 = problem.State(*(case.initial[n] + shift for n in problem.State._fields))
            run = integrate_adaptive(problem, solver, y0, grid, States())
            return jnp.stack([x[-1] for x in run.rows.values()])

        shifts = jnp.zeros((size.members // 32, 32))
        return jax.jit(lambda tolerance: jax.lax.map(jax.vmap(lambda s: end(tolerance, s)), shifts))

    exact = ensemble(case.reference)(jnp.asarray(1e-12))[0, 0]
    result = {}
    for name in case.solvers:
        program, curve = ensemble(name), ErrorCurve([], [])
        for tolerance in map(jnp.asarray, size.tolerances):
            error = float(jnp.max(jnp.abs(program(tolerance)[0, 0] - exact) / (case.small + jnp.abs(exact))))
            if not np.isfinite(error):  # out of steps
                continue
            curve.errors.append(error)
            seconds = best(lambda p=program, t=tolerance: p(t), size.rounds)
            curve.seconds.append(seconds / size.members)
        result[name] = curve
    return result


def main():
    arguments = parse_arguments(__doc__)
    size = SMALL if arguments.small else Size()
    jax.config.update("jax_enable_x64", True)
    result = {}
    for title, case in CASES.items():
        result[title] = stochastic(case, size) if isinstance(case, Stochastic) else ordinary(case, size)
        for name, curve in result[title].items():
            points = "  ".join(
                f"{1e6 * t:.3g}: {e:.2g}" for t, e in zip(curve.seconds, curve.errors, strict=True)
            )
            print(f"{title}, {name}, microseconds: error  {points}", flush=True)
    findings = []
    for title, (fast, slow, error) in QUESTIONS.items():
        ratio = result[title][slow].seconds_to(error) / result[title][fast].seconds_to(error)
        if np.isfinite(ratio):
            findings.append(Measurement(f"{title}, error {error:g}, {fast} against {slow}", ratio))
    curves = {
        title: {name: curve._asdict() for name, curve in curves.items()} for title, curves in result.items()
    }
    report("work_precision", findings, {}, {}, arguments, {"curves": curves})
    if not arguments.small:
        draw(result)
        print(PICTURE)


def draw(result: Mapping[str, Mapping[str, ErrorCurve]]) -> None:
    """One panel for each problem."""
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(4, 2, figsize=(10, 14), layout="constrained")
    for panel, (title, curves) in zip(panels.flat, result.items(), strict=True):
        for (name, curve), (colour, marker) in zip(curves.items(), MARKS, strict=False):
            times = 1e6 * np.array(curve.seconds)
            panel.loglog(times, curve.errors, marker=marker, color=colour, ms=5, lw=1.5, label=name)
        panel.set_title(title, fontsize=10.5)
        panel.set_xlabel(CASES[title].unit)
        panel.set_ylabel(CASES[title].error)
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8.5)
    figure.savefig(PICTURE, dpi=110)


if __name__ == "__main__":
    main()
