"""Which limit adaptive steps have where noise does not commute, and what is refused for a wrong one."""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
import pytest
from brownian_trees import ensemble, leaves, tree_of
from simkit_solvers import (
    SOLVERS,
    AbstractSDE,
    AdaptiveGrid,
    Draw,
    Grid,
    Scalar,
    States,
    Tolerances,
    in_calculus,
    integrate,
    make_solver,
    stepper_for,
)
from simkit_solvers.loops.adaptive_sde import _integrate
from simkit_solvers.methods.solver_check import check_adaptive_sde
from simkit_solvers.random.draws import H_SCALE
from solver_problems import Additive, Diagonal, General, Given, PairNoise

LEVEL = 11  # of the fixed grid that is compared with


@functools.cache
def generally(solver, calculus):
    """Programs of the adaptive paths at a tolerance, and of those on a fixed grid."""
    problem, method = in_calculus(General(calculus="ito", loud=1.5), calculus), make_solver(solver)
    y0, t0, t1 = problem.State(jnp.asarray(0.4), jnp.asarray(-0.9)), 0.1, 0.6

    def adaptive(path, atol):
        grid = AdaptiveGrid(t0, t1, Tolerances(0.0, atol))
        rows = _integrate(problem, method, y0, grid, tree_of(path), States()).rows
        return jnp.stack([x[-1] for x in rows.values()])

    def fixed(path):
        normals = leaves(tree_of(path), 2, stepper_for(method).areas, LEVEL)
        grid = Grid(t0, (t1 - t0) / 2**LEVEL, 2**LEVEL, 2**LEVEL)
        rows = integrate(problem, method, y0, grid, Given(normals), States())
        return jnp.stack([x[-1] for x in rows.values()])

    return ensemble(adaptive), ensemble(fixed)


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["EulerHeun", "SPaRK", "Milstein"])
def test_noise_that_does_not_commute_has_the_right_limit(solver):
    """That of a fine fixed grid on the same Brownian path."""
    adaptive, fixed = generally(solver, SOLVERS[solver].calculus)
    loose, tight = (adaptive(512, atol) - fixed(512) for atol in (1e-2, 3e-4))
    assert np.mean(tight**2) < np.mean(loose**2) / 9
    assert np.abs(np.mean(tight, 0)).max() < 0.0015


@pytest.mark.slow
def test_noise_that_does_not_commute_leads_euler_maruyama_astray():
    """Its mean error does not become smaller; that of the other methods is a twentieth of it."""
    exact = generally("EulerHeun", "stratonovich")[1](512)
    loose, tight = (generally("EulerMaruyama", "ito")[0](512, atol) - exact for atol in (1e-2, 3e-4))
    assert np.abs(np.mean(tight, 0)).max() > 0.02
    assert np.abs(np.mean(tight, 0)).max() > 0.8 * np.abs(np.mean(loose, 0)).max()


class HeisenbergState(NamedTuple):
    x: Scalar
    y: Scalar
    area: Scalar


class Heisenberg(AbstractSDE):
    """Two Brownian motions and their Lévy area."""

    State = HeisenbergState
    Noise = PairNoise
    calculus = "stratonovich"
    noise_kind = "general"

    def drift(self, t, y):
        return HeisenbergState(0.0, 0.0, 0.0)

    def noise(self, t, y, dW):
        return HeisenbergState(dW.W1, dW.W2, 0.5 * (y.x * dW.W2 - y.y * dW.W1))


@pytest.mark.parametrize(
    "name",
    [n for n, info in SOLVERS.items() if "general" in info.noise_kinds and info.calculus == "stratonovich"],
)
def test_the_record_knows_whose_area_is_unbiased(name):
    """A step's area is its mean given W, which is zero, or given W and H, which is H1 W2 - W1 H2."""
    stepper, h = stepper_for(make_solver(name)), jnp.asarray(0.3)
    w, a = (0.7, -1.1), (0.4, 0.9)
    draw = Draw(*(tuple(map(jnp.asarray, kind)) for kind in (w, a)[: stepper.areas + 1]))
    y, t = HeisenbergState(*map(jnp.asarray, (0.0, 0.0, 0.0))), jnp.asarray(0.0)
    y1, _ = stepper.step(Heisenberg(), t, h, y, draw, stepper.init(Heisenberg(), t, h, y))
    mean = h * H_SCALE * (a[0] * w[1] - w[0] * a[1]) if stepper.areas else 0.0
    assert bool(jnp.abs(y1.area - mean) < 1e-12) == SOLVERS[name].unbiased_area


@pytest.mark.parametrize(
    ("solver", "problem", "message"),
    [
        (
            "EulerMaruyama",
            Diagonal(),
            "can make EulerMaruyama converge to a wrong limit on diagonal noise .*; use Milstein, or",
        ),
        (
            "PlatenWeak2",
            General(),
            "PlatenWeak2 converge .* general noise .* use SPaRK with convert: true, or",
        ),
        ("SlowRK", General(calculus="stratonovich"), "can make SlowRK .* general noise .* SPaRK or Heun, or"),
        ("LeimkuhlerMatthews", Additive(), "can make LeimkuhlerMatthews converge to a wrong limit"),
        (
            "ReversibleHeun",
            General(calculus="stratonovich"),
            "ReversibleHeun carries more than the state .*; use SPaRK or Heun, or give steps",
        ),
        (
            "DerivativeFreeMilstein",
            General(),
            "is for additive, scalar, diagonal or commutative noise, .*; use SPaRK with convert: true",
        ),
        ("Heun", Diagonal(), "solver Heun converges to the Stratonovich solution"),
    ],
)
def test_a_solver_with_a_wrong_limit_is_refused(solver, problem, message):
    with pytest.raises(ValueError, match=message):
        check_adaptive_sde(make_solver(solver), problem)
