"""The program that simulates one chunk of paths on any grid, for the run and its step bias."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp

from simkit.ensemble.paths import PathProgram
from simkit.ensemble.simulation import Run, Simulation
from simkit.ensemble.stepping import ACCEPTED, IN_LEAPS, REJECTED, happened_names, since
from simkit.ensemble.weights import LOG_WEIGHT, weighted
from simkit.observe.observable import waits


def quantity_rows(simulation: Simulation) -> dict[str, int]:
    """How many rows there are of each quantity: of state variables all, of observables all or the last."""
    rows = dict.fromkeys(simulation.problem.State._fields, simulation.grid.rows)
    for name, info in simulation.observables.items():
        rows[name] = simulation.grid.rows if info.at == "each" else 1
    return rows


def marked_events(simulation: Simulation) -> int:
    """Of how many events the stored paths, if there are any, have to know before which rows they happened."""
    return len(happened_names(simulation.problem)) if simulation.stored_paths else 0


@dataclasses.dataclass(frozen=True)
class ChunkProgram:
    """A function of (inputs, ids) that simulates one chunk: its quantities in order, and counts of each path.

    These are the numbers of steps, how often each event with a condition has happened, and whether a first
    time still waits at the end. In importance sampling quantities are weighted, and with the counts come the
    logarithms of the weights, as `LOG_WEIGHT`. For each row of the first `marked` leaves also, as
    `since(name)`, whether an event of the `marks` has happened since the row before.
    """

    paths: PathProgram
    rows: tuple[tuple[str, int], ...]
    marked: int = 0
    marks: tuple[str, ...] = ()

    def __call__(self, inputs: Run, ids):
        everything = self.paths(inputs, ids)
        values = {name: everything[name][-count:] for name, count in self.rows}
        if LOG_WEIGHT in everything:
            values = weighted(values, everything[LOG_WEIGHT])
        events = happened_names(self.paths.run.problem)
        counted = (ACCEPTED, REJECTED, IN_LEAPS, *events, *(waits(name) for name, _ in self.rows))
        counts = {name: everything[name][-1:] for name in counted if name in everything}
        rows = {name: everything[name][:, : self.marked] for name in self.marks}
        counts |= {since(name): _since_the_row_before(each) for name, each in rows.items()}
        counts |= {name: x for name, x in everything.items() if name == LOG_WEIGHT}
        return tuple(values.values()), counts


def chunk_program(simulation: Simulation, paths: PathProgram, ids: Any) -> ChunkProgram:
    """The program of chunks with ids `(leaves, lanes)`, in which stored paths come first."""
    rows, marks = tuple(quantity_rows(simulation).items()), tuple(happened_names(simulation.problem))
    marked = min(-(-simulation.stored_paths // ids.shape[1]), ids.shape[0])
    return ChunkProgram(paths, rows, marked, marks) if marks and marked else ChunkProgram(paths, rows)


def _since_the_row_before(counts: jax.Array) -> jax.Array:
    """Where counts `(rows, …)` are other than in the row before; before the first they are 0."""
    return jnp.diff(counts, axis=0, prepend=jnp.zeros_like(counts[:1])) != 0
