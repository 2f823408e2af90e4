"""The program that simulates one chunk of paths on any grid, for the run and its step bias."""

import dataclasses

from simkit.ensemble.paths import PathProgram
from simkit.ensemble.simulation import Run, Simulation
from simkit.ensemble.stepping import ACCEPTED, IN_LEAPS, REJECTED, happened_names
from simkit.observe.observable import waits


def quantity_rows(simulation: Simulation) -> dict[str, int]:
    """How many rows there are of each quantity: of state variables all, of observables all or the last."""
    rows = dict.fromkeys(simulation.problem.State._fields, simulation.grid.rows)
    for name, info in simulation.observables.items():
        rows[name] = simulation.grid.rows if info.at == "each" else 1
    return rows


@dataclasses.dataclass(frozen=True)
class ChunkProgram:
    """A function of (inputs, ids) that simulates one chunk: its quantities in order, and counts of each path.

    These are the numbers of steps, how often each event with a condition has happened, and whether a first
    time still waits at the end.
    """

    paths: PathProgram
    rows: tuple[tuple[str, int], ...]

    def __call__(self, inputs: Run, ids):
        everything = self.paths(inputs, ids)
        values = tuple(everything[name][-count:] for name, count in self.rows)
        events = happened_names(self.paths.run.problem)
        counted = (ACCEPTED, REJECTED, IN_LEAPS, *events, *(waits(name) for name, _ in self.rows))
        return values, {name: everything[name][-1:] for name in counted if name in everything}
