r"""Tau-leaping paths with leaps of different lengths, which fire together as often as possible.

Each path takes its own leaps, with its own critical reactions, refusals and exact events; one with leaps of
the length that the method chooses has the distribution of `TauLeaping`. Events of reaction j have marks
between 0 and the largest of the propensities $a_j$ with which the present leaps began; a path fires at the
marks below its own. So two paths fire together at the rate $\min(a_j, b_j)$, and one alone at the rest. The
times at which any leap begins or ends cut a joint sequence of times, and what a reaction fires in a leap is
the sum over its pieces, a Poisson variate of the leap's own mean. A path whose leap is refused goes back to
its start and is driven alone until it has caught up.

The mean difference of the ends then has a small variance, and measures the bias that leaps cause in what is
observed. The same holds for the ends times their scores, which measures the bias of a derivative.
Reference: Anderson & Higham (2012), Multilevel Monte Carlo for continuous time Markov chains, with
applications in biochemical kinetics, doi:10.1137/110840546.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, UInt32

from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.loops.joint_events import JointEvents, Layers, joint_events
from simkit_solvers.loops.jump_scores import has_likelihood, score_gained
from simkit_solvers.loops.jump_stops import after_event, over
from simkit_solvers.loops.jump_watch import Watched, before_its_end, first_seen, shown
from simkit_solvers.loops.jumps import observed
from simkit_solvers.methods.jump.exact_events import are_propensities
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
from simkit_solvers.methods.jump.tau_leaping import TauLeaping, counts_after
from simkit_solvers.numerics.scopes import STEPS
from simkit_solvers.numerics.tangents import as_tangent, in_precision, jvp
from simkit_solvers.numerics.tree_where import tree_where
from simkit_solvers.problems.directions import Direction
from simkit_solvers.problems.observe import AbstractObserver, with_stops
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import just_after, schedule_of
from simkit_solvers.problems.stops import ROW, stops_of
from simkit_solvers.random.generator import Stream, Words, stream_key


class CoupledLeaps(NamedTuple):
    """What the observer keeps of the paths at `t1`, by name `(paths,)`; NaN where one failed.

    `status` says why. `steps` counts the pieces of the joint sequence of times, `leaps` `(paths,)` the leaps
    and exact events of each path, those refused among them. `scores` `(paths,)` are those in each direction,
    and `explicit` the derivatives of the ends with the counts held fixed.
    """

    ends: dict[str, Any]
    steps: jax.Array
    status: jax.Array
    leaps: jax.Array
    scores: tuple[jax.Array, ...] = ()
    explicit: tuple[dict[str, Any], ...] = ()


class _Path(NamedTuple):
    """One of the paths.

    It has the counts `y` at the time `since`, where its leap starts, and is driven up to `reached`; `fired`
    counts the events of each reaction in between. `refused` counts the leaps refused in a row, `seen` are the
    counts at the last stop inside the leap. `watched` is empty unless an observer has to see the path.
    `scores` are those of all that was drawn, and `leaps` counts leaps and exact events, refused ones too.
    """

    y: Any
    since: jax.Array
    reached: jax.Array
    fired: jax.Array
    refused: jax.Array
    seen: Any
    watched: Watched | tuple
    scores: tuple
    leaps: jax.Array


class _Joint(NamedTuple):
    """What the loop carries; the leaves of `paths` have a leading axis of paths."""

    paths: _Path
    steps: jax.Array
    status: jax.Array


class _Piece(NamedTuple):
    """A piece of the joint sequence of times, which ends at `time`, for one path.

    `fired` counts its events, `last` those at its end. The path's leap ends with it where it is `done`;
    `single` leaps are never refused. What is `beyond` the stop is drawn again from there.
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
    factors: Float[Array, " paths"],
    y0: PyTree,
    grid: JumpGrid,
    key: Words,
    path: UInt32[Array, ""] | int,
    observer: AbstractObserver,
    directions: tuple[Direction, ...] = (),
) -> CoupledLeaps:
    """Paths from the counts `y0` to the end of `grid`, with leaps `factors` `(paths,)` times as long.

    An exact event of `method` is exact in all of them, so that the error of leaps grows with the factor.

    The noise is a function of key and path, and none that `integrate_jumps` reads. Clock and propensities are
    in float64, whatever the precision of the grid. Curves and events of a scheduled network act as there.
    There are no more pieces than the steps that all paths may take. Scores are as of `girsanov`, with lengths
    of leaps held. Raises `ValueError` as `integrate_jumps` does.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from simkit_physics import ImmigrationDeath
    >>> from simkit_solvers import JumpGrid, States, TauLeaping, coupled_leaps, seed_key
    >>> with jax.enable_x64(True):
    ...     model, start = ImmigrationDeath(alpha=1000.0, mu=0.5), ImmigrationDeath.State(X=1000)
    ...     grid, factors = JumpGrid(0.0, 1.0), jnp.array([1.0, 2.0])
    ...     run = coupled_leaps(model, TauLeaping(), factors, start, grid, seed_key(1), 0, States())
    >>> run.ends["X"].shape
    (2,)
    """
    check_rates(network, type(method))
    network, observer, t0, span = in_precision((network, observer, grid.t0, grid.span), jnp.float64)
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
    none = jnp.zeros(factors.shape, jnp.uint32)
    joint = _Joint(_initial(jumps, everywhere, zero, watched, scores, none), jnp.uint32(0), running)
    most = min(len(factors) * grid.max_steps, 2**32 - 1)

    through = functools.partial(_through_stop, jumps, method, factors, most)
    # Two times or more: the compiler inlines a loop of one and mixes it with what is around.
    times, _ = with_stops(observer, jnp.stack([zero, span]))
    schedule = schedule_of(network)
    stops = (times, jnp.full(times.shape, ROW)) if schedule is None else stops_of(schedule, start, times)[:2]
    (joint, _), _ = jax.lax.scan(through, (joint, zero), stops)
    last = JumpGrid(start, start + span, 1, grid.max_steps)

    def ends(watches):
        return jax.vmap(functools.partial(_end, watches, y0, last, joint.status))(joint.paths)

    watches, explicit = (network, observer), []
    for each, tangent in zip(directions, tangents, strict=True):
        both = tangent, as_tangent(observer, each.observer, span.dtype)
        explicit.append(jvp(ends, watches, both)[1])
    paths = joint.paths
    return CoupledLeaps(ends(watches), joint.steps, joint.status, paths.leaps, paths.scores, tuple(explicit))


def _through_stop(jumps: Jumps, method: TauLeaping, factors, most: int, carry: tuple, stop: tuple) -> tuple:
    """Advances all paths to a stop and through what happens there; also carries the time of the last stop."""
    joint, last = carry
    time, which = stop
    during = over(jumps, last, time)
    joint = jax.lax.while_loop(
        lambda joint: jnp.any(joint.paths.since < time) & (joint.status == RUNNING),
        lambda joint: _driven(during, method, factors, joint, time, most),
        joint,
    )
    counts, sound, _ = jax.vmap(lambda y: after_event(jumps, during, time, which, y))(joint.paths.seen)
    status = _first(joint.status, (~jnp.all(sound), BAD_EVENT))
    watched = _watched_at_stop(jumps, during, joint.paths, counts, time)
    initial = _initial(jumps, counts, time, watched, joint.paths.scores, joint.paths.leaps)
    return (_Joint(initial, joint.steps, status), time), None


def _end(watches: tuple, y0: PyTree, grid: JumpGrid, status: jax.Array, path: _Path) -> dict[str, Any]:
    """What the observer keeps at the end of a path; `watches` are the network and the observer."""
    counts = jax.tree.map(lambda a, b: jnp.stack([a, b]), y0, path.y)
    acc = None
    if isinstance(path.watched, Watched):
        acc = jax.tree.map(lambda x: jnp.stack([x, x]), path.watched.acc)
    rows = observed(*watches, grid, counts, acc)
    return jax.tree.map(lambda x: jnp.where(status == RUNNING, x[-1], jnp.nan), rows)


def _watched_at_stop(jumps: Jumps, during: Jumps, paths: _Path, counts, time) -> Watched | tuple:
    """What the observer has seen of paths after a stop that leaves them with `counts`."""
    if jumps.observer is None:
        return ()
    problem = just_after(jumps.network, jumps.t0 + time, jumps.t0, jumps.span)

    def seen(watched, y, after):
        changed, initial = shown(during, watched, time, y, after, problem), first_seen(jumps, time, after)
        return changed._replace(acc=tree_where(time > 0, changed.acc, initial))

    return jax.vmap(seen)(paths.watched, paths.seen, counts)


def _initial(jumps: Jumps, y, time, watched, scores, leaps) -> _Path:
    """Paths that start from the counts `y` at a time."""
    size = jax.tree.leaves(y)[0].shape
    times, none = jnp.broadcast_to(time, size), jnp.zeros(size, jnp.int32)
    fired = jnp.zeros((*size, len(jumps.network.reactions)), jnp.int32)
    return _Path(y, times, times, fired, none, y, watched, scores, leaps)


@jax.named_scope(STEPS)
def _driven(jumps: Jumps, method: TauLeaping, factors, joint: _Joint, stop, most: int) -> _Joint:
    """Advances the paths that are behind by the next piece of the joint sequence of times.

    A path that has reached `stop` goes on to the end of its leap, which is refused or accepted as a whole.
    """
    paths = joint.paths
    plans = jax.vmap(functools.partial(method.planned, jumps))(paths.y, paths.refused)
    a, critical = jnp.stack(plans.propensities, 1), jnp.stack(plans.critical, 1)
    ends = paths.since + jnp.where(plans.single, jnp.inf, factors * plans.length)
    clocks = jnp.where(paths.since < stop, paths.reached, jnp.inf)
    now = jnp.min(clocks)
    active = clocks <= now
    until = jnp.min(jnp.where(active, ends, clocks))
    until = jnp.where(now < stop, jnp.minimum(until, stop), until)
    a = jnp.where(active[:, None], a, 0.0)
    layers = Layers.of(a, plans.single[:, None] | critical)
    events = joint_events(jumps, layers, joint.steps, now, until)
    piece = _piece(layers, events, ends, plans.single, stop)
    # A leap that is refused was drawn all the same, and what comes next depends on it.
    gained = jax.vmap(lambda y, k: score_gained(jumps, y, tuple(k), events.time - now))(paths.y, piece.fired)
    scored = paths._replace(scores=jax.tree.map(jnp.add, paths.scores, gained))
    after, small = jax.vmap(functools.partial(_after, jumps))(scored, piece)
    sure = jnp.bool_(True)
    if jumps.directions:
        sure = jax.vmap(functools.partial(has_likelihood, jumps))(paths.y)
    status = _first(
        joint.status,
        (~are_propensities(list(a.reshape(-1))), BAD_PROPENSITY),
        (jnp.any(active & ~sure), NO_RATIO),
        (jnp.any(active & ~small) | ~events.few, BAD_COUNT),
        (joint.steps + jnp.uint32(1) >= jnp.uint32(most), TOO_MANY_STEPS),
    )
    return _Joint(jax.vmap(tree_where)(active, after, paths), joint.steps + jnp.uint32(1), status)


def _piece(
    layers: Layers, events: JointEvents, ends: jax.Array, single: jax.Array, stop: jax.Array
) -> _Piece:
    """The piece for each path, whose leap ends at `ends`; `single` leaps are never refused."""
    time, fires_in = events.time, layers.fires_in
    cut = jnp.any(events.single & fires_in & layers.by_itself[:, None], (1, 2))
    done = (time >= ends) | cut | (single & (time >= stop))
    fired = jnp.sum(jnp.where(fires_in, events.count, 0), 1, dtype=jnp.int32)
    last = jnp.sum(jnp.where(fires_in, events.single, False), 1, dtype=jnp.int32)
    everywhere = jnp.broadcast_to(time, done.shape)
    return _Piece(everywhere, fired, last, done, single, everywhere == stop, everywhere > stop)


def _after(jumps: Jumps, path: _Path, piece: _Piece) -> tuple[_Path, jax.Array]:
    """A path after a piece, and whether no count has become too large.

    Where its leap is done it is accepted, or refused and to be drawn again. What happened up to a stop inside
    of a leap may come before what makes room for it, and is then not seen.
    """
    dtype, fired = piece.time.dtype, path.fired + piece.fired
    real, enough, small = counts_after(jumps.network, path.y, fired, dtype, jnp.bool_(True))
    there = jax.tree.map(lambda x: jnp.clip(x, 0, LARGEST_COUNT).astype(jnp.int32), real)
    accepted = piece.done & (enough | piece.single)
    refused = piece.done & ~accepted
    watched = path.watched
    if isinstance(watched, Watched):
        before = before_its_end(jumps, path.y, [*(fired - piece.last)])
        seen = shown(jumps, watched, piece.time, before, there)
        watched = tree_where(accepted & ~piece.beyond, seen, watched)
    after = _Path(
        tree_where(accepted, there, path.y),
        jnp.where(accepted, piece.time, path.since),
        jnp.where(refused, path.since, piece.time),
        jnp.where(piece.done, 0, fired),
        jnp.where(piece.done, jnp.where(refused, path.refused + 1, 0), path.refused),
        tree_where(piece.at_stop, tree_where(enough, there, path.y), path.seen),
        watched,
        path.scores,
        path.leaps + piece.done.astype(jnp.uint32),
    )
    return after, small | ~piece.done


def _first(status, *reasons) -> jax.Array:
    """The status, or the first reason that holds where there was none."""
    for holds, reason in reasons:
        status = jnp.where((status == RUNNING) & holds, jnp.int32(reason), status)
    return status
