"""States in float32 over many steps: rounding neither adds up nor eats what is small."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_physics import GBM, DoubleWellLangevin, Heston, ImmigrationDeath, OrnsteinUhlenbeck
from simkit_solvers import (
    BAOAB,
    SOLVERS,
    AbstractODE,
    AbstractSDE,
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
    seed_key,
)
from simkit_solvers.grids.grid import LONG
from simkit_solvers.loops.blocks import method_of
from simkit_solvers.loops.compensated import AbstractCompensatedStep, can_compensate
from simkit_solvers.methods.model_solver import AbstractModelSolver
from slow_cases import slow_but
from solver_problems import Level, OneNoise, PairState

import simkit
from simkit import InputError, load
from simkit.ensemble import run_ensemble
from simkit.results.dataset import to_dataset

ULP = 2.0**-23


def ran(simulation):
    return simulation, run_ensemble(simulation)


class UnitSlope(AbstractODE):
    """x' = 1."""

    State = Level

    def drift(self, t, y):
        return Level(1.0 + 0.0 * y.x)


class LinearDecay(AbstractODE):
    State = Level
    a: Scalar = 1.0

    def drift(self, t, y):
        return Level(-self.a * y.x)


class Pushed(AbstractSDE):
    """Noise reaches x through v alone."""

    State = PairState
    Noise = OneNoise
    calculus = "any"
    noise_kind = "additive"

    def drift(self, t, y):
        return PairState(x=y.v, v=-y.v)

    def noise(self, t, y, dW):
        return PairState(x=0.0, v=0.5 * dW.W)


class ForcedOscillator(AbstractODE):
    """Separable, and solvable by hand: x'' = 1 - x/4."""

    State = PairState

    def drift(self, t, y):
        return PairState(x=y.v, v=1.0 - 0.25 * y.x)


class Reverting(AbstractSDE):
    State = Level
    Noise = OneNoise
    calculus = "any"
    noise_kind = "additive"

    def drift(self, t, y):
        return Level(1.0 - 0.5 * y.x)

    def noise(self, t, y, dW):
        return Level(0.1 * dW.W)


def case_of(info):
    """A problem that a solver takes, and its start."""
    if info.langevin:
        return DoubleWellLangevin(1.0, 0.01, 1.0, 1.0), DoubleWellLangevin.State(0.0, 1.0)
    if info.name == "ExactSampling":
        return OrnsteinUhlenbeck(0.5, 2.0, 0.1), OrnsteinUhlenbeck.State(1.0)
    if info.name == "AndersenQE":
        return Heston(0.05, 1.5, 0.04, 0.3, -0.5), Heston.State(1.0, 0.04)
    return (Reverting(), Level(0.0)) if "sde" in info.problem else (ForcedOscillator(), PairState(0.0, 0.0))


def ends(problem, solver, y0, steps, dtype, paths=1):
    """The last state on the same noise in any precision."""

    def one_path(path):
        noise = CounterNoise.of(seed_key(1), path) if problem.stochastic else None
        start = type(y0)(*(jnp.asarray(x, dtype) for x in y0))
        return integrate(problem, solver, start, Grid(0.0, 1 / steps, steps, steps), noise, States())

    rows = jax.jit(jax.vmap(one_path))(jnp.arange(paths, dtype=jnp.uint32))
    return np.array([rows[name][:, -1] for name in y0._fields], np.float64)


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("Heun", 10**6),
        ("Tsit5", 10**5),
        ("ImplicitEuler", 20_000),
        pytest.param("Kvaerno3", 20_000, marks=pytest.mark.more),
        ("Rosenbrock23", 20_000),
    ],
)
def test_an_ode_over_many_steps_is_right_to_the_last_digits(name, steps):
    solver = make_solver(name, {})
    assert ends(UnitSlope(), solver, Level(0.0), steps, "float32")[0, 0] == pytest.approx(1.0, abs=3 * ULP)
    single, double = (
        ends(LinearDecay(), solver, Level(1.0), steps, kind)[0, 0] for kind in ("float32", "float64")
    )
    assert single == pytest.approx(double, rel=3 * ULP)


class Doubling(AbstractModelSolver):
    """A solver that is not registered: it takes the state itself, not the difference from it."""

    def check(self, problem):
        pass

    def advance(self, terms, t0, t1, y0, args):
        return jax.tree.map(lambda x: 2 * x, y0)


def test_a_solver_of_states_keeps_them_whether_it_is_registered_or_not():
    assert not can_compensate(Doubling())
    assert ends(LinearDecay(), Doubling(), Level(1.0), 3, "float32")[0, 0] == 8
    with pytest.raises(ValueError, match=r"Doubling.* precision: float64"):
        ends(LinearDecay(), Doubling(), Level(1.0), LONG + 1, "float32")


# A solver of each kind of step, and one that refuses.
FEW = (
    *("EulerMaruyama", "ImplicitMilstein", "ReversibleHeun", "Tsit5", "SRA1"),
    *("Yoshida4", "BAOAB", "Rosenbrock23", "ExactSampling", "AndersenQE"),
)


@pytest.mark.more
@pytest.mark.parametrize(
    "name", slow_but(FEW, [name for name, info in SOLVERS.items() if "jump" not in info.problem])
)
def test_every_solver_is_right_after_many_steps_or_refuses(name):
    problem, y0 = case_of(SOLVERS[name])
    solver, steps = make_solver(name, {}), 10**5
    if not can_compensate(solver):
        with pytest.raises(ValueError, match=rf"{name}.* precision: float64"):
            ends(problem, solver, y0, steps, "float32")
        return
    single, double = (ends(problem, solver, y0, steps, kind, 2) for kind in ("float32", "float64"))
    np.testing.assert_allclose(single, double, atol=1e-5)


@pytest.mark.more
@pytest.mark.parametrize("name", [name for name, info in SOLVERS.items() if "jump" in info.problem])
def test_the_clock_of_a_jump_process_is_right_after_many_events(name):
    """10^5 events and more, or 10^4 leaps: the number of molecules is that of the Poisson distribution."""
    network, paths = ImmigrationDeath(1e5, 1.0), 8
    solver = make_solver(name, {"epsilon": 1e-4} if name == "TauLeaping" else {})

    def one_path(path):
        grid = JumpGrid(jnp.float32(0.0), jnp.float32(1.0), 1, 10**6)
        noise = JumpNoise.of(seed_key(1), path)
        return integrate_jumps(network, solver, network.State(0), grid, noise, States()).counts.X[-1]

    counts = np.asarray(jax.jit(jax.vmap(one_path))(jnp.arange(paths, dtype=jnp.uint32)), float)
    mean = 1e5 * -np.expm1(-1.0)
    assert abs(counts.mean() - mean) < 5 * np.sqrt(mean / paths)


EXACT_METHODS = [name for name, info in SOLVERS.items() if "jump" in info.problem and make_solver(name).exact]


@pytest.mark.parametrize("name", EXACT_METHODS)
def test_times_between_events_may_be_shorter_than_the_clock_resolves(name):
    """From t = 1 on float32 resolves differences of 1.2e-7 in time, and the events here differ by 7.5e-9."""
    rate, span, paths = 2.0**27, 2.0**-15, 8
    network = ImmigrationDeath(rate, 0.0)
    grid = JumpGrid(jnp.float32(0.0), jnp.float32(1.0 + span), 1, 10**5)

    def one_path(path):
        noise, begin = JumpNoise.of(seed_key(1), path), jnp.float32(1.0)
        run = integrate_jumps(
            network, make_solver(name), network.State(0), grid, noise, States(), begin=begin
        )
        return run.counts.X[-1]

    counts = np.asarray(jax.jit(jax.vmap(one_path))(jnp.arange(paths, dtype=jnp.uint32)), float)
    assert abs(counts.mean() - rate * span) < 5 * np.sqrt(rate * span / paths)


@pytest.mark.parametrize(
    ("problem", "solver", "y0"),
    [
        (DoubleWellLangevin(1.0, 1.0, 1.0, 1.0), BAOAB(), DoubleWellLangevin.State(0.5, 1.0)),
        pytest.param(
            DoubleWellLangevin(1.0, 1.0, 1.0, 1.0),
            diffrax.QUICSORT(),
            DoubleWellLangevin.State(0.5, 1.0),
            marks=pytest.mark.slow,
        ),
        (GBM(0.05, 1e-4), EulerMaruyama(), GBM.State(100.0)),
        (GBM(0.05, 0.2), diffrax.SlowRK(), GBM.State(100.0)),
        pytest.param(Pushed(), diffrax.SRA1(), PairState(1.0, 1.0), marks=pytest.mark.more),
    ],
    ids=lambda x: type(x).__name__,
)
def test_a_stochastic_equation_over_many_steps_has_the_path_of_float64(problem, solver, y0):
    single, double = (ends(problem, solver, y0, 2 * LONG, kind, 16) for kind in ("float32", "float64"))
    size = np.abs(double).max(axis=1, keepdims=True)
    assert np.sqrt(np.mean(((single - double) / size) ** 2)) < 5 * ULP


@pytest.mark.parametrize(
    ("problem", "steps", "dtype", "wanted"),
    [
        (UnitSlope(), 16, "float32", True),
        (UnitSlope(), LONG + 1, "float64", False),
        (GBM(0.05, 0.2), LONG, "float32", False),
        (GBM(0.05, 0.2), LONG + 1, "float32", True),
    ],
)
def test_sums_are_compensated_where_it_shows(problem, steps, dtype, wanted):
    """Stochastic equations keep bits and speed where there are few steps, and float64 always does."""
    y0 = problem.State(jnp.ones((), dtype))
    noise = CounterNoise.of(seed_key(1), 0)
    for grid in (Grid(0.0, 0.1, steps, steps), Grid(0.0, 0.1, steps, steps).traced()):
        stepper = method_of(problem, EulerMaruyama(), y0, grid, noise).stepper
        assert isinstance(stepper, AbstractCompensatedStep) == wanted


def test_derivatives_by_both_modes_are_those_of_the_solution():
    """d exp(-a)/da, over 20 000 float32 steps."""
    steps = 2 * LONG

    def end(a):
        grid = Grid(0.0, 1 / steps, steps, steps)
        return integrate(LinearDecay(a), diffrax.Heun(), Level(jnp.float32(1.0)), grid, None, States())["x"][
            -1
        ]

    forward, reverse = jax.jit(lambda a: (jax.jvp(end, (a,), (jnp.ones_like(a),))[1], jax.grad(end)(a)))(
        jnp.float32(0.7)
    )
    assert float(forward) == pytest.approx(-np.exp(-0.7), rel=4 * ULP)
    # The derivative by a parameter is a sum over the steps in float32.
    assert float(reverse) == pytest.approx(-np.exp(-0.7), rel=2e-5)


def test_value_and_step_bias_of_a_run_are_right_to_rounding():
    result = simkit.run(
        {
            "model": {"ode": {"x": 1.0}},
            "initial": {"x": 0},
            "solver": "Heun",
            "precision": "float32",
            "time": {"t1": 1, "steps": 10**5},
            "observe": {"area": "integral(x)", "average": "mean(x)"},
            "ensemble": {"devices": 1},
        }
    )
    for name, exact in (("x", 1.0), ("area", 0.5), ("average", 0.500005)):
        assert float(result[f"{name}_mean"].values.ravel()[-1]) == pytest.approx(exact, abs=4 * ULP)
    assert abs(float(result["x_bias"].values.ravel()[-1])) <= 4 * ULP


@pytest.mark.slow
@pytest.mark.parametrize("noise", [1e-9, pytest.param(0.1, marks=pytest.mark.slow)])
def test_adaptive_steps_of_a_stochastic_equation_lose_nothing(noise):
    """x' = 1 with noise that hides no rounding, and with some: 4000 steps."""
    experiment = {
        "model": {"sde": {"x": {"drift": 1.0, "noise": {"W": noise}}}},
        "initial": {"x": 0},
        "solver": "Milstein",
        "time": {"t1": 1, "rtol": 1e-4, "atol": 1e-6, "first_step": 5e-4},
        "ensemble": {"paths": 8, "devices": 1},
    }
    results = [
        simkit.run(experiment, overrides={"precision": kind})["x_mean"].values.ravel()[-1]
        for kind in ("float32", "float64")
    ]
    assert results[0] == pytest.approx(results[1], abs=4 * ULP)


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "most"), [(1e-7, 1e-3), pytest.param(1e-3, 2e-4, marks=pytest.mark.slow)])
def test_an_error_covers_roundings_that_no_noise_makes_random(noise, most):
    """x' = 0.1 from 1, over steps too few to be compensated: up to 23 of the errors of random roundings."""
    simulation = load(
        {
            "model": {"sde": {"x": {"drift": 0.1, "noise": {"W": noise}}}},
            "initial": {"x": 1},
            "solver": "EulerMaruyama",
            "precision": "float32",
            "time": {"t1": 1, "steps": 10_000},
            "ensemble": {"paths": 64, "devices": 1, "unresolved": "keep"},
            "observe": {"y": {"value": "x", "exact": 1.1}},
        }
    )
    off, z = [], []
    for steps in (3400, 5120, 7000, 9000, 9600, 10_000):
        result = to_dataset(*ran(simulation.with_run(grid=Grid(0.0, 1 / steps, steps, steps))), {})
        off.append(abs(float(result["y_mean"]) - 1.1) / float(result["y_stderr"]))
        z.append(abs(float(result["y_z"])))
        assert float(result["y_stderr"]) < most
    assert max(off) < 3
    assert np.nanmax(z) < 3


@pytest.mark.slow
def test_adaptive_steps_of_an_ordinary_equation_know_what_they_lose():
    """Steps end at 5000 saved times: diffrax adds each to the state, and x' = 1 goes wrong to one side."""
    result = simkit.run(
        {
            "model": {"ode": {"x": 1.0}},
            "initial": {"x": 0},
            "solver": "Rodas5P",
            "precision": "float32",
            "time": {"t1": 1, "rtol": 1e-4, "atol": 1e-6, "max_steps": 10**5},
            "save": {"points": 5000},
            "ensemble": {"devices": 1},
        }
    )
    off, error = abs(result["x_mean"].values.ravel()[-1] - 1), result["x_bias_stderr"].item()
    assert 32 * ULP < off < error


@pytest.mark.parametrize(
    ("solver", "model", "start"),
    [
        ("ReversibleHeun", {"ode": {"x": 1.0}}, {"x": 0}),
        ("ExactSampling", {"type": "GBM", "mu": 0.1, "sigma": 0.2}, {"S": 1}),
        ("AndersenQE", {"type": "CIR", "kappa": 1, "theta": 0.1, "sigma": 0.2}, {"r": 0.1}),
    ],
)
def test_a_solver_that_float32_would_fail_is_refused(solver, model, start):
    experiment = {
        "model": model,
        "initial": start,
        "solver": solver,
        "precision": "float32",
        "time": {"t1": 1, "steps": LONG + 1},
    }
    with pytest.raises(InputError, match=rf"precision: .*{solver}.* float64"):
        load(experiment)
    assert load(experiment | {"precision": "float64"}).experiment.precision == "float64"
    assert load(experiment | {"time": {"t1": 1, "steps": LONG}}).experiment.precision == "float32"
