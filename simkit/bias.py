"""The step bias: how far means are from those of infinitely short steps, by the same paths on other grids.

`step_levels` says which grids these are, `step_error` what follows from the values. The first 4096 paths run
again, and then as many more as it takes for the bias to be known as well as the mean, within a tenth of the
work of the run. Where longer steps have no claim to an estimate, or no finite values, shorter ones are taken:
they cost more, and say more of the run's own.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from simkit_solvers.grid import Grid
from simkit_solvers.problem import AbstractSDE
from simkit_solvers.registry import weak_order

from simkit.initial import differs_between_paths
from simkit.observables import OVER_TIME, Observer
from simkit.paths import as_device_ids, lanes_for, path_mesh, path_program
from simkit.programs import Request, compiled
from simkit.rounding import rounding_error
from simkit.simulation import Simulation
from simkit.step_error import StepError, step_error
from simkit.step_levels import Comparison, levels

BIAS_PATHS = 4096
MOST_BIAS_PATHS = 2**19  # 4 MB of final values for each quantity
PART_OF_WORK = 0.1
QUADRATURE_ORDER = 2.0
MOST_LOST = 0.01  # of the paths: more that fail on another grid, and the others are no sample of all


@dataclasses.dataclass(frozen=True)
class BiasRun:
    """The first paths on other grids: the programs, how many paths at first, and how many at most."""

    factors: tuple[float, ...]
    requests: tuple[Request, ...]
    orders: Mapping[str, float]
    paths: int
    most: int

    def values(self, programs: Sequence[Callable], first: int, paths: int) -> dict[str, np.ndarray]:
        """The final values of so many paths `(paths, levels)` by name."""
        each = [_final_values(*both, first, paths) for both in zip(self.requests, programs, strict=True)]
        return {name: np.stack([level[name] for level in each], 1) for name in self.orders}


@dataclasses.dataclass(frozen=True)
class StepErrors:
    """Step errors by quantity, and how many paths each leaves out since they are finite in the run only."""

    errors: dict[str, StepError]
    left_out: dict[str, int]


def bias_run(simulation: Simulation, shorter: bool = False) -> BiasRun | None:
    """How to find the step bias; None where no other grid can be compared with (`levels`)."""
    others = levels(simulation, shorter)
    if not others:
        return None
    cost = sum(1 / other.factor for other in others)
    random = isinstance(simulation.problem, AbstractSDE) or differs_between_paths(simulation.initial.values())
    paths = min(simulation.paths, BIAS_PATHS) if random else 1
    affordable = min(int(PART_OF_WORK * simulation.paths / cost), MOST_BIAS_PATHS)
    most = max(paths, affordable) if random else 1
    mesh = path_mesh(simulation.devices if most > paths else 1)
    devices = mesh.devices.size
    ids = as_device_ids(0, devices, lanes_for(-(-paths // devices)), mesh)

    def request(other: Comparison) -> Request:
        program, inputs = path_program(
            dataclasses.replace(simulation, observer=other.observer), other.grid, mesh, other.driver
        )
        return Request(program, (inputs, ids), mesh)

    return BiasRun(
        tuple(other.factor for other in others), tuple(map(request, others)), orders(simulation), paths, most
    )


def orders(simulation: Simulation) -> dict[str, float]:
    """The order of each quantity's mean: the solver's, of integrals over time no more than the trapezoid's.

    Where nothing but the rule of the integral can be wrong, the order is that of the rule.
    """
    order = weak_order(simulation.solver, simulation.problem)
    state = simulation.problem.State._fields
    by_name = dict.fromkeys((*state, *simulation.observables), order)
    if isinstance(simulation.observer, Observer):
        for observable in simulation.observer.observables:
            if any(functional.kind in OVER_TIME for functional in observable.functionals):
                exact = not observable.names & {*state}
                by_name[observable.name] = QUADRATURE_ORDER if exact else min(order, QUADRATURE_ORDER)
    return by_name


def step_errors(
    simulation: Simulation,
    bias: BiasRun,
    programs: Sequence[Callable],
    run: Mapping[str, np.ndarray],
    moments: Mapping[str, np.ndarray],
) -> tuple[StepErrors, float]:
    """The step errors of all quantities at the end, and the seconds that it took to compile for them.

    `run` are the final values of the first paths, `moments` the statistics of all.
    """
    found = _by_levels(simulation, bias, programs, run, moments)
    without = [name for name in bias.orders if _has_no_claim(found, name)]
    shorter = bias_run(simulation, shorter=True) if without else None
    if shorter is None or shorter.factors == bias.factors:
        return found, 0.0
    shorter = dataclasses.replace(shorter, orders=bias.orders)
    programs, compile_s = compiled(*shorter.requests)
    again = _by_levels(simulation, shorter, programs, run, moments)
    errors = {name: again.errors.get(name, UNKNOWN) for name in without}
    left_out = {name: again.left_out[name] for name in without if name in again.left_out}
    return StepErrors(found.errors | errors, left_out), compile_s


def _has_no_claim(found: StepErrors, name: str) -> bool:
    return name in found.left_out or name not in found.errors or found.errors[name].claim == "at least"


def _by_levels(
    simulation: Simulation,
    bias: BiasRun,
    programs: Sequence[Callable],
    run: Mapping[str, np.ndarray],
    moments: Mapping[str, np.ndarray],
) -> StepErrors:
    """The step errors by these grids, by as many paths as it takes."""
    last = {name: _Last.of(name, moments) for name in bias.orders}
    steps = simulation.grid.steps if isinstance(simulation.grid, Grid) else 0

    def errors(others: Mapping[str, np.ndarray]) -> StepErrors:
        found = StepErrors({}, {})
        for name, there in others.items():
            rounding = float(rounding_error(last[name].size, simulation.precision, steps))
            values = np.concatenate([run[name][: len(there), None], there], 1)
            error, lost = _step_error(values, bias.factors, bias.orders[name], rounding, last[name].varies)
            if error is not None:
                found.errors[name] = error
            if lost:
                found.left_out[name] = lost
        return found

    others = bias.values(programs, 0, bias.paths)
    found = errors(others)
    ratios = [
        (error.noise / last[name].stderr) ** 2
        for name, error in found.errors.items()
        if last[name].stderr > 0 and error.claim == "estimate"
    ]
    paths = min(math.ceil(bias.paths * min(max(ratios, default=0), bias.most)), bias.most)
    if paths <= bias.paths:
        return found
    more = bias.values(programs, bias.paths, paths - bias.paths)
    return errors({name: np.concatenate([there, more[name]]) for name, there in others.items()})


def _step_error(
    values: np.ndarray, factors: tuple[float, ...], order: float, rounding: float, varies: bool
) -> tuple[StepError | None, int]:
    """The step error, and how many paths it leaves out since they are finite in the run alone.

    A grid on which too many are lost does not count, and where no grid is left there is no estimate: paths
    that survive are no sample of all.
    """
    values = values[np.isfinite(values[:, 0])]
    finite = np.isfinite(values)
    lost = (~finite).sum(0)
    kept = np.flatnonzero(lost <= MOST_LOST * len(values))
    if len(kept) < 2:
        return None, int(lost.min(initial=len(values), where=lost > 0))
    values = values[:, kept]
    whole = bool(np.all(values == np.rint(values)))
    if varies and whole and not np.ptp(values, 1).any():
        rounding = max(rounding, 1 / len(values))  # of so many none differed: an event, or a count
    error = step_error(values, [factors[level - 1] for level in kept[1:]], order, rounding)
    return error, int(lost.max())


@dataclasses.dataclass(frozen=True)
class _Last:
    """What the statistics say of a quantity at the end: its size, its error, and whether paths differ."""

    size: float
    stderr: float
    varies: bool

    @staticmethod
    def of(name: str, moments: Mapping[str, np.ndarray]) -> "_Last":
        mean, variance, stderr, low, high = (
            float(moments[f"{name}_{key}"][-1]) for key in ("mean", "variance", "stderr", "min", "max")
        )
        return _Last(float(np.hypot(mean, np.sqrt(np.nan_to_num(variance)))), stderr, low < high)


def _final_values(request: Request, program: Callable, first: int, paths: int) -> dict[str, np.ndarray]:
    """Of paths from `first`, in as many calls as it takes."""
    inputs, ids = request.arguments
    if request.mesh is None:
        raise TypeError("the step bias takes programs of paths, which run on a mesh")
    each = []
    for start in range(first, first + paths, ids.size):
        rows = program(inputs, as_device_ids(start, *ids.shape, request.mesh))
        each.append({name: np.asarray(array, np.float64)[-1].reshape(-1) for name, array in rows.items()})
    return {name: np.concatenate([part[name] for part in each])[:paths] for name in each[0]}


UNKNOWN = StepError(math.nan, math.nan, math.nan, "at least", math.nan)
