r"""Paths of tau-leaping with leaps so many times as long, which fire together as often as they can.

Each path takes its own leaps, with its own critical reactions, refusals and exact events; one whose leaps are
as long as the method says has the law of `TauLeaping`. Events of reaction j have marks between 0 and the
largest of the propensities $a_j$ with which the present leaps began; a path fires at the marks below its own.
So two paths fire together at the rate $\min(a_j, b_j)$, and one alone at the rest. The times at which any
leap begins or ends cut a joint sequence of times, and what a reaction fires in a leap is the sum over its
pieces, a Poisson variate of the leap's own mean. A path whose leap is refused goes back to its start and is
driven alone until it has caught up.

The mean difference of the ends then has a small variance, and says how far leaps move what is observed. So
has that of the ends times their scores, which says how far leaps move a derivative.
Reference: Anderson & Higham (2012), Multilevel Monte Carlo for continuous time Markov chains, with
applications in biochemical kinetics, doi:10.1137/110840546.
"""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.loops.jump_scores import has_likelihood, score_gained
from simkit_solvers.loops.jump_stops import after_event, over
from simkit_solvers.loops.jump_watch import Watched, before_its_end, first_seen, shown
from simkit_solvers.loops.jumps import observed
from simkit_solvers.methods.jump.direct_method import running_sums
from simkit_solvers.methods.jump.exact_events import are_propensities, waiting_time
from simkit_solvers.methods.jump.jump_method import (
    BAD_COUNT,
    BAD_EVENT,
    BAD_PROPENSITY,
    LARGEST_COUNT,
    NO_RATIO,
    RUNNING,
    TOO_MANY_STEPS,
    JumpNoise,
    Jumps,
    check_rates,
)
from simkit_solvers.methods.jump.tau_leaping import MOST_EVENTS, TauLeaping
from simkit_solvers.numerics.scopes import STEPS
from simkit_solvers.numerics.tangents import along, as_tangent
from simkit_solvers.problems.directions import Direction
from simkit_solvers.problems.observe import AbstractObserver, with_stops
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import ROW, just_after, schedule_of, stops_of
from simkit_solvers.random.generator import Stream, Words, block, stream_key
from simkit_solvers.random.variates import below_one, exponential, poisson


class CoupledLeaps(NamedTuple):
    """What the observer keeps of the paths at `t1`, by name `(paths,)`; NaN where one failed.

    `status` says why. `steps` counts the pieces of the joint sequence of times. `scores` `(paths,)` are those
    in each direction, and `explicit` the derivatives of the ends with the counts held fixed.
    """

    ends: dict[str, Any]
    steps: jax.Array
    status: jax.Array
    scores: tuple[jax.Array, ...] = ()
    explicit: tuple[dict[str, Any], ...] = ()


class _Path(NamedTuple):
    """One of the paths.

    It has the counts `y` since `begun`, where its leap starts, and is driven up to `reached`; `fired` counts
    the events of each reaction in between. `refused` counts the leaps refused in a row, `seen` are the counts
    at the last stop inside the leap. `watched` is empty unless an observer has to see the path. `scores` are
    those of all that was drawn.
    """

    y: Any
    begun: jax.Array
    reached: jax.Array
    fired: jax.Array
    refused: jax.Array
    seen: Any
    watched: Watched | tuple
    scores: tuple


class _Joint(NamedTuple):
    """What the loop carries; the leaves of `paths` have a leading axis of paths."""

    paths: _Path
    steps: jax.Array
    status: jax.Array


class _Piece(NamedTuple):
    """What one path needs of a piece of the joint sequence of times, which ends at `time`.

    In it so much `fired`, of which `last` at its end. It ends the path's leap where it is `done`; `single`
    leaps are never refused. What is `beyond` the stop happens anew from there.
    """

    time: jax.Array
    fired: jax.Array
    last: jax.Array
    done: jax.Array
    single: jax.Array
    at_stop: jax.Array
    beyond: jax.Array


def coupled_leaps(
    network: AbstractReactionNetwork,
    method: TauLeaping,
    factors: jax.Array,
    y0,
    grid: JumpGrid,
    key: Words,
    path,
    observer: AbstractObserver,
    directions: tuple[Direction, ...] = (),
) -> CoupledLeaps:
    """Paths from the counts `y0` to the end of `grid`, with leaps `factors` `(paths,)` times as long.

    What is an exact event by `method` is one in all of them, so that what leaps leave goes with the factor.

    The noise is a function of key and path, and none that `integrate_jumps` reads. Clock and propensities are
    in float64, whatever the precision of the grid. Curves and events of a scheduled network act as there. No
    more pieces are taken than all paths may take steps. Scores are as of `girsanov`, with lengths of leaps
    held. Raises `ValueError` as `integrate_jumps` does.
    """
    check_rates(network)
    network, observer, t0, span = jax.tree.map(
        lambda x: jnp.asarray(x, jnp.float64) if isinstance(x, float) or eqx.is_inexact_array(x) else x,
        (network, observer, grid.t0, grid.span),
    )
    start, span = jnp.asarray(t0, jnp.float64), jnp.asarray(span, jnp.float64)
    factors = jnp.asarray(factors, jnp.float64)
    events = stream_key(key, path, Stream.COUPLED_LEAPS)
    watch = None if observer.stops is None else observer
    tangents = tuple(as_tangent(network, each.problem, span.dtype) for each in directions)
    jumps = Jumps(network, JumpNoise(events, events), start, span, tangents, watch, network)
    y0 = jax.tree.map(lambda x: jnp.asarray(x).astype(jnp.int32), y0)
    zero, running = jnp.zeros_like(span), jnp.int32(RUNNING)
    everywhere = jax.tree.map(lambda x: jnp.broadcast_to(x, factors.shape), y0)
    watched = ()
    if watch is not None:
        watched = jax.vmap(lambda y: Watched(first_seen(jumps, zero, y), zero))(everywhere)
    scores = tuple(jnp.zeros_like(factors) for _ in directions)
    joint = _Joint(_begun(jumps, everywhere, zero, watched, scores), jnp.uint32(0), running)
    most = min(len(factors) * grid.max_steps, 2**32 - 1)

    def stop(carry, where):
        joint, last = carry
        time, which = where
        during = over(jumps, last, time)
        joint = jax.lax.while_loop(
            lambda joint: jnp.any(joint.paths.begun < time) & (joint.status == RUNNING),
            lambda joint: _driven(during, method, factors, joint, time, most),
            joint,
        )
        counts, sound = jax.vmap(lambda y: after_event(jumps, time, which, y))(joint.paths.seen)
        status = _first(joint.status, (~jnp.all(sound), BAD_EVENT))
        watched = _watched_at_stop(jumps, during, joint.paths, counts, time)
        begun = _begun(jumps, counts, time, watched, joint.paths.scores)
        return (_Joint(begun, joint.steps, status), time), None

    # Two times or more: the compiler takes a loop of one apart and mixes it with what is around.
    times, _ = with_stops(observer, jnp.stack([zero, span]))
    schedule = schedule_of(network)
    stops = (times, jnp.full(times.shape, ROW)) if schedule is None else stops_of(schedule, start, times)[:2]
    (joint, _), _ = jax.lax.scan(stop, (joint, zero), stops)

    def end(watches, y, watched):
        counts = jax.tree.map(lambda a, b: jnp.stack([a, b]), y0, y)
        acc = jax.tree.map(lambda x: jnp.stack([x, x]), watched.acc) if watch is not None else None
        rows = observed(*watches, JumpGrid(start, start + span, 1, grid.max_steps), counts, acc)
        return jax.tree.map(lambda x: jnp.where(joint.status == RUNNING, x[-1], jnp.nan), rows)

    def ends(watches):
        return jax.vmap(functools.partial(end, watches))(joint.paths.y, joint.paths.watched)

    watches, explicit = (network, observer), []
    for each, tangent in zip(directions, tangents, strict=True):
        both = tangent, as_tangent(observer, each.observer, span.dtype)
        explicit.append(along(ends, watches, both)[1])
    return CoupledLeaps(ends(watches), joint.steps, joint.status, joint.paths.scores, tuple(explicit))


def _watched_at_stop(jumps: Jumps, during: Jumps, paths: _Path, counts, time) -> Watched | tuple:
    """What the observer has seen of paths at a stop, which leaves the counts as they are given."""
    if jumps.observer is None:
        return ()
    problem = just_after(jumps.network, jumps.t0 + time, jumps.t0, jumps.span)

    def seen(watched, y, after):
        changed, begun = shown(during, watched, time, y, after, problem), first_seen(jumps, time, after)
        return changed._replace(acc=_where(time > 0, changed.acc, begun))

    return jax.vmap(seen)(paths.watched, paths.seen, counts)


def _begun(jumps: Jumps, y, time, watched, scores) -> _Path:
    """Paths that go on from the counts `y` at a time."""
    size = jax.tree.leaves(y)[0].shape
    times, none = jnp.broadcast_to(time, size), jnp.zeros(size, jnp.int32)
    fired = jnp.zeros((*size, len(jumps.network.reactions)), jnp.int32)
    return _Path(y, times, times, fired, none, y, watched, scores)


@jax.named_scope(STEPS)
def _driven(jumps: Jumps, method: TauLeaping, factors, joint: _Joint, stop, most: int) -> _Joint:
    """After the next piece of the joint sequence of times, of the paths that are behind.

    A path that has come to `stop` goes on to the end of its leap, which is refused or accepted as a whole.
    """
    paths = joint.paths
    plans = jax.vmap(functools.partial(method.planned, jumps))(paths.y, paths.refused)
    a, critical = jnp.stack(plans.propensities, 1), jnp.stack(plans.critical, 1)
    ends = paths.begun + jnp.where(plans.single, jnp.inf, factors * plans.length)
    clocks = jnp.where(paths.begun < stop, paths.reached, jnp.inf)
    now = jnp.min(clocks)
    active = clocks <= now
    until = jnp.min(jnp.where(active, ends, clocks))
    until = jnp.where(now < stop, jnp.minimum(until, stop), until)

    # Layers of marks, each between two propensities that are neighbours; a path fires in those below its own.
    a = jnp.where(active[:, None], a, 0.0)
    tops = jnp.stack(_in_order(list(a)))
    rates = tops - jnp.concatenate([jnp.zeros_like(tops[:1]), tops[:-1]])
    fires_in = a[:, None] >= tops
    by_itself = plans.single[:, None] | critical
    timed = jnp.any(fires_in & by_itself[:, None], 0)

    shape, largest = rates.shape, MOST_EVENTS[8]
    sums = running_sums(list(jnp.where(timed, rates, 0.0).reshape(-1)))
    words = block(jumps.noise.events, joint.steps, jnp.uint32(0))
    event = now + waiting_time(exponential(words.a).astype(now.dtype), sums[-1])
    time = jnp.minimum(event, until)
    level, below = below_one(words.b, now.dtype) * sums[-1], jnp.stack(sums)
    before = jnp.concatenate([jnp.zeros_like(below[:1]), below[:-1]])
    which = ((event <= until) & (before <= level) & (level < below)).reshape(shape)

    means = jnp.where(timed, 0.0, rates * (time - now))
    count = jnp.arange(means.size, dtype=jnp.uint32) + jnp.uint32(1)
    keys = jax.lax.optimization_barrier(jax.vmap(lambda j: block(jumps.noise.events, joint.steps, j))(count))
    leapt = jax.vmap(poisson)(keys, jnp.minimum(means, largest).reshape(-1)).reshape(shape)
    layers = leapt + which.astype(jnp.int32)

    cut = jnp.any(which & fires_in & by_itself[:, None], (1, 2))
    done = (time >= ends) | cut | (plans.single & (time >= stop))
    fired = jnp.sum(jnp.where(fires_in, layers, 0), 1, dtype=jnp.int32)
    everywhere = jnp.broadcast_to(time, done.shape)
    last = jnp.sum(jnp.where(fires_in, which, False), 1, dtype=jnp.int32)
    at_stop, beyond = everywhere == stop, everywhere > stop
    piece = _Piece(everywhere, fired, last, done, plans.single, at_stop, beyond)
    # What is refused in the end was drawn all the same, and what comes next depends on it.
    gained = jax.vmap(lambda y, k: score_gained(jumps, y, tuple(k), time - now))(paths.y, fired)
    scored = paths._replace(scores=jax.tree.map(jnp.add, paths.scores, gained))
    after, small = jax.vmap(functools.partial(_after, jumps))(scored, piece)
    sure = jnp.bool_(True)
    if jumps.directions:
        sure = jax.vmap(functools.partial(has_likelihood, jumps))(paths.y)
    status = _first(
        joint.status,
        (~are_propensities(list(a.reshape(-1))), BAD_PROPENSITY),
        (jnp.any(active & ~sure), NO_RATIO),
        (jnp.any(active & ~small) | jnp.any(means >= largest), BAD_COUNT),
        (joint.steps + jnp.uint32(1) >= jnp.uint32(most), TOO_MANY_STEPS),
    )
    kept = jax.vmap(_where)(active, after, paths)
    return _Joint(kept, joint.steps + jnp.uint32(1), status)


def _after(jumps: Jumps, path: _Path, piece: _Piece) -> tuple[_Path, jax.Array]:
    """A path after a piece, and whether no count has become too large.

    Where its leap is done it is accepted, or refused and to be drawn anew. What happened up to a stop inside
    of a leap may come before what makes room for it, and is then not seen.
    """
    dtype, fired = piece.time.dtype, path.fired + piece.fired
    size = jumps.network.change([k.astype(dtype) for k in fired], path.y)
    real = jax.tree.map(lambda x, d: x.astype(dtype) + d, path.y, size)
    enough, small = jnp.bool_(True), jnp.bool_(True)
    for x in jax.tree.leaves(real):
        enough, small = enough & (x >= 0), small & (x <= LARGEST_COUNT)
    there = jax.tree.map(lambda x: jnp.clip(x, 0, LARGEST_COUNT).astype(jnp.int32), real)
    accepted = piece.done & (enough | piece.single)
    refused = piece.done & ~accepted
    watched = path.watched
    if isinstance(watched, Watched):
        before = before_its_end(jumps, path.y, [*(fired - piece.last)])
        seen = shown(jumps, watched, piece.time, before, there)
        watched = _where(accepted & ~piece.beyond, seen, watched)
    after = _Path(
        _where(accepted, there, path.y),
        jnp.where(accepted, piece.time, path.begun),
        jnp.where(refused, path.begun, piece.time),
        jnp.where(piece.done, 0, fired),
        jnp.where(piece.done, jnp.where(refused, path.refused + 1, 0), path.refused),
        _where(piece.at_stop, _where(enough, there, path.y), path.seen),
        watched,
        path.scores,
    )
    return after, small | ~piece.done


def _in_order(rows: list) -> list:
    """Arrays sorted elementwise: a few comparisons, where a sort is a call for each lane."""
    for i in range(len(rows)):
        for j in range(i + 1, len(rows)):
            rows[i], rows[j] = jnp.minimum(rows[i], rows[j]), jnp.maximum(rows[i], rows[j])
    return rows


def _first(status, *reasons) -> jax.Array:
    """The status, or the first reason that holds where there was none."""
    for holds, reason in reasons:
        status = jnp.where((status == RUNNING) & holds, jnp.int32(reason), status)
    return status


def _where(condition, one, other):
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), one, other)
