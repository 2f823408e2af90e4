"""Where fixed points of the models lose their stability, the periods of their cycles, and chaos."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from model_examples import build
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, root
from simkit_physics import (
    Brusselator,
    DoublePendulum,
    FitzHughNagumo,
    HodgkinHuxley,
    Lorenz63,
    Oregonator,
    VanDerPol,
)
from simkit_solvers import (
    Grid,
    States,
    integrate,
    make_solver,
)
from user_code import user_jit


def jacobian(problem, y):
    derivative = jax.jacfwd(lambda x: jnp.stack(problem.drift(0.0, problem.State(*x))))
    return np.asarray(derivative(jnp.stack([jnp.asarray(x, float) for x in y])))


def test_the_flow_of_lorenz63_shrinks_volumes_at_the_known_rate():
    assert np.trace(jacobian(build(Lorenz63), (1.0, 2.0, 3.0))) == pytest.approx(-(10 + 1 + 8 / 3))


def test_the_brusselator_begins_to_swing_where_it_should():
    for a, b in ((1.0, 2.0), (1.5, 3.25)):
        eigenvalues = np.linalg.eigvals(jacobian(Brusselator(a=a, b=b), (a, b / a)))
        np.testing.assert_allclose(eigenvalues.real, 0, atol=1e-12)
        np.testing.assert_allclose(np.abs(eigenvalues.imag), a, rtol=1e-12)


def growth(problem, guess):
    """The largest real part of the eigenvalues at the fixed point near a guess, and the point."""
    rates = user_jit(lambda x: jnp.stack(problem.drift(0.0, problem.State(*x))))
    point = root(rates, guess, tol=1e-12).x
    return np.linalg.eigvals(jacobian(problem, point)).real.max(), point


def test_fitzhugh_nagumo_fires_between_the_known_currents():
    """The fixed point loses its stability where v^2 = 1 - epsilon b."""
    example = FitzHughNagumo.example
    v = -np.sqrt(1 - example["epsilon"] * example["b"])
    for sign in (1, -1):
        w = (sign * v + example["a"]) / example["b"]
        current = w - sign * v + (sign * v) ** 3 / 3
        real, point = growth(FitzHughNagumo(**{**example, "I": current}), (sign * v, w))
        assert real == pytest.approx(0, abs=1e-9)
        assert current == pytest.approx({1: 0.33, -1: 1.42}[sign], abs=5e-3)
        np.testing.assert_allclose(point, (sign * v, w), rtol=1e-9)


def test_hodgkin_huxley_is_smooth_where_its_rates_are_nought_by_nought():
    """At −40 mV the sodium gate opens at 1 per ms, at −55 mV the potassium gate at 0.1."""
    problem = build(HodgkinHuxley)
    for V, gate, rate, steepness in ((-40.0, "m", 1.0, 0.05), (-55.0, "n", 0.1, 0.005)):

        def opening(V, gate=gate):
            return getattr(problem.drift(0.0, HodgkinHuxley.State(V, 0 * V, 0 * V, 0 * V)), gate)

        assert opening(jnp.asarray(V)) == pytest.approx(rate, rel=1e-14)
        assert jax.grad(opening)(jnp.asarray(V)) == pytest.approx(steepness, rel=1e-12)
        assert opening(jnp.asarray(V + 1e-7)) == pytest.approx(rate + 1e-7 * steepness, rel=1e-13)


def test_hodgkin_huxley_rests_where_it_was_found_to():
    real, (V, m, h, n) = growth(HodgkinHuxley(**{**HodgkinHuxley.example, "I": 0.0}), (-65.0, 0.05, 0.6, 0.3))
    assert real < 0
    assert pytest.approx(-65.0, abs=0.01) == V
    np.testing.assert_allclose((m, h, n), (0.0529, 0.5961, 0.3177), atol=2e-4)


def test_hodgkin_huxley_loses_its_rest_at_the_published_currents():
    """Hopf bifurcations at 9.78 and 154.5 µA/cm²: Hassard (1978), J. Theor. Biol. 71, 401."""

    def at(current, guess):
        return growth(HodgkinHuxley(**{**HodgkinHuxley.example, "I": current}), guess)[0]

    low = brentq(lambda current: at(current, (-60.0, 0.1, 0.4, 0.4)), 9.0, 11.0, xtol=1e-4)
    high = brentq(lambda current: at(current, (-45.0, 0.3, 0.1, 0.6)), 150.0, 160.0, xtol=1e-3)
    assert low == pytest.approx(9.78, abs=0.005)
    assert high == pytest.approx(154.5, abs=0.05)


def cycle(problem, start, level, until, method="DOP853"):
    """The period of the limit cycle, by upward passages of a level of the first variable."""
    rates = user_jit(lambda t, x: jnp.stack(problem.drift(t, problem.State(*x))))

    def passage(t, x):
        return x[0] - level

    passage.direction = 1
    run = solve_ivp(rates, (0, until), start, method, rtol=1e-9, atol=1e-10, events=passage)
    times = run.t_events[0]
    return times[-1] - times[-2]


@pytest.mark.more
@pytest.mark.parametrize(
    ("model", "level", "until", "period"),
    [
        (VanDerPol, 0.0, 60.0, 6.66328685932),
        (Brusselator, 1.5, 60.0, 7.15691992),
        pytest.param(Oregonator, 100.0, 640.0, 302.85805, marks=pytest.mark.slow),
        (HodgkinHuxley, 0.0, 120.0, 14.63620999),
    ],
    ids=lambda x: x.__name__ if isinstance(x, type) else None,
)
def test_swings_with_the_known_period(model, level, until, period):
    """Van der Pol's by Andersen & Geer (1982), SIAM J. Appl. Math. 42, 678, the others by another program."""
    stiff = model is Oregonator
    start = list(model.example_initial.values())
    measured = cycle(build(model), start, level, until, "Radau" if stiff else "DOP853")
    assert measured == pytest.approx(period, rel=1e-6)


def test_hodgkin_huxley_fires_from_seven_millivolts_on():
    """Figure 12 of the paper: from 6 mV above rest there is no spike, from 7, 15 and 90 mV there is."""
    problem = HodgkinHuxley(**{**HodgkinHuxley.example, "I": 0.0})
    rates = user_jit(lambda t, x: jnp.stack(problem.drift(t, problem.State(*x))))
    for kick, fires in {6.0: False, 7.0: True, 15.0: True, 90.0: True}.items():
        run = solve_ivp(rates, (0, 20), (-65.0 + kick, 0.0529, 0.5961, 0.3177), rtol=1e-7, atol=1e-7)
        later = run.y[0][run.t > 0.25]
        assert (35 < later.max() < 45) if fires else (later.max() < -55), kick


def test_a_small_double_pendulum_swings_in_its_two_modes():
    r"""Of equal rods and masses: $\omega^2 = (2 \mp \sqrt2) g/l$."""
    problem = DoublePendulum(m1=1.0, m2=1.0, l1=0.8, l2=0.8, g=9.81)
    squares = np.sort(np.linalg.eigvals(jacobian(problem, (0.0, 0.0, 0.0, 0.0))).imag ** 2)
    wanted = (2 + np.array([-1, -1, 1, 1]) * np.sqrt(2)) * 9.81 / 0.8
    np.testing.assert_allclose(squares, wanted, rtol=1e-9)


def test_lorenz63_has_its_published_lyapunov_exponent():
    """0.9056, from the growth of a tangent vector along 256 members, by jvp through the loop."""
    problem, solver = build(Lorenz63), make_solver("Tsit5")
    grid = Grid(t0=0.0, dt=0.02, steps=50, every=50)

    def flow(y):
        rows = integrate(problem, solver, Lorenz63.State(*y), grid, None, States())
        return tuple(rows[name][-1] for name in Lorenz63.State._fields)

    def stretch(carry, _):
        y, v = carry
        y, v = jax.jvp(flow, (y,), (v,))
        size = jnp.sqrt(sum(x * x for x in v))
        return (y, tuple(x / size for x in v)), jnp.log(size)

    @user_jit
    @jax.vmap
    def exponents(y):
        _, growth = jax.lax.scan(stretch, (y, (1.0 + 0 * y[0], 0 * y[0], 0 * y[0])), None, 120)
        return growth

    starts = np.random.default_rng(0).normal(size=(3, 256)) + np.array([[1.0], [1.0], [25.0]])
    growth = np.asarray(exponents(tuple(map(jnp.asarray, starts))))[:, 20:].mean(axis=1)
    error = growth.std() / np.sqrt(growth.size)
    assert error < 0.004
    assert growth.mean() == pytest.approx(0.9056, abs=5 * error)
