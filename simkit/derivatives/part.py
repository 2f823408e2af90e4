"""What one program of a study gives, and how it is called."""

import dataclasses
from collections.abc import Callable, Sequence

import jax
import numpy as np

from simkit.derivatives.estimator import Selection
from simkit.derivatives.facts import Facts
from simkit.derivatives.leaps import Leaps
from simkit.derivatives.moments import SAMPLE, Averages, MomentsReduction
from simkit.derivatives.validity import at_level
from simkit.ensemble.chunks import LEAF, MOST_PATHS, Chunks, lanes_for, path_ids, plan_chunks, planned_steps
from simkit.ensemble.programs import Request
from simkit.ensemble.run import quantity_rows
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.step_bias.coupled_steps import BIAS_PATHS, PART_OF_WORK, approximate_means
from simkit.ensemble.work import workers_of, workers_on
from simkit.machine.on_each_device import Devices, local_devices

Errors = dict[Selection, np.ndarray]
# Paths of a chunk on a processor: what their loops carry is read by many kernels.
IN_CACHE = 32 * LEAF
# Of a level, up to which its code had better be made quickly: half a second of compiling against 0.2 s.
FEW_PATH_STEPS = 2**20


@dataclasses.dataclass(frozen=True)
class Part:
    """Derivatives that one program gives: (choice, position among its arrays), and values by position.

    `finer` gives the same by other steps, or part of it, which shows what those of this one leave, and
    `levels` that of the first paths on steps `factor` times as long, the nearest first; `shorter_levels`
    makes those on shorter steps, and `leaps` is the same of leaps.
    `replicates` are the same with other policies of early exercise, by the same programs.
    """

    requests: tuple[Request, ...]
    simulate: Callable
    counts: tuple[int, ...]
    derivatives: tuple[tuple[Selection, int], ...]
    values: tuple[tuple[str, int], ...]
    cost: float
    finer: "Part | None" = None
    levels: "tuple[Part, ...]" = ()
    factor: float = 1.0
    replicates: "tuple[Part, ...]" = ()
    leaps: Leaps | None = None
    shorter_levels: "Callable[[], tuple[Part, ...]]" = tuple

    def run(self, programs: Sequence[Callable], ids) -> list[jax.Array]:
        """The arrays of a chunk, by the programs of `all_requests`."""
        return self.simulate(*programs[: len(self.requests)], ids)

    @property
    def all_requests(self) -> tuple[Request, ...]:
        """Those of this part, and then of the finer one of an equation, or the levels of a run with noise."""
        others = self.levels if self.finer is None else (self.finer,)
        leaps = () if self.leaps is None else (self.leaps.request,)
        return sum((other.requests for other in others), self.requests) + leaps

    def step_errors(self, result: Averages, programs: Sequence[Callable], ids, paths: int) -> Errors:
        """What steps leave in each derivative, where that is known, by a run of the first chunk."""
        if self.finer is None:
            return {}
        coarse = of_paths(self.run(programs, ids), paths)
        fine = of_paths(self.finer.run(programs[len(self.requests) :], ids), paths)
        return {choice: np.abs(np.mean(coarse[i] - fine[i], axis=1)) for choice, i in self.finer.derivatives}

    def again(self, result: Averages, errors: Errors) -> "Part | None":
        """The derivatives whose steps are too long, once more; None where none are, or can be."""
        return None


def on_half_steps(finer: Part, facts: Facts) -> Part:
    """The finer part of one on steps of fixed length, without extremes.

    The largest of twice as many steps is often the same one, and says nothing of the time between.
    """
    measured = tuple(
        (choice, i) for choice, i in finer.derivatives if not facts.has_extremes_of_steps(choice.quantity)
    )
    return dataclasses.replace(finer, derivatives=measured)


def with_levels(
    facts: Facts, group: list[Selection], build: Callable[[Facts, list[Selection]], Part]
) -> Part:
    """The part of a group, with those that give the same on the levels of a stochastic run."""
    measured = {choice.quantity for choice in group} & {*approximate_means(facts.simulation)}
    own = build(facts, group)
    if not measured:
        return own

    def on(levels: Sequence[Facts]) -> tuple[Part, ...]:
        quick, parts = _are_short(levels, facts.simulation.paths), []
        for level in levels:
            there = build(level, [at_level(level, choice) for choice in group])
            derivatives = tuple((choice, i) for choice, (_, i) in zip(group, there.derivatives, strict=True))
            there = quickly_made(there) if quick else there
            cost = level.cost * there.cost
            parts.append(dataclasses.replace(there, derivatives=derivatives, factor=level.factor, cost=cost))
        return tuple(parts)

    return dataclasses.replace(own, levels=on(facts.levels), shorter_levels=lambda: on(facts.shorter_levels))


def quickly_made(part: Part) -> Part:
    """The same in code that is quick to make and slow to run."""
    return dataclasses.replace(part, requests=tuple(each._replace(quick=True) for each in part.requests))


def affordable_paths(paths: int, cost: float) -> int:
    """How many paths run on the levels at most, which cost so much of the run; the first of them always."""
    return max(min(paths, BIAS_PATHS), min(int(PART_OF_WORK * paths / cost), SAMPLE))


def _are_short(levels: Sequence[Facts], paths: int) -> bool:
    """Whether these run so few steps in all that compiling them takes longer."""
    cost = sum(level.cost for level in levels)
    steps = max((planned_steps(level.simulation.grid) for level in levels), default=0)
    return steps > 0 and steps * affordable_paths(paths, cost) <= FEW_PATH_STEPS


def of_paths(arrays: Sequence, paths: int) -> list[np.ndarray]:
    """The first paths of a chunk's arrays, `(rows, paths)`."""
    return [np.asarray(x).reshape(len(x), -1)[:, :paths] for x in arrays]


def rows_of(facts: Facts, names: list[str]) -> tuple[tuple[str, int], ...]:
    """How many rows each quantity has."""
    rows = quantity_rows(facts.simulation)
    return tuple((name, rows[name]) for name in names)


def some_ids(facts: Facts):
    """The paths of the first chunk."""
    if facts.is_level:
        return ids_of_level(facts.simulation)
    return chunks_of((facts.run or facts).simulation).ids()


def devices_of(facts: Facts) -> Devices:
    """Where programs run: those of levels, which are short, on one device."""
    return local_devices(1 if facts.is_level else facts.simulation.devices)


def workers_of_levels(simulation: Simulation) -> Devices:
    """The device of each thread that simulates levels."""
    return workers_on(local_devices(1), simulation.threads)


def ids_of_level(simulation: Simulation, first: int = 0) -> np.ndarray:
    """Some of the paths that run on steps of another length too, in a leaf like those of the run."""
    return path_ids(first, 1, min(LEAF, lanes_for(simulation.paths)))


def chunks_of(simulation: Simulation) -> Chunks:
    """The chunks in which derivatives are estimated."""
    workers = workers_of(simulation)
    values = 4 * sum(quantity_rows(simulation).values())
    steps = 4 * planned_steps(simulation.grid)
    most = MOST_PATHS if workers[0].platform != "cpu" else IN_CACHE
    return plan_chunks(simulation.paths, steps, values, len(workers), simulation.chunk, most)


def requests_of(simulation: Simulation, part: Part) -> tuple[Request, ...]:
    """The programs of a part, and those that average what they give."""
    plan, devices = chunks_of(simulation), local_devices(simulation.devices)
    dtype = simulation.precision if len(part.requests) == 1 else "float64"
    reduction = MomentsReduction(part.counts).requests((plan.leaves, plan.lanes), dtype, devices)
    return *part.all_requests, *reduction
