"""The errors of roots, eigenvalues and derivatives, against what is known exactly."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from steady_examples import LORENZ, Linear, assert_within_errors, numbers, ode, states_of

import simkit
from simkit.steady_states.newton import Fixed
from simkit.steady_states.search import searched
from simkit.steady_states.settling import flows_to
from simkit.steady_states.stability import Stability, stability_of
from simkit.steady_states.table import print_table

SIZES = st.integers(1, 6)
SEEDS = st.integers(0, 2**32 - 1)


def solved_exactly(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """The solution of a linear system by fractions."""
    rows = [[Fraction(x) for x in (*row, b)] for row, b in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        pivot = next(k for k in range(i, len(rows)) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(len(rows)):
            if k != i:
                rows[k] = [a - rows[k][i] * b for a, b in zip(rows[k], rows[i], strict=True)]
    return np.asarray([float(row[-1]) for row in rows])


@pytest.mark.user_code
@pytest.mark.parametrize("a", 10 ** -np.random.default_rng(1).uniform(6, 9.5, 16))
def test_a_root_near_a_fold_lies_within_its_error(a):
    """1 + sqrt(a) of a - 1 + 2 x - x^2, whose terms cancel but for what rounding makes of them."""
    found = simkit.steady(ode({"x": f"{float(a)!r} - 1 + 2*x - x**2"}, {"x": 2.0}))
    values, errors = (found[key].sel(quantity="x").values for key in ("value", "value_error"))
    off = abs(abs(values - 1) - math.sqrt(a))
    assert len(values)
    assert (off <= errors).all()
    assert (errors < 1e-15 / math.sqrt(a)).all()


@given(SIZES, SEEDS)
def test_a_linear_system_is_solved_to_within_its_error(size, seed):
    """Stable or not, with units that differ by powers of ten."""
    generator = np.random.default_rng(seed)
    units = 10.0 ** generator.integers(-6, 7, size)
    matrix = (generator.standard_normal((size, size)) + 3 * np.eye(size)) * units[:, None] / units
    right = generator.standard_normal(size) * units
    start = generator.standard_normal(size) * units
    root = Fixed(Linear(matrix, right), np.zeros((0, size)), start, abs(start)).root_from(start)
    exact = solved_exactly(matrix, -right)
    assert root.converged
    assert np.all(abs(root.state - exact) <= root.error)
    assert np.all(root.error <= 1e-15 * size * np.linalg.cond(matrix * units / units[:, None]) * 100 * units)


@given(SIZES, SEEDS, st.sampled_from([-1.0, 1.0]))
def test_eigenvalues_are_as_near_to_those_chosen_as_their_errors_say(size, seed, sign):
    generator = np.random.default_rng(seed)
    chosen = sign * (1 + np.arange(size) + generator.random(size) / 2)
    vectors = generator.standard_normal((size, size)) + 3 * np.eye(size)
    matrix = vectors @ np.diag(chosen) @ np.linalg.inv(vectors)
    built = 20 * 2**-52 * np.linalg.cond(vectors) ** 2 * size**2  # rounding of the matrix itself
    start = generator.standard_normal(size)
    fixed = Fixed(Linear(matrix, -matrix @ start), np.zeros((0, size)), start + 1, abs(start + 1))
    stability = stability_of(fixed, fixed.root_from(start + 1))
    off = abs(np.sort(stability.eigenvalues.real) - np.sort(chosen))
    assert np.all(off <= np.max(stability.errors) + built)
    assert stability.kind == f"{'stable' if sign < 0 else 'unstable'} node"
    assert stability.stable == (sign < 0)


SIZE = st.integers(1, 10**6)
RATE = st.floats(1e-4, 1e4)


@given(RATE, RATE, SIZE, SIZE)
def test_totals_stay_whatever_the_sizes_of_the_variables(there, back, a, b):
    """Of A <-> B, to within the error: a share of the total in the ratio of the rates."""
    forward, backward = Fraction(there), Fraction(back)
    exact = [float((a + b) * share / (forward + backward)) for share in (backward, forward)]
    matrix = np.asarray([[-there, back], [there, -back]])
    start = np.asarray([a, b], float)
    root = Fixed(Linear(matrix, np.zeros(2)), np.ones((1, 2)), start, start).root_from(start)
    assert root.converged
    assert np.all(abs(root.state - exact) <= root.error)
    assert np.all(root.error <= 1e-13 * (a + b))


@given(SEEDS)
def test_totals_stay_and_their_zeros_are_no_eigenvalues(seed):
    """A closed linear scheme: the columns of its matrix sum to zero."""
    generator = np.random.default_rng(seed)
    matrix = generator.random((4, 4)) * 10.0 ** generator.integers(-2, 3, (4, 4))
    matrix -= np.diag(matrix.sum(axis=0))
    start = generator.random(4) + 0.1
    fixed = Fixed(Linear(matrix, np.zeros(4)), np.ones((1, 4)), start, abs(start))
    root = fixed.root_from(start)
    system = np.vstack([matrix[:-1], np.ones(4)])
    exact = np.linalg.solve(system, [0, 0, 0, start.sum()])
    np.testing.assert_allclose(root.state, exact, rtol=1e-9 * np.linalg.cond(system) ** 0.5)
    assert abs(root.state.sum() - start.sum()) <= 1e-14 * start.sum() * 4
    eigenvalues = np.linalg.eigvals(matrix)
    rest = np.delete(eigenvalues, np.argmin(abs(eigenvalues)))
    found = stability_of(fixed, root)
    np.testing.assert_allclose(np.sort(found.eigenvalues.real), np.sort(rest.real), rtol=1e-7)
    assert found.stable


@pytest.mark.more
def test_a_stiff_scheme_ends_at_a_degenerate_state():
    robertson = {"model": {"type": "Robertson", "k1": 0.04, "k2": 3e7, "k3": 1e4}, "time": {"t1": 1.0}}
    robertson["time"] |= {"rtol": 1e-6, "atol": 1e-9}
    (state,) = states_of(robertson | {"initial": {"y1": 1.0, "y2": 0.0, "y3": 0.0}})
    assert state["reached"]
    assert_within_errors(state, {"y1": 0.0, "y2": 0.0, "y3": 1.0}, worst=1e-6)
    assert state["kind"] == "degenerate"


def test_derivatives_are_those_of_closed_forms():
    parameters = {"sigma": 10.0, "rho": 14.0, "beta": 2.5}
    (state,) = states_of(LORENZ, [])
    sign = math.copysign(1.0, numbers(state)["x"])
    x = sign * math.sqrt(2.5 * 13)
    exact = {
        "x": {"sigma": 0.0, "rho": 2.5 / (2 * x), "beta": 13 / (2 * x)},
        "z": {"sigma": 0.0, "rho": 1.0, "beta": 0.0},
        "r": {"sigma": 0.0, "rho": 2.5 + 2.5 * 2.5 / (2 * x), "beta": 13 + x + 2.5 * 13 / (2 * x)},
    }
    for name, derivatives in exact.items():
        for label, value in derivatives.items():
            own = state["values"][name]["derivatives"][label]
            assert abs(own["derivative"] - value) <= own["error"] + 1e-15 * abs(value)
            assert own["error"] <= 1e-10
            elasticity = value * parameters[label] / numbers(state)[name]
            assert own["elasticity"] == pytest.approx(elasticity, abs=1e-12)


def test_a_value_that_is_0_within_its_error_has_no_elasticity():
    """What rounding leaves of a difference that is 0, divided by it, says nothing."""
    left = []
    for a in (0.7, 2.0, 5.0, 11.0):
        source = ode({"x": "a - x**3"}, {"x": 1.0}, a=a) | {"observe": {"gap": "x**2 - a**(2/3)"}}
        (state,) = states_of(source, "a")
        x, gap = (state["values"][name] for name in ("x", "gap"))
        assert abs(gap["value"]) <= gap["error"] < 1e-14
        assert gap["derivatives"]["a"]["derivative"] == pytest.approx(0.0, abs=1e-14)
        assert gap["derivatives"]["a"]["elasticity"] is gap["derivatives"]["a"]["elasticity_error"] is None
        assert x["derivatives"]["a"]["elasticity"] == pytest.approx(1 / 3)
        left.append(gap["value"])
    assert any(left)


@pytest.mark.parametrize("a", [1e-4, 1e-5, 1e-6, 1e-7])
def test_the_error_of_a_derivative_near_a_fold_includes_that_of_the_root(a):
    """x = 1 + sqrt(a), where its derivative 1/(2 sqrt(a)) changes far with x."""
    (state,) = states_of(ode({"x": "a - 1 + 2*x - x**2"}, {"x": 2.0}, a=a), "a")
    own = state["values"]["x"]["derivatives"]["a"]
    exact = 0.5 / math.sqrt(a)
    assert abs(own["derivative"] - exact) <= own["error"] <= 1e-3 * exact


def test_an_undefined_derivative_leaves_the_defined_ones(capsys):
    """x**2 = a at both signs, with slope 1/(2 x) in a; where x is negative, x**n has none in n."""
    source = ode({"x": "a - x**n"}, {"x": 1.0}, a=4.0, n=2.0) | {"observe": {"double": "2*x"}}
    dataset = simkit.steady(source, ["a", "n"], search=20, ranges={"x": (-5, 5)})
    positive, negative = (dataset.sel(root=number) for number in (1, 2))
    assert [float(each["value"].sel(quantity="x")) for each in (positive, negative)] == [2.0, -2.0]
    by_a = {"x": 0.25, "double": 0.5}
    for state, sign in ((positive, 1), (negative, -1)):
        for name, exact in by_a.items():
            own = state.sel(quantity=name, parameter="a")
            assert abs(float(own["derivative"]) - sign * exact) <= float(own["derivative_error"]) < 1e-14
    by_n = positive["derivative"].sel(quantity="x", parameter="n")
    assert float(by_n) == pytest.approx(-math.log(2))  # -x log(x)/n
    assert np.isnan(negative["derivative"].sel(parameter="n")).all()
    print_table(dataset)
    text = capsys.readouterr().out
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in text.splitlines() if "│" in line]
    assert [row for row in rows if "?" in row] == [["", "", "n", "?", "?"]] * 2
    (note,) = (line for line in text.splitlines() if line.startswith("no derivative"))
    assert note.startswith("no derivative of state 2 with respect to n (?) of x, double: ")


def test_derivatives_are_those_of_finite_differences():
    """Of a scheme without a closed form, by a constant that several parameters use."""
    drifts = {"x": "c - x + x**2*y/(1 + x)", "y": "2*c*c - x**2*y/(1 + x) - y"}
    example = ode(drifts, {"x": 0.5, "y": 0.5}) | {"constants": {"c": 0.6}, "observe": {"both": "x*y + c"}}
    (state,) = states_of(example, "c")

    def at(c: float) -> dict[str, float]:
        return numbers(states_of(example, overrides={"constants.c": c})[0])

    step = 1e-4
    ends = at(0.6 + step), at(0.6 - step)
    for name in ("x", "y", "both"):
        own = state["values"][name]["derivatives"]["c"]
        assert own["derivative"] == pytest.approx((ends[0][name] - ends[1][name]) / (2 * step), rel=1e-6)


def test_a_search_is_the_same_for_the_same_seed():
    """And stays in its box."""

    def found(seed: int) -> list[float]:
        fixed = Fixed(Sine(), np.zeros((0, 1)), np.ones(1), np.ones(1))
        roots, converged, _ = searched(fixed, 40, {"y0": (-7.0, 4.0)}, seed)
        assert converged > 30
        return [float(root.state[0]) for root in roots]

    assert found(1) == found(1) != found(2)
    np.testing.assert_allclose(np.sort(found(3)), np.pi * np.arange(-2, 2), atol=1e-12)


def test_each_part_of_a_range_has_one_start_of_a_search():
    """A Latin hypercube: of as many equal parts as starts, in each variable."""
    starts = []

    class Recording(Fixed):
        def root_from(self, y):
            starts.append(y)
            return super().root_from(y)

    fixed = Recording(Linear(-np.eye(2), np.zeros(2)), np.zeros((0, 2)), np.ones(2), np.ones(2))
    searched(fixed, 30, {"y0": (-3.0, 6.0), "y1": (0.0, 1.0)}, 1)
    parts = np.floor(30 * (np.asarray(starts) - [-3.0, 0.0]) / [9.0, 1.0])
    np.testing.assert_array_equal(np.sort(parts, axis=0), np.repeat(np.arange(30)[:, None], 2, axis=1))


class Cubic(Linear):
    """-(y - 1) (y - 1.05) (y - 2), stable at 1 and 2."""

    def __init__(self):
        super().__init__(np.ones((1, 1)), np.zeros(1))

    def __call__(self, y):
        return -(y - 1) * (y - 1.05) * (y - 2)

    each = __call__

    def jacobian(self, y):
        return -((y - 1) * (y - 1.05) + (y - 1) * (y - 2) + (y - 1.05) * (y - 2))[:, None]


@pytest.mark.parametrize(("state", "flows"), [(1.03, True), (0.99, True), (1.07, False), (1.3, False)])
def test_a_state_flows_to_a_root_only_within_its_basin(state, flows):
    fixed = Fixed(Cubic(), np.zeros((0, 1)), np.ones(1), np.ones(1))
    root = fixed.root_from(np.asarray([0.999]))
    np.testing.assert_allclose(root.state, 1.0, rtol=1e-14)
    assert flows_to(fixed, root, np.asarray([state])) == flows


class Sine(Linear):
    """sin y."""

    def __init__(self):
        super().__init__(np.ones((1, 1)), np.zeros(1))

    def __call__(self, y):
        return np.sin(y)

    def jacobian(self, y):
        return np.cos(y)[:, None]

    def rounding(self, y):
        return 2**-52 * abs(np.sin(y))


@pytest.mark.parametrize(
    ("eigenvalues", "continuum", "kind"),
    [
        ([1.0, -1.0, -2.0], False, "saddle"),
        ([1 + 2j, 1 - 2j, -1], False, "saddle-focus"),
        ([1 + 2j, 1 - 2j, 3], False, "unstable spiral"),
        ([-1 + 2j, -1 - 2j, -3], False, "stable spiral"),
        ([2j, -2j, -1], False, "undecided: imaginary eigenvalues"),
        ([2j, -2j, 1], False, "unstable"),
        ([2j, -2j, 3j], False, "centre"),
        ([0.0, -1.0, -2.0], False, "degenerate"),
        ([0.0, -1.0, -2.0], True, "stable, one of a continuum"),
        ([0.0, 1.0, -2.0], True, "unstable, one of a continuum"),
    ],
)
def test_eigenvalues_have_the_usual_names(eigenvalues, continuum, kind):
    stability = Stability(np.asarray(eigenvalues, complex), np.full(3, 1e-12), continuum)
    assert stability.kind == kind
    assert stability.stable == kind.startswith("stable ") if not continuum else not stability.stable
