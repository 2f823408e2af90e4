"""The registry: every solver runs, differentiates and keeps its precision; unfit ones are refused."""

import inspect
import itertools
import re

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import (
    SOLVERS,
    AbstractJumpMethod,
    AbstractODE,
    AbstractSDE,
    AndersenQE,
    Draw,
    Grid,
    JumpGrid,
    JumpNoise,
    SolverInfo,
    States,
    StepWords,
    Words,
    check_solver,
    integrate,
    integrate_jumps,
    make_solver,
    seed_key,
    solvers_by_problem,
    stepper_for,
    strong_order,
    weak_order,
)
from simkit_solvers.methods.model_solver import AbstractModelSolver
from simkit_solvers.problems.terms import takes_halves
from solver_problems import (
    MODEL_PROBLEMS,
    Additive,
    Commutative,
    Damped,
    Diagonal,
    Dimers,
    Driven,
    General,
    PairNoise,
    PairState,
    Volatile,
    Wells,
)

PROBLEMS = {"additive": Additive, "diagonal": Diagonal, "commutative": Commutative, "general": General}
NORMALS = np.random.default_rng(1).standard_normal((3, 3, 2, 2))  # path, kind, step, component
PLACES = np.arange(2, dtype=np.uint32)
WORDS = StepWords(Words(PLACES, PLACES), PLACES, PLACES)  # each over the steps
CASES = [(name, kind) for name, info in SOLVERS.items() for kind in info.problem if kind != "jump"]
JUMPS = [name for name, info in SOLVERS.items() if "jump" in info.problem]


def problem_for(name, kind):
    """A problem that a solver takes, its noise as general as it may be."""
    info = SOLVERS[name]
    if kind == "ode":
        return Driven()
    if kind == "model":
        return MODEL_PROBLEMS[name]
    return Wells() if info.langevin else PROBLEMS[info.noise_kinds[-1]](calculus=info.calculus)


def ends(name, kind, dtype, derivatives=False):
    """The end of three paths, and on request its derivatives by one parameter, forward and reverse."""
    problem, solver = problem_for(name, kind), make_solver(name)
    check_solver(solver, problem)
    parameter = "gamma" if isinstance(problem, Wells) else "a"

    stepper, t0, dt = stepper_for(solver), jnp.asarray(0.3, dtype), jnp.asarray(0.1, dtype)

    def end(value, normals):
        arrays = vars(jax.tree.map(lambda x: jnp.asarray(x, dtype), problem))
        changed = type(problem)(**(arrays | {parameter: value}))
        y0 = problem.State(*(jnp.asarray(0.4 - 0.3 * i, dtype) for i in range(len(problem.State._fields))))
        draws = Draw(*(tuple(kind.T) for kind in normals[: stepper.areas + 1]))
        if stepper.variates:
            draws = draws._replace(words=(WORDS,))

        def step(carry, given):
            k, draw = given
            return stepper.step(changed, t0 + k * dt, dt, carry[0], draw, carry[1]), None

        start = y0, stepper.init(changed, t0, dt, y0)
        (y1, _), _ = jax.lax.scan(step, start, (jnp.arange(2, dtype=dtype), draws))
        assert {x.dtype for x in y1} == {dtype}
        return sum(y1)

    def program(value, normals):
        if not derivatives:
            return (end(value, normals),)
        _, forward = jax.jvp(lambda v: end(v, normals), (value,), (jnp.ones_like(value),))
        result, reverse = jax.value_and_grad(end)(value, normals)
        return result, forward, reverse

    mapped = jax.jit(jax.vmap(program, in_axes=(None, 0)))
    results = mapped(jnp.asarray(0.9, dtype), jnp.asarray(NORMALS, dtype))
    assert {x.dtype for x in results} == {dtype}
    return np.asarray(results, np.float64)


@pytest.mark.more
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_contract(name, kind):
    """Built, checked, compiled, mapped over paths; derivatives agree, and float32 with float64."""
    value, forward, reverse = ends(name, kind, jnp.dtype("float64"), derivatives=True)
    assert np.isfinite([value, forward]).all()
    assert np.ptp(value) == 0 if kind == "ode" else np.ptp(value) > 0
    np.testing.assert_allclose(forward, reverse, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(*ends(name, kind, jnp.dtype("float32")), value, rtol=1e-4, atol=1e-4)


@pytest.mark.more
@pytest.mark.parametrize("name", JUMPS)
def test_contract_of_jump_methods(name):
    """Built, checked, compiled, mapped over paths, in both precisions; the same seed gives the same path."""
    method, network = make_solver(name), Dimers()
    check_solver(method, network)
    results = {}
    for dtype in ("float32", "float64"):

        def one(path, dtype=dtype):
            start = network.State(x=40, v=0)
            grid = JumpGrid(jnp.zeros((), dtype), jnp.ones((), dtype), 2)
            return integrate_jumps(network, method, start, grid, JumpNoise.of(seed_key(3), path), States())

        run = jax.jit(jax.vmap(one))(jnp.arange(16, dtype=jnp.uint32))
        assert {x.dtype for x in run.rows.values()} == {jnp.dtype(dtype)}
        assert {x.dtype for x in run.counts} == {jnp.dtype("int32")}
        assert (run.counts.x + 2 * run.counts.v == 40).all()
        assert (run.reached == 1).all()
        results[dtype] = np.asarray(run.counts.v)[:, -1]
    assert np.ptp(results["float64"]) > 0
    assert np.mean(results["float32"] == results["float64"]) > 0.5  # but where rounding changed an event


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_derivatives_in_float32(name, kind):
    _, forward, reverse = ends(name, kind, jnp.dtype("float32"), derivatives=True)
    close = 100 * float(jnp.finfo(jnp.float32).eps)
    np.testing.assert_allclose(forward, reverse, rtol=close, atol=close)


@pytest.mark.parametrize("name", SOLVERS)
def test_record(name):
    info = SOLVERS[name]
    assert info.cls.__name__ == name
    assert set(info.problem) in ({"ode"}, {"sde"}, {"ode", "sde"}, {"jump"}, {"model"})
    assert ("model" in info.problem) == issubclass(info.cls, AbstractModelSolver)
    assert ("model" in info.problem and info.weak is None) == info.exact
    assert ("jump" in info.problem) == issubclass(info.cls, AbstractJumpMethod)
    assert info.summary.endswith(".")
    assert info.summary.count(". ") == 0
    assert "doi:10." in info.reference
    assert info.origin == ("diffrax" if info.cls.__module__.startswith("diffrax") else "simkit")
    assert ("sde" in info.problem) == (info.strong is not None)
    assert ("sde" in info.problem or "model" in info.problem) == (info.weak is not None or info.exact)
    assert ("sde" in info.problem) == (info.calculus in ("ito", "stratonovich", "any"))
    assert ("ode" in info.problem) == (info.order is not None)
    if info.origin == "diffrax" and info.calculus:
        expected = diffrax.AbstractItoSolver if info.calculus == "ito" else diffrax.AbstractStratonovichSolver
        assert issubclass(info.cls, expected)


ALL = ("additive", "scalar", "diagonal", "commutative", "general")
CLAIMS = {  # the kinds of noise taken, and for each kind, in this order, the strong and the weak order
    "EulerMaruyama": (5, (1, 0.5, 0.5, 0.5, 0.5), (1, 1, 1, 1, 1)),
    "Milstein": (4, (1, 1, 1, 1), (1, 1, 1, 1)),
    "DerivativeFreeMilstein": (4, (1, 1, 1, 1), (1, 1, 1, 1)),
    "SRIW1": (3, (1.5, 1.5, 1.5), (2, 2, 1.5)),
    "PlatenWeak2": (5, (1, 1, 1, 1, 0.5), (2, 2, 2, 2, 2)),
    "TamedEuler": (5, (1, 0.5, 0.5, 0.5, 0.5), (1, 1, 1, 1, 1)),
    "DriftImplicitEuler": (5, (1, 0.5, 0.5, 0.5, 0.5), (1, 1, 1, 1, 1)),
    "ImplicitMilstein": (4, (1, 1, 1, 1), (1, 1, 1, 1)),
    "Euler": (5, (1, 0.5, 0.5, 0.5, 0.5), (1, 1, 1, 1, 1)),
    "Heun": (5, (1, 1, 1, 1, 0.5), (2, 1, 1, 1, 1)),
    "Midpoint": (5, (1, 1, 1, 1, 0.5), (1, 1, 1, 1, 1)),
    "Ralston": (5, (1, 1, 1, 1, 0.5), (1, 1, 1, 1, 1)),
    "ReversibleHeun": (5, (1, 1, 1, 1, 0.5), (2, 1, 1, 1, 1)),
    "EulerHeun": (5, (1, 1, 1, 1, 0.5), (1, 1, 1, 1, 1)),
    "ItoMilstein": (4, (1, 1, 1, 1), (1, 1, 1, 1)),
    "StratonovichMilstein": (4, (1, 1, 1, 1), (1, 1, 1, 1)),
    "SEA": (1, (1,), (1,)),
    "SRA1": (1, (1.5,), (2,)),
    "ShARK": (1, (1.5,), (2,)),
    "GeneralShARK": (5, (1.5, 1, 1, 1, 0.5), (2, 1, 1, 1, 1)),
    "SlowRK": (5, (1.5, 1.5, 1.5, 1.5, 0.5), (2, 2, 2, 2, 1)),
    "SPaRK": (5, (1.5, 1, 1, 1, 0.5), (2, 1, 1, 1, 1)),
    "ALIGN": (1, (2,), (2,)),
    "ShOULD": (1, (3,), (3,)),
    "QUICSORT": (1, (3,), (3,)),
    "BAOAB": (1, (1,), (2,)),
    "LeimkuhlerMatthews": (1, (0.5,), (1,)),
}


def test_each_solver_claims_what_its_paper_does():
    """The orders are measured elsewhere, as recorded; here it is distinguished from a wrong one."""
    stochastic = {name for name, info in SOLVERS.items() if "sde" in info.problem}
    assert set(CLAIMS) == stochastic, (
        "state in CLAIMS the orders that the paper of each stochastic solver claims"
    )
    for name, (count, strong, weak) in CLAIMS.items():
        info = SOLVERS[name]
        assert info.noise_kinds == ALL[:count], name
        assert info.strong is not None
        assert info.weak is not None
        assert tuple(info.strong.of(kind) for kind in ALL[:count]) == strong, name
        assert tuple(info.weak.of(kind) for kind in ALL[:count]) == weak, name


def test_every_diffrax_solver_has_a_record_or_a_reason():
    classes = {
        name
        for name, cls in vars(diffrax).items()
        if inspect.isclass(cls)
        and issubclass(cls, diffrax.AbstractSolver)
        and not name.startswith("Abstract")
    }
    for name in classes - set(SOLVERS):
        with pytest.raises(ValueError, match=f"solver {name} does not run on a fixed grid: it"):
            make_solver(name)


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


BAD_INPUT = [
    ("tsit", {}, "unknown solver 'tsit'; did you mean 'Tsit5'?"),
    (
        "LeapfrogMidpoint",
        {},
        "solver LeapfrogMidpoint does not run on a fixed grid: its state holds an absolute time",
    ),
    ("Tsit5", {"rtol": 1e-3}, "solver Tsit5 has no option 'rtol'; it has none"),
    ("SPaRK", {"scan_kind": "lax"}, "solver SPaRK has no option 'scan_kind'; it has none"),
    ("Kvaerno5", {"rtl": 1e-3}, "solver Kvaerno5 has no option 'rtl'; did you mean 'rtol'?"),
    ("Kvaerno5", {"root_finder": 1}, "solver Kvaerno5 has no option 'root_finder'"),
    (
        "Kvaerno5",
        {"root_find_max_steps": 2.5},
        "root_find_max_steps must be a positive whole number, got 2.5",
    ),
    ("Kvaerno5", {"rtol": -1.0}, "rtol must be a positive number, got -1.0"),
    ("Kvaerno5", {"rtol": True}, "rtol must be a positive number, got True"),
    ("Kvaerno5", {"atol": float("nan")}, "atol must be a positive number, got nan"),
]


@pytest.mark.parametrize(("name", "options", "message"), BAD_INPUT)
def test_bad_input(name, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_solver(name, options)


def test_a_record_has_what_its_problem_needs():
    with pytest.raises(
        ValueError, match=r"^SolverInfo of Euler: give its order, or calculus, strong and weak$"
    ):
        SolverInfo(diffrax.Euler, "A solver.")
    with pytest.raises(ValueError, match="'sde' needs strong, weak too"):
        SolverInfo(diffrax.Euler, "A solver.", order=1, calculus="ito")
    with pytest.raises(ValueError, match="'model' needs weak too"):
        SolverInfo(AndersenQE, "A solver.")


def test_options_arrive():
    solver = make_solver("KenCarp4", {"root_find_max_steps": 7, "rtol": 1e-3, "atol": 1e-5})
    assert (solver.root_find_max_steps, solver.root_finder.rtol, solver.root_finder.atol) == (7, 1e-3, 1e-5)
    assert make_solver("ALIGN", {"taylor_threshold": 0.01}).taylor_threshold == 0.01
    for info in SOLVERS.values():
        assert make_solver(info.name, {k: v for k, v in info.options.items() if v}) == make_solver(info.name)


def test_every_solver_is_in_a_group_of_problems():
    groups = solvers_by_problem(SOLVERS.values())
    listed = [info.name for group in groups.values() for info in group]
    assert set(listed) == set(SOLVERS)
    for name, info in SOLVERS.items():
        assert listed.count(name) == len(info.problem)
    assert {info.name for info in groups["separable ordinary equations"]} >= {"Leapfrog", "SemiImplicitEuler"}
    assert {info.name for info in groups["stiff ordinary equations"]} >= {"Kvaerno5", "Rodas5P"}
