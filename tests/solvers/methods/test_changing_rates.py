"""Reaction networks whose rates change continuously with time: exact distributions of the direct method."""

import functools
import math
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from chi_square import chi_square
from scipy import stats
from scipy.integrate import quad, solve_ivp
from simkit_physics import ImmigrationDeath
from simkit_solvers import (
    AbstractReactionNetwork,
    Curve,
    JumpGrid,
    JumpNoise,
    Scalar,
    States,
    integrate_jumps,
    make_solver,
    parameter,
    reaction,
    scheduled,
    seed_key,
)
from simkit_solvers.methods.jump.jump_method import (
    BAD_PROPENSITY,
    NO_BOUND,
    TOO_MANY_STEPS,
    WAITING,
    check_rates,
    varies,
)
from simkit_solvers.numerics.scalar import scalars
from user_code import user_jit

PATHS, END, POINTS, TURN = 8192, 2.0, 8, 2 * math.pi
TIMES = np.linspace(0, END, POINTS + 1)


class Seasons(AbstractReactionNetwork):
    """Arrivals by the season and by day, deaths that become more frequent, and a population of all three."""

    State = scalars("State", ("season", "day", "old", "both"))
    reactions: ClassVar = {
        "season": reaction("0 -> season"),
        "day": reaction("0 -> day"),
        "age": reaction("old -> 0"),
        "arrive": reaction("0 -> both"),
        "leave": reaction("both -> 0"),
    }

    size: Scalar = parameter("1/time", "rate")
    light: Scalar = parameter("1/time", "rate")
    loss: Scalar = parameter("1/time", "rate")

    def rates(self, t, y):
        return (
            self.size * (1 + jnp.cos(TURN * t)),
            self.light * jnp.maximum(jnp.sin(TURN * t), 0.0),
            self.loss * (0.2 + t * t),
            self.size * jnp.exp(-t) * (1.5 + jnp.sin(5 * t)),
            self.loss * (1 + 0.5 * jnp.cos(3 * t)),
        )


@functools.cache
def program(make, points=POINTS, max_steps=10**6, dtype="float64"):
    """A compiled function of (numbers, counts, end, path ids) that runs `make(numbers)`."""

    @user_jit
    def run(numbers, y0, end, ids):
        def one(path):
            network, noise = make(numbers), JumpNoise.of(seed_key(3), path)
            grid = JumpGrid(jnp.zeros((), dtype), end, points, max_steps)
            y = network.State(*y0)
            return integrate_jumps(network, make_solver("DirectMethod"), y, grid, noise, States())

        return jax.vmap(one)(ids)

    return run


def jump(make, numbers, y0, end=END, paths=PATHS, dtype="float64", **shape):
    run, ids = program(make, dtype=dtype, **shape), jnp.arange(paths, dtype=jnp.uint32)
    numbers = jax.tree.map(lambda x: jnp.asarray(x, dtype), numbers)
    return run(numbers, [jnp.int32(x) for x in y0], jnp.asarray(end, dtype), ids)


def seasons(numbers):
    return Seasons(*numbers)


def area(rate, t, start=0.0):
    """The integral of a rate."""
    kinks = [k / 2 for k in range(1, 4)]
    return quad(rate, start, t, points=[k for k in kinks if start < k < t] or None, epsabs=1e-11)[0]


def population(arrival, loss, times, start=0.0):
    """The mean of immigration and death: m' = arrival(t) - loss(t) m."""
    slope = lambda t, m: arrival(t) - loss(t) * m  # noqa: E731
    return solve_ivp(slope, (0, times[-1]), [start], t_eval=times, rtol=1e-10, atol=1e-10, max_step=0.02).y[0]


def assert_moments(x, means, variances):
    """Means and variances along the first axis."""
    n, excess = len(x), np.maximum(variances, 1e-30)
    kurtosis = np.mean((x - means) ** 4, axis=0) / excess**2
    z = np.sqrt(n) * (x.mean(0) - means) / np.sqrt(excess)
    spread = np.sqrt(n) * (np.mean((x - means) ** 2, axis=0) / excess - 1)
    assert np.abs(z).max() < 5, z
    assert np.abs(spread / np.sqrt(np.maximum(kurtosis - 1, 1))).max() < 5, spread


@pytest.mark.more
def test_seasons_have_their_distributions():
    """Poisson arrivals with the integral of their rate as mean and variance; binomial survival."""
    size, light, loss = 12.0, 20.0, 0.6
    run = jump(seasons, (size, light, loss), (0, 0, 60, 0))
    assert set(np.unique(run.status)) == {WAITING}
    counts = {name: np.asarray(x, float)[:, 1:] for name, x in run.counts._asdict().items()}
    by_season = np.array([area(lambda t: size * (1 + math.cos(TURN * t)), t) for t in TIMES[1:]])
    by_day = np.array([area(lambda t: light * max(math.sin(TURN * t), 0.0), t) for t in TIMES[1:]])
    survival = np.exp([-area(lambda t: loss * (0.2 + t * t), t) for t in TIMES[1:]])
    both = population(
        lambda t: size * math.exp(-t) * (1.5 + math.sin(5 * t)),
        lambda t: loss * (1 + 0.5 * math.cos(3 * t)),
        TIMES,
    )[1:]
    assert_moments(counts["season"], by_season, by_season)
    assert_moments(counts["day"], by_day, by_day)
    assert_moments(counts["old"], 60 * survival, 60 * survival * (1 - survival))
    assert_moments(counts["both"], both, both)
    assert chi_square(counts["season"][:, -1], stats.poisson(by_season[-1])) > 1e-6
    assert chi_square(counts["old"][:, -1], stats.binom(60, survival[-1])) > 1e-6
    gained = np.diff(np.asarray(run.counts.season), axis=1)
    assert np.abs(np.corrcoef(gained.T) - np.eye(POINTS)).max() < 5 / math.sqrt(PATHS)
    events = counts["season"][:, -1] + counts["day"][:, -1] + 60 - counts["old"][:, -1]
    assert (np.asarray(run.steps) >= events).all()


def test_nothing_happens_at_night():
    """Also where nothing else does, so that there is no rate from which to guess the length of a window."""
    run = jump(seasons, (0.0, 20.0, 0.0), (0, 0, 0, 0), points=16)
    day = np.asarray(run.counts.day, float)
    times = np.linspace(0, END, 17)
    means = np.array([area(lambda t: 20 * max(math.sin(TURN * t), 0.0), t) for t in times])
    assert (day[:, 4:9] == day[:, [4]]).all()
    assert (day[:, 12:] == day[:, [12]]).all()
    assert_moments(day[:, 1:], means[1:], means[1:])
    assert (np.asarray(run.steps) == day[:, -1]).all()  # events, without the candidates that are none
    assert np.mean(run.rejected) < np.mean(run.steps)


class Crowd(AbstractReactionNetwork):
    """Births by season that crowding prevents, and deaths in pairs in another rhythm."""

    State = ImmigrationDeath.State
    reactions: ClassVar = {
        "birth": reaction("0 -> X", mass_action=False),
        "pair": reaction("2 X -> 0"),
        "leave": reaction("X -> 0"),
    }

    birth: Scalar = parameter("1/time", "rate")
    pair: Scalar = parameter("1/time", "rate")

    def rates(self, t, y):
        wave = jnp.sin(7 * t + 0.1 * y.X)
        return self.birth * (1 + 0.9 * wave) / (1 + 0.2 * y.X), self.pair * (1 + jnp.cos(4 * t)), 0.3 * t


@pytest.mark.more
def test_a_rate_of_time_and_state_follows_the_master_equation():
    birth, pair, states = 25.0, 0.15, np.arange(60)

    def slope(t, p):
        grows = birth * (1 + 0.9 * np.sin(7 * t + 0.1 * states)) / (1 + 0.2 * states)
        pairs, leaves = pair * (1 + np.cos(4 * t)) * states * (states - 1) / 2, 0.3 * t * states
        change = -(grows + pairs + leaves) * p
        change[1:] += (grows * p)[:-1]
        change[:-2] += (pairs * p)[2:]
        change[:-1] += (leaves * p)[1:]
        return change

    start = np.zeros(60)
    start[4] = 1
    exact = solve_ivp(slope, (0, 1.3), start, rtol=1e-9, atol=1e-12).y[:, -1]
    run = jump(lambda numbers: Crowd(*numbers), (birth, pair), (4,), end=1.3, points=2)
    distribution = stats.rv_discrete(values=(states, np.maximum(exact, 0) / np.maximum(exact, 0).sum()))
    assert chi_square(np.asarray(run.counts.X)[:, -1], distribution) > 1e-6


NODES = np.array([0.0, 0.4, 0.9, 1.1, 2.5])
ARRIVALS, LOSSES = np.array([0.0, 40.0, 40.0, 0.0, 12.0]), np.array([0.2, 3.0, 0.5, 0.5, 2.0])


def curved(interpolation):
    def make(numbers):
        arrival = Curve(jnp.asarray(NODES), numbers[0], interpolation)
        loss = Curve(jnp.asarray(NODES) + 0.05, numbers[1], "previous")
        rates = {"alpha": arrival, "mu": loss}
        return scheduled(ImmigrationDeath(alpha=jnp.asarray(0.0), mu=jnp.asarray(0.0)), rates)

    return make


@pytest.mark.more
@pytest.mark.parametrize("interpolation", ["linear", "cubic"])
def test_curves_that_change_and_curves_that_jump(interpolation):
    """Immigration by a curve through points of rate zero, deaths at a rate that jumps."""
    arrival = Curve(NODES, ARRIVALS, interpolation)
    loss = Curve(NODES + 0.05, LOSSES, "previous")
    means = population(lambda t: float(arrival(t)), lambda t: float(loss(t)), TIMES)[1:]
    run = jump(curved(interpolation), (ARRIVALS, LOSSES), (0,))
    assert set(np.unique(run.status)) == {WAITING}
    assert_moments(np.asarray(run.counts.X, float)[:, 1:], means, means)
    assert chi_square(np.asarray(run.counts.X)[:, -1], stats.poisson(means[-1])) > 1e-6


@pytest.mark.more
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_events_do_not_depend_on_the_saved_times(dtype):
    """Bit for bit, though paths go on from saved times with rates that a curve has over longer ones."""
    for make, numbers, start in (
        (seasons, (12.0, 20.0, 0.6), (0, 0, 60, 0)),
        (curved("cubic"), (ARRIVALS, LOSSES), (0,)),
    ):
        few, many = (jump(make, numbers, start, paths=256, dtype=dtype, points=n) for n in (2, 16))
        for a, b in zip(few.counts, many.counts, strict=True):
            assert (np.asarray(a) == np.asarray(b)[:, ::8]).all()
        assert (np.asarray(few.steps) == np.asarray(many.steps)).all()


class Wild(AbstractReactionNetwork):
    """Arrivals at a rate that may be anything."""

    State = ImmigrationDeath.State
    reactions: ClassVar = {"arrive": reaction("0 -> X")}

    level: Scalar = parameter("1/time", "rate")
    pole: Scalar = parameter("1/time", "rate")

    def rates(self, t, y):
        return (self.level * jnp.cos(t) + jnp.where(self.pole > 0, self.pole / jnp.sqrt(abs(t - 1)), 0.0),)


@pytest.mark.parametrize(
    ("level", "pole", "status"),
    [
        (4.0, 0.0, BAD_PROPENSITY),  # negative from pi/2 on
        (math.nan, 0.0, BAD_PROPENSITY),
        (0.0, 1.0, NO_BOUND),
        (1e6, 0.0, TOO_MANY_STEPS),
        (0.0, 0.0, WAITING),
    ],
)
def test_why_a_path_ends_early(level, pole, status):
    run = jump(
        lambda numbers: Wild(*numbers), (level, pole), (0,), paths=64, points=2, end=3.0, max_steps=2000
    )
    assert set(np.unique(run.status)) == {status}
    assert (np.asarray(run.reached) < 3).all() == (status != WAITING)


class Tabulated(AbstractReactionNetwork):
    State = ImmigrationDeath.State
    reactions: ClassVar = {"arrive": reaction("0 -> X")}

    def rates(self, t, y):
        return (jnp.interp(t, jnp.arange(3.0), jnp.arange(3.0)),)


def test_which_methods_follow_rates_that_change():
    direct, others = type(make_solver("DirectMethod")), ("NextReaction", "CommonReactionPaths", "TauLeaping")
    seasonal = Seasons(1.0, 1.0, 1.0)
    assert varies(seasonal)
    assert not varies(ImmigrationDeath(1.0, 1.0))
    check_rates(seasonal, direct)
    for name in others:
        with pytest.raises(ValueError, match=rf"^Seasons: a rate .*{name} takes .*; use DirectMethod"):
            check_rates(seasonal, type(make_solver(name)))
    with pytest.raises(ValueError, match=r"^Tabulated: a rate depends on t by .* as a curve, or"):
        check_rates(Tabulated(), direct)
