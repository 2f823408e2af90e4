"""What is known of the models: conserved quantities, bifurcations, periods, limits and published numbers."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from model_examples import build, columns, state
from scipy.integrate import solve_ivp
from scipy.optimize import brentq, root
from scipy.special import ellipk, i0, i1
from scipy.stats import kstest, ncx2, norm
from simkit_physics import (
    CEV,
    GBM,
    MODELS,
    SABR,
    Brusselator,
    DampedOscillator,
    DoublePendulum,
    DoubleWell,
    FigureEight,
    FitzHughNagumo,
    HarmonicOscillator,
    HenonHeiles,
    HodgkinHuxley,
    Kepler,
    Lorenz63,
    MultiAssetGBM,
    NBody,
    Oregonator,
    Pendulum,
    StochasticResonance,
    VanDerPol,
    Vasicek,
)
from simkit_physics.nonlinear.kuramoto import AbstractKuramoto
from simkit_physics.nonlinear.lorenz96 import AbstractLorenz96
from simkit_physics.sized import of_size
from simkit_solvers import (
    AbstractHamiltonian,
    CounterNoise,
    Grid,
    Scalar,
    States,
    integrate,
    make_solver,
    seed_key,
)
from solver_problems import OneNoise
from user_code import user_jit


def slope(problem, quantity, y, t=0.3):
    """How fast a quantity changes along the equations, and how large its parts are."""
    gradient, rates = jax.grad(quantity)(y), problem.drift(t, y)
    terms = np.array([g * f for g, f in zip(gradient, rates, strict=True)])
    return terms.sum(), np.abs(terms).sum()


def angular_momentum(y):
    return y.x * y.py - y.y * y.px


CONSERVED = {
    **{
        f"energy of {name}": (name, lambda problem: problem.energy)
        for name, model in MODELS.items()
        if issubclass(model, AbstractHamiltonian)
    },
    "energy of DoublePendulum": ("DoublePendulum", lambda problem: problem.energy),
    "Jacobi's integral": ("Arenstorf", lambda problem: problem.jacobi_integral),
    "angular momentum of a planet": ("Kepler", lambda problem: angular_momentum),
    "angular momentum of three": ("FigureEight", lambda problem: problem.angular_momentum),
    "angular momentum of four": ("NBody", lambda problem: problem.angular_momentum),
    "momentum of four": ("NBody", lambda problem: lambda y: y.px1 + y.px2 + y.px3 + y.px4),
    "matter": ("Robertson", lambda problem: lambda y: y.y1 + y.y2 + y.y3),
    "enzyme": ("HIRES", lambda problem: lambda y: y.y7 + y.y8),
}


@pytest.mark.parametrize("name", CONSERVED)
def test_is_conserved(name):
    model, quantity = CONSERVED[name]
    problem, numbers = build(MODELS[model]), np.random.default_rng(4)
    for _ in range(3):
        y = MODELS[model].State(
            *(jnp.asarray(x) for x in numbers.uniform(0.2, 1.3, len(state(MODELS[model]))))
        )
        total, size = slope(problem, quantity(problem), y)
        assert size > 1e-3
        assert abs(total) < 1e-13 * size


def test_friction_takes_the_energy_that_it_should():
    problem, y = (
        DampedOscillator(m=2.0, c=0.3, k=1.5),
        DampedOscillator.State(jnp.asarray(0.4), jnp.asarray(-0.7)),
    )
    assert slope(problem, problem.energy, y)[0] == pytest.approx(-0.3 * 0.7**2, rel=1e-13)


def test_the_sites_of_lorenz96_exchange_energy_only():
    class FiveState(NamedTuple):
        a: Scalar
        b: Scalar
        c: Scalar
        d: Scalar
        e: Scalar

    class Five(AbstractLorenz96):
        State = FiveState
        F: Scalar

    y = FiveState(*map(jnp.asarray, (1.0, -2.0, 3.0, 0.5, 7.0)))
    change, _ = slope(Five(F=8.0), lambda y: sum(x * x for x in y) / 2, y)
    assert change == pytest.approx(float(8 * sum(y) - sum(x * x for x in y)), rel=1e-13)
    assert Five(F=8.0).drift(0.0, y).c == pytest.approx((0.5 - 1.0) * -2.0 - 3.0 + 8.0)


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


def end(problem, start, t):
    rates = user_jit(lambda t, x: jnp.stack(problem.drift(t, problem.State(*x))))
    return solve_ivp(rates, (0, t), start, "DOP853", rtol=1e-12, atol=1e-12).y[:, -1]


def test_periods_of_pendulum_and_planet():
    """By the elliptic integral, and by Kepler's third law."""
    period = 4 * np.sqrt(0.7 / 9.81) * ellipk(np.sin(1.2) ** 2)
    np.testing.assert_allclose(end(Pendulum(m=2.0, l=0.7, g=9.81), (2.4, 0.0), period), (2.4, 0), atol=1e-9)
    m, GM, a, e = 3.0, 2.0, 1.3, 0.6
    start = ((1 - e) * a, 0.0, 0.0, m * np.sqrt(GM / a * (1 + e) / (1 - e)))
    problem, period = Kepler(m=m, GM=GM), 2 * np.pi * np.sqrt(a**3 / GM)
    np.testing.assert_allclose(end(problem, start, period), start, atol=1e-8)
    x, y, *_ = end(problem, start, period / 2)
    np.testing.assert_allclose((x, y), (-(1 + e) * a, 0), atol=1e-8)


def test_the_damped_oscillator_follows_its_solution():
    m, c, k, t = 2.0, 0.3, 1.5, 7.0
    rate, omega = c / (2 * m), np.sqrt(k / m - (c / (2 * m)) ** 2)
    wanted = np.exp(-rate * t) * (np.cos(omega * t) + rate / omega * np.sin(omega * t))
    assert end(DampedOscillator(m=m, c=c, k=k), (1.0, 0.0), t)[0] == pytest.approx(wanted, rel=1e-9)


def test_the_exact_oscillator_solves_its_equations():
    problem, t = HarmonicOscillator(m=2.0, k=3.0), jnp.asarray(0.7)
    y0 = HarmonicOscillator.State(jnp.asarray(0.4), jnp.asarray(-1.1))
    y, rates = jax.jvp(lambda t: problem.exact_mean(t, y0), (t,), (jnp.ones(()),))
    np.testing.assert_allclose(rates, problem.drift(t, y), rtol=1e-13)


def test_a_small_double_pendulum_swings_in_its_two_modes():
    r"""Of equal rods and masses: $\omega^2 = (2 \mp \sqrt2) g/l$."""
    problem = DoublePendulum(m1=1.0, m2=1.0, l1=0.8, l2=0.8, g=9.81)
    squares = np.sort(np.linalg.eigvals(jacobian(problem, (0.0, 0.0, 0.0, 0.0))).imag ** 2)
    wanted = (2 + np.array([-1, -1, 1, 1]) * np.sqrt(2)) * 9.81 / 0.8
    np.testing.assert_allclose(squares, wanted, rtol=1e-9)


def test_stars_may_leave_henon_heiles_at_a_sixth():
    problem = HenonHeiles(coupling=1.0)
    saddle = (jnp.asarray(0.0), jnp.asarray(1.0))
    np.testing.assert_allclose(problem.force(saddle), 0, atol=1e-15)
    assert problem.potential(saddle) == pytest.approx(1 / 6)


def test_two_of_the_bodies_attract_each_other_as_newton_says():
    problem = FigureEight(G=2.0, m=3.0)
    far = 1e6
    q = tuple(map(jnp.asarray, (0.0, 0.0, 3.0, 4.0, far, far)))
    np.testing.assert_allclose(problem.force(q)[:2], np.array([3.0, 4.0]) / 5 * 2 * 9 / 25, rtol=1e-9)
    soft = NBody(**{**NBody.example, "softening": 12.0, "m1": 3.0, "m2": 3.0, "G": 2.0})
    q = tuple(map(jnp.asarray, (0.0, 0.0, 3.0, 4.0, far, far, -far, far)))
    np.testing.assert_allclose(soft.force(q)[:2], np.array([3.0, 4.0]) * 2 * 9 / 13**3, rtol=1e-6)


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


class PhasesState(NamedTuple):
    theta: Scalar


class Phases(AbstractKuramoto):
    """Any number of phases, as one array."""

    State = PhasesState
    Noise = OneNoise
    K: Scalar
    gamma: Scalar
    D: Scalar
    omega: Scalar = 0.0


def order_after(K, gamma, D, count, dt, steps):
    """The order parameter over the second half of an Euler run that begins with equal phases."""
    problem = Phases(K=K, gamma=gamma, D=D)
    draw = jnp.sqrt(dt)

    def step(theta, key):
        y = PhasesState(theta)
        dW = OneNoise(draw * jax.random.normal(key, theta.shape))
        theta = theta + dt * problem.drift(0.0, y).theta + problem.noise(0.0, y, dW).theta
        return theta, problem.order_parameter(PhasesState(theta))

    keys = jax.random.split(jax.random.key(2), steps)
    return jax.lax.scan(step, jnp.zeros(count), keys)[1][steps // 2 :].mean()


def test_phases_synchronize_beyond_the_critical_coupling():
    r"""$r = \sqrt{1 - K_c/K}$ beyond $K_c = 2\gamma$, and nothing but a remnant of few phases below."""
    couplings = np.array([0.5, 0.8, 1.25, 2.0, 4.0])
    orders = user_jit(jax.vmap(lambda K: order_after(K, 0.5, 0.0, 1000, 0.05, 1600)))(jnp.asarray(couplings))
    assert (orders[:2] < 0.1).all()
    np.testing.assert_allclose(orders[2:], np.sqrt(1 - 1 / couplings[2:]), atol=0.02)


def test_two_oscillators_of_given_frequencies_lock_or_slip():
    r"""$\varphi = \theta_2 - \theta_1$ obeys $\dot\varphi = \Delta\omega - K \sin\varphi$: it rests at
    $\arcsin(\Delta\omega/K)$, or turns with the mean rate $\sqrt{\Delta\omega^2 - K^2}$."""
    model = of_size(MODELS["Kuramoto"], 2)

    def difference(K, until):
        problem = model(K=K, gamma=0.0, D=0.0, omega1=0.3, omega2=1.3)
        rate = user_jit(lambda y: jnp.stack(problem.drift(0.0, model.State(y[0], y[1]))))
        run = solve_ivp(lambda t, y: np.asarray(rate(y)), (0, until), [0.0, 0.0], rtol=1e-10, atol=1e-10)
        return run.y[1, -1] - run.y[0, -1]

    assert difference(1.25, 40.0) == pytest.approx(np.arcsin(0.8), abs=1e-7)
    assert difference(0.6, 8 * 2 * np.pi / 0.8) == pytest.approx(8 * 2 * np.pi, abs=1e-6)


@pytest.mark.slow
def test_noise_desynchronizes_equal_oscillators_below_twice_its_strength():
    r"""With one frequency for all $K_c = 2D$, and beyond it $r = I_1(Kr/D)/I_0(Kr/D)$."""
    D, couplings = 0.5, np.array([0.6, 1.5, 3.0])
    orders = user_jit(jax.vmap(lambda K: order_after(K, 0.0, D, 4000, 0.02, 1500)))(jnp.asarray(couplings))
    assert orders[0] < 0.08
    for K, r in zip(couplings[1:], orders[1:], strict=True):
        wanted = brentq(lambda r, K=K: r - i1(K * r / D) / i0(K * r / D), 0.05, 0.999)
        assert r == pytest.approx(wanted, abs=0.02)


def test_resonance_without_a_drive_is_the_double_well():
    D = 0.07
    problem = StochasticResonance(A=0.0, Omega=0.3, D=D)
    well = DoubleWell(gamma=1.0, u=D, b=1 / (4 * D), a=1.0)
    y, dW = StochasticResonance.State(jnp.asarray(0.6)), StochasticResonance.Noise(jnp.asarray(0.4))
    assert problem.drift(2.0, y).x == pytest.approx(float(well.drift(2.0, DoubleWell.State(y.x)).x))
    assert problem.noise(2.0, y, dW).x == pytest.approx(float(well.noise(2.0, DoubleWell.State(y.x), dW).x))
    driven = StochasticResonance(A=0.2, Omega=0.3, D=D).drift(2.0, y).x - problem.drift(2.0, y).x
    assert driven == pytest.approx(0.2 * np.cos(0.6))


def test_assets_have_the_requested_correlations():
    problem, y = build(MultiAssetGBM), state(MultiAssetGBM)
    own = np.diag([x * s for x, s in zip(y, (0.2, 0.15, 0.3), strict=True)])
    rho = np.array([[1, 0.5, 0.3], [0.5, 1, -0.2], [0.3, -0.2, 1]])
    g = columns(problem, y)
    np.testing.assert_allclose(g @ g.T, own @ rho @ own, rtol=1e-13)
    singular = MultiAssetGBM(**{**MultiAssetGBM.example, "rho12": 1.0, "rho13": 0.4, "rho23": 0.4})
    g = columns(singular, y)
    correlations = np.linalg.solve(own, np.linalg.solve(own, g @ g.T).T)
    np.testing.assert_allclose(correlations, [[1, 1, 0.4], [1, 1, 0.4], [0.4, 0.4, 1]], rtol=1e-13)


def test_impossible_correlations_are_refused():
    wrong = {**MultiAssetGBM.example, "rho12": 0.9, "rho13": 0.9, "rho23": -0.9}
    with pytest.raises(ValueError, match=r"^MultiAssetGBM\.rho12, rho13, rho23: .* must be >= 0, got -0\.8;"):
        MultiAssetGBM(**wrong)


def test_elasticity_one_is_gbm_and_no_volatility_of_volatility_is_cev():
    S, w = jnp.asarray(90.0), jnp.asarray(0.3)
    cev, gbm = CEV(mu=0.05, sigma=0.2, beta=1.0), GBM(mu=0.05, sigma=0.2)
    for name in ("drift", "noise"):
        more = () if name == "drift" else (CEV.Noise(w),)
        one, other = (getattr(model, name)(0.0, model.State(S), *more).S for model in (cev, gbm))
        assert one == pytest.approx(float(other), rel=1e-14)
    sabr = SABR(beta=0.4, nu=0.0, rho=-0.3).noise(0.0, SABR.State(S, jnp.asarray(2.0)), SABR.Noise(w, w))
    cev = CEV(mu=0.0, sigma=2.0, beta=0.4).noise(0.0, CEV.State(S), CEV.Noise(w))
    assert pytest.approx(float(cev.S), rel=1e-14) == sabr.F
    assert sabr.alpha == 0


@functools.cache
def ends(model, dt, steps):
    """Final states of Euler–Maruyama paths, for stacked parameters and initial values."""
    grid, solver = Grid(t0=0.0, dt=dt, steps=steps, every=steps), make_solver("EulerMaruyama")

    def one(parameters, start, path):
        noise = CounterNoise.of(seed_key(5), path)
        rows = integrate(model(*parameters), solver, model.State(*start), grid, noise, States())
        return [rows[name][-1] for name in model.State._fields]

    return user_jit(jax.vmap(jax.vmap(one, (None, None, 0)), (0, 0, None)))


PATHS = jnp.arange(2**16, dtype=jnp.uint32)


def off(payoffs, wanted):
    """How many standard errors the mean of payoffs lies off."""
    return (payoffs.mean() - wanted) / (payoffs.std() / np.sqrt(payoffs.size))


def test_vasicek_has_its_transition_distribution():
    problem, start = Vasicek(kappa=0.8, theta=0.04, sigma=0.02), Vasicek.State(jnp.asarray(0.01))
    parameters = [jnp.asarray([x]) for x in (0.8, 0.04, 0.02)]
    (samples,) = ends(Vasicek, 0.01, 150)(parameters, [jnp.asarray([0.01])], PATHS[:8192])
    distribution = norm(
        float(problem.exact_mean(1.5, start).r), float(problem.exact_variance(1.5, start).r) ** 0.5
    )
    assert kstest(np.asarray(samples[0]), distribution.cdf).pvalue > 1e-4


def cev_call(S, K, sigma, beta, T):
    """Without rates: Schroder (1989) for beta < 1, Black & Scholes at one, Bachelier at zero."""
    if beta == 1:
        d = np.log(S / K) / (sigma * T**0.5) + sigma * T**0.5 / 2
        return S * norm.cdf(d) - K * norm.cdf(d - sigma * T**0.5)
    if beta == 0:
        d = (S - K) / (sigma * T**0.5)
        return (S - K) * norm.cdf(d) + sigma * T**0.5 * norm.pdf(d)
    scale, df = (1 - beta) ** 2 * sigma**2 * T, 1 / (1 - beta)
    a, c = (x ** (2 * (1 - beta)) / scale for x in (K, S))
    return S * ncx2.sf(a, df + 2, c) - K * ncx2.cdf(c, df, a)


def test_cev_prices_are_those_of_its_exact_distribution():
    """One program for every elasticity; at 1/2 with a volatility at which every eighth path dies."""
    betas, sigmas = np.array([0.0, 0.5, 0.7, 1.0]), np.array([20.0, 10.0, 0.8, 0.2])
    parameters = [jnp.zeros(4), jnp.asarray(sigmas), jnp.asarray(betas)]
    (samples,) = ends(CEV, 0.01, 100)(parameters, [jnp.full(4, 100.0)], PATHS)
    for S, beta, sigma in zip(np.asarray(samples), betas, sigmas, strict=True):
        for K in (90.0, 120.0):
            assert abs(off(np.maximum(S - K, 0), cev_call(100.0, K, sigma, beta, 1.0))) < 4.5, (beta, K)


def hagan_volatility(F, K, alpha, beta, nu, rho, T):
    """Lognormal volatility by Hagan et al. (2002), formula 2.17."""
    middle, log = (F * K) ** ((1 - beta) / 2), np.log(F / K)
    z = nu / alpha * middle * log
    chi = np.log((np.sqrt(1 - 2 * rho * z + z * z) + z - rho) / (1 - rho))
    denominator = 1 + ((1 - beta) * log) ** 2 / 24 + ((1 - beta) * log) ** 4 / 1920
    first = ((1 - beta) * alpha / middle) ** 2 / 24
    second = rho * beta * nu * alpha / (4 * middle) + (2 - 3 * rho**2) / 24 * nu**2
    return alpha / (middle * denominator) * z / chi * (1 + (first + second) * T)


def test_sabr_prices_are_near_hagans():
    """His expansion is for short times: at half a year it is good to a thousandth of the price here."""
    parameters = [jnp.asarray([x]) for x in (0.5, 0.4, -0.3)]
    F, _ = ends(SABR, 0.01, 50)(parameters, [jnp.asarray([100.0]), jnp.asarray([2.0])], PATHS)
    for K in (90.0, 105.0, 120.0):
        vol = hagan_volatility(100.0, K, 2.0, 0.5, 0.4, -0.3, 0.5)
        payoffs = np.maximum(np.asarray(F[0]) - K, 0)
        assert abs(off(payoffs, cev_call(100.0, K, vol, 1, 0.5))) < 4.5, K
        error = payoffs.std() / 2**8
        assert error < 0.02 * payoffs.mean()
