"""Tau-leaping with leaps limited by the changes that they make."""

from collections.abc import Iterable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import DTypeLike
from jaxtyping import Array, Int32, PyTree

from simkit_solvers.methods.jump.direct_method import running_sums
from simkit_solvers.methods.jump.exact_events import are_propensities, waiting_time
from simkit_solvers.methods.jump.jump_method import (
    BAD_COUNT,
    BAD_PROPENSITY,
    LARGEST_COUNT,
    RUNNING,
    AbstractJumpMethod,
    Jumps,
    Leap,
    Proposal,
    Underway,
    sound,
)
from simkit_solvers.methods.solver_info import SolverInfo
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.random.generator import Words, block, threefry2x32
from simkit_solvers.random.variates import below_one, binomial, exponential, poisson

WATCHED_LEAPS = 100  # of a run at least, where something is watched along its paths, at the ends of leaps
FEW_EVENTS = 10  # events: a leap over fewer on average is one exact event instead
MOST_EVENTS = {4: 4e6, 8: 1e9}  # of a reaction in a leap, by the bytes of a number that still counts them


class _Leaps(NamedTuple):
    """How many leaps were refused in a row, each half as long as the last, and in total.

    `events` is how many events the others held: a real number, which so many do not overflow.
    """

    in_a_row: jax.Array
    total: jax.Array
    events: jax.Array


class Planned(NamedTuple):
    """What is known of a leap before anything is drawn.

    The propensities from which it starts, which reactions are `critical`, whether it is a `single` exact
    event, and its `length` unless a critical reaction ends it.
    """

    propensities: tuple
    critical: tuple
    single: jax.Array
    length: jax.Array


class _Sampled(NamedTuple):
    """The leap that was last sampled inside, up to which part of it, and what had fired by then."""

    index: jax.Array
    part: jax.Array
    fired: tuple
    y: Any


class TauLeaping(AbstractJumpMethod):
    r"""Explicit tau-leaping: over a time $\tau$ in which no propensity changes by much, reaction j fires
    $k_j \sim \mathrm{Poisson}(a_j \tau)$ times.

    $$\tau = \min_i \left\{\frac{d_i}{|\mu_i|}, \frac{d_i^2}{\sigma_i^2},
    \frac{2 d_i}{\lambda_i}\right\},\quad d_i = \max(\epsilon x_i/g_i, 1),$$

    $$\mu_i = \sum_j \nu_{ij} a_j,\quad \sigma_i^2 = \sum_j \nu_{ij}^2 a_j,\quad
    \lambda_i = \sum_j \max(-\nu_{ij}, 0)\,a_j,$$

    over the species i that propensities depend on, with $g_i$ by how strongly they do; the sums run over
    reactions that are not critical. The third bound is not in the paper. Where gains and losses balance the
    first is none, and leaps as long as molecules live widen the spread: at a rate c of loss by the fraction
    $c\tau/2$ of the variance, so that the bound keeps it to about $\epsilon$. A reaction that could use up a
    species in fewer than `critical` events fires once at most in a leap, at its own exponential time. A leap
    after which a count would be negative is refused and drawn again with half the length, and one over fewer
    than ten events on average gives way to an exact event: so no count turns negative. The distribution
    differs from the exact one by a bias of order $\epsilon$; `coupled_leaps` measures it.

    The leaps do not depend on the saved times: a time inside a leap sees a binomial part of its events.
    Reference: Cao, Gillespie & Petzold (2006), Efficient step size selection for the tau-leaping simulation
    method, doi:10.1063/1.2159468.
    """

    exact: ClassVar[bool] = False
    follows_time: ClassVar[bool] = False

    epsilon: float = eqx.field(static=True, default=0.03)
    critical: int = eqx.field(static=True, default=10)

    def __check_init__(self):
        if not 0 < self.epsilon < 1:
            raise ValueError(f"TauLeaping.epsilon: must be above 0 and below 1, got {self.epsilon:g}")

    def init(self, jumps: Jumps, y: PyTree) -> PyTree:
        return _Leaps(jnp.int32(0), jnp.int32(0), jnp.zeros_like(jumps.span))

    def draw(self, jumps: Jumps, y: PyTree, state: PyTree, index: jax.Array) -> PyTree:
        return index  # the loops of Poisson variates are not run twice in any case

    def propose(self, jumps: Jumps, y: PyTree, state: PyTree, drawn: PyTree) -> Proposal:
        index, dtype = drawn, jumps.span.dtype
        most = MOST_EVENTS[dtype.itemsize]
        a, critical, single, leap = self.planned(jumps, y, state.in_a_row)

        one_by_one = [jnp.where(single | c, each, 0.0) for c, each in zip(critical, a, strict=True)]
        sums = running_sums(one_by_one)
        words = block(jumps.noise.events, index, jnp.uint32(0))
        # A barrier makes a kernel of its own of what many others would compute, and compile, again.
        wait = jax.lax.optimization_barrier(waiting_time(exponential(words.a).astype(dtype), sums[-1]))
        tau = jnp.where(single, wait, jnp.minimum(wait, leap))
        fires = wait <= tau
        level = below_one(words.b, dtype) * sums[-1]

        means = jnp.stack(
            [jnp.where(single | c, 0.0, each * tau) for c, each in zip(critical, a, strict=True)]
        )
        # Where the leap is an exact event tau may be infinite, and no mean is.
        means = jnp.where(jnp.isfinite(means), means, 0.0)
        count = jnp.arange(len(a), dtype=jnp.uint32)
        keys = jax.vmap(lambda j: block(jumps.noise.events, index, j + jnp.uint32(1)))(count)
        keys = jax.lax.optimization_barrier(keys)
        leapt = jax.vmap(poisson)(keys, jnp.minimum(means, most))
        fired, before = [], jnp.zeros((), dtype)
        for j, total in enumerate(sums):
            now = fires & (before <= level) & (level < total)
            fired.append(leapt[j] + now.astype(jnp.int32))
            before = total

        change = jumps.network.change(fired, y)
        _, enough, small = counts_after(jumps.network, y, fired, dtype, jnp.all(means < most))
        accepted = enough | single
        status = jnp.where(are_propensities(a), jnp.int32(RUNNING), jnp.int32(BAD_PROPENSITY))
        status = jnp.where(small, status, jnp.int32(BAD_COUNT))
        refused = (~accepted).astype(jnp.int32)
        held = sum((k.astype(dtype) for k in fired), jnp.zeros((), dtype))
        events = state.events + jnp.where(accepted, held, 0.0)
        leaps = _Leaps(refused * (state.in_a_row + 1), state.total + refused, events)
        change = jax.tree.map(lambda d: d.astype(jnp.int32), change)
        # An event at its own time is at the end of the leap: only the others may be seen inside it.
        whole = sound(jax.tree.map(jnp.add, y, change))
        return Proposal(tau, change, tuple(fired), tuple(leapt), accepted, whole, leaps, status)

    def planned(self, jumps: Jumps, y: PyTree, refused: Int32[Array, ""]) -> Planned:
        """The next leap from `y`, after `refused` refusals in a row."""
        a = jumps.propensities(y)
        critical = self._critical(jumps, y, a)
        leap = self._leap(jumps, y, a, critical)
        single = leap * running_sums(a)[-1] < FEW_EVENTS
        longest = jumps.span if jumps.observer is None else jumps.span / WATCHED_LEAPS
        halved = jnp.minimum(leap * jnp.exp2(-refused.astype(leap.dtype)), longest)
        return Planned(a, tuple(critical), single, halved)

    def interrupted(self, jumps: Jumps, y: PyTree, state: PyTree, after: jax.Array) -> PyTree:
        return state._replace(in_a_row=jnp.int32(0))

    def rejected(self, state: PyTree) -> jax.Array:
        return state.total

    def in_leaps(self, state: PyTree) -> jax.Array:
        return state.events

    def start_sampling(self, jumps: Jumps, y: PyTree) -> PyTree:
        none = tuple(jnp.int32(0) for _ in jumps.network.reactions)
        return _Sampled(jnp.uint32(0), jnp.zeros_like(jumps.span), none, y)

    def keep(self, jumps: Jumps, ahead: Proposal | None) -> Leap:
        if ahead is None:
            none = jnp.zeros(len(jumps.network.reactions), jnp.int32)
            return Leap(jnp.full_like(jumps.span, jnp.inf), none, none)
        return Leap(ahead.tau, jnp.stack(ahead.fired), jnp.stack(ahead.inside))

    def counts_at(self, jumps: Jumps, underway: Underway, time: jax.Array, sampled: Any) -> tuple[Any, Any]:
        y, ahead, index, start = underway
        fresh = (sampled.index != index) | (sampled.part == 0)
        part = jnp.where(fresh, 0.0, sampled.part)
        fired = [jnp.where(fresh, jnp.int32(0), k) for k in sampled.fired]
        last = jax.tree.map(lambda now, then: jnp.where(fresh, now, then), y, sampled.y)

        inside = (ahead.tau < jnp.inf) & (time > start) & (start + ahead.tau > time)
        now = jnp.where(inside, (time - start) / jnp.where(inside, ahead.tau, 1.0), part)
        fraction = jnp.clip((now - part) / jnp.maximum(1.0 - part, 1e-30), 0.0, 1.0)
        key = threefry2x32(jumps.noise.inside, Words(index, _bits(time)))
        count = jnp.arange(len(fired), dtype=jnp.uint32)
        keys = jax.lax.optimization_barrier(jax.vmap(lambda j: block(key, j, jnp.uint32(0)))(count))
        rest = ahead.inside - jnp.stack(fired)
        more = jax.vmap(binomial, (0, 0, None))(keys, jnp.where(inside, jnp.maximum(rest, 0), 0), fraction)
        total = [k + more[j] for j, k in enumerate(fired)]
        there = jax.tree.map(jnp.add, y, jumps.network.change(total, y))
        sound = inside
        for x in jax.tree.leaves(there):
            sound = sound & (x >= 0)  # some of a leap's events may come before those that make room for them
        seen = jax.tree.map(lambda new, old: jnp.where(sound, new, old), there, last)
        accepted = tuple(jnp.where(sound, k, old) for k, old in zip(total, fired, strict=True))
        return seen, _Sampled(index, jnp.where(sound, now, part), accepted, seen)

    def _critical(self, jumps: Jumps, y: PyTree, a: tuple) -> list:
        """Whether a reaction could use up one of its reactants in few events."""
        counts = y._asdict()
        critical = []
        for each, propensity in zip(jumps.network.reactions.values(), a, strict=True):
            few = jnp.bool_(False)
            for name, change in each.change.items():
                if change < 0:
                    few = few | (counts[name] < jnp.int32(-change * self.critical))
            critical.append(few & (propensity > 0))
        return critical

    def _leap(self, jumps: Jumps, y: PyTree, a, critical):
        """The longest leap that changes no propensity by more than about epsilon of it."""
        free = [jnp.where(c, 0.0, each) for c, each in zip(critical, a, strict=True)]
        changes = [each.change for each in jumps.network.reactions.values()]
        bound = jnp.full((), jnp.inf, jumps.span.dtype)
        for name, weight in _weights(jumps, y).items():
            x = getattr(y, name).astype(bound.dtype)
            allowed = jnp.maximum(self.epsilon * x / jnp.maximum(weight, 1.0), 1.0)
            mean, variance, lost = (jnp.zeros_like(bound) for _ in range(3))
            for change, each in zip(changes, free, strict=True):
                n = float(change.get(name, 0))
                if n:
                    mean, variance = mean + n * each, variance + n * n * each
                    lost = lost + max(-n, 0.0) * each
            by_mean = allowed / jnp.maximum(jnp.abs(mean), 1e-30)
            by_spread = allowed * allowed / jnp.maximum(variance, 1e-30)
            by_loss = 2 * allowed / jnp.maximum(lost, 1e-30)
            least = jnp.minimum(jnp.minimum(by_mean, by_spread), by_loss)
            bound = jnp.where(weight > 0, jnp.minimum(bound, least), bound)
        return bound


def counts_after(
    network: AbstractReactionNetwork, y: PyTree, fired: Iterable, dtype: DTypeLike, small: jax.Array
) -> tuple[Any, jax.Array, jax.Array]:
    """The counts after events, as real numbers; whether none is negative, and, if `small`, none too large."""
    size = network.change([k.astype(dtype) for k in fired], y)
    after = jax.tree.map(lambda x, d: x.astype(dtype) + d, y, size)
    enough = jnp.bool_(True)
    for x in jax.tree.leaves(after):
        enough, small = enough & (x >= 0), small & (x <= LARGEST_COUNT)
    return after, enough, small


def _weights(jumps: Jumps, y: PyTree) -> dict[str, Any]:
    """$g_i$ of the species that propensities depend on, of each copy of a network by its own propensities."""
    all_weights = {}
    for network, counts, names in jumps.network.copies(y):
        weights = _weights_of(network, jumps.t0, jax.tree.map(lambda x: x.astype(jumps.span.dtype), counts))
        all_weights |= {
            name: weights[own] for own, name in zip(counts._fields, names, strict=True) if own in weights
        }
    return all_weights


def _weights_of(network: AbstractReactionNetwork, t, y: PyTree) -> dict[str, Any]:
    r"""The largest relative change of a propensity by that of $x_i$.

    Under mass action $r + 1/(x-1) + 2/(x-2) + \dots$ for r equal molecules, scaled to
    the reaction's order as in the paper; by derivatives for other propensities.
    """
    dtype, weights = jnp.result_type(*y), {}
    for each in network.reactions.values():
        for name, number in each.reactants if each.mass_action else ():
            x = jnp.maximum(getattr(y, name), float(number))
            equal = sum((i / (x - i) for i in range(1, number)), float(number))
            weight = jnp.asarray(equal * (each.order / number), dtype)
            weights[name] = jnp.maximum(weights[name], weight) if name in weights else weight
    own = [j for j, each in enumerate(network.reactions.values()) if not each.mass_action]
    if own:
        a = jnp.stack([network.propensities(t, y)[j] for j in own])
        slopes = jax.jacfwd(lambda z: jnp.stack([network.propensities(t, z)[j] for j in own]))(y)
        for name, slope in slopes._asdict().items():
            x = getattr(y, name)
            elasticity = jnp.where(a > 0, x * jnp.abs(slope) / jnp.where(a > 0, a, 1.0), 0.0)
            weight = jnp.where(jnp.any(slope != 0), jnp.maximum(jnp.max(elasticity), 1.0), 0.0)
            weights[name] = jnp.maximum(weights[name], weight) if name in weights else weight
    return weights


def _bits(time):
    return jax.lax.bitcast_convert_type(time.astype(jnp.float32), jnp.uint32)


TAU_LEAPING = SolverInfo(
    TauLeaping,
    "Tau-leaping: many events of a reaction network at once, where they change little.",
)
