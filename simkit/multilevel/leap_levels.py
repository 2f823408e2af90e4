r"""Levels of ever shorter leaps of a reaction network, whose two paths fire together as often as possible.

Level 0 has the leaps that tau-leaping chooses, and level l those $2^{-l}$ times as long. What is averaged
there is a value at the end less that of a coupled path with leaps twice as long; an exact event is exact on
all levels. How many leaps a path takes, and what a coupled pair costs, is measured. Reference: Anderson &
Higham (2012), Multilevel Monte Carlo for continuous time Markov chains, with applications in biochemical
kinetics, doi:10.1137/110840546.
"""

import dataclasses
from typing import cast

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.loops.coupled_leaps import CoupledLeaps, coupled_leaps
from simkit_solvers.methods.jump.jump_method import REASONS

from simkit.ensemble.failures import REMEDIES, failed_paths
from simkit.ensemble.paths import PathProgram, path_program
from simkit.ensemble.step_bias.leap_bias import PIECE
from simkit.ensemble.stepping import ACCEPTED, REJECTED
from simkit.errors import NumericalError
from simkit.multilevel.levels import MOST_LEVELS, AbstractLevels, weak_orders


class LeapLevels(AbstractLevels):
    """Levels of a simulation by tau-leaping."""

    unit = "leap"
    measured = 2

    @property
    def orders(self):
        return weak_orders(self.simulation)

    @property
    def most(self):
        return MOST_LEVELS

    def steps(self, seen):
        return [round(leaps) for leaps in self._doubled([each.mean[-2][-1] for each in seen])]

    def costs(self, seen):
        return self._doubled([each.mean[-1][-1] for each in seen])

    def _doubled(self, known: list[float]) -> list[float]:
        """What is known of the first levels, and of each further one twice as much as of the one below."""
        further = [known[-1] * 2.0**more for more in range(1, self.most - len(known) + 1)]
        return [*map(float, known), *further]

    @property
    def precision(self):
        return "float64"  # which holds counts whole

    def grids(self, own, level):
        grid = cast(JumpGrid, own.grid)
        return (own.with_run(grid=JumpGrid(grid.t0, grid.t0 + grid.span, 1, grid.max_steps)),)

    def program(self, grids, level):
        (own,) = grids
        program, inputs = path_program(own, own.grid)
        if not level:
            return LeapPathProgram((*self.orders,), program), inputs
        factors = jnp.asarray([2.0**-level, 2.0 ** (1 - level)], jnp.float64)
        return CoupledLeapProgram((*self.orders,), program), (inputs, factors)

    def failure(self, grids, level, path):
        if not level:
            return failed_paths(grids[0], np.array([path]))
        program, given = self.program(grids, level)
        status = jax.jit(cast(CoupledLeapProgram, program).status)(
            given, jnp.full((1, grids[0].stepping.group), path, jnp.uint32)
        )
        status = int(np.ravel(status)[0])
        reason = REASONS.get(status, "something observed is not finite")
        reason = reason.replace("max_steps", f"max_steps = {cast(JumpGrid, grids[0].grid).max_steps}")
        remedy = REMEDIES.get(status, grids[0].stepping.remedy)
        return NumericalError(f"path {path} of level {level}: {reason}. {remedy}")


@dataclasses.dataclass(frozen=True)
class LeapPathProgram:
    """A function of (inputs, ids): of each quantity the value at the end, and twice the leaps of the path."""

    names: tuple[str, ...]
    paths: PathProgram

    def __call__(self, inputs, ids) -> tuple[jax.Array, ...]:
        rows = self.paths(inputs, ids)
        leaps = rows[ACCEPTED] + rows[REJECTED]
        ends = *(rows[name][-1:] for name in self.names), leaps, leaps
        return tuple(each.astype(jnp.float64) for each in ends)


@dataclasses.dataclass(frozen=True)
class CoupledLeapProgram:
    """A function of ((inputs, two lengths of leaps), ids): of each quantity how much the ends differ.

    Then come the leaps of the first path, and what both cost in leaps.
    """

    names: tuple[str, ...]
    paths: PathProgram

    def __call__(self, given, ids) -> tuple[jax.Array, ...]:
        return self.paths.each(self._differences)(given, ids)

    def status(self, given, ids) -> jax.Array:
        """Why paths ended."""
        return self.paths.each(lambda *each: self._run(*each).status[None])(given, ids)

    def _differences(self, given, path) -> tuple[jax.Array, ...]:
        run = self._run(given, path)
        differences = (run.ends[name][:1] - run.ends[name][1:] for name in self.names)
        ends = *differences, run.leaps[:1], PIECE * run.steps[None]
        return tuple(each.astype(jnp.float64) for each in ends)

    def _run(self, given, path) -> CoupledLeaps:
        inputs, factors = given
        network, method, start, grid, _, observer = self.paths.prepared(inputs, path)
        return coupled_leaps(network, method, factors, start, grid, inputs.key, path, observer)
