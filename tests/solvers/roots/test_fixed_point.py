"""Fixed points and roots: known solutions and derivatives, orders of convergence, failures."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
import pytest
from simkit_solvers import Anderson, NewtonKrylov, Picard, fixed_point, root
from simkit_solvers.roots.anderson import least_squares

SOLVERS = {
    "Picard": Picard,
    "mixed": functools.partial(Picard, mixing=0.7),
    "Anderson": functools.partial(Anderson, depth=2),
    "Newton": optx.Newton,
    "NewtonKrylov": NewtonKrylov,
}
CODES = optx.RESULTS


def cosine(y, a):
    return jnp.cos(a * y)


def is_code(solution, name):
    return np.all(solution.result == getattr(CODES, name))


@pytest.mark.more
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, "float64") for name in SOLVERS]
    + [pytest.param(name, "float32", marks=pytest.mark.slow) for name in SOLVERS if name != "Picard"],
)
def test_value_and_derivatives_of_the_cosine(name, dtype):
    """x = cos(a x) at three a under vmap; dx/da = -x sin(ax) / (1 + a sin(ax)), forward and reverse."""
    eps = float(jnp.finfo(dtype).eps)
    solver = SOLVERS[name](10 * eps, 10 * eps)

    def program(a):
        def solve(a):
            return fixed_point(cosine, solver, jnp.ones_like(a), a).value

        return *jax.jvp(solve, (a,), (jnp.ones_like(a),)), jax.grad(solve)(a)

    a = jnp.asarray([0.6, 1.0, 1.2], dtype)
    x, forward, reverse = jax.jit(jax.vmap(program))(a)
    assert x.dtype == forward.dtype == reverse.dtype == dtype
    assert float(x[1]) == pytest.approx(0.7390851332151607, abs=100 * eps)
    sine = np.sin(a * x)
    exact = -x * sine / (1 + a * sine)
    np.testing.assert_allclose(forward, exact, rtol=300 * eps)
    np.testing.assert_allclose(reverse, exact, rtol=300 * eps)


@pytest.mark.parametrize("name", ["mixed", "Anderson", pytest.param("NewtonKrylov", marks=pytest.mark.more)])
def test_derivatives_of_a_fixed_number_of_steps_are_those_of_the_iterates(name):
    """Two steps, far from converged, against a difference quotient; then many, against the solution's own."""
    solver = SOLVERS[name](1e-12, 1e-12)

    def after(steps):
        return lambda a: fixed_point(cosine, solver, jnp.asarray(1.5), a, steps=steps).value

    a, h = jnp.asarray(0.9), 1e-6

    @jax.jit
    def program(a):
        forward = jax.jvp(after(2), (a,), (jnp.ones(()),))[1]
        return forward, jax.grad(after(2))(a), jax.jvp(after(40), (a,), (jnp.ones(()),))

    early = jax.jit(after(2))
    slope = (early(a + h) - early(a - h)) / (2 * h)
    forward, reverse, (x, late) = program(a)
    exact = -x * np.sin(a * x) / (1 + a * np.sin(a * x))
    np.testing.assert_allclose([forward, reverse], slope, rtol=1e-8)
    np.testing.assert_allclose(late, exact, rtol=1e-10)
    assert abs(slope / exact - 1) > 1e-6


@pytest.mark.parametrize("mixing", [1.0, 0.8, 0.3])
def test_picard_converges_at_its_linear_rate(mixing):
    solution = fixed_point(cosine, Picard(0.0, 1e-14, mixing=mixing), jnp.asarray(1.0), 1.0, steps=20)
    residuals = np.asarray(solution.stats["residuals"])
    rate = abs(1 - mixing - mixing * np.sin(0.7390851332151607))
    assert residuals[12] / residuals[11] == pytest.approx(rate, rel=0.02)


@pytest.mark.parametrize("solver", [optx.Newton(1e-12, 1e-12), NewtonKrylov(1e-12, 1e-12, restart=2)])
def test_newton_converges_quadratically(solver):
    """|F| goes as its square from step to step, also where a linear solve takes many small Krylov spaces."""
    strength = jnp.asarray(np.random.default_rng(0).uniform(0.5, 3, 100))

    def system(y, args):
        neighbours = jnp.roll(y["u"], 1) + jnp.roll(y["u"], -1)
        return {"u": strength * y["u"] ** 3 + 2 * y["u"] - 0.9 * neighbours - 1}

    result = root(system, solver, {"u": jnp.full(100, 2.0)}, steps=9)
    r = np.log(np.asarray(result.stats["residuals"]))
    last = np.flatnonzero(r > np.log(1e-11))[-1]
    assert (r[last] - r[last - 1]) / (r[last - 1] - r[last - 2]) == pytest.approx(2, abs=0.2)
    assert np.abs(system(result.value, None)["u"]).max() < 1e-14


def linear_problem(n, distinct):
    """y = A y + b with so many different eigenvalues, some of them beyond Picard's reach."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    A = Q @ np.diag(np.linspace(-3, 0.5, distinct)[np.arange(n) % distinct]) @ Q.T
    return jnp.asarray(A), jnp.asarray(rng.standard_normal(n))


def test_anderson_is_gmres_on_a_linear_problem():
    """Its iterate k + 1 is g of GMRES's k-th, and it ends when the eigenvalues are used up."""
    n, depth, k = 40, 6, 3
    A, b = linear_problem(n, depth)
    solver = Anderson(1e-12, 1e-12, depth=depth)

    def g(y, args):
        return A @ y + b

    M, krylov = np.eye(n) - np.asarray(A), [np.asarray(b)]
    for _ in range(k - 1):
        krylov.append(M @ krylov[-1])
    K = np.stack(krylov, axis=1)
    y = K @ np.linalg.lstsq(M @ K, np.asarray(b), rcond=None)[0]
    result = fixed_point(g, solver, jnp.zeros(n), steps=k + 1).value
    np.testing.assert_allclose(result, A @ y + b, rtol=1e-9, atol=1e-9)
    residuals = fixed_point(g, solver, jnp.zeros(n), steps=depth + 2).stats["residuals"]
    assert residuals[depth] > 1e-3
    assert residuals[depth + 1] < 1e-12


def test_a_mixed_step_of_anderson_is_the_published_one():
    """Walker & Ni (2011), doi:10.1137/10078356X: the mixing weighs the changes of the residual too."""
    beta, y = 0.6, np.array([0.3, -0.2])

    def g(y, args):
        return jnp.stack([jnp.cos(y[0] + y[1]), 0.5 * jnp.sin(2 * y[0] - y[1])])

    result = fixed_point(g, Anderson(1e-12, 1e-12, depth=1, mixing=beta), jnp.asarray(y), steps=2).value
    f = g(y, None) - y
    y1 = y + beta * f
    f1 = g(y1, None) - y1
    gamma = (f1 - f) @ f1 / ((f1 - f) @ (f1 - f))
    np.testing.assert_allclose(result, y1 + beta * f1 - gamma * (y1 - y + beta * (f1 - f)), rtol=1e-12)


def test_anderson_takes_any_pytree():
    """Of fields of two shapes and both precisions, as of one vector."""
    A, b = linear_problem(6, 6)
    solver = Anderson(1e-6, 1e-6, depth=3)

    def flat(y, args):
        return jnp.tanh(A @ y) + b

    def split(y):
        return {"u": y[:1].reshape(()).astype(jnp.float32), "v": y[1:5].reshape(2, 2), "w": y[5:]}

    def tree(y, args):
        y = jnp.concatenate([y["u"].astype(y["v"].dtype)[None], y["v"].ravel(), y["w"]])
        return split(flat(y, args))

    whole = fixed_point(flat, solver, jnp.zeros(6))
    parts = fixed_point(tree, solver, split(jnp.zeros(6)))
    assert parts.value["u"].dtype == jnp.float32
    for x, y in zip(jax.tree.leaves(parts.value), jax.tree.leaves(split(whole.value)), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-5)


def test_least_squares_leaves_out_dependent_columns():
    """As the pseudo-inverse on the columns that are kept; and its derivative is finite."""
    rng = np.random.default_rng(1)
    a, b, target = rng.standard_normal((3, 20))
    columns = [jnp.asarray(x) for x in (a, b, a - 2 * b, np.zeros(20))]
    x = least_squares(columns, jnp.asarray(target))
    expected = np.linalg.lstsq(np.stack([a, b], axis=1), target, rcond=None)[0]
    np.testing.assert_allclose(x, [*expected, 0, 0], rtol=1e-12)
    slopes = jax.jacrev(least_squares)(columns, jnp.asarray(target))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))
    # Nearly parallel columns: normal equations would have lost all digits at 1e-8.
    close = [jnp.asarray(a), jnp.asarray(a + 1e-8 * b)]
    solution = least_squares(close, jnp.asarray(3 * a + 2e-8 * b))
    np.testing.assert_allclose(solution, [1, 2], rtol=1e-6)


def test_anderson_at_the_solution_stays_there():
    """A history of zeros: no division by zero, in derivatives neither."""

    def stay(a):
        return fixed_point(
            lambda y, a: a * y, Anderson(1e-8, 1e-8, depth=2), jnp.zeros(3), a, steps=5
        ).value.sum()

    value, slope = jax.value_and_grad(stay)(jnp.asarray(0.5))
    assert (value, slope) == (0.0, 0.0)


N = 100_000


def contraction(y, p):
    """tanh of neighbours' sum, a matrix of 10^10 numbers that is never there."""
    coupled = 0.5 * jnp.roll(y, 1) + 0.4 * jnp.roll(y, -1) - 0.3 * jnp.roll(y, 5)
    return jnp.tanh(p * coupled) + jnp.sin(0.01 * jnp.arange(y.size, dtype=y.dtype))


@pytest.mark.slow
def test_large_contraction():
    """A hundred thousand unknowns: all solvers agree, and the derivative with a difference quotient."""

    def square(p, solver):
        return jnp.mean(fixed_point(contraction, solver, jnp.zeros(N), p).value ** 2)

    p, h = jnp.asarray(0.8), 1e-4
    values = [square(p, SOLVERS[name](1e-11, 1e-11)) for name in ("Picard", "Anderson", "NewtonKrylov")]
    np.testing.assert_allclose(values, values[0], rtol=1e-10)
    quotient = (square(p + h, Picard(1e-11, 1e-11)) - square(p - h, Picard(1e-11, 1e-11))) / (2 * h)
    np.testing.assert_allclose(jax.grad(square)(p, Picard(1e-11, 1e-11)), quotient, rtol=1e-6)


@pytest.mark.slow
def test_derivatives_of_many_unknowns_by_gmres():
    """More than are factorised, against the dense solution of the implicit function theorem."""
    solver, p, one = Picard(1e-13, 1e-13), jnp.asarray(0.8), jnp.ones(())
    weights = jnp.cos(jnp.arange(600.0))

    @jax.jit
    def slopes(p):
        def end(p):
            return fixed_point(contraction, solver, jnp.zeros(600), p).value

        y, slope = jax.jvp(end, (p,), (one,))
        return y, weights @ slope, jax.grad(lambda p: weights @ end(p))(p)

    y, forward, reverse = slopes(p)
    by_y, by_p = jax.jit(jax.jacfwd(contraction, (0, 1)))(y, p)
    exact = weights @ np.linalg.solve(np.eye(600) - np.asarray(by_y), np.asarray(by_p))
    assert float(forward) == pytest.approx(float(exact), rel=1e-10)
    assert float(reverse) == pytest.approx(float(exact), rel=1e-10)


POINTS = 64
X = np.linspace(-6, 6, POINTS)
H = X[1] - X[0]
KINETIC = (np.diag(np.full(POINTS, 2.0)) - np.eye(POINTS, k=1) - np.eye(POINTS, k=-1)) / (2 * H**2)


def lowest_state(density, g):
    """The lowest eigenpair of $-\\frac12 d^2/dx^2 + x^2/2 + g n(x)$, normalised to $\\int \\psi^2 = 1$."""
    levels, states = jnp.linalg.eigh(jnp.asarray(KINETIC + np.diag(X**2 / 2)) + jnp.diag(g * density))
    return levels[0], states[:, 0] / np.sqrt(H)


def density_of(density, g):
    return lowest_state(density, g)[1] ** 2


@pytest.mark.more
def test_self_consistent_field():
    """The Gross–Pitaevskii ground state at g = 10: Picard oscillates, Anderson and Newton agree, and the
    virial theorem holds."""
    g, start = 10.0, density_of(jnp.zeros(POINTS), 0.0)
    plain = fixed_point(density_of, Picard(1e-9, 1e-9), start, g, throw=False)
    assert is_code(plain, "nonlinear_max_steps_reached")
    assert plain.stats["residual"] > 0.5
    solution = fixed_point(density_of, Anderson(1e-11, 1e-11, mixing=0.3), start, g)
    assert solution.stats["num_steps"] < 30
    mu, psi = lowest_state(solution.value, g)

    def equations(y, g):
        """The nonlinear eigenproblem itself, without an eigenvalue solver."""
        energy = KINETIC @ y["psi"] + (X**2 / 2 + g * y["psi"] ** 2 - y["mu"]) * y["psi"]
        return {"mu": H * jnp.sum(y["psi"] ** 2) - 1, "psi": energy}

    result = root(equations, optx.Newton(1e-10, 1e-10), {"mu": mu + 0.1, "psi": 1.02 * psi}, g)
    assert result.value["mu"] == pytest.approx(float(mu), abs=1e-9)
    kinetic = H * psi @ (jnp.asarray(KINETIC) @ psi)
    potential = H * jnp.sum(X**2 / 2 * psi**2)
    interaction = H * jnp.sum(g / 2 * psi**4)
    assert kinetic + potential + 2 * interaction == pytest.approx(float(mu), rel=1e-9)
    assert 2 * kinetic - 2 * potential + interaction == pytest.approx(0, abs=0.02)


FAILURES = [
    (lambda y, a: 2 * y + 1, Picard, {}, "nonlinear_divergence"),
    (lambda y, a: 2 * y + 1, Picard, {"steps": 40}, "nonlinear_divergence"),
    (lambda y, a: jnp.log(y) - 10, Picard, {}, "nonfinite"),
    (lambda y, a: jnp.log(y) - 10, Anderson, {"steps": 4}, "nonfinite"),
    (lambda y, a: y * y + 5, Anderson, {}, "nonlinear_divergence"),
    (lambda y, a: 1 - y, Picard, {}, "nonlinear_max_steps_reached"),
    (lambda y, a: y * y + 5, optx.Newton, {}, "nonlinear_max_steps_reached"),
    (lambda y, a: y * y + 5, NewtonKrylov, {"max_steps": 9}, "nonlinear_max_steps_reached"),
]


@pytest.mark.parametrize(("fn", "solver", "options", "code"), FAILURES)
def test_failures_are_reported(fn, solver, options, code):
    solution = fixed_point(fn, solver(1e-8, 1e-8), jnp.asarray(1.25), throw=False, **options)
    assert is_code(solution, code)
    if code != "nonlinear_max_steps_reached" and "steps" not in options:
        assert solution.stats["num_steps"] < 150


@pytest.mark.parametrize(
    ("slope", "steps", "words"),
    [(2.0, None, "diverged"), (2.0, 40, "diverged"), (-1.0, None, "maximum number")],
)
def test_failures_are_raised(slope, steps, words):
    def solved(slope):
        return fixed_point(lambda y, a: a * y + 1, Picard(1e-8, 1e-8), 1.25, slope, steps=steps)

    with pytest.raises(
        RuntimeError, match=f"^fixed_point: .*{words}.* The residual is .* after [0-9]+ steps"
    ):
        solved(slope)
    with pytest.raises(RuntimeError, match=words):  # and by a compiled program
        jax.block_until_ready(jax.jit(lambda slope: solved(slope).value)(slope))


def test_each_path_has_its_own_result():
    """Under vmap one path diverges and its neighbours do not notice."""

    def program(a):
        solution = fixed_point(lambda y, a: a * y + 1, Picard(1e-12, 1e-12), 0.0, a, throw=False)
        return (
            solution.value,
            solution.result == CODES.successful,
            solution.result == CODES.nonlinear_divergence,
        )

    a = jnp.asarray([0.5, -3.0, -0.2])
    value, successful, diverged = jax.jit(jax.vmap(program))(a)
    assert list(successful) == [True, False, True]
    assert list(diverged) == [False, True, False]
    np.testing.assert_allclose(value[::2], 1 / (1 - a[::2]), rtol=1e-11)


def test_one_overshoot_is_no_divergence():
    """Newton's first step on y^3 = 1 from 0.001 goes to 3e5, and comes back."""
    result = root(lambda y, args: y**3 - 1, optx.Newton(1e-10, 1e-10), 0.001)
    assert result.value == pytest.approx(1, abs=1e-12)


def test_newton_krylov_in_any_unit():
    """Residuals of any size in float32, where lineax alone takes those below 1e-7 for zero."""

    def equations(y, size):
        x = y / size
        return size * (x * x * x + 0.5 * jnp.roll(x, 1) - 1)

    @jax.jit
    def solution(size):
        return root(equations, NewtonKrylov(1e-5, 1e-5 * size), jnp.full(30, 2 * size), size).value

    exact = np.roots([1, 0, 0.5, -1])
    for unit in (1e-12, 1.0, 1e12):
        size = jnp.asarray(unit, jnp.float32)
        np.testing.assert_allclose(solution(size) / size, exact[np.isreal(exact)].real[0], rtol=1e-5)


REFUSALS = [
    (lambda: fixed_point(cosine, Picard(1e-8, 1e-8), 1.0, 1.0, steps=0), "steps must be a positive whole"),
    (lambda: root(cosine, optx.Newton(1e-8, 1e-8), 1.0, 1.0, max_steps=2.5), "max_steps must be a positive"),
    (lambda: root(cosine, Anderson(1e-8, 1e-8), 1.0, 1.0), "root: Anderson is not a root finder"),
    (lambda: fixed_point(cosine, optx.BFGS(1e-8, 1e-8), 1.0, 1.0), "BFGS is neither a fixed-point solver"),
    (lambda: Anderson(1e-8, 1e-8, depth=0), r"Anderson.depth: must be a whole number from 1, got 0"),
    (
        lambda: fixed_point(lambda y, a: jnp.stack([y, y]), Picard(1e-8, 1e-8), 1.0),
        r"fixed_point: fn must return what y is, float64\[\], got float64\[2\]",
    ),
    (lambda: root(lambda y, a: (y, y), optx.Newton(1e-8, 1e-8), 1.0), "root: fn must return what y is"),
]


@pytest.mark.parametrize(("call", "message"), REFUSALS)
def test_refusals(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_newton_krylov_goes_on_while_it_moves():
    """Near a triple root the residual is below `atol` long before the steps are short."""
    result = root(lambda y, a: (y - a) ** 3, NewtonKrylov(1e-9, 1e-6), jnp.asarray(1.005), jnp.asarray(1.0))
    assert abs(float(result.value) - 1) < 4e-6


def test_newton_krylov_goes_on_while_the_residual_is_large():
    """On a steep slope a step is short long before the residual is below `atol`."""
    result = root(lambda y, a: 1e6 * (y * y - a), NewtonKrylov(1e-3, 1e-6), jnp.asarray(1.0005), 1.0)
    assert abs(1e6 * (float(result.value) ** 2 - 1)) < 1e-6
