"""Coupled tau-leaping: each path has the distribution of tau-leaping, and the two stay close."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from simkit_physics import ImmigrationDeath
from simkit_solvers import (
    AbstractChange,
    Curve,
    Direction,
    Event,
    JumpGrid,
    JumpNoise,
    States,
    TauLeaping,
    coupled_leaps,
    girsanov,
    integrate_jumps,
    scheduled,
    seed_key,
)
from simkit_solvers.methods.jump.jump_method import RUNNING
from simkit_solvers.numerics.tangents import is_real
from solver_problems import Tangled

PATHS, GROUP = 8192, 64


def over_paths(one):
    """A function of a path, for many of them."""
    ids = jnp.arange(PATHS, dtype=jnp.uint32).reshape(-1, GROUP)
    result = jax.jit(lambda ids: jax.lax.map(jax.vmap(one), ids))(ids)
    return jax.tree.map(lambda x: np.asarray(x).reshape(PATHS, *x.shape[2:]), result)


def pairs(network, method, factors, y0, end, max_steps=10**5):
    def one(path):
        grid = JumpGrid(jnp.zeros(()), end, 1, max_steps)
        return coupled_leaps(network, method, jnp.array(factors), y0, grid, seed_key(3), path, States())

    return over_paths(one)


def alone(network, method, y0, end):
    def one(path):
        grid, noise = JumpGrid(jnp.zeros(()), end, 1, 10**5), JumpNoise.of(seed_key(4), path)
        run = integrate_jumps(network, method, y0, grid, noise, States())
        return {name: x[-1] for name, x in run.rows.items()}, run.rejected

    return over_paths(one)


def same_law(one, other):
    """The p value of a chi-square test of two samples of whole numbers."""
    everything = np.concatenate([one, other])
    edges = np.unique(np.quantile(everything, np.linspace(0, 1, 31)))
    if len(edges) < 3:
        edges = np.array([edges[0] - 1, edges[0], edges[0] + 1])
    table = np.stack([np.histogram(x, np.append(edges, np.inf))[0] for x in (one, other)])
    return stats.chi2_contingency(table[:, table.sum(0) > 10]).pvalue


def draining():
    """Molecules that leave, with leaps so long that some are refused."""
    rates = {"k1": 0.0, "k2": 0.0, "k3": 0.0, "k4": 1.0}
    return Tangled(**rates), Tangled.State(jnp.int32(0), jnp.int32(0), jnp.int32(40)), 1.0


def tangled():
    """Leaps, critical reactions and single events in turn."""
    rates = {"k1": 0.002, "k2": 0.003, "k3": 1.0, "k4": 0.3}
    return Tangled(**rates), Tangled.State(jnp.int32(300), jnp.int32(4), jnp.int32(200)), 0.3


class Half(AbstractChange):
    """Half of the molecules vanish."""

    def __call__(self, problem, t, y):
        return y._replace(X=jnp.floor(y.X / 2))


def stopped():
    """A rate that jumps and an event, both inside of leaps."""
    rate = Curve(np.array([0.0, 0.7]), np.array([100.0, 300.0]), "previous")
    network = ImmigrationDeath(alpha=100.0, mu=1.0)
    network = scheduled(network, {"alpha": rate}, events=(Event(Half(), np.array([1.1])),))
    return network, ImmigrationDeath.State(jnp.int32(200)), 1.6


@pytest.mark.more
@pytest.mark.parametrize(
    "make",
    [draining, pytest.param(tangled, marks=pytest.mark.slow), pytest.param(stopped, marks=pytest.mark.slow)],
)
def test_leaps_as_long_as_the_method_says_have_its_distribution(make):
    network, y0, end = make()
    method = TauLeaping(epsilon=0.9, critical=2)
    result = pairs(network, method, (0.4, 1.0), y0, end)
    assert (result.status == RUNNING).all()
    rows, rejected = alone(network, method, y0, end)
    assert rejected.sum() > 0 or make is not draining
    for name, x in rows.items():
        assert same_law(result.ends[name][:, 1], x) > 1e-5, name


@pytest.mark.slow
def test_longer_leaps_are_those_of_a_larger_epsilon_where_counts_are_large():
    """Molecules that leave: a leap is the time in which the part epsilon of them does."""
    network, _, _ = draining()
    y0 = network.State(jnp.int32(0), jnp.int32(0), jnp.int32(4000))
    result = pairs(network, TauLeaping(epsilon=0.1), (1.0, 2.0), y0, 0.5)
    rows, _ = alone(network, TauLeaping(epsilon=0.2), y0, 0.5)
    assert same_law(result.ends["C"][:, 1], rows["C"]) > 1e-5
    assert same_law(result.ends["C"][:, 0], rows["C"]) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("make", [pytest.param(draining, marks=pytest.mark.slow), stopped])
def test_scores_of_coupled_paths_are_those_of_the_method(make):
    """Their mean is 0, and their covariance with the ends a derivative; longer leaps have nearly the same."""
    network, y0, end = make()
    zero = jax.tree.map(lambda x: jnp.zeros(jnp.shape(x)) if is_real(x) else x, network)
    name = "k4" if make is draining else "mu"
    one = eqx.tree_at(lambda n: getattr(n if make is draining else n.original, name), zero, jnp.ones(()))
    direction, method = Direction(one, States()), TauLeaping(epsilon=0.3, critical=2)

    def coupled(path):
        grid = JumpGrid(jnp.zeros(()), end, 1, 10**5)
        factors = jnp.array((1.0, 2.0))
        return coupled_leaps(network, method, factors, y0, grid, seed_key(3), path, States(), (direction,))

    def alone(path):
        grid, noise = JumpGrid(jnp.zeros(()), end, 1, 10**5), JumpNoise.of(seed_key(4), path)
        result = girsanov(network, method, y0, grid, noise, States(), (direction,)).differentiated_rows
        return {key: x[-1] for key, x in result.rows.items()}, result.weights[0][-1]

    run, (rows, weights) = over_paths(coupled), over_paths(alone)
    assert (run.status == RUNNING).all()
    scores = run.scores[0]
    assert np.abs(scores.mean(0) / scores.std(0) * PATHS**0.5).max() < 5
    key = "C" if make is draining else "X"
    pairs = (run.ends[key][:, 0], scores[:, 0]), (rows[key], weights)
    products = [(x - x.mean()) * z for x, z in pairs]
    means, errors = np.mean(products, 1), np.std(products, 1) / PATHS**0.5
    assert abs(means[0] - means[1]) < 5 * np.hypot(*errors)
    assert abs(means[0]) > 10 * errors[0]
    assert scores[:, 0].std() == pytest.approx(weights.std(), rel=0.05)
    assert np.corrcoef(scores.T)[0, 1] > 0.7
