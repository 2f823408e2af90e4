"""One step of a solver gives the numbers of the published scheme, written out here in plain numpy."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import SOLVERS, Draw, make_solver, stepper_for
from solver_problems import Additive, Commutative, Diagonal, Driven, General, PairState, QuadState, Wells

T, H = 0.3, 0.07
Y = np.array([0.6, -0.9])
PAIRS = ((0, 0), (0, 1), (1, 0), (1, 1))
W = np.sqrt(H) * np.array([1.1, -0.4])
AREA = np.sqrt(H / 12) * np.array([-0.7, 1.6])


def jacobian(f, y):
    """By complex steps, which have no rounding: columns are derivatives."""
    return np.stack([np.imag(f(y + 1e-30j * unit)) / 1e-30 for unit in np.eye(len(y))], axis=-1)


def f(t, y):
    x, v = y
    return np.array([np.sin(v) - 0.8 * x + np.cos(2 * t), x - 0.5 * v * np.cos(v)])


def additive(t, y):
    return np.array([[0.8 * (0.5 + 0.3 * t), -0.2], [0.0, 0.4 * np.cos(t)]])


def commutative(t, y):
    x, v = y
    p, q = 0.4 * np.sqrt(1 + x * x) * (1 + 0.2 * t), 0.5 + 0.3 * np.sin(v)
    return np.array([[p, 0.3 * p], [0.4 * q, -q]])


def diagonal(t, y):
    x, v = y
    return np.array([[0.4 * np.sqrt(1 + x * x) * (1 + 0.2 * t), 0], [0, 0.5 + 0.3 * np.sin(v)]])


def general(t, y):
    x, v = y
    return np.array([[0.4 * np.cos(v), 0.3 * np.sin(x)], [0.4 * x * (1 + 0.2 * t), 0.3 * np.cos(x * v)]])


def double_integral(g, h):
    """The sum over j and k of (g_j . grad) g_k (W_j W_k - h if j is k) / 2."""
    total = np.zeros(2)
    for j, k in PAIRS:
        total += jacobian(lambda y, k=k: g(T, y)[:, k], Y) @ g(T, Y)[:, j] * (W[j] * W[k] - h * (j == k)) / 2
    return total


def euler(g):
    return Y + f(T, Y) * H + g(T, Y) @ W


def milstein(g):
    return euler(g) + double_integral(g, H)


def stratonovich_milstein(g):
    return euler(g) + double_integral(g, 0)


def derivative_free_milstein(g, pairs=PAIRS):
    y = euler(g)
    for j, k in pairs:
        support = Y + f(T, Y) * H + g(T, Y)[:, j] * np.sqrt(H)
        change = g(T, support)[:, k] - g(T, Y)[:, k]
        y = y + change * (W[j] * W[k] - H * (j == k)) / (2 * np.sqrt(H))
    return y


def derivative_free_milstein_of_diagonal_noise(g):
    """Each noise with itself alone: the columns do not change along each other."""
    return derivative_free_milstein(g, ((0, 0), (1, 1)))


def tamed_euler(g):
    return Y + f(T, Y) * H / (1 + H * np.linalg.norm(f(T, Y))) + g(T, Y) @ W


def implicit(explicit):
    y = Y
    for _ in range(20):
        y = y - np.linalg.solve(
            np.eye(2) - H * jacobian(lambda z: f(T + H, z), y), y - explicit - H * f(T + H, y)
        )
    return y


def drift_implicit_euler(g):
    return implicit(Y + g(T, Y) @ W)


def implicit_milstein(g):
    return implicit(Y + g(T, Y) @ W + double_integral(g, H))


def heun(g):
    first = f(T, Y) * H + g(T, Y) @ W
    second = f(T + H, Y + first) * H + g(T + H, Y + first) @ W
    return Y + (first + second) / 2


def midpoint(g):
    middle = Y + (f(T, Y) * H + g(T, Y) @ W) / 2
    return Y + f(T + H / 2, middle) * H + g(T + H / 2, middle) @ W


def euler_heun(g):
    ahead = Y + g(T, Y) @ W
    return Y + f(T, Y) * H + (g(T, Y) + g(T, ahead)) @ W / 2


def platen(g):
    root, change = np.sqrt(H), np.zeros(2)
    base, euler_point = g(T, Y), Y + f(T, Y) * H
    sign = np.where(AREA < 0, -1.0, 1.0)
    for j in range(2):
        up, down = (g(T + H, euler_point + s * root * base[:, j])[:, j] for s in (1, -1))
        change += (up + down + 2 * base[:, j]) * W[j] / 4 + (up - down) * (W[j] ** 2 - H) / (4 * root)
        r = 1 - j
        up, down = (g(T, Y + s * root * base[:, r])[:, j] for s in (1, -1))
        V = H * sign[0] * sign[1] * (1 if r < j else -1)
        change += (up + down - 2 * base[:, j]) * W[j] / 4 + (up - down) * (W[j] * W[r] + V) / (4 * root)
    return Y + (f(T + H, euler_point + base @ W) + f(T, Y)) * H / 2 + change


def sriw1(g):
    """Rößler (2010), doi:10.1137/09076636X, the tableau of SRIW1; each noise has its own integrals."""
    A1, B1 = np.zeros((4, 4)), np.zeros((4, 4))
    A1[1, 0], A1[2, 0], A1[3, 2] = 1 / 4, 1, 1 / 4
    B1[1, 0], B1[2, 0], B1[3, :3] = 1 / 2, -1, (-5, 3, 1 / 2)
    c0, c1 = (0, 3 / 4, 0, 0), (0, 1 / 4, 1, 1 / 4)
    alpha = (1 / 3, 2 / 3, 0, 0)
    beta = np.array(
        [[-1, 4 / 3, 2 / 3, 0], [-1, 4 / 3, -1 / 3, 0], [2, -4 / 3, -2 / 3, 0], [-2, 5 / 3, -2 / 3, 1]]
    )
    I10 = H * (W / 2 + AREA)
    integrals = np.array([W, (W**2 - H) / 2 / np.sqrt(H), I10 / H, (W**3 - 3 * H * W) / 6 / H])
    drifts, noises = [], []
    for i in range(4):
        at = Y + (3 / 4 * H * drifts[0] + 3 / 2 * noises[0] * I10 / H if i == 1 else 0)
        drifts.append(f(T + c0[i] * H, at))
        at = Y + sum((A1[i, j] * H * drifts[j] + B1[i, j] * np.sqrt(H) * noises[j] for j in range(i)), 0)
        noises.append(np.diag(g(T + c1[i] * H, at)))
    moved = sum(a * H * drift for a, drift in zip(alpha, drifts, strict=True))
    return Y + moved + sum(noises[i] * (beta[:, i] @ integrals) for i in range(4))


def additive_end(g):
    """The noise of a step whose size depends on time: g dW + (g(t + h) - g)(W/2 - H)."""
    return g(T, Y) @ W + (g(T + H, Y) - g(T, Y)) @ (W / 2 - AREA)


def sra1(g):
    first = f(T, Y)
    second = f(T + 3 / 4 * H, Y + 3 / 4 * H * first + 3 / 2 * g(T, Y) @ (W / 2 + AREA))
    return Y + H * (first + 2 * second) / 3 + additive_end(g)


def shark(g):
    first = Y + g(T, Y) @ AREA
    second = first + 5 / 6 * (H * f(T, first) + g(T, Y) @ W)
    return Y + H * (2 / 5 * f(T, first) + 3 / 5 * f(T + 5 / 6 * H, second)) + additive_end(g)


def leimkuhler_matthews(g):
    """The first step: there is no noise before it."""
    return Y + f(T, Y) * H + g(T, Y) @ W / 2


NOISY = [
    ("EulerMaruyama", euler, General(), general),
    ("Milstein", milstein, Commutative(), commutative),
    ("ItoMilstein", milstein, Commutative(), commutative),
    ("StratonovichMilstein", stratonovich_milstein, Commutative(calculus="stratonovich"), commutative),
    ("DerivativeFreeMilstein", derivative_free_milstein, Commutative(), commutative),
    ("DerivativeFreeMilstein", derivative_free_milstein_of_diagonal_noise, Diagonal(), diagonal),
    ("TamedEuler", tamed_euler, General(), general),
    ("DriftImplicitEuler", drift_implicit_euler, General(), general),
    ("ImplicitMilstein", implicit_milstein, Commutative(), commutative),
    ("Heun", heun, General(calculus="stratonovich"), general),
    ("Midpoint", midpoint, General(calculus="stratonovich"), general),
    ("EulerHeun", euler_heun, General(calculus="stratonovich"), general),
    ("PlatenWeak2", platen, General(), general),
    ("SRIW1", sriw1, Diagonal(), diagonal),
    ("SRA1", sra1, Additive(), additive),
    ("ShARK", shark, Additive(), additive),
    ("LeimkuhlerMatthews", leimkuhler_matthews, Additive(), additive),
]


def one_step(name, problem, y, draw):
    """The state after one step, by the code that the loop runs."""
    stepper = stepper_for(make_solver(name, {"rtol": 1e-13, "atol": 1e-15} if "mplicit" in name else None))

    @jax.jit
    def step(t, h, y, W, areas):
        draw = Draw(tuple(W), tuple(areas) if stepper.areas else ())
        return stepper.step(problem, t, h, y, draw, stepper.init(problem, t, h, y))[0]

    return np.array(step(jnp.float64(T), jnp.float64(H), problem.State(*map(jnp.float64, y)), *draw))


@pytest.mark.parametrize(("name", "scheme", "problem", "g"), NOISY)
def test_a_stochastic_step_is_the_published_one(name, scheme, problem, g):
    normals = W / np.sqrt(H), AREA / np.sqrt(H / 12)
    np.testing.assert_allclose(one_step(name, problem, Y, normals), scheme(g), rtol=2e-13)


def test_a_step_of_baoab_is_the_published_one():
    gamma, u = 0.7, 1.2
    q, p = np.array([0.6, -0.9]), np.array([0.3, 1.4])

    def gradient(q):
        a, b = q
        return np.array([a**3 - a + 0.5 * (a - b), b**3 - b - 0.5 * (a - b)])

    normals = W / np.sqrt(H)
    result = one_step("BAOAB", Wells(), [*q, *p], (normals, normals))
    p = p - H / 2 * u * gradient(q)
    q = q + H / 2 * p
    p = np.exp(-gamma * H) * p + np.sqrt(u * (1 - np.exp(-2 * gamma * H))) * normals
    q = q + H / 2 * p
    p = p - H / 2 * u * gradient(q)
    np.testing.assert_allclose(result, [*q, *p], rtol=2e-13)
    assert QuadState._fields == Wells.State._fields


def driven(t, y):
    x, v = y
    return np.array([v + 0.4 * np.sin(2 * t), -1.3 * np.sin(x) + 0.5 * np.cos(3 * t)])


def leapfrogs(*weights):
    t, (x, v) = T, Y
    for w in weights:
        h = w * H
        v = v + h / 2 * driven(t, (x, v))[1]
        x = x + h * driven(t + h / 2, (x, v))[0]
        t = t + h
        v = v + h / 2 * driven(t, (x, v))[1]
    return np.array([x, v])


def rosenbrock23():
    """Shampine & Reichelt (1997), doi:10.1137/S1064827594276424, section 3."""
    d = 1 / (2 + np.sqrt(2))
    M = np.eye(2) - H * d * jacobian(lambda y: driven(T, y), Y)
    slope = jacobian(lambda t: driven(t[0], Y), np.array([T]))[:, 0]
    k1 = np.linalg.solve(M, driven(T, Y) + H * d * slope)
    k2 = np.linalg.solve(M, driven(T + H / 2, Y + H / 2 * k1) - k1) + k1
    return Y + H * k2


def classical(tableau):
    r"""The coefficients (alpha, beta, gamma, b) of the form with products by the Jacobian.

    Hairer & Wanner (1996), doi:10.1007/978-3-642-05221-7, IV.7: with u = Gamma k, C = 1/gamma - Gamma^-1,
    A = alpha Gamma^-1 and m = b Gamma^-1.
    """
    n = len(tableau.m)
    A, C = (np.array([[*row, *[0.0] * (n - len(row))] for row in rows]) for rows in (tableau.a, tableau.c))
    inverse = np.eye(n) / tableau.gamma - C
    gamma = np.linalg.inv(inverse)
    alpha = A @ gamma
    return alpha, alpha + gamma, gamma, np.array(tableau.m) @ gamma


def rosenbrock(tableau):
    """One step by the classical form (Hairer & Wanner (1996), IV.7.4) in numpy."""
    alpha, _, gamma, b = classical(tableau)
    J = jacobian(lambda y: driven(T, y), Y)
    slope = jacobian(lambda t: driven(t[0], Y), np.array([T]))[:, 0]
    k: list[np.ndarray] = []
    for a, g in zip(alpha, gamma, strict=True):
        i = len(k)
        at = Y + sum((a[j] * k[j] for j in range(i)), np.zeros(2))
        past = sum((g[j] * k[j] for j in range(i)), np.zeros(2))
        right = H * driven(T + sum(a) * H, at) + H * J @ past + H * H * sum(g) * slope
        k.append(np.linalg.solve(np.eye(2) - H * g[i] * J, right))
    return Y + b @ np.array(k)


WEIGHT = 1 / (2 - 2 ** (1 / 3))
ORDINARY = {
    "Heun": lambda: Y + H / 2 * (driven(T, Y) + driven(T + H, Y + H * driven(T, Y))),
    "Midpoint": lambda: Y + H * driven(T + H / 2, Y + H / 2 * driven(T, Y)),
    "Leapfrog": lambda: leapfrogs(1),
    "Yoshida4": lambda: leapfrogs(WEIGHT, 1 - 2 * WEIGHT, WEIGHT),
    "Rosenbrock23": rosenbrock23,
    "Rodas5P": lambda: rosenbrock(SOLVERS["Rodas5P"].cls.tableau),
}


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_step_is_the_published_one(name):
    result = one_step(name, Driven(), Y, (np.zeros(2), np.zeros(2)))
    np.testing.assert_allclose(result, ORDINARY[name](), rtol=2e-13)
    assert PairState._fields == Driven.State._fields


def forests(order, largest):
    """The multisets of rooted trees with so many nodes in all, none above `largest` in the list order."""
    if order == 0:
        yield ()
        return
    for size in range(1, order + 1):
        for tree in trees(size):
            if largest is None or (size, tree) <= largest:
                for rest in forests(order - size, (size, tree)):
                    yield (tree, *rest)


def trees(order):
    """The rooted trees of an order, each the tuple of its branches."""
    return list(forests(order - 1, None))


def size(tree):
    return 1 + sum(map(size, tree))


def density(tree):
    return size(tree) * math.prod(density(branch) for branch in tree)


@pytest.mark.parametrize(
    ("name", "order", "sign", "estimate"), [("Rodas5P", 5, -1, 4), ("Rosenbrock23", 2, 1, 3)]
)
def test_a_rosenbrock_method_meets_the_conditions_of_its_order(name, order, sign, estimate):
    """All of them (Hairer & Wanner, IV.7.15): a node with one branch has beta, with more alpha.

    So do the weights of the other solution, from which the error is estimated. The times of the stages are
    the sums that they must be.
    """
    tableau = SOLVERS[name].cls.tableau
    alpha, beta, gamma, b = classical(tableau)

    def weights(tree):
        if not tree:
            return np.ones(len(b))
        if len(tree) == 1:
            return beta @ weights(tree[0])
        return np.prod([alpha @ weights(branch) for branch in tree], axis=0)

    assert [len(trees(n)) for n in range(1, 6)] == [1, 1, 2, 4, 9]
    np.testing.assert_allclose(alpha.sum(axis=1), tableau.alpha, atol=1e-12)
    np.testing.assert_allclose(gamma.sum(axis=1), tableau.gammas, atol=1e-12)
    other = b + sign * np.array(tableau.e) @ gamma
    for row, highest in ((b, order), (other, estimate)):
        for tree in itertools.chain.from_iterable(trees(n) for n in range(1, highest + 1)):
            assert row @ weights(tree) == pytest.approx(1 / density(tree), abs=1e-11), tree
