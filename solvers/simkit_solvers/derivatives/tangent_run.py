"""One path and its derivatives, as the fixed-grid loop steps through them."""

import abc
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.loops.path_run import AbstractRun, JumpWords, PathRun, once
from simkit_solvers.numerics.delegated import delegated
from simkit_solvers.problems.directions import (
    DifferentiatedRows,
    Direction,
    NoDensityError,
    Release,
    WithTangents,
    fraction,
    interval,
    merged,
    padded,
    released,
)
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.schedule import prepared
from simkit_solvers.random.draws import Draw


def constant_or_changing(changes: tuple, after: Callable[[tuple], tuple], carry: PyTree) -> tuple:
    """Derivatives of what a loop carries with zeros wherever some step makes them other than zero.

    `after` gives the shapes of those after a step, None for zeros.
    """
    while True:
        more = tuple(map(merged, changes, after(changes)))
        if jax.tree.structure(more) == jax.tree.structure(changes):
            return changes
        changes = tuple(padded(change, like, carry) for change, like in zip(changes, more, strict=True))


def tangents_of_run(
    run: PathRun, problem: AbstractODE, directions: tuple[Direction, ...]
) -> tuple[PathRun, ...]:
    """The derivatives of a run of a problem along directions."""
    constant = jax.tree.map(lambda _: None, run)
    return tuple(
        dataclasses.replace(
            constant,
            problem=eqx.filter_jvp(prepared, (problem,), (each.problem,))[1],
            observer=each.observer,
            t0=each.t0,
            dt=each.dt,
        )
        for each in directions
    )


class AbstractTangentRun(AbstractRun):
    """A run and its derivative along each direction, which are carried along.

    `changes` are the derivatives of the run, `starts` those of its initial state.
    """

    run: eqx.AbstractVar[AbstractRun]
    changes: eqx.AbstractVar[tuple[Any, ...]]
    starts: eqx.AbstractVar[tuple[Any, ...]]
    carries_derivatives = True

    noise = delegated("run")
    dt = delegated("run")
    problem = delegated("run")

    def with_problem(self, problem):
        return dataclasses.replace(self, run=self.run.with_problem(problem))

    @abc.abstractmethod
    def stepped(self, carry: WithTangents, k: jax.Array, draw: Draw, words: JumpWords | None) -> WithTangents:
        """The path, its derivatives and the weights after step `k`; None for what the step makes zero."""

    def step(self, carry: WithTangents, k: jax.Array, draw: Draw, words: JumpWords | None) -> WithTangents:
        after = self.stepped(carry, k, draw, words)
        pairs = zip(after.changes, carry.changes, strict=True)
        return after._replace(changes=tuple(padded(change, like, after.carry) for change, like in pairs))

    def initial(self, y0: PyTree) -> tuple[PyTree, tuple[PyTree, ...]]:
        """What the run carries at step 0, and the derivatives of that."""

        def begin(run, y0):
            return run.start(y0)

        moves = zip(self.changes, self.starts, strict=True)
        return begin(self.run, y0), tuple(eqx.filter_jvp(begin, (self.run, y0), move)[1] for move in moves)

    def rows_and_tangents(self, record: Callable, carry: WithTangents) -> tuple[dict, tuple[dict, ...]]:
        """The rows that `record` gives of the run and what it carries, and their derivatives."""
        given = self.run, carry.carry
        rows = record(*given)
        real = jax.tree.map(lambda x: x if eqx.is_inexact_array(x) else None, rows)
        moves = zip(self.changes, carry.changes, strict=True)
        return rows, tuple(padded(eqx.filter_jvp(record, given, move)[1], real, rows) for move in moves)

    def stepping(self):
        changes = tuple(each.stepping() for each in self.changes)
        return dataclasses.replace(self, run=self.run.stepping(), changes=changes, starts=())

    def per_path(self):
        return dataclasses.replace(self, run=self.run.per_path())


class TangentRun(AbstractTangentRun):
    """A run and its derivatives, all of which are pathwise unless they are released.

    `every` says within how many steps each derivative is released, and is empty where none is; `driven` are
    the positions of the variables that noise drives.
    """

    run: PathRun
    changes: tuple[PathRun, ...]
    every: tuple[Any, ...]
    starts: tuple[Any, ...]
    driven: tuple[int, ...] = ()

    @staticmethod
    def in_directions(
        run: PathRun, problem: AbstractODE, directions: tuple[Direction, ...], release: Release | None
    ) -> "TangentRun":
        """The run of a problem with its derivatives along directions."""
        changes = tangents_of_run(run, problem, directions)
        every = () if release is None else (interval(release.every),) * len(directions)
        return TangentRun(run, changes, every, tuple(each.y0 for each in directions))

    def start(self, y0):
        carry, changes = self.initial(y0)
        return WithTangents(carry, changes, tuple(jnp.zeros_like(self.dt) for _ in self.every))

    def prepared(
        self, start: WithTangents, draw: Draw, words: JumpWords | None
    ) -> tuple["TangentRun", WithTangents]:
        """Which variables noise drives, and what is carried of the derivatives.

        That is None where no step makes anything but zero. Raises `NoDensityError` with the reason where
        derivatives cannot be released.
        """
        k = jnp.uint32(0)
        run: TangentRun = self
        if self.every:
            drifts = [self._drifts(start, i, k, draw) for i in range(len(self.changes))]
            every = tuple(1 if drift else each for drift, each in zip(drifts, self.every, strict=True))
            run = dataclasses.replace(self, driven=self._driven(start.carry, k, draw), every=every)

        def after(changes):
            carried = start._replace(changes=changes)
            return jax.eval_shape(lambda: run.stepped(carried, k, draw, words, False).changes)

        changes = constant_or_changing(start.changes, after, start.carry)
        if self.every:
            run._refuse(start, changes, k, words)
        return run, start._replace(changes=changes)

    def _driven(self, carry, k, draw) -> tuple[int, ...]:
        """The positions of the variables that the noise of a step reaches."""
        y, state, _ = carry

        def advance(W):
            return once(PathRun.advanced, self.run, y, state, k, draw._replace(W=W))[0]

        moved = jax.eval_shape(lambda W: eqx.filter_jvp(advance, (W,), (W,))[1], draw.W)
        leaves = jax.tree.leaves(moved, is_leaf=lambda x: x is None)
        driven = tuple(i for i, leaf in enumerate(leaves) if leaf is not None)
        if not driven:
            raise NoDensityError("no normal drives the steps, so there is no density to differentiate")
        if len(driven) > len(draw.W):
            raise NoDensityError(
                f"{len(draw.W)} noises drive {len(driven)} variables at once, so they have no joint density"
            )
        return driven

    def _drifts(self, start: WithTangents, i: int, k, draw) -> bool:
        """Whether direction i moves neither the initial state nor what the normals do."""
        y, state, _ = start.carry
        constant = jax.tree.map(lambda _: None, (y, state))
        if jax.tree.leaves(start.changes[i][0]):
            return False

        def advance_tangent(W):
            def advance(run, y, state):
                return once(PathRun.advanced, run, y, state, k, draw._replace(W=W))

            return eqx.filter_jvp(advance, (self.run, y, state), (self.changes[i], *constant))[1][0]

        moved = jax.eval_shape(lambda W: eqx.filter_jvp(advance_tangent, (W,), (W,))[1], draw.W)
        return not jax.tree.leaves(moved)

    def _refuse(self, start: WithTangents, changes, k, words) -> None:
        """What moves a variable in a way that shifted normals cannot make good."""
        names = type(start.carry[0])._fields
        for change, (dy, *_) in zip(self.changes, changes, strict=True):
            for i, (name, moved) in enumerate(zip(names, dy, strict=True)):
                if moved is not None and i not in self.driven:
                    raise NoDensityError(f"{name} moves with it, and no noise drives {name}")

            def moved_at_end(change=change):
                def finish(run):
                    return run.finished(*start.carry, k, words, run.held(k, start.carry[0]))[0]

                return eqx.filter_jvp(finish, (self.run,), (change,))[1]

            for name, moved in zip(names, jax.eval_shape(moved_at_end), strict=True):
                if moved is not None:
                    raise NoDensityError(f"jumps or events of {name} depend on it, which no noise drives")

    def stepped(
        self, carried: WithTangents, k: jax.Array, draw: Draw, words: JumpWords | None, weighed: bool = True
    ) -> WithTangents:
        """One step of the path and its tangents; `weighed` is whether weights are wanted."""
        y, state, acc = carried.carry

        def drive(run, y, acc):
            return run.driven(y, acc, k, draw)

        def advance(W, run=self.run, y=y, state=state):
            return once(PathRun.advanced, run, y, state, k, draw._replace(W=W))

        moved, weights = [], []
        for i, (change, (dy, ds, dacc)) in enumerate(zip(self.changes, carried.changes, strict=True)):

            def advance_tangent(W, move=(change, dy, ds)):
                return eqx.filter_jvp(functools.partial(advance, W), (self.run, y, state), move)[1]

            new, new_state = advance_tangent(draw.W)
            if self.every:
                part = fraction(self.every[i], k, self.run.dt)
                normals = tuple(z.astype(self.run.dt.dtype) for z in draw.W)
                new, more = released(
                    lambda W, f=advance: f(W)[0],
                    lambda W, f=advance_tangent: f(W)[0],
                    normals,
                    part,
                    self.driven,
                    weighed,
                )
                weights.append(carried.weights[i] + more)
            dacc = eqx.filter_jvp(drive, (self.run, y, acc), (change, dy, dacc))[1]
            moved.append((new, new_state, dacc))
        acc = drive(self.run, y, acc)
        y, state = advance(draw.W)

        held = self.run.held(k, carried.carry[0])

        def finish(run, y, state, acc):
            return run.finished(y, state, acc, k, words, held)

        now = self.run, y, state, acc
        changes = tuple(
            eqx.filter_jvp(finish, now, (change, *move))[1]
            for change, move in zip(self.changes, moved, strict=True)
        )
        return WithTangents(finish(*now), changes, tuple(weights))

    def row(self, carried, k):
        rows, changes = self.rows_and_tangents(lambda run, carry: once(type(run).row, run, carry, k), carried)
        weights = carried.weights or tuple(jnp.zeros_like(self.run.dt) for _ in changes)
        return DifferentiatedRows(rows, changes, weights)
