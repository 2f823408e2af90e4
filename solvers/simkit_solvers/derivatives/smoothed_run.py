"""One path and its derivatives, smoothed where values jump, as the fixed-grid loop steps through them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.derivatives.smoothing import Smoothing, left_of, shifts_and_gains, shifts_of
from simkit_solvers.derivatives.tangent_run import AbstractTangentRun, constant_or_changing, tangents_of_run
from simkit_solvers.loops.path_run import AbstractRun, JumpWords, PathRun, once
from simkit_solvers.problems.directions import (
    DifferentiatedRows,
    Direction,
    NoDensityError,
    WithTangents,
    interval,
)
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.random.draws import Draw


class SmoothedRun(AbstractTangentRun):
    """A run and its derivatives, smoothed where values jump.

    The run may be such a run itself, of one direction: that gives second derivatives.
    """

    run: Any
    changes: tuple[Any, ...]
    differences: Callable[..., tuple]
    every: tuple[Any, ...]
    starts: tuple[Any, ...]

    @staticmethod
    def in_directions(
        run: PathRun, problem: AbstractODE, directions: tuple[Direction, ...], smoothing: Smoothing
    ) -> "SmoothedRun":
        """The run of a problem with its derivatives along directions."""
        changes = tangents_of_run(run, problem, directions)
        return SmoothedRun.of(run, changes, smoothing, tuple(each.y0 for each in directions))

    @staticmethod
    def of(run: AbstractRun, changes: tuple, smoothing: Smoothing, starts: tuple) -> "SmoothedRun":
        """The run with its derivatives, by direction, and those of its initial state."""
        return SmoothedRun(run, changes, smoothing.differences, tuple(map(interval, smoothing.every)), starts)

    def start(self, y0):
        carry, changes = self.initial(y0)
        return WithTangents(carry, changes, tuple(jnp.zeros_like(self.dt) for _ in changes))

    def prepared(
        self, start: WithTangents, draw: Draw, words: JumpWords | None
    ) -> tuple["SmoothedRun", WithTangents]:
        """What is carried of the derivatives: None where no step makes anything but zero.

        Raises `NoDensityError` where no normal of a step moves what is compared.
        """
        k, run = jnp.uint32(0), self
        if isinstance(self.run, SmoothedRun):
            inner, carry = self.run.prepared(start.carry, draw, words)
            run, start = dataclasses.replace(self, run=inner), start._replace(carry=carry)
        run._refuse(start, k, draw, words)

        def after(changes):
            carried = start._replace(changes=changes)
            return jax.eval_shape(lambda: run._tangent_structure(carried, k, draw, words))

        return run, start._replace(changes=constant_or_changing(start.changes, after, start.carry))

    def _refuse(self, start: WithTangents, k, draw, words) -> None:
        def distances(W):
            carry = self._end(k, draw, words)(W, self.run, start.carry)
            return self.near(carry, k + jnp.uint32(1))

        moved = jax.eval_shape(lambda W: eqx.filter_jvp(distances, (W,), (W,))[1], draw.W)
        if any(each is None for each in moved):
            raise NoDensityError("no noise of the same step drives what is compared")

    def near(self, carry: PyTree, k: jax.Array) -> tuple:
        """How far values are from where they jump, given the carry of the run after step `k`."""
        run = self.run
        while isinstance(run, SmoothedRun):
            run, carry = run.run, carry.carry
        y, _, followed = carry
        return self.differences(run.observer, run.after(k), followed.acc, k, run.time(k), y)

    def stepped(
        self, carried: WithTangents, k: jax.Array, draw: Draw, words: JumpWords | None
    ) -> WithTangents:
        normals = tuple(z.astype(self.dt.dtype) for z in draw.W)
        end = self._end(k, draw, words)
        now = end(draw.W, self.run, carried.carry)
        left = tuple(left_of(every, k + jnp.uint32(1), self.dt.dtype) for every in self.every)

        def compared(W, run, carry):
            return dataclasses.replace(self, run=run).near(end(W, run, carry), k + jnp.uint32(1))

        moves = list(zip(self.changes, carried.changes, strict=True))

        def moved(*W):
            """The derivatives of what is compared, by direction."""
            given = self.run, carried.carry
            slopes = [
                eqx.filter_jvp(lambda run, carry: compared(W, run, carry), given, move)[1] for move in moves
            ]
            return [tuple(jnp.zeros_like(W[0]) if x is None else x for x in each) for each in slopes]

        def shifts(*W):
            return shifts_of(lambda *W: compared(W, self.run, carried.carry), moved, left, W)

        weights: tuple = carried.weights
        against: list[tuple] = [tuple(None for _ in normals)] * len(moves)
        if left:
            u, stuck, gains = shifts_and_gains(shifts, normals)
            weights = tuple(
                weight + jnp.where(lost, jnp.nan, gain)
                for weight, lost, gain in zip(weights, stuck, gains, strict=True)
            )
            against = [tuple(-x for x in each) for each in u]
        return WithTangents(now, self._tangents_after(carried, end, normals, against), weights)

    @staticmethod
    def _end(k, draw, words) -> Callable:
        """What the run carries after step `k`, as a function of its normals, the run and its carry before."""
        return lambda W, run, carry: once(type(run).step, run, carry, k, draw._replace(W=W), words)

    def _tangents_after(
        self, carried: WithTangents, end: Callable, normals: tuple, against: list[tuple]
    ) -> tuple:
        """The derivatives after a step whose normals are shifted by `against`, for each direction."""
        given = normals, self.run, carried.carry
        moves = zip(against, self.changes, carried.changes, strict=True)
        return tuple(eqx.filter_jvp(end, given, move)[1] for move in moves)

    def _tangent_structure(self, carried: WithTangents, k, draw, words) -> tuple:
        """Derivatives as of `stepped`, but for their values: which are None does not depend on the shifts."""
        normals = tuple(z.astype(self.dt.dtype) for z in draw.W)
        end = self._end(k, draw, words)
        shift = normals if self.every else tuple(None for _ in normals)
        return self._tangents_after(carried, end, normals, [shift for _ in self.changes])

    def row(self, carried: WithTangents, k: jax.Array) -> DifferentiatedRows:
        """The rows of the path, or the estimates of its derivative, their derivatives and the weights."""

        def record(run, carry):
            row = once(type(run).row, run, carry, k)
            if not isinstance(run, SmoothedRun):
                return row
            (change,), (weight,) = row.changes, row.weights
            return {name: row.rows[name] * weight + x for name, x in change.items()}

        rows, changes = self.rows_and_tangents(record, carried)
        return DifferentiatedRows(rows, changes, carried.weights)
