"""Doses at given times superpose, on fixed and adaptive steps and among jumps."""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_physics import GBM, ImmigrationDeath
from simkit_solvers import (
    AbstractChange,
    AbstractObserver,
    AbstractODE,
    AdaptiveGrid,
    CounterNoise,
    Curve,
    Event,
    Grid,
    JumpGrid,
    JumpNoise,
    Scalar,
    States,
    Tolerances,
    integrate,
    integrate_adaptive,
    integrate_jumps,
    make_solver,
    parameter,
    scheduled,
    seed_key,
    solution,
)
from simkit_solvers.methods.jump.jump_method import REASONS
from user_code import user_jit

DOSES = np.array([0.0, 1.0, 2.5])


class Amount(NamedTuple):
    A: Scalar


class Elimination(AbstractODE):
    """One compartment, $dA/dt = -k A$."""

    State = Amount

    k: Scalar = parameter("1/time", "rate of elimination")

    def drift(self, t, y):
        return Amount(-self.k * y.A)


class Dose(AbstractChange):
    amount: Scalar

    def __call__(self, problem, t, y):
        return y._replace(**{y._fields[0]: y[0] + self.amount})


def superposed(k, dose, t):
    """What is left of all doses, those at `t` included."""
    left = [jnp.where(t >= float(s), dose * jnp.exp(-k * (t - float(s))), 0.0) for s in DOSES]
    return jnp.sum(jnp.stack(left), axis=0)


def dosed(k, dose, t0=0.0):
    return scheduled(Elimination(k), events=(Event(Dose(dose), DOSES + t0),))


def on_steps(k, dose, solver="Dopri8"):
    grid = Grid(0.0, 0.05, 80, 10)
    start = Amount(jnp.zeros(()))
    return integrate(dosed(k, dose), make_solver(solver), start, grid, None, States())["A"]


def adaptive(k, dose):
    grid = AdaptiveGrid(2020.3, 2024.3, Tolerances(1e-10, 1e-10), points=8)
    start = Amount(jnp.zeros(()))
    return integrate_adaptive(dosed(k, dose, 2020.3), make_solver("Tsit5"), start, grid, States()).rows["A"]


@pytest.mark.more
@pytest.mark.parametrize(
    ("run", "close"),
    [(on_steps, 1e-10), pytest.param(adaptive, 1e-6, marks=pytest.mark.slow)],
    ids=["equal steps", "adaptive"],
)
def test_doses_superpose(run, close):
    """Values at every row, those of the doses among them, and derivatives in both modes."""
    t = jnp.linspace(0.0, 4.0, 9)
    np.testing.assert_allclose(jax.jit(run)(0.7, 100.0), superposed(0.7, 100.0, t), rtol=0, atol=close)

    def total(run):
        return lambda k, dose: jnp.sum(run(k, dose))

    exact = jax.grad(total(lambda k, dose: superposed(k, dose, t)), (0, 1))(0.7, 100.0)
    for derivative in (jax.grad, jax.jacfwd):
        np.testing.assert_allclose(jax.jit(derivative(total(run), (0, 1)))(0.7, 100.0), exact, rtol=close)


@pytest.mark.slow
def test_steps_from_stop_to_stop_count_together():
    """A run out of steps has failed from there on, though no part of it took as many."""

    def run(max_steps):
        grid = AdaptiveGrid(0.0, 4.0, Tolerances(1e-4, 1e-4), points=8, max_steps=max_steps)
        start = Amount(jnp.zeros(()))
        return integrate_adaptive(dosed(0.7, 100.0), make_solver("Bosh3"), start, grid, States())

    whole = jax.jit(run, static_argnums=0)(256)
    needed = int(whole.accepted + whole.rejected)
    assert np.isfinite(whole.rows["A"]).all()
    short = jax.jit(run, static_argnums=0)(needed - 1)
    assert np.isfinite(short.rows["A"][:-1]).all()
    assert np.isnan(short.rows["A"][-1])


@pytest.mark.slow
def test_a_solver_with_a_memory_starts_afresh_after_an_event():
    """Kvaerno5 carries the slope at the end of a step, which a dose changes."""
    exact = superposed(0.7, 100.0, jnp.linspace(0.0, 4.0, 9))
    np.testing.assert_allclose(on_steps(0.7, 100.0, "Kvaerno5"), exact, rtol=1e-8)


@pytest.mark.slow
def test_saved_times_and_company_change_no_bit():
    event = Event(Dose(5.0), np.array([3.0, 7.0]) / 16)
    model = scheduled(
        GBM(mu=0.1, sigma=0.4), {"mu": Curve(np.array([0, 0.5]), np.array([0.1, 2.0]))}, {}, (event,)
    )
    start, key = GBM.State(S=jnp.full((), 100.0)), seed_key(5)

    def ends(every, paths):
        def one(path):
            grid = Grid(0.0, 1 / 16, 16, every)
            noise = CounterNoise.of(key, path)
            return integrate(model, make_solver("EulerMaruyama"), start, grid, noise, States())["S"][-1]

        return np.asarray(user_jit(jax.vmap(one))(jnp.arange(paths, dtype=jnp.uint32)))

    few = ends(16, 64)
    np.testing.assert_array_equal(few, ends(2, 128)[:64])


@pytest.mark.more
@pytest.mark.parametrize("method", [pytest.param("DirectMethod", marks=pytest.mark.slow), "NextReaction"])
def test_doses_and_jumping_rates_of_a_jump_process(method):
    """Molecules die independently: a binomial number of each dose lives, in addition to a Poisson number.

    The many stops at which nothing changes must change nothing.
    """
    times = np.arange(30) / 10
    network = scheduled(
        ImmigrationDeath(alpha=50.0, mu=1.0),
        {"alpha": Curve(times, np.where(times < 1.5, 0.0, 4.0), "previous")},
        {},
        (Event(Dose(3.0), np.array([2.0, 2.3])),),
    )
    grid = JumpGrid(0.0, 3.0, points=3)
    start = ImmigrationDeath.State(X=0)

    def one(path):
        noise = JumpNoise.of(seed_key(2), path)
        return integrate_jumps(network, make_solver(method), start, grid, noise, States()).counts.X

    paths = 4000
    counts = np.asarray(user_jit(jax.vmap(one))(jnp.arange(paths, dtype=jnp.uint32)), float)
    t = np.arange(4.0)
    means, variances = np.zeros(4), np.zeros(4)
    for given, number in ((2.0, 3), (2.3, 3)):
        alive = np.where(t >= given, np.exp(-(t - given)), 0.0)
        means, variances = means + number * alive, variances + number * alive * (1 - alive)
    born = 4 * (1 - np.exp(-np.maximum(t - 1.5, 0)))
    means, variances = means + born, variances + born
    assert (counts[:, :2] == 0).all()
    z = (counts.mean(0) - means)[2:] / np.sqrt(variances[2:] / paths)
    assert np.abs(z).max() < 5
    np.testing.assert_allclose(counts.var(0)[2:], variances[2:], rtol=5 * math.sqrt(3 / paths))


@pytest.mark.more
def test_counts_stay_whole():
    network = scheduled(ImmigrationDeath(alpha=10.0, mu=1.0), events=(Event(Dose(0.5), np.array([1.0])),))
    start, noise = ImmigrationDeath.State(X=5), JumpNoise.of(seed_key(0), jnp.uint32(0))
    method, grid = make_solver("DirectMethod"), JumpGrid(0.0, 2.0)
    run = jax.jit(lambda: integrate_jumps(network, method, start, grid, noise, States()))()
    assert "an event sets a count that is not a whole number" in REASONS[int(run.status)]
    assert float(run.reached) == 1
    assert np.isnan(float(run.rows["X"][-1]))


def test_where_events_are_refused():
    grid = AdaptiveGrid(0.0, 4.0, Tolerances(1e-3, 1e-3))
    with pytest.raises(ValueError, match="use integrate_adaptive"):
        solution(dosed(0.7, 1.0), make_solver("Tsit5"), Amount(jnp.zeros(())), grid)
    with pytest.raises(ValueError, match=r"the time 2.5 is not the end of one of the 4 steps"):
        Event(Dose(1.0), DOSES).on(Grid(0.0, 1.0, 4, 4))

    class Largest(AbstractObserver):
        def init(self, problem, t, y):
            return y.A

        def update(self, problem, acc, k, t, y, dt):
            return jnp.maximum(acc, y.A)

        def row(self, problem, acc, t, y):
            return {"most": acc}

        def coarsened(self, factor):
            return self

        def refined(self, factor):
            return self

    with pytest.raises(ValueError, match="Largest does not say what it sees of events"):
        integrate(
            dosed(0.7, 1.0),
            make_solver("Euler"),
            Amount(jnp.zeros(())),
            Grid(0.0, 0.5, 8, 8),
            None,
            Largest(),
        )
