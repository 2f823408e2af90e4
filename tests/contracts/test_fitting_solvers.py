"""Which solver fits which problem, by calculus, noise and structure; unfit ones are refused."""

import itertools

import diffrax
import jax.numpy as jnp
import pytest
from simkit_solvers import (
    SOLVERS,
    AbstractODE,
    AbstractSDE,
    Draw,
    Grid,
    States,
    check_solver,
    integrate,
    make_solver,
    stepper_for,
    strong_order,
    weak_order,
)
from simkit_solvers.problems.terms import takes_halves
from solver_problems import Additive, Commutative, Damped, Driven, General, PairNoise, PairState, Volatile
from test_solvers import PROBLEMS

NOISY = [name for name, info in SOLVERS.items() if "general" in info.noise_kinds or "Milstein" in name]


class StratonovichGrowth(AbstractSDE):
    """dy = y dW, whose mean grows in the Stratonovich sense only."""

    State = PairState
    Noise = PairNoise
    calculus = "ito"
    noise_kind = "commutative"

    def drift(self, t, y):
        return PairState(x=0.0 * y.x, v=0.0)

    def noise(self, t, y, dW):
        return PairState(x=y.x * dW.W1, v=0.0 * dW.W2)


@pytest.mark.parametrize("name", NOISY)
def test_calculus(name):
    """The mean over an increment and its opposite grows by h/2 in the Stratonovich sense alone."""
    stepper, problem, h = stepper_for(make_solver(name)), StratonovichGrowth(), jnp.asarray(1e-4)
    y, zero = PairState(jnp.asarray(1.0), jnp.asarray(0.0)), jnp.asarray(0.0)
    ends = []
    for sign in (1.0, -1.0):
        draw = Draw((jnp.asarray(sign), zero), *([(zero, zero)] * stepper.areas))
        ends.append(stepper.step(problem, zero, h, y, draw, stepper.init(problem, zero, h, y))[0].x)
    growth = 0.5e-4 if SOLVERS[name].calculus == "stratonovich" else 0.0
    assert sum(ends) / 2 - 1 == pytest.approx(growth, abs=1e-7)


REFUSALS = [
    (
        "Heun",
        General(),
        "converges to the Stratonovich solution, General is an Itô model; use EulerMaruyama .*, or let it",
    ),
    (
        "EulerMaruyama",
        General(calculus="stratonovich"),
        "converges to the Itô solution, General is a Stratonovich",
    ),
    (
        "ItoMilstein",
        General(),
        "is for additive, scalar, diagonal or commutative noise, General has general noise; use "
        r"EulerMaruyama \(strong order 0\.5\) or PlatenWeak2 \(weak order 2\)$",
    ),
    ("Tsit5", General(), "is for ordinary problems, General is stochastic; use EulerMaruyama"),
    ("SPaRK", Driven(), "is for stochastic problems, Driven is an ordinary one; use Tsit5"),
    (
        "SRA1",
        Commutative(calculus="stratonovich"),
        "is for additive noise, Commutative has commutative noise; use SPaRK or EulerHeun$",
    ),
    ("DirectMethod", Driven(), "is for reaction networks, and Driven is not one; use Tsit5"),
    ("TauLeaping", General(), "is for reaction networks, and General is not one; use EulerMaruyama"),
    (
        "ExactSampling",
        General(),
        "draws from the transition distribution of the model, and General gives none .*; use",
    ),
    ("ExactSampling", Driven(), "is for stochastic problems, Driven is an ordinary one; use Tsit5"),
    (
        "AndersenQE",
        Additive(),
        "is for variances with a square root, and Additive has none .*; use ShARK",
    ),
    (
        "AndersenQE",
        Volatile(xi=0.0),
        "divides by the volatility of the variance, and that of Volatile is 0; use",
    ),
    (
        "ALIGN",
        Additive(),
        r"is for underdamped Langevin models \(.*\), such as DoubleWellLangevin, and Additive is not one; "
        r"use ShARK or SRA1 \(strong order 1.5\)$",
    ),
]


@pytest.mark.parametrize(("name", "problem", "reason"), REFUSALS)
def test_refused_with_the_reason(name, problem, reason):
    with pytest.raises(ValueError, match=f"solver {name} {reason}"):
        check_solver(make_solver(name), problem)


def test_a_misspelt_calculus_is_named():
    with pytest.raises(
        ValueError, match=r"^Commutative.calculus: must be ito, stratonovich or any, got 'itoo'$"
    ):
        check_solver(make_solver("EulerMaruyama"), Commutative(calculus="itoo"))


@pytest.mark.parametrize(
    ("name", "noise", "calculus"),
    list(itertools.product(NOISY, PROBLEMS, ("ito", "stratonovich", "any"))),
)
def test_fits_exactly_when_calculus_and_noise_do(name, noise, calculus):
    info, problem = SOLVERS[name], PROBLEMS[noise](calculus=calculus)
    if calculus in ("any", info.calculus) and noise in info.noise_kinds:
        check_solver(make_solver(name), problem)
        assert strong_order(make_solver(name), problem) <= weak_order(make_solver(name), problem)
    else:
        with pytest.raises(ValueError, match="use "):
            check_solver(make_solver(name), problem)


class DampedLater(AbstractODE):
    """A pendulum whose friction is zero at time zero."""

    State = PairState

    def drift(self, t, y):
        return PairState(x=y.v, v=-jnp.sin(y.x) - 0.1 * t * y.v)


@pytest.mark.parametrize(
    "name", [name for name, info in SOLVERS.items() if info.problem == ("ode",) and takes_halves(info.cls)]
)
def test_splitting_needs_a_separable_problem(name):
    check_solver(make_solver(name), Driven(), PairState(0.3, 0.1))
    for problem in (Damped(), DampedLater()):
        wanted = (
            rf"^solver {name} needs .*half of the variables \(x\).*second half \(v\).*Damped.* does not; use"
        )
        with pytest.raises(ValueError, match=wanted):
            check_solver(make_solver(name), problem)


@pytest.mark.parametrize("solver", [diffrax.LeapfrogMidpoint(), diffrax.HalfSolver(diffrax.Heun())])
def test_what_would_run_and_be_wrong_is_refused_in_the_loop_too(solver):
    y0 = PairState(jnp.asarray(0.1), jnp.asarray(0.2))
    with pytest.raises(ValueError, match=f"solver {type(solver).__name__} does not run on a fixed grid"):
        integrate(Driven(), solver, y0, Grid(0.0, 0.1, 2, 1), None, States())


def test_unregistered_class_of_a_known_name():
    class Heun(diffrax.Heun):
        pass

    with pytest.raises(ValueError, match="solver Heun is not registered"):
        check_solver(Heun(), Driven())
