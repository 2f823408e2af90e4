"""Every registered model at one state against its equation in plain Python, from the papers that it names."""

import math
from itertools import combinations
from math import cos, exp, pi, sin, sqrt, tan
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from simkit_physics import MODELS
from simkit_solvers import AbstractJumpDiffusion, AbstractReactionNetwork, AbstractSDE

TIME = 0.7


def hodgkin_huxley(p, t, y):
    V = y.V
    a_m, b_m = 0.1 * (V + 40) / (1 - exp(-(V + 40) / 10)), 4 * exp(-(V + 65) / 18)
    a_h, b_h = 0.07 * exp(-(V + 65) / 20), 1 / (exp(-(V + 35) / 10) + 1)
    a_n, b_n = 0.01 * (V + 55) / (1 - exp(-(V + 55) / 10)), 0.125 * exp(-(V + 65) / 80)
    current = p.g_Na * y.m**3 * y.h * (V - p.E_Na) + p.g_K * y.n**4 * (V - p.E_K) + p.g_L * (V - p.E_L)
    gates = (a_m * (1 - y.m) - b_m * y.m, a_h * (1 - y.h) - b_h * y.h, a_n * (1 - y.n) - b_n * y.n)
    return ((p.I - current) / p.C, *gates)


def hires(p, t, y):
    return (
        -p.k1 * y.y1 + p.k2 * y.y2 + p.k6 * y.y3 + p.o,
        p.k1 * y.y1 - (p.k2 + p.k3) * y.y2,
        -(p.k6 + p.k1) * y.y3 + p.k2 * y.y4 + p.k5 * y.y5,
        p.k3 * y.y2 + p.k1 * y.y3 - (p.k2 + p.k4) * y.y4,
        -(p.k5 + p.k1) * y.y5 + p.k2 * y.y6 + p.k2 * y.y7,
        -p.kp * y.y6 * y.y8 + p.k4 * y.y4 + p.k1 * y.y5 - p.k2 * y.y6 + p.km * y.y7,
        p.kp * y.y6 * y.y8 - (p.k2 + p.km + p.ks) * y.y7,
        -p.kp * y.y6 * y.y8 + (p.k2 + p.km + p.ks) * y.y7,
    )


def arenstorf(p, t, y):
    earth = (1 - p.mu) / math.hypot(y.x + p.mu, y.y) ** 3
    moon = p.mu / math.hypot(y.x - 1 + p.mu, y.y) ** 3
    along = y.x + 2 * y.vy - earth * (y.x + p.mu) - moon * (y.x - 1 + p.mu)
    return y.vx, y.vy, along, y.y - 2 * y.vx - earth * y.y - moon * y.y


def double_pendulum(p, t, y):
    delta, both = y.theta1 - y.theta2, p.m1 + p.m2
    inertia = [[both * p.l1, p.m2 * p.l2 * cos(delta)], [p.l1 * cos(delta), p.l2]]
    push = -p.m2 * p.l2 * y.omega2**2 * sin(delta) - both * p.g * sin(y.theta1)
    pushes = [push, p.l1 * y.omega1**2 * sin(delta) - p.g * sin(y.theta2)]
    return y.omega1, y.omega2, *np.linalg.solve(inertia, pushes)


def gravity(G, masses, softening, y):
    places, momenta = np.split(np.reshape(y, (-1, 2)), 2)
    forces = np.zeros_like(places)
    for i, j in combinations(range(len(masses)), 2):
        away = places[j] - places[i]
        force = G * masses[i] * masses[j] * away / (away @ away + softening**2) ** 1.5
        forces[i] += force
        forces[j] -= force
    return *(momenta / np.reshape(masses, (-1, 1))).ravel(), *forces.ravel()


ORDINARY = {
    "FitzHughNagumo": lambda p, t, y: (y.v - y.v**3 / 3 - y.w + p.I, p.epsilon * (y.v + p.a - p.b * y.w)),
    "HodgkinHuxley": hodgkin_huxley,
    "Brusselator": lambda p, t, y: (p.a + y.x**2 * y.y - p.b * y.x - y.x, p.b * y.x - y.x**2 * y.y),
    "HIRES": hires,
    "Oregonator": lambda p, t, y: (
        p.s * (y.y - y.x * y.y + y.x - p.q * y.x**2),
        (-y.y - y.x * y.y + y.z) / p.s,
        p.w * (y.x - y.z),
    ),
    "Robertson": lambda p, t, y: (
        -p.k1 * y.y1 + p.k3 * y.y2 * y.y3,
        p.k1 * y.y1 - p.k3 * y.y2 * y.y3 - p.k2 * y.y2**2,
        p.k2 * y.y2**2,
    ),
    "Arenstorf": arenstorf,
    "DampedOscillator": lambda p, t, y: (y.v, -p.k / p.m * y.x - p.c / p.m * y.v),
    "DoublePendulum": double_pendulum,
    "FigureEight": lambda p, t, y: gravity(p.G, [p.m] * 3, 0.0, y),
    "HarmonicOscillator": lambda p, t, y: (y.p / p.m, -p.k * y.q),
    "HenonHeiles": lambda p, t, y: (
        *(y.px, y.py),
        *(-y.x - 2 * p.coupling * y.x * y.y, -y.y - p.coupling * (y.x**2 - y.y**2)),
    ),
    "Kepler": lambda p, t, y: (
        *(y.px / p.m, y.py / p.m),
        *(-p.GM * p.m * x / math.hypot(y.x, y.y) ** 3 for x in (y.x, y.y)),
    ),
    "NBody": lambda p, t, y: gravity(p.G, [p.m1, p.m2, p.m3, p.m4], p.softening, y),
    "Pendulum": lambda p, t, y: (y.p / (p.m * p.l**2), -p.m * p.g * p.l * sin(y.theta)),
    "Duffing": lambda p, t, y: (
        y.v,
        p.gamma * cos(p.omega * t) - p.delta * y.v - p.alpha * y.x - p.beta * y.x**3,
    ),
    "Lorenz63": lambda p, t, y: (
        -p.sigma * y.x + p.sigma * y.y,
        -y.x * y.z + p.rho * y.x - y.y,
        y.x * y.y - p.beta * y.z,
    ),
    "Lorenz96": lambda p, t, y: [(y[(i + 1) % 8] - y[i - 2]) * y[i - 1] - y[i] + p.F for i in range(8)],
    "VanDerPol": lambda p, t, y: (y.v, p.mu * y.v - p.mu * y.x**2 * y.v - y.x),
}


def mixed(p, W):
    return p.rho * W.W1 + sqrt(1 - p.rho**2) * W.W2


def multi_asset(p, t, y, W):
    rho = np.array([[1, p.rho12, p.rho13], [p.rho12, 1, p.rho23], [p.rho13, p.rho23, 1]])
    noise = np.array([p.sigma1, p.sigma2, p.sigma3]) * y * (np.linalg.cholesky(rho) @ W)
    return (p.mu1 * y.S1, p.mu2 * y.S2, p.mu3 * y.S3), noise


def kuramoto(p, t, y, W):
    spread = [tan(pi * ((i - 0.5) / 8 - 0.5)) for i in range(1, 9)]
    own = [getattr(p, f"omega{i + 1}") + p.gamma * spread[i] for i in range(8)]
    pulls = [p.K / 8 * sum(sin(other - theta) for other in y) for theta in y]
    return np.add(own, pulls), sqrt(2 * p.D) * np.array(W)


def bates(p, t, y, W):
    k = exp(p.m + p.delta**2 / 2) - 1
    noise = (sqrt(y.v) * y.S * W.W1, p.xi * sqrt(y.v) * mixed(p, W))
    return ((p.mu - p.lam * k) * y.S, p.kappa * (p.theta - y.v)), noise


def kou(p, t, y, W):
    k = p.p * p.eta1 / (p.eta1 - 1) + (1 - p.p) * p.eta2 / (p.eta2 + 1) - 1
    return [(p.mu - p.lam * k) * y.S], [p.sigma * y.S * W.W]


def well(p, x):
    return 4 * p.b * x * (x**2 - p.a**2) / p.a**4


STOCHASTIC = {  # drift, and noise for increments
    "Bates": bates,
    "CEV": lambda p, t, y, W: ([p.mu * y.S], [p.sigma * y.S**p.beta * W.W]),
    "CIR": lambda p, t, y, W: ([p.kappa * (p.theta - y.r)], [p.sigma * sqrt(y.r) * W.W]),
    "GBM": lambda p, t, y, W: ([p.mu * y.S], [p.sigma * y.S * W.W]),
    "Heston": lambda p, t, y, W: (
        (p.mu * y.S, p.kappa * (p.theta - y.v)),
        (sqrt(y.v) * y.S * W.W1, p.xi * sqrt(y.v) * mixed(p, W)),
    ),
    "HullWhite": lambda p, t, y, W: ([p.theta - p.a * y.r], [p.sigma * W.W]),
    "Kou": kou,
    "Merton": lambda p, t, y, W: (
        [(p.mu - p.lam * (exp(p.m + p.delta**2 / 2) - 1)) * y.S],
        [p.sigma * y.S * W.W],
    ),
    "MultiAssetGBM": multi_asset,
    "SABR": lambda p, t, y, W: ((0, 0), (y.alpha * y.F**p.beta * W.W1, p.nu * y.alpha * mixed(p, W))),
    "Vasicek": lambda p, t, y, W: ([p.kappa * (p.theta - y.r)], [p.sigma * W.W]),
    "Kuramoto": kuramoto,
    "DoubleWell": lambda p, t, y, W: ([-p.u / p.gamma * well(p, y.x)], [sqrt(2 * p.u / p.gamma) * W.W]),
    "DoubleWellLangevin": lambda p, t, y, W: (
        (y.v, -p.gamma * y.v - p.u * well(p, y.x)),
        (0, sqrt(2 * p.gamma * p.u) * W.W),
    ),
    "OrnsteinUhlenbeck": lambda p, t, y, W: ([p.theta * (p.mu - y.X)], [p.sigma * W.W]),
    "StochasticResonance": lambda p, t, y, W: (
        [y.x - y.x**3 + p.A * cos(p.Omega * t)],
        [sqrt(2 * p.D) * W.W],
    ),
}


def repressilator(p, y):
    """The protein of gene i - 1 represses gene i: that of the third (cI) the first (lacI), and so on."""
    reactions = []
    for i, before in ((1, 3), (2, 1), (3, 2)):
        m, protein, repressor = (getattr(y, name) for name in (f"m{i}", f"p{i}", f"p{before}"))
        reactions += [
            (p.alpha0 + p.alpha / (1 + (repressor / p.K) ** 2), {f"m{i}": 1}),
            *((p.delta_m * m, {f"m{i}": -1}), (p.beta * m, {f"p{i}": 1})),
            (p.delta_p * protein, {f"p{i}": -1}),
        ]
    return reactions


NETWORKS = {  # propensities, and what changes
    "BirthDeath": lambda p, y: [(p.birth_rate * y.X, {"X": 1}), (p.death_rate * y.X, {"X": -1})],
    "SIR": lambda p, y: [(p.beta * y.S * y.I / p.N, {"S": -1, "I": 1}), (p.gamma * y.I, {"I": -1, "R": 1})],
    "SEIR": lambda p, y: [
        (p.beta * y.S * y.I / p.N, {"S": -1, "E": 1}),
        *((p.sigma * y.E, {"E": -1, "I": 1}), (p.gamma * y.I, {"I": -1, "R": 1})),
    ],
    "ImmigrationDeath": lambda p, y: [(p.alpha, {"X": 1}), (p.mu * y.X, {"X": -1})],
    "LotkaVolterra": lambda p, y: [
        (p.c1 * y.prey, {"prey": 1}),
        (p.c2 * y.prey * y.predator, {"prey": -1, "predator": 1}),
        (p.c3 * y.predator, {"predator": -1}),
    ],
    "MichaelisMenten": lambda p, y: [
        (p.k1 * y.E * y.S, {"E": -1, "S": -1, "ES": 1}),
        (p.k_1 * y.ES, {"E": 1, "S": 1, "ES": -1}),
        (p.k2 * y.ES, {"E": 1, "ES": -1, "P": 1}),
    ],
    "Repressilator": repressilator,
    "Schlogl": lambda p, y: [
        (p.c1 * y.X * (y.X - 1) / 2, {"X": 1}),
        (p.c2 * y.X * (y.X - 1) * (y.X - 2) / 6, {"X": -1}),
        *((p.c3, {"X": 1}), (p.c4 * y.X, {"X": -1})),
    ],
}


def of_kind(*kinds, no=()):
    models = {x: m for x, m in MODELS.items() if issubclass(m, kinds or object) and not issubclass(m, no)}
    return pytest.mark.parametrize("name", models)


def at_one_state(name):
    """A model with numbers unlike each other, these numbers, and a state, as arrays and as plain numbers."""
    model = MODELS[name]
    given = {key: (x or 0.4) * (0.95 - 0.02 * i) for i, (key, x) in enumerate(model.example.items())}
    numbers, size = np.random.default_rng(7), len(model.State._fields)
    counts = issubclass(model, AbstractReactionNetwork)
    y = model.State(*map(float, numbers.integers(5, 60, size) if counts else numbers.uniform(0.3, 1.4, size)))
    return model(**given), SimpleNamespace(**given), model.State(*map(jnp.asarray, y)), y


def equation_of(name):
    """The equation of a model in plain Python."""
    model = MODELS[name]
    kind, table = "ORDINARY", ORDINARY
    if issubclass(model, AbstractReactionNetwork):
        kind, table = "NETWORKS", NETWORKS
    elif issubclass(model, AbstractSDE):
        kind, table = "STOCHASTIC", STOCHASTIC
    assert name in table, f"{name}: write its equation, as the paper has it, under {kind} in this file"
    return table[name]


@pytest.mark.parametrize("name", MODELS)
def test_every_model_has_its_equation_here(name):
    assert callable(equation_of(name))


def test_every_equation_here_is_that_of_a_model():
    gone = {*ORDINARY, *STOCHASTIC, *NETWORKS} - set(MODELS)
    assert not gone, f"no such model: {', '.join(sorted(gone))}; remove its equation here"


def assert_same(actual, expected):
    np.testing.assert_allclose(np.array(actual), np.array(expected, float), rtol=1e-9)


@of_kind(no=(AbstractSDE, AbstractReactionNetwork))
def test_an_ordinary_equation_is_that_of_the_paper(name):
    problem, p, state, y = at_one_state(name)
    assert_same(problem.drift(jnp.asarray(TIME), state), equation_of(name)(p, TIME, y))


@of_kind(AbstractSDE)
def test_a_stochastic_equation_is_that_of_the_paper(name):
    problem, p, state, y = at_one_state(name)
    W = problem.Noise(*(0.3 - 0.5 * i for i in range(len(problem.Noise._fields))))
    drift, noise = equation_of(name)(p, TIME, y, W)
    assert_same(problem.drift(jnp.asarray(TIME), state), drift)
    assert_same(problem.noise(jnp.asarray(TIME), state, problem.Noise(*map(jnp.asarray, W))), noise)


@of_kind(AbstractJumpDiffusion)
def test_jumps_multiply_the_price_at_their_rate(name):
    problem, p, state, y = at_one_state(name)
    assert float(problem.intensity(jnp.asarray(TIME), state)) == p.lam
    assert_same(problem.jump(jnp.asarray(TIME), state, jnp.asarray(-0.2)), (y.S * exp(-0.2), *y[1:]))


@of_kind(AbstractReactionNetwork)
def test_reactions_are_those_of_the_paper(name):
    problem, p, state, y = at_one_state(name)
    pairs = zip(problem.propensities(jnp.asarray(TIME), state), problem.reactions.values(), strict=True)
    rows = [(*(each.change.get(x, 0) for x in y._fields), float(rate)) for rate, each in pairs]
    expected = [(*(change.get(x, 0) for x in y._fields), rate) for rate, change in equation_of(name)(p, y)]
    assert_same(sorted(rows), sorted(expected))
