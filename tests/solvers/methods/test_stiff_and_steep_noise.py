"""Drift-implicit and tamed steps: the equations that define them, and the drifts that they are for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import Draw, make_solver, stepper_for
from solver_problems import Diagonal, PairState
from user_code import user_jit

T, H = 0.3, 0.2
Y = PairState(0.4, -0.9)
Z = (0.7, -1.1)
EXPLICIT = {
    "DriftImplicitEuler": "EulerMaruyama",
    "ImplicitMilstein": "Milstein",
    "TamedEuler": "EulerMaruyama",
}


class Steep(Diagonal):
    """A drift that pulls inwards a thousand times as hard, in one variable by its cube."""

    def drift(self, t, y):
        return PairState(x=-1000.0 * y.x, v=-1000.0 * y.v**3)


def stepped(name, problem, y=Y, h=H):
    stepper = stepper_for(make_solver(name))
    y, h, t = jax.tree.map(jnp.asarray, y), jnp.asarray(h), jnp.asarray(T)
    draw = Draw(tuple(map(jnp.asarray, Z)))
    return stepper.step(problem, t, h, y, draw, stepper.init(problem, t, h, y))[0]


def noise_part(name, problem, y=Y, h=H):
    """What the explicit counterpart adds to y + f h."""
    y1, f = stepped(EXPLICIT[name], problem, y, h), problem.drift(T, y)
    return [a - b - h * c for a, b, c in zip(y1, y, f, strict=True)]


@pytest.mark.parametrize("name", ["DriftImplicitEuler", "ImplicitMilstein"])
@pytest.mark.parametrize("problem", [Diagonal(), Steep()])
def test_an_implicit_step_takes_the_drift_at_its_end(name, problem):
    y1, noise = stepped(name, problem), noise_part(name, problem)
    f1 = problem.drift(T + H, y1)
    expected = [y + H * f + g for y, f, g in zip(Y, f1, noise, strict=True)]
    np.testing.assert_allclose(np.array(y1), expected, rtol=1e-9, atol=1e-7)
    assert np.max(np.abs(y1)) < 2


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("DriftImplicitEuler", 0.0),
        ("ImplicitMilstein", 1e-7),
        pytest.param("DriftImplicitEuler", 1e-7, marks=pytest.mark.more),
        pytest.param("ImplicitMilstein", 0.0, marks=pytest.mark.more),
    ],
)
def test_an_implicit_step_from_zero_arrives(name, start):
    """y (1 + 8 h) = y0 + h + g: also where noise and drift nearly cancel and the change is rounding."""

    class Pulled(Diagonal):
        def drift(self, t, y):
            return PairState(x=1.0 - 8.0 * y.x, v=-y.v)

    h, t, zero = jnp.float32(0.125), jnp.float32(0.0), jnp.float32(0.0)
    stepper, y = stepper_for(make_solver(name)), PairState(jnp.float32(start), zero)

    def step(z):
        draw = Draw((z, zero))
        return stepper.step(Pulled(), t, h, y, draw, stepper.init(Pulled(), t, h, y))[0].x

    z = jnp.linspace(-3.0, 3.0, 20_001, dtype=jnp.float32)
    noise = 0.4 * np.sqrt(1 + start**2) * np.sqrt(0.125) * np.asarray(z, float)
    if name == "ImplicitMilstein":
        noise += 0.5 * 0.16 * start * 0.125 * (np.asarray(z, float) ** 2 - 1)
    np.testing.assert_allclose(user_jit(jax.vmap(step))(z), (start + 0.125 + noise) / 2, atol=1e-4)


def test_milstein_s_part_is_in_the_implicit_step():
    assert not np.allclose(stepped("DriftImplicitEuler", Diagonal()), stepped("ImplicitMilstein", Diagonal()))


def test_a_tamed_step_is_shorter_than_one():
    """And in the direction of the drift; where the drift is small, it is nearly Euler's."""
    y1, noise = stepped("TamedEuler", Steep()), noise_part("TamedEuler", Steep())
    change = np.array([a - y - g for a, y, g in zip(y1, Y, noise, strict=True)])
    drift = H * np.array(Steep().drift(T, Y))
    np.testing.assert_allclose(change, drift / (1 + np.linalg.norm(drift)), rtol=1e-9)
    h = 1e-6
    np.testing.assert_allclose(
        stepped("TamedEuler", Diagonal(), h=h), stepped("EulerMaruyama", Diagonal(), h=h), atol=2 * h**2
    )


def test_a_drift_whose_square_overflows_is_tamed():
    """Beyond 1e19 in float32: still a step of length one, not of none."""
    steepest = Y._replace(x=jnp.float32(1e30), v=jnp.float32(0.0))
    stepper, h = stepper_for(make_solver("TamedEuler")), jnp.float32(H)
    rest = Draw((jnp.float32(0.0), jnp.float32(0.0)))
    zero = PairState(jnp.float32(0.0), jnp.float32(0.0))

    class Outwards(Diagonal):
        def drift(self, t, y):
            return steepest

    y1 = stepper.step(Outwards(), jnp.float32(T), h, zero, rest, None)[0]
    np.testing.assert_allclose(np.array(y1), [1.0, 0.0], rtol=1e-6)
