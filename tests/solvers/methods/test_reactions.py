"""Reaction networks: distributions of the three jump methods."""

import functools
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chi_square import chi_square
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from simkit_physics import SIR, BirthDeath, ImmigrationDeath, Repressilator, Schlogl
from simkit_solvers import (
    AbstractReactionNetwork,
    ChemicalLangevin,
    CounterNoise,
    EulerMaruyama,
    Grid,
    JumpGrid,
    JumpNoise,
    Scalar,
    States,
    integrate,
    integrate_jumps,
    make_solver,
    parameter,
    parameters_of,
    reaction,
    seed_key,
)
from simkit_solvers.methods.jump.jump_method import BAD_COUNT, BAD_PROPENSITY, TOO_MANY_STEPS, check_rates
from solver_problems import Tangled
from user_code import user_jit

METHODS = ("DirectMethod", "NextReaction", "TauLeaping")
PATHS, GROUP = 10240, 64
leaps_are_slow = pytest.mark.parametrize(
    "method", [*METHODS[:2], pytest.param(METHODS[2], marks=pytest.mark.slow)]
)
every_method = pytest.mark.parametrize("method", METHODS)


@functools.cache
def program(model, method, dtype="float64", points=4, max_steps=10**6, coarse=False, compile=user_jit):
    """A compiled function of (parameters, initial counts, end, path ids); one for each kind of program."""
    options = {"epsilon": 0.8, "critical": 1} if coarse else None
    solver = make_solver(method, options if method == "TauLeaping" else None)

    @compile
    def run(parameters, y0, end, ids):
        def one(path):
            grid = JumpGrid(jnp.zeros((), dtype), end, points, max_steps)
            noise = JumpNoise.of(seed_key(7), path)
            return integrate_jumps(model(**parameters), solver, model.State(*y0), grid, noise, States())

        return jax.vmap(one)(ids)

    return run


def jump(model, method, end, y0=None, parameters=None, paths=PATHS, dtype="float64", group=GROUP, **shape):
    """The runs of `paths` paths, arrays with the path first; each group is a call of the same program."""
    start = [int(x) for x in model.example_initial.values()] if y0 is None else y0
    numbers = {name: jnp.asarray(x, dtype) for name, x in (parameters or model.example).items()}
    ids = np.arange(paths, dtype=np.uint32).reshape(-1, group)
    run, start = program(model, method, dtype, **shape), [jnp.int32(x) for x in start]
    results = [run(numbers, start, jnp.asarray(end, dtype), each) for each in ids]
    return jax.tree.map(lambda *parts: np.concatenate(parts), *results)


@functools.cache
def langevin(model, steps):
    """Ends of the chemical Langevin equation."""

    @user_jit
    def run(parameters, y0, end, ids):
        def one(path):
            problem, noise = ChemicalLangevin(model(**parameters)), CounterNoise.of(seed_key(7), path)
            grid = Grid(0.0, end / steps, steps, steps)
            return integrate(problem, EulerMaruyama(), model.State(*y0), grid, noise, States())

        return jax.vmap(one)(ids)

    return run


def pass_rule(x, mean, deviation):
    """Z and Y of the discrete stochastic models test suite, doi:10.1093/bioinformatics/btm566."""
    n = len(x)
    z = math.sqrt(n) * (x.mean() - mean) / deviation
    y = math.sqrt(n / 2) * (np.mean((x - mean) ** 2) / deviation**2 - 1)
    assert -3 < z < 3
    assert -5 < y < 5


class LinearNetwork(AbstractReactionNetwork):
    """Both networks in one, for methods whose programs take long to compile."""

    State = BirthDeath.State
    reactions: ClassVar = {
        "arrive": reaction("0 -> X"),
        "grow": reaction("X -> 2 X"),
        "leave": reaction("X -> 0"),
    }
    example_initial: ClassVar[dict[str, float]] = {"X": 100.0}

    arrival: Scalar = parameter("1/time", "rate")
    growth: Scalar = parameter("1/time", "rate")
    loss: Scalar = parameter("1/time", "rate")

    def rates(self, t, y):
        return self.arrival, self.growth, self.loss


def linear(arrival, growth, loss):
    return {"arrival": arrival, "growth": growth, "loss": loss}


def birth_death(method, end, **shape):
    if method == "DirectMethod":
        return jump(BirthDeath, method, end, **shape)
    return jump(LinearNetwork, method, end, parameters=linear(0.0, 0.1, 0.11), **shape)


BIRTH_DEATH = [(1.0, 99.00498, 4.54834), (50.0, 60.65307, 22.38677)]
ARRIVALS = {"alpha": 1000.0, "mu": 10.0}


def leaps_for_long(method, end):
    """Leaps that the immigrants make too, whose whole distribution is tested."""
    return method == "TauLeaping" and end == 50.0


@pytest.mark.more
@pytest.mark.parametrize(
    ("method", "end", "mean", "deviation"),
    [
        pytest.param(method, *case, marks=pytest.mark.slow if method == "TauLeaping" else ())
        for method in METHODS
        for case in BIRTH_DEATH
    ],
)
def test_birth_death_has_its_moments(method, end, mean, deviation):
    """Case 001-01 of the suite."""
    run = birth_death(method, end)
    assert not np.any(run.status > 1)
    events = 21 * (100 - mean)  # of births and of deaths, whose difference is a twenty-first of them
    assert (np.mean(run.steps) < 0.99 * events) == (method == "TauLeaping")
    pass_rule(np.asarray(run.rows["X"])[:, -1], mean, deviation)


@pytest.mark.more
@every_method
@pytest.mark.parametrize("end", [0.05, pytest.param(1.0, marks=pytest.mark.slow)])
def test_immigration_death_is_poisson(method, end):
    if method == "DirectMethod":
        run = jump(ImmigrationDeath, method, end, (0,), ARRIVALS)
    else:
        run = jump(LinearNetwork, method, end, (0,), linear(1000.0, 0.0, 10.0))
    x = np.asarray(run.counts.X)[:, -1]
    mean = 100 * -math.expm1(-10 * end)
    if end == 1.0:  # before, there are too few to leap
        assert (np.mean(run.steps) < 0.99 * (2000 * end - mean)) == (method == "TauLeaping")
    pass_rule(x, mean, math.sqrt(mean))
    assert chi_square(x, stats.poisson(mean)) > 1e-6


@pytest.mark.parametrize(("end", "mean", "deviation"), BIRTH_DEATH)
def test_the_langevin_equation_has_the_moments_of_linear_networks(end, mean, deviation):
    """At t = 1, and at t = 50, where paths pass below zero and the mean holds since they are not clipped."""
    numbers = {name: jnp.asarray(x) for name, x in BirthDeath.example.items()}
    ids = jnp.arange(PATHS, dtype=jnp.uint32)
    x = np.asarray(langevin(BirthDeath, 400)(numbers, [jnp.asarray(100.0)], jnp.asarray(end), ids)["X"])[
        :, -1
    ]
    pass_rule(x, mean, deviation)


@pytest.mark.more
@every_method
@settings(max_examples=15, deadline=None, derandomize=True)
@given(
    rates=st.lists(st.sampled_from([0.0, 1e-3, 0.1, 1.0, 10.0]), min_size=4, max_size=4),
    start=st.lists(st.sampled_from([0, 1, 2, 30, 400]), min_size=3, max_size=3),
)
def test_no_count_is_negative_or_loses_its_unit(method, rates, start):
    parameters = dict(zip(("k1", "k2", "k3", "k4"), rates, strict=True))
    shape = {"dtype": "float32", "max_steps": 2000, "coarse": method == "TauLeaping", "compile": jax.jit}
    run = jump(Tangled, method, 3.0, start, parameters, paths=64, **shape)
    for name, counts in run.counts._asdict().items():
        assert counts.dtype == jnp.int32
        assert int(counts.min()) >= 0
        there = np.isfinite(np.asarray(run.rows[name]))
        real = np.asarray(counts).astype(np.float32)  # which rounds counts above 16 777 216
        assert (np.asarray(run.rows[name])[there] == real[there]).all()
    assert set(np.unique(run.status)) <= {1, TOO_MANY_STEPS, BAD_COUNT}  # autocatalysis has no bound


@pytest.mark.more
@leaps_are_slow
def test_an_epidemic_keeps_its_population(method):
    run = jump(SIR, method, 60.0, paths=64, points=6, dtype="float32")
    counts = np.stack(run.counts)
    assert (counts.sum(0) == 1000).all()
    assert (np.diff(counts[0]) <= 0).all()  # the susceptible only become fewer
    assert (np.diff(counts[2]) >= 0).all()


@pytest.mark.slow
@leaps_are_slow
def test_paths_do_not_depend_on_what_is_saved(method):
    """The events are the same; a leap of tau-leaping passes over the saved times."""
    whole = birth_death(method, 50.0)
    other = birth_death(method, 50.0, paths=128, points=5)
    np.testing.assert_array_equal(whole.steps[:128], other.steps)
    if method != "TauLeaping":
        np.testing.assert_array_equal(whole.counts.X[:128, -1], other.counts.X[:, -1])


@pytest.mark.more
def test_paths_do_not_depend_on_their_group():
    whole = jump(BirthDeath, "DirectMethod", 50.0)
    other = jump(BirthDeath, "DirectMethod", 50.0, paths=128, group=32)
    np.testing.assert_array_equal(whole.counts.X[:128], other.counts.X)


@pytest.mark.slow
def test_both_exact_methods_have_one_distribution():
    """Schlögl's two stable states: the fraction of paths in the upper one, and the means within each."""
    parts = []
    for method in METHODS[:2]:
        x = np.asarray(jump(Schlogl, method, 4.0, paths=512).counts.X)[:, -1]
        parts.append(x)
        assert (x < 200).sum() > 50 < (x > 400).sum()
    assert stats.ks_2samp(*parts).pvalue > 1e-6


def leaps_of_the_mean(alpha, mu, epsilon, end):
    """Mean and variance of immigration and death from none by leaps that are those of the mean count."""
    x = variance = t = 0.0
    while t < end:
        death, allowed = mu * x * (x >= 10), max(epsilon * x, 1.0)
        bounds = allowed / abs(alpha - death), allowed**2 / (alpha + death), 2 * allowed / max(death, 1e-30)
        total = alpha + mu * x
        tau = min(bounds)
        tau = min(tau if tau * total >= 10 else 1 / total, end - t)
        variance = variance * (1 - mu * tau) ** 2 + total * tau
        x, t = x + (alpha - mu * x) * tau, t + tau
    return x, variance


@pytest.mark.slow
def test_tau_leaping_is_off_by_what_leaps_of_first_order_are():
    """Ten thousand molecules, leaps of dozens of events: off the exact mean by 0.6 % on the way and by
    nothing at rest, where the variance is 3 % too large."""
    many = {"alpha": 1e5, "mu": 10.0}
    for end, off in ((0.2, 0.0063), (1.0, 0.0)):
        run = jump(ImmigrationDeath, "TauLeaping", end, (0,), many, paths=2048)
        exact = 1e4 * -math.expm1(-10 * end)
        mean, variance = leaps_of_the_mean(**many, epsilon=0.03, end=end)
        assert mean / exact - 1 == pytest.approx(off, abs=1e-4)
        x = np.asarray(run.counts.X)[:, -1]
        assert np.asarray(run.steps).mean() < 0.1 * 1e5 * end
        assert abs(x.mean() - mean) < 5 * math.sqrt(variance / 2048)
        assert abs(x.var() / variance - 1) < 5 * math.sqrt(2 / 2048)


@pytest.mark.more
def test_leaps_that_are_too_long_are_refused():
    """With four fifths of the molecules in a leap, and none kept from leaping, some would go below zero."""
    decay = {"k1": 0.0, "k2": 0.0, "k3": 0.0, "k4": 1.0}
    shape = {"dtype": "float32", "max_steps": 2000, "coarse": True, "compile": jax.jit}
    run = jump(Tangled, "TauLeaping", 5.0, (0, 0, 40), decay, paths=256, **shape)
    assert int(run.rejected.sum()) > 0
    assert (run.status == 1).all()
    assert int(run.counts.C.min()) == 0


class Arrivals(AbstractReactionNetwork):
    """Arrivals alone, which depend on nothing: one leap goes over all of them."""

    State = BirthDeath.State
    reactions: ClassVar = {"arrive": reaction("0 -> X")}
    example_initial: ClassVar[dict[str, float]] = {"X": 0.0}

    rate: Scalar = parameter("1/time", "rate")

    def rates(self, t, y):
        return (self.rate,)


@pytest.mark.more
@pytest.mark.parametrize(
    ("model", "parameters", "most"),
    [
        (LinearNetwork, linear(1e5, 0.0, 0.0), 2000),
        pytest.param(Arrivals, {"rate": 1e5}, 1, marks=pytest.mark.slow),
    ],
)
def test_saved_times_inside_leaps_see_the_distribution(model, parameters, most):
    """Arrivals alone are Poisson at every time, and leaps over hundreds of them are exact, also where
    several times are saved in one."""
    run = jump(model, "TauLeaping", 0.2, (0,), parameters, paths=512)
    x = np.asarray(run.counts.X)
    assert np.asarray(run.steps).max() <= most
    assert (np.diff(x) >= 0).all()
    for row in range(1, 5):
        mean = 5000.0 * row
        assert abs(x[:, row].mean() - mean) < 5 * math.sqrt(mean / 512)
        assert abs(x[:, row].var() / mean - 1) < 5 * math.sqrt(2 / 512)


@pytest.mark.slow
def test_saved_times_inside_one_leap_share_its_events():
    """Of arrivals in a leap over the whole run each quarter has its own, independent Poisson number."""
    run = jump(LinearNetwork, "TauLeaping", 0.2, (1_000_000,), linear(1e5, 0.0, 0.0), paths=512)
    assert (run.steps == 1).all()
    gained = np.diff(np.asarray(run.counts.X), axis=1) - 5000.0
    assert (abs(gained.mean(0)) < 5 * math.sqrt(5000 / 512)).all()
    covariance = gained.T @ gained / 512 / 5000 - np.eye(4)
    assert (abs(covariance) < 5 * np.sqrt((1 + np.eye(4)) / 512)).all()


class Draining(AbstractReactionNetwork):
    """A propensity that does not vanish where there is nothing left, or that turns negative."""

    State = ImmigrationDeath.State
    reactions: ClassVar = {"drain": reaction("X -> 0", mass_action=False)}
    example_initial: ClassVar[dict[str, float]] = {"X": 3.0}

    level: Scalar = parameter("1/time", "rate")
    slope: Scalar = parameter("1/time", "rate")

    def rates(self, t, y):
        return (self.level + self.slope * y.X,)


@pytest.mark.parametrize(
    ("start", "level", "slope", "status"),
    [
        (3, 1.0, 0.0, BAD_COUNT),
        (3, 1.0, -1.0, BAD_PROPENSITY),
        (3, math.nan, 0.0, BAD_PROPENSITY),
        (3, math.inf, 0.0, BAD_PROPENSITY),
        (2_000_000, 0.0, 1.0, TOO_MANY_STEPS),
        (0, 0.0, 1.0, 1),
    ],
)
@pytest.mark.parametrize("method", METHODS[:2])
def test_why_a_path_ends_early(method, start, level, slope, status):
    run = jump(Draining, method, 100.0, (start,), {"level": level, "slope": slope}, paths=64, max_steps=500)
    assert set(np.unique(run.status)) == {status}
    failed = status != 1
    assert np.isnan(np.asarray(run.rows["X"])[:, -1]).all() == failed
    assert (np.asarray(run.reached) < 100).all() == failed
    assert np.asarray(run.rows["X"])[0, 0] == start


def test_constant_rates_are_those_of_any_method():
    for model in (Repressilator, SIR, Tangled):
        for method in METHODS:
            check_rates(model(**dict.fromkeys(parameters_of(model), 1.0)), type(make_solver(method)))


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_derivatives_of_counts_are_refused(mode):
    def mean(alpha):
        network = ImmigrationDeath(alpha=alpha, mu=1.0)
        noise = JumpNoise.of(seed_key(0), 0)
        run = integrate_jumps(
            network, make_solver("DirectMethod"), network.State(X=0), JumpGrid(0.0, 1.0), noise, States()
        )
        return run.rows["X"][-1]

    slope = jax.grad(mean) if mode == "reverse" else lambda x: jax.jvp(mean, (x,), (1.0,))
    with pytest.raises(ValueError, match="DirectMethod: counts have no derivative along a path"):
        slope(1.0)
