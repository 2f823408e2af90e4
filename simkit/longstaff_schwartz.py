r"""Early exercise by regression on simulated paths.

Backwards in time, the value of going on is regressed on functions of the state, over the paths on which
exercising would pay; a path exercises where its value is the greater (Longstaff & Schwartz 2001,
doi:10.1093/rfs/14.1.113). The policy so found is then an accumulator in the loop over other paths. Exercised
on those it knows nothing of their future, so that the mean there is that of an admissible policy: at most
the value of the right, but for its standard error. On its own paths it has seen what comes, and the mean
there tends to be higher.
"""

import dataclasses
import itertools
import math
import time

import jax
import numpy as np
from jax.sharding import Mesh
from simkit_solvers.grid import Grid
from simkit_solvers.schedule import parameters_at, schedule_of

from simkit.chunks import plan_chunks
from simkit.errors import InputError
from simkit.exercise import PATHS_PER_TERM, Exercise, ExerciseFit, Policy, polynomials
from simkit.failures import failed_paths
from simkit.observables import Observable, Observer
from simkit.paths import Inputs, PathProgram, as_device_ids, path_program
from simkit.programs import Request, compiled
from simkit.settings import MAX_PATHS
from simkit.simulation import ObservableInfo, Simulation

RANK = 1e-10  # singular values below this part of the largest are rounding, of basis functions that coincide


@dataclasses.dataclass(frozen=True)
class SampleProgram:
    """A function of (inputs, ids): some rows of the named quantities."""

    paths: PathProgram
    names: tuple[str, ...]
    rows: tuple[int, ...]

    def __call__(self, inputs: Inputs, ids) -> dict[str, jax.Array]:
        found = self.paths(inputs, ids)
        return {name: found[name][np.asarray(self.rows)] for name in self.names}


def with_policies(
    simulation: Simulation, mesh: Mesh
) -> tuple[Simulation, dict[str, ExerciseFit], tuple[float, float]]:
    """The simulation with a policy for each observable with early exercise, and what they were fitted to.

    Also the seconds that this took, and those of compiling. The paths it uses have the last ids that there
    are, whatever the size of the ensemble. Raises `InputError` where too few of them are in the money, and
    `NumericalError` where one becomes NaN or infinite and `failures` is `stop`.
    """
    observer, grid = simulation.observer, simulation.grid
    if not isinstance(observer, Observer) or not isinstance(grid, Grid) or not observer.exercised:
        return simulation, {}, (0.0, 0.0)
    start = time.perf_counter()
    fits: dict[str, ExerciseFit] = {}
    compile_s = 0.0

    def sample(exercised: tuple[Observable, Exercise]) -> tuple[tuple[int, ...], int]:
        return exercised[1].when, exercised[1].paths

    for (when, paths), group in itertools.groupby(sorted(observer.exercised, key=sample), sample):
        rights = {o.name: (exercise, _parts(o, exercise)) for o, exercise in group}
        observables = tuple(part for _, parts in rights.values() for part in parts)
        every = math.gcd(grid.steps, *when)
        seen = dataclasses.replace(
            simulation,
            observer=Observer(observer.constants, observables),
            observables={part.name: ObservableInfo("", "", "each") for part in observables},
            grid=Grid(grid.t0, grid.dt, grid.steps, every),
            paths=paths,
        )
        values, seconds = _sampled(seen, tuple(step // every for step in when), mesh)
        compile_s += seconds
        for name, (exercise, parts) in rights.items():
            taken, *basis = (values[part.name] for part in parts)
            fits[name] = fit_policy(name, exercise, taken, np.stack(basis))
    for observable, exercise in observer.exercised:
        fit = fits[observable.name]
        policy = dataclasses.replace(fit.policy, held=_held(simulation, observable, exercise))
        fits[observable.name] = dataclasses.replace(fit, policy=policy)
    policies = {o.name: fits[o.name].policy for o, _ in observer.exercised}
    changed = dataclasses.replace(simulation, observer=dataclasses.replace(observer, policies=policies))
    return changed, fits, (time.perf_counter() - start - compile_s, compile_s)


def _parts(observable: Observable, exercise: Exercise) -> list[Observable]:
    """The value to be taken and the basis, as observables of their own."""
    basis = enumerate(exercise.basis)
    return [
        dataclasses.replace(observable, exercise=None),
        *(
            dataclasses.replace(observable, name=f"{observable.name} basis {i}", expression=x, exercise=None)
            for i, x in basis
        ),
    ]


def _held(simulation: Simulation, observable: Observable, exercise: Exercise) -> dict[str, np.ndarray]:
    """The numbers that a decision sees beside the state, by name, `(dates,)`, but for curves."""
    observer, grid, problem = simulation.observer, simulation.grid, simulation.problem
    if not isinstance(observer, Observer) or not isinstance(grid, Grid):
        raise TypeError("only observers have rights, and only a fixed grid has their dates")
    schedule = schedule_of(problem)
    curves = {} if schedule is None else {**schedule.quantities, **schedule.parameters}
    parameters = {name: x for name, x in parameters_at(problem, grid.t0).items() if name not in curves}
    times = float(grid.t0) + float(grid.dt) * np.array(exercise.when)
    numbers = {"t": times, **observer.constants, **parameters}
    seen = observable.names - curves.keys() - set(problem.State._fields)
    shape = (exercise.dates,)
    return {n: np.broadcast_to(np.float64(x), shape) for n, x in numbers.items() if n in seen}


def _sampled(
    simulation: Simulation, rows: tuple[int, ...], mesh: Mesh
) -> tuple[dict[str, np.ndarray], float]:
    """The observables of the last path ids there are at these rows: float64, `(rows, paths)`."""
    names = tuple(simulation.observables)
    program, inputs = path_program(simulation, simulation.grid, mesh)
    grid, first, devices = simulation.grid, MAX_PATHS - simulation.paths, mesh.devices.size
    steps = grid.steps if isinstance(grid, Grid) else 1
    plan = plan_chunks(simulation.paths, steps, grid.rows * len(names), devices, simulation.chunk)
    ids = as_device_ids(first, plan.leaves, plan.lanes, mesh)
    (run,), compile_s = compiled(Request(SampleProgram(program, names, rows), (inputs, ids), mesh))
    parts: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for number in range(plan.count):
        done = number * plan.paths
        found = run(inputs, as_device_ids(first + done, plan.leaves, plan.lanes, mesh))
        for name, array in found.items():
            flat = np.asarray(array, np.float64).reshape(array.shape[0], -1)
            parts[name].append(flat[:, : simulation.paths - done])
    values = {name: np.concatenate(arrays, axis=1) for name, arrays in parts.items()}
    finite = np.all([np.all(np.isfinite(array), axis=0) for array in values.values()], axis=0)
    if not finite.all():
        if simulation.failures == "stop":
            raise failed_paths(simulation, first + np.flatnonzero(~finite))
        values = {name: array[:, finite] for name, array in values.items()}
    return values, compile_s


def fit_policy(name: str, exercise: Exercise, values: np.ndarray, basis: np.ndarray) -> ExerciseFit:
    """The policy for values to be taken, `(dates, paths)`, and a basis, `(functions, dates, paths)`.

    Regressions are by QR in float64 on Hermite polynomials of the basis, at each date shifted and scaled to
    mean 0 and variance 1 over the paths in the money. A date with fewer such paths than ten per polynomial is
    passed over. Raises `InputError` where that is so at every date before the last, and where no path is in
    the money at the last.
    """
    dates, functions, needed = exercise.dates, len(exercise.basis), PATHS_PER_TERM * exercise.terms
    inside = values > 0
    most = int(inside[:-1].sum(axis=1).max(initial=0))
    if not inside.any() or (dates > 1 and most < needed):
        raise InputError(
            f"observe.{name}.early_exercise: of {values.shape[1]} paths at most {most} would be paid "
            f"anything at a date before the end, and {exercise.terms} polynomials need {needed}; take more "
            "early_exercise.paths, a lower degree or a smaller basis"
        )
    coefficients = np.zeros((dates, exercise.terms))
    coefficients[:-1, 0] = np.inf
    low, high, centre = (np.zeros((dates, functions)) for _ in range(3))
    scale = np.ones((dates, functions))
    taken = np.maximum(values[-1], 0.0)
    when = np.where(inside[-1], dates - 1, dates)
    for j in reversed(range(dates - 1)):
        paid = np.flatnonzero(inside[j])
        if len(paid) < needed:
            continue
        x = basis[:, j, paid]
        low[j], high[j], centre[j] = x.min(axis=1), x.max(axis=1), x.mean(axis=1)
        spread = x.std(axis=1)
        scale[j] = np.where(spread > 0, spread, 1.0)
        normal = (x - centre[j][:, None]) / scale[j][:, None]
        design = np.stack(
            [np.broadcast_to(p, paid.shape) for p in polynomials(list(normal), exercise.degree)], axis=1
        )
        coefficients[j] = least_squares(design, taken[paid])
        now = paid[values[j, paid] >= design @ coefficients[j]]
        taken[now], when[now] = values[j, now], j
    policy = Policy(coefficients, centre, scale, low, high, exercise.degree)
    first = [basis[0, j, when == j] for j in range(dates)]
    return ExerciseFit(
        policy=policy,
        dates=exercise.shares,
        mean=float(taken.mean()),
        stderr=float(taken.std(ddof=1) / np.sqrt(len(taken))) if len(taken) > 1 else np.nan,
        share=np.array([np.mean(when == j) for j in range(dates)]),
        low=np.array([x.min(initial=np.inf) if len(x) else np.nan for x in first]),
        high=np.array([x.max(initial=-np.inf) if len(x) else np.nan for x in first]),
    )


def least_squares(design: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The shortest least squares solution. QR makes the problem small, singular values tell its rank."""
    size = design.shape[1]
    triangle = np.asarray(np.linalg.qr(np.column_stack([design, wanted]), mode="r"))
    return np.linalg.lstsq(triangle[:, :size], triangle[:, size], rcond=RANK)[0]
