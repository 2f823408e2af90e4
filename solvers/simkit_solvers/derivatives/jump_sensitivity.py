r"""Derivatives of expectations of a jump process by the parameters of its network, path by path.

Counts have no derivative along a path. Three ways around that give for each path numbers whose mean is
$\partial_\theta E[f(X_t; \theta)]$, or near it:

| function | idea | bias | variance |
|---|---|---|---|
| `girsanov` | $f Z$ with the score $Z$ of the path | none | grows with the number of events |
| `weak_derivative` | one event more or less, and what becomes of it | none | grows with the time |
| `finite_difference` | two coupled copies at $\theta \pm h$ | $O(h^2)$ | $O(1/h)$ |
"""

import functools
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree, UInt32

from simkit_solvers.derivatives.coupled_network import CoupledNetwork, ObservedPair
from simkit_solvers.grids.jump_grid import JumpGrid
from simkit_solvers.loops.jumps import JumpRun, integrate_jumps, observed
from simkit_solvers.methods.jump.jump_method import AbstractJumpMethod, JumpNoise, check_rates
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.tangents import as_tangent, jvp, moved
from simkit_solvers.problems.directions import DifferentiatedRows, Direction
from simkit_solvers.problems.observe import AbstractObserver, States
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import schedule_of
from simkit_solvers.random.generator import Words, block, threefry2x32
from simkit_solvers.random.variates import below_one

Coupling = Literal["split", "noise"]
Copy = tuple[AbstractReactionNetwork, AbstractObserver]
# The streams of what branches off a path have the seed's key under these, of which the last is no stream.
_BRANCH, _NO_PATH = 1, 0xFFFFFFFF


class Scored(NamedTuple):
    """A path with what the likelihood ratio needs.

    `run` is the path with its rows, and its score in each direction. `explicit` are for each direction the
    derivatives of the rows with the counts held fixed, zero for observables that read no parameter.
    """

    run: JumpRun
    explicit: tuple[dict[str, Any], ...]

    @property
    def differentiated_rows(self) -> DifferentiatedRows:
        """Rows, their derivatives with the counts held, and scores, as of a path on a fixed grid."""
        return DifferentiatedRows(self.run.rows, self.explicit, self.run.scores)

    @property
    def derivatives(self) -> tuple[dict[str, Any], ...]:
        r"""$f Z + \partial_\theta f$ of each direction."""
        return tuple(
            jax.tree.map(lambda f, df, score=score: f * score + df, self.run.rows, explicit)
            for score, explicit in zip(self.run.scores, self.explicit, strict=True)
        )


class Differentiated(NamedTuple):
    """A path with numbers whose mean is the derivative of the rows' mean, one dictionary a direction.

    `status` says why a path could not go on, as of a `JumpRun`; its rows are NaN from there on.
    """

    rows: dict[str, Any]
    derivatives: tuple[dict[str, Any], ...]
    status: jax.Array


def girsanov(
    network: AbstractReactionNetwork,
    method: AbstractJumpMethod,
    y0: PyTree,
    grid: JumpGrid,
    noise: JumpNoise,
    observer: AbstractObserver,
    directions: tuple[Direction, ...],
) -> Scored:
    r"""One path with its scores: $\partial_\theta E[f] = E[f Z + \partial_\theta f]$, by any jump method.

    The mean of $(f - c) Z$ is the same for every constant c, and least varied near $c = E[f]$: the covariance
    of $f$ and $Z$ over an ensemble (`likelihood_ratio`). Of `TauLeaping` it is the derivative of what the
    method computes with the lengths of its leaps as they are. The path is the one without directions, bit
    for bit. A path at which no likelihood ratio exists, since a rate of zero changes, ends with a `status`.
    Raises `ValueError` for rates that change continuously with time.
    References: those of `jump_scores`.

    >>> from simkit_physics import ImmigrationDeath
    >>> from simkit_solvers import DirectMethod, Direction, JumpGrid, JumpNoise, States, girsanov, seed_key
    >>> model, start = ImmigrationDeath(alpha=10.0, mu=0.5), ImmigrationDeath.State(X=0)
    >>> grid, noise = JumpGrid(0.0, 2.0, points=4), JumpNoise.of(seed_key(1), path=0)
    >>> by_alpha = Direction(problem=ImmigrationDeath(alpha=1.0, mu=0.0))
    >>> run = girsanov(model, DirectMethod(), start, grid, noise, States(), (by_alpha,))
    >>> run.run.rows["X"].shape, run.run.scores[0].shape
    ((5,), (5,))
    """
    run = integrate_jumps(
        network, method, y0, grid, noise, observer, tuple(each.problem for each in directions)
    )
    return Scored(run, tuple(_explicit(network, observer, grid, run, each) for each in directions))


def likelihood_ratio(
    values: Float[Array, " paths"],
    scores: Float[Array, " paths"],
    explicit: Float[Array, " paths"] | float = 0.0,
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    r"""The derivative of a mean and its standard error, from $f$, $Z$ and $\partial_\theta f$ of n paths.

    Arrays with the path first. The estimate is the sample covariance of f and Z plus the mean of
    $\partial_\theta f$, which is unbiased: it equals the mean of $(f_i - \bar f_{-i}) Z_i$ with $\bar f_{-i}$
    the mean of the other paths.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import likelihood_ratio
    >>> values, scores = jnp.array([1.0, 2.0, 3.0]), jnp.array([-1.0, 0.0, 1.0])
    >>> derivative, stderr = likelihood_ratio(values, scores)
    >>> float(derivative)  # their sample covariance
    1.0
    """
    n = len(values)
    centred = (values - jnp.mean(values, 0)) * (scores - jnp.mean(scores, 0)) * (n / (n - 1)) + explicit
    return jnp.mean(centred, 0), jnp.std(centred, 0, ddof=1) / n**0.5


def finite_difference(
    network: AbstractReactionNetwork,
    method: AbstractJumpMethod,
    y0: PyTree,
    grid: JumpGrid,
    noise: JumpNoise,
    observer: AbstractObserver,
    direction: Direction,
    step: Scalar,
    coupling: Coupling = "split",
) -> Differentiated:
    r"""$(f(X^{\theta + h}) - f(X^{\theta - h})) / 2h$ of two coupled paths, h the `step` along a direction.

    `split` runs the two as one network in which they fire together where they can, see `coupled_network`.
    `noise` runs them one after the other with the same noise: with `CommonReactionPaths` as the method these
    meet the same unit Poisson processes, with `DirectMethod` they are common random numbers as most people
    take them, and soon have little in common. The bias is $O(h^2)$, the variance $O(1/h)$, for `DirectMethod`
    with the same noise $O(1/h^2)$. Rows are the means of the two.
    Raises `ValueError` for a scheduled network with `split`.

    >>> from simkit_physics import ImmigrationDeath
    >>> from simkit_solvers import DirectMethod, Direction, JumpGrid, JumpNoise, States
    >>> from simkit_solvers import finite_difference, seed_key
    >>> model, method = ImmigrationDeath(alpha=10.0, mu=0.5), DirectMethod()
    >>> grid, noise = JumpGrid(0.0, 2.0, points=4), JumpNoise.of(seed_key(1), path=0)
    >>> by_alpha = Direction(problem=ImmigrationDeath(alpha=1.0, mu=0.0))
    >>> run = finite_difference(model, method, model.State(X=0), grid, noise, States(), by_alpha, step=0.1)
    >>> run.derivatives[0]["X"].shape
    (5,)
    """
    if coupling == "split":
        _refuse_schedule("finite_difference, coupling split", network, "coupling='noise'")
    tangents = _tangents(network, observer, grid, direction)
    sides = [moved((network, observer), tangents, by) for by in (step, -step)]
    return difference_of_copies(sides, method, y0, grid, noise, step, coupling)


def difference_of_copies(
    sides: Sequence[Copy],
    method: AbstractJumpMethod,
    y0: PyTree,
    grid: JumpGrid,
    noise: JumpNoise,
    step: Scalar,
    coupling: Coupling = "split",
) -> Differentiated:
    """The `finite_difference` of two given copies, which are a `step` above and below."""
    if coupling == "split":
        pair, watch = coupled_copies(sides)
        run = integrate_jumps(pair, method, pair.paired(y0, y0), grid, noise, watch)
        high, low, status = run.rows["first"], run.rows["second"], run.status
    else:
        runs = [integrate_jumps(each, method, y0, grid, noise, watch) for each, watch in sides]
        (high, low), status = (run.rows for run in runs), jnp.maximum(runs[0].status, runs[1].status)
    slope = jax.tree.map(lambda x, y: (x - y) / (2 * step), high, low)
    return Differentiated(jax.tree.map(lambda x, y: 0.5 * (x + y), high, low), (slope,), status)


def coupled_copies(sides: Sequence[Copy]) -> tuple[CoupledNetwork, ObservedPair]:
    """Two copies of a network without a schedule as one in which they fire together, and their observer."""
    (high, watch_high), (low, watch_low) = sides
    return CoupledNetwork(high, low), ObservedPair(watch_high, watch_low)


def weak_derivative(
    network: AbstractReactionNetwork,
    method: AbstractJumpMethod,
    y0: PyTree,
    grid: JumpGrid,
    key: Words,
    path: UInt32[Array, ""] | int,
    observer: AbstractObserver,
    directions: tuple[Direction, ...],
) -> Differentiated:
    r"""The measure-valued derivative: what one more event at a random time would have changed.

    $$\partial_\theta E[f(X_t)] = E \int_0^t \sum_j \partial_\theta a_j(X_s)\,
    \bigl(E_{X_s + \nu_j}[f(X_{t-s})] - E_{X_s}[f(X_{t-s})]\bigr)\,ds + E[\partial_\theta f].$$

    A time s is drawn uniformly, a reaction by $|\partial_\theta a_j(X_s)|$, and from there on two copies run
    coupled, one with that event and one without. Without bias, at a rate of zero too; the variance grows in
    proportion to the time, since most events are forgotten before its end. For a Poisson number it is
    $dE[g(N)]/d\lambda = E[g(N + 1) - g(N)]$. The pair of each direction costs about as much as two paths.
    Raises `ValueError` for a method that leaps and for a scheduled network.
    References: Gupta & Khammash (2013), Unbiased estimation of parameter sensitivities for stochastic
    chemical reaction networks, doi:10.1137/120898747; Heidergott & Vázquez-Abad (2008), Measure-valued
    differentiation for Markov chains, doi:10.1007/s10957-007-9297-7.

    >>> from simkit_physics import ImmigrationDeath
    >>> from simkit_solvers import DirectMethod, Direction, JumpGrid, States, seed_key, weak_derivative
    >>> model, start = ImmigrationDeath(alpha=10.0, mu=0.5), ImmigrationDeath.State(X=0)
    >>> grid, by_alpha = JumpGrid(0.0, 2.0, points=4), Direction(problem=ImmigrationDeath(alpha=1.0, mu=0.0))
    >>> run = weak_derivative(model, DirectMethod(), start, grid, seed_key(1), 0, States(), (by_alpha,))
    >>> run.derivatives[0]["X"].shape
    (5,)
    """
    if not method.exact:
        raise ValueError(
            f"weak_derivative: {type(method).__name__} takes many events at once, between which no other "
            "event fits; use DirectMethod, or girsanov"
        )
    _refuse_schedule("weak_derivative", network, "girsanov or finite_difference with coupling='noise'")
    check_rates(network, type(method))
    dtype = jnp.result_type(grid.t0, grid.span)
    tangents = tuple(as_tangent(network, each.problem, dtype) for each in directions)
    run = integrate_jumps(network, method, y0, grid, JumpNoise.of(key, path), observer)
    explicit = tuple(_explicit(network, observer, grid, run, each) for each in directions)

    branch = _Branch.of(key, path, grid)
    run_until = integrate_jumps(network, method, y0, branch.until(grid), JumpNoise.of(key, path), States())
    here = jax.tree.map(lambda x: x[-1], run_until.counts)
    there, weights = _one_event_more(network, tangents, branch.start + branch.time, here, branch.level)
    pair, watch = CoupledNetwork(network, network), ObservedPair(observer, observer)
    runs = jax.vmap(
        lambda y: integrate_jumps(
            pair, method, pair.paired(y, here), grid, branch.noise, watch, begin=branch.time
        )
    )(there)
    late = (jnp.arange(grid.rows, dtype=dtype) / grid.points) >= branch.fraction

    def derivative(i: int, with_it, without, df):
        return df + jnp.where(late, weights[i] * branch.span * (with_it[i] - without[i]), 0.0)

    first, second = runs.rows["first"], runs.rows["second"]
    derivatives = tuple(
        jax.tree.map(functools.partial(derivative, i), first, second, each) for i, each in enumerate(explicit)
    )
    return Differentiated(run.rows, derivatives, jnp.maximum(run.status, jnp.max(runs.status)))


class _Branch(NamedTuple):
    """Where coupled copies branch off a path: at a `fraction` of its time, with `noise` of their own.

    `level` is a uniform number that chooses the event by which they differ.
    """

    noise: JumpNoise
    fraction: jax.Array
    level: jax.Array
    start: jax.Array
    span: jax.Array

    @staticmethod
    def of(key: Words, path: UInt32[Array, ""] | int, grid: JumpGrid) -> "_Branch":
        """The branch of one path id under a key."""
        dtype = jnp.result_type(grid.t0, grid.span)
        noise = JumpNoise.of(threefry2x32(key, Words(jnp.uint32(_BRANCH), jnp.uint32(_NO_PATH))), path)
        words = block(noise.inside, jnp.uint32(0), jnp.uint32(0))
        span, start = jnp.asarray(grid.span, dtype), jnp.asarray(grid.t0, dtype)
        fraction = (words.a.astype(dtype) + 0.5) * 2.0**-32
        return _Branch(noise, fraction, below_one(words.b, dtype), start, span)

    @property
    def time(self) -> jax.Array:
        """The time since t0."""
        return self.fraction * self.span

    def until(self, grid: JumpGrid) -> JumpGrid:
        """The times up to the branch."""
        until = JumpGrid(self.start, self.start + self.time, 1, grid.max_steps)
        return eqx.tree_at(lambda g: g.span, until, self.time)


def _one_event_more(network: AbstractReactionNetwork, tangents: tuple, t, y, u):
    r"""For each direction the counts after an event drawn by $|\partial a_j|$, and its weight with its sign.

    Arrays with the direction first; `u` is uniform in [0, 1).
    """
    real = jax.tree.map(lambda x: x.astype(u.dtype), y)
    slopes = jnp.stack(
        [jnp.stack(jvp(lambda network: network.propensities(t, real), network, each)[1]) for each in tangents]
    )
    sums = jnp.cumsum(jnp.abs(slopes), axis=1)
    chosen = jnp.argmax(sums > u * sums[:, -1:], axis=1)  # the first where none is: of weight zero
    sign = jnp.sign(jnp.take_along_axis(slopes, chosen[:, None], axis=1)[:, 0])
    changes = [each.change for each in network.reactions.values()]
    table = {name: jnp.asarray([c.get(name, 0) for c in changes], jnp.int32) for name in y._fields}
    happens = sign != 0
    there = {name: getattr(y, name) + jnp.where(happens, table[name][chosen], 0) for name in y._fields}
    return type(y)(**there), sign * sums[:, -1]


def _explicit(network, observer, grid, run: JumpRun, direction: Direction) -> dict[str, Any]:
    """The derivatives of what is observed with the counts held fixed, NaN where the rows are."""

    def rows(both):
        return observed(*both, grid, run.counts, run.watched)

    _, slopes = jvp(rows, (network, observer), _tangents(network, observer, grid, direction))
    return {name: jnp.where(jnp.isnan(run.rows[name]), run.rows[name], df) for name, df in slopes.items()}


def _tangents(network, observer, grid: JumpGrid, direction: Direction) -> tuple[Any, Any]:
    dtype = jnp.result_type(grid.t0, grid.span)
    return as_tangent(network, direction.problem, dtype), as_tangent(observer, direction.observer, dtype)


def _refuse_schedule(place: str, network, instead: str) -> None:
    if schedule_of(network) is not None:
        raise ValueError(f"{place}: the network is scheduled, and copies of it run without; use {instead}")
