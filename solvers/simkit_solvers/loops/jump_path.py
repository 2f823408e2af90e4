"""One path of the jump process as its loop steps through it, a proposal at a time."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from simkit_solvers.loops.jump_events import after_triggered
from simkit_solvers.loops.jump_scores import has_likelihood, score_gained
from simkit_solvers.loops.jump_watch import Watched, before_its_end, shown
from simkit_solvers.methods.jump.jump_method import (
    BAD_COUNT,
    BAD_EVENT,
    NO_RATIO,
    RUNNING,
    TOO_MANY_STEPS,
    WAITING,
    AbstractJumpMethod,
    Jumps,
    Leap,
    Proposal,
)
from simkit_solvers.numerics.scopes import STEPS
from simkit_solvers.numerics.tree_where import tree_where
from simkit_solvers.problems.calendar import added


class JumpPath(NamedTuple):
    """What the loop of a path carries.

    `drawn` belongs to the event or leap that comes next. `lost` is the rounding error of `elapsed`, and empty
    in float64; `interruptions` counts the stops at which a proposal was given up, and is empty where there
    are none. `scores` has one number for each direction; `ahead` is what the method keeps of the last
    proposal; `watched` is empty unless an observer has to see the path. `happened` says how often each event
    has happened that has a condition.
    """

    drawn: Any
    y: Any
    elapsed: jax.Array
    lost: tuple
    state: Any
    steps: jax.Array
    status: jax.Array
    interruptions: tuple = ()
    scores: tuple = ()
    ahead: Any = ()
    watched: Watched | tuple = ()
    happened: tuple[jax.Array, ...] = ()

    def index(self, method: AbstractJumpMethod) -> jax.Array:
        """How many proposals it has seen."""
        proposals = self.steps + method.rejected(self.state)
        for count in self.interruptions:
            proposals = proposals + count
        return proposals.astype(jnp.uint32)

    def with_draw(self, jumps: Jumps, method: AbstractJumpMethod) -> "JumpPath":
        """The path with the random numbers of what comes next."""
        return self._replace(
            drawn=method.draw(jumps.at(self.elapsed), self.y, self.state, self.index(method))
        )

    def scores_at(self, jumps: Jumps, time: jax.Array) -> tuple[jax.Array, ...]:
        """The scores at a saved `time`, which lies before the end of what is proposed.

        With an exact method they gain the time in which nothing happened. A leap that is sampled inside
        counts as a whole: whether it was refused depended on all of it.
        """
        if not jumps.directions:
            return ()
        fired, tau = tuple(jnp.int32(0) for _ in jumps.network.reactions), time - self.elapsed
        if isinstance(self.ahead, Leap):
            inside = (self.ahead.tau < jnp.inf) & (time > self.elapsed)
            fired = tuple(jnp.where(inside, self.ahead.fired, 0))
            tau = jnp.where(inside, self.ahead.tau, 0.0)
        started = time >= self.elapsed
        gained = score_gained(jumps, self.y, fired, tau)
        return tuple(jnp.where(started, s + g, s) for s, g in zip(self.scores, gained, strict=True))

    def accumulators(self) -> Any:
        """The accumulators of an observer that has to see the path."""
        return self.watched.acc if isinstance(self.watched, Watched) else None


@jax.named_scope(STEPS)
def after_proposal(
    jumps: Jumps, method: AbstractJumpMethod, path: JumpPath, time: jax.Array, max_steps: int
) -> JumpPath:
    """One proposal: accepted, refused, or left for later where it ends beyond `time`."""
    ahead = method.propose(jumps, path.y, path.state, path.drawn)
    step = ahead.tau + path.lost[0] if path.lost else ahead.tau
    end = path.elapsed + step
    reacted = jax.tree.map(jnp.add, path.y, ahead.change)
    y, event_sound, happened = after_triggered(jumps, end, path.y, reacted)
    full = path.index(method) >= jnp.uint32(max_steps)
    status = _status(jumps, path, ahead, full, end > time)
    spoilt = (status == RUNNING) & ahead.accepted & ~event_sound
    status = jnp.where(spoilt, jnp.int32(BAD_EVENT), status)
    goes = status == RUNNING
    accepted = goes & ahead.accepted
    counted = accepted & ahead.counted
    # A leap that is refused was drawn all the same, and what is drawn next depends on it.
    gained = score_gained(jumps, path.y, ahead.fired, ahead.tau)
    watched = path.watched
    if isinstance(watched, Watched):
        before = before_its_end(jumps, path.y, ahead.inside) if ahead.inside else path.y
        seen = shown(jumps, watched, end, before, reacted)
        if y is not reacted:
            seen = shown(jumps, seen, end, reacted, y)
        watched = tree_where(counted, seen, watched)
    after = path._replace(
        y=tree_where(accepted, y, path.y),
        elapsed=jnp.where(accepted | spoilt, end, path.elapsed),
        lost=tuple(jnp.where(accepted, step - (end - path.elapsed), lost) for lost in path.lost),
        state=tree_where(goes, ahead.state, path.state),
        steps=path.steps + counted.astype(jnp.int32),
        status=status,
        scores=tuple(jnp.where(goes, s + g, s) for s, g in zip(path.scores, gained, strict=True)),
        ahead=method.keep(jumps, ahead),
        watched=watched,
        happened=added(path.happened, tuple(jnp.where(accepted | spoilt, n, 0) for n in happened)),
    )
    return after._replace(drawn=tree_where(goes, after.with_draw(jumps, method).drawn, path.drawn))


def _status(jumps: Jumps, path: JumpPath, ahead: Proposal, full: jax.Array, late: jax.Array) -> jax.Array:
    """How the path goes on after a proposal; the last reason counts."""
    status = jnp.where(ahead.accepted & ~ahead.sound, jnp.int32(BAD_COUNT), jnp.int32(RUNNING))
    status = jnp.where(full, jnp.int32(TOO_MANY_STEPS), status)
    status = jnp.where(ahead.accepted & late, jnp.int32(WAITING), status)
    status = jnp.where(ahead.status != RUNNING, ahead.status, status)
    if not jumps.directions:
        return status
    sure = (status > WAITING) | has_likelihood(jumps, path.y)
    return jnp.where(sure, status, jnp.int32(NO_RATIO))
