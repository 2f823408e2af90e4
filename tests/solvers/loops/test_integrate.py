"""The loop: its clock, its rows, the same bits whatever is saved or mapped, gradients, one trace."""

import functools
from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from simkit_solvers import (
    AbstractObserver,
    AbstractODE,
    AbstractSDE,
    CounterNoise,
    EulerMaruyama,
    Grid,
    Scalar,
    States,
    integrate,
    seed_key,
)
from solver_problems import Commutative, Driven, Level, OneNoise, PairState
from user_code import user_jit


class Still(AbstractODE):
    State = Level

    def drift(self, t, y):
        return Level(0.0 * y.x)


class Clock(AbstractObserver):
    """Counts the steps whose time does not follow the one before by one step."""

    def init(self, problem, t, y):
        return t, jnp.uint32(0), jnp.uint32(0)

    def update(self, problem, acc, k, t, y, dt):
        before, wrong, last = acc
        off = (t - before < 0.3 * dt) | (t - before > 1.7 * dt) | (k != last + jnp.uint32(1))
        return t, wrong + off.astype(jnp.uint32), k

    def row(self, problem, acc, t, y):
        return {"t": t, "wrong": acc[1], "k": acc[2]}

    def coarsened(self, factor):
        return self

    def refined(self, factor):
        return self


def test_the_clock_is_an_integer():
    """Ten million float32 steps of 0.1: summing them up would lose 9 % of the time."""
    grid = Grid(0.0, 0.1, 10**7, 10**6)
    y0 = Level(jnp.float32(1.0))
    rows = user_jit(lambda: integrate(Still(), EulerMaruyama(), y0, grid, None, Clock()))()
    assert rows["t"].dtype == jnp.float32
    np.testing.assert_array_equal(rows["wrong"], 0)
    np.testing.assert_array_equal(rows["k"], np.arange(11) * 10**6)
    np.testing.assert_allclose(rows["t"], grid.times, rtol=1e-7)


class StepCounts(NamedTuple):
    k: Scalar
    late: Scalar
    last: Scalar


class Counting(AbstractSDE):
    """Counts its steps, and those not at `dt` times their number; `last` is the step's own noise."""

    State = StepCounts
    Noise = OneNoise
    calculus = "any"
    noise_kind = "additive"

    dt: Scalar = 3.0

    def drift(self, t, y):
        off = jnp.where(t == y.k * self.dt, 0.0, 1.0).astype(t.dtype)
        return StepCounts(k=1 / self.dt, late=off / self.dt, last=-y.last / self.dt)

    def noise(self, t, y, dW):
        return StepCounts(k=0.0, late=0.0, last=dW.W)


def test_ten_million_steps_lose_no_step_no_time_and_no_word():
    """In float32 times of 3 add up to whole numbers that it has not: from 2**24 on it has the even ones."""
    steps, every = 10**7, 2 * 10**6
    noise, grid = CounterNoise.of(seed_key(2), jnp.uint32(7)), Grid(0.0, 3.0, steps, every)
    y0 = StepCounts(*(jnp.zeros((), jnp.float32),) * 3)
    rows = user_jit(lambda: integrate(Counting(), EulerMaruyama(), y0, grid, noise, States()))()
    np.testing.assert_array_equal(rows["k"], np.arange(0, steps + 1, every))
    np.testing.assert_array_equal(rows["late"], 0)
    for row in range(1, grid.rows):
        drawn = noise.draws(1, 0, jnp.uint32(row * every - 2), 2)[1].W[0]
        assert float(rows["last"][row]) == pytest.approx(3**0.5 * float(drawn), rel=1e-5, abs=1e-6)


def test_rows_are_those_of_a_loop_written_out():
    """Euler's method by hand on a non-autonomous problem; row 0 is the start, row r is step r * every."""
    problem, dt = Driven(), 0.05
    y, written = PairState(0.5, 0.7), [(0.5, 0.7)]
    for k in range(30):
        rate = problem.drift(0.3 + k * dt, y)
        y = PairState(*(float(u + dt * f) for u, f in zip(y, rate, strict=True)))
        written.append(y)
    y0 = PairState(jnp.asarray(0.5), jnp.asarray(0.7))
    for every in (1, 5, 30):
        grid = Grid(0.3, dt, 30, every)
        rows = integrate(problem, EulerMaruyama(), y0, grid, None, States())
        assert rows["x"].shape == (grid.rows,)
        np.testing.assert_allclose(np.transpose([rows["x"], rows["v"]]), written[::every], rtol=1e-13)
        np.testing.assert_allclose(grid.times, 0.3 + dt * every * np.arange(grid.rows))


class WithAreas(diffrax.AbstractSRK, diffrax.AbstractStratonovichSolver):
    """SPaRK with a fraction of the third area, to ask for all that the noise gives."""

    tableau = diffrax.StochasticButcherTableau(
        a=diffrax.SPaRK.tableau.a,
        b_sol=diffrax.SPaRK.tableau.b_sol,
        b_error=None,
        c=diffrax.SPaRK.tableau.c,
        coeffs_w=diffrax.SPaRK.tableau.coeffs_w,
        coeffs_hh=diffrax.SPaRK.tableau.coeffs_hh,
        coeffs_kk=diffrax.SPaRK.tableau.coeffs_hh,
        ignore_stage_f=None,
        ignore_stage_g=None,
    )


SOLVERS_BY_AREAS = EulerMaruyama(), diffrax.SPaRK(), WithAreas()
NOISES = [NamedTuple(f"Noise{n}", [(f"W{i}", Scalar) for i in range(n)]) for n in (1, 2, 3)]


@functools.cache
def several_noises(components):
    class Several(AbstractSDE):
        State = PairState
        Noise = NOISES[components - 1]
        calculus = "any"
        noise_kind = "general"

        def drift(self, t, y):
            return PairState(x=-y.x * jnp.cos(t), v=y.x - y.v)

        def noise(self, t, y, dW):
            loud = sum(0.2 * (i + 1) * w for i, w in enumerate(dW))
            return PairState(x=loud * jnp.cos(y.v), v=0.3 * dW[0] * y.x)

    return Several()


class Twisted(AbstractODE):
    """Products that feed several sums each, so that it shows where the compiler contracts others."""

    State = PairState

    def drift(self, t, y):
        return PairState(
            x=1.3 * y.v * y.x * y.x - y.x**3 * jnp.cos(t), v=jnp.sin(y.x) * y.v - y.x * y.v * y.v
        )


class Watching(AbstractObserver):
    """Accumulators and rows of products and sums, as those of path functionals are."""

    def init(self, problem, t, y):
        return jnp.zeros_like(y.x), y.x * y.x, y.v

    def update(self, problem, acc, k, t, y, dt):
        total, most, integral = acc
        return (
            total + jnp.exp(-t) * y.x * y.v,
            jnp.maximum(most, y.x * y.x),
            integral + 0.5 * dt * (y.v * y.x),
        )

    def row(self, problem, acc, t, y):
        total, most, integral = acc
        return {
            **y._asdict(),
            "total": total * jnp.exp(-t) * y.x,
            "excess": jnp.maximum(most - 0.1, 0),
            "mean": integral / (t + 1.0),
        }

    def coarsened(self, factor):
        return self

    def refined(self, factor):
        return self


@functools.cache
def program_of(components, method, dtype, lanes=64):
    """A function of a grid."""
    problem, solver = (
        (several_noises(components), SOLVERS_BY_AREAS[method])
        if components
        else (Twisted(), ODE_SOLVERS[method])
    )

    def one_path(path, grid):
        noise = CounterNoise.of(seed_key(3), path) if components else None
        y0 = PairState(0.5 + 0.001 * path.astype(dtype), jnp.asarray(0.7, dtype))
        return integrate(problem, solver, y0, grid, noise, Watching())

    paths = jnp.arange(lanes, dtype=jnp.uint32)
    return user_jit(lambda grid: jax.vmap(lambda path: one_path(path, grid), out_axes=1)(paths))


@functools.cache
def rows_of(components, method, steps, every, dtype, lanes=64):
    return program_of(components, method, dtype, lanes)(Grid(0.3, 0.02, steps, every))


ODE_SOLVERS = diffrax.Heun(), diffrax.Tsit5(), diffrax.Bosh3()


def saving_cases(test, count):
    """The test on a number of drawn cases, whose programs take seconds each to compile."""
    cases = given(
        data=st.data(),
        components=st.sampled_from((0, 1, 2, 3)),
        method=st.sampled_from((0, 0, 1, 2)),
        dtype=st.sampled_from(("float32", "float64")),
    )
    return settings(max_examples=count, phases=[Phase.generate])(cases(test))


def check_what_is_saved(data, components, method, dtype):
    """Every value kept at a step that two runs both save: states, accumulators and what is made of them."""
    steps = data.draw(st.sampled_from((6, 9) if components and method else (6, 9, 12, 15, 24)))
    every = data.draw(st.sampled_from([d for d in range(2, steps + 1) if steps % d == 0]))
    each = rows_of(components, method, steps, 1, dtype)
    some = rows_of(components, method, steps, every, dtype)
    for name, values in some.items():
        np.testing.assert_array_equal(values, each[name][::every], name, strict=True)


test_what_is_saved_changes_no_bit = saving_cases(check_what_is_saved, 2)
test_what_is_saved_changes_no_bit_in_many_cases = pytest.mark.slow(saving_cases(check_what_is_saved, 40))


def check_traced_steps(data, components, method, dtype):
    """Two grids with as many rows, at the same places in blocks: one program, and the bits of a `Grid`."""
    program, between = program_of(components, method, dtype), data.draw(st.sampled_from((1, 1, 2, 3)))
    first, longer = data.draw(st.integers(16, 31)), data.draw(st.sampled_from((8, 16, 40)))
    grids = [Grid(0.3, 0.02, between * every, every) for every in (first, first + longer)]
    traced, sizes = zip(*[(program(grid.traced()), program._cache_size()) for grid in grids], strict=True)
    assert sizes[0] == sizes[1]
    for grid, rows in zip(grids, traced, strict=True):
        for name, values in program(grid).items():
            np.testing.assert_array_equal(values, rows[name], name, strict=True)


test_traced_steps_change_no_bit = pytest.mark.more(saving_cases(check_traced_steps, 2))
test_traced_steps_change_no_bit_in_many_cases = pytest.mark.slow(saving_cases(check_traced_steps, 40))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [pytest.param("float32", marks=pytest.mark.slow), "float64"])
def test_a_path_is_the_same_in_any_company(dtype):
    """Per-path bits of both precisions and both states in 64, 1000 and 2048 lanes."""
    y0 = PairState(jnp.asarray(0.5, dtype), jnp.asarray(0.7, dtype))

    def end(path):
        rows = integrate(
            Commutative(),
            EulerMaruyama(),
            y0,
            Grid(0.0, 0.01, 21, 7),
            CounterNoise.of(seed_key(3), path),
            States(),
        )
        return rows["x"], rows["v"]

    program = user_jit(jax.vmap(end))
    bits = [np.asarray(program(jnp.arange(n, dtype=jnp.uint32))) for n in (64, 1000, 2048)]
    for others in bits[1:]:
        np.testing.assert_array_equal(others[:, :64], bits[0])


@pytest.mark.parametrize(("problem", "solver"), [(Driven, diffrax.Heun()), (Commutative, EulerMaruyama())])
def test_gradients(problem, solver):
    """Forward = reverse = central difference, by parameter, initial value, start and step at once."""

    def end(a, x0, t0, dt):
        noise = CounterNoise.of(seed_key(1), 2) if problem is Commutative else None
        y0 = PairState(x0, jnp.asarray(0.7))
        rows = integrate(problem(a=a), solver, y0, Grid(t0, dt, 40, 20), noise, States())
        return rows["x"][-1] + rows["v"][1]

    def program(point, way):
        value, forward = jax.jvp(end, point, way)
        return value, forward, jnp.stack(jax.grad(end, (0, 1, 2, 3))(*point))

    program = user_jit(program)
    point = tuple(map(jnp.asarray, (0.9, 0.5, 0.3, 0.02)))
    way = tuple(map(jnp.asarray, (0.5, -0.8, 0.3, 0.01)))
    _, forward, reverse = program(point, way)
    assert np.all(np.abs(reverse) > 1e-3)
    assert float(np.dot(reverse, np.stack(way))) == pytest.approx(float(forward), rel=1e-12)
    shifted = [tuple(p + s * w for p, w in zip(point, way, strict=True)) for s in (1e-5, -1e-5)]
    ahead, behind = (program(p, way)[0] for p in shifted)
    assert float(ahead - behind) / 2e-5 == pytest.approx(float(forward), rel=1e-7)


class Bridge(AbstractSDE):
    """Ends at b for certain: its drift is infinite at t = 1."""

    State = Level
    Noise = NOISES[0]
    calculus = "any"
    noise_kind = "additive"
    a: Scalar = 1.1

    def drift(self, t, y):
        return Level((self.a - y.x) / (1.0 - t))

    def noise(self, t, y, dW):
        return Level(0.2 * dW.W0)


class Fading(Bridge):
    """Noise whose derivative is infinite at t = 1."""

    def drift(self, t, y):
        return Level(-y.x)

    def noise(self, t, y, dW):
        return Level(self.a * jnp.sqrt(1.0 - t) * dW.W0)


class Chased(AbstractODE):
    """Defined where x < 1 + 4t: the state at a late time has no drift at an early one."""

    State = Level
    a: Scalar = 1.1

    def drift(self, t, y):
        return Level(2.0 * self.a * jnp.sqrt(1.0 + 4.0 * t - y.x))


def by_a_loop_written_out(cls, steps, every):
    """Euler–Maruyama in plain Python: the rows as a function of parameter, initial value and step."""

    def rows(a, x0, dt):
        problem, x, states = cls(a=a), x0, [x0]
        noise = CounterNoise.of(seed_key(1), 2)
        draws = noise.draws(1, 0, jnp.uint32(0), steps + steps % 2) if issubclass(cls, AbstractSDE) else None
        for k in range(steps):
            y = Level(x)
            x = x + problem.drift(k * dt, y).x * dt
            if draws:
                x = x + problem.noise(k * dt, y, NOISES[0](jnp.sqrt(dt) * draws[k].W[0])).x
            states.append(x)
        return jnp.stack(states[::every])

    return rows


@pytest.mark.more
@pytest.mark.parametrize(
    ("cls", "steps", "every"),
    [
        pytest.param(Bridge, 3, 1, marks=pytest.mark.slow),
        pytest.param(Bridge, 9, 3, marks=pytest.mark.slow),
        (Fading, 5, 5),
        (Chased, 20, 5),
    ],
)
def test_gradients_of_rows_inside_blocks_and_at_the_edge_of_the_domain(cls, steps, every):
    """The last step ends where the next one would be infinite: no step that is not taken may be felt."""

    def rows(a, x0, dt):
        noise = CounterNoise.of(seed_key(1), 2) if issubclass(cls, AbstractSDE) else None
        grid = Grid(0.0, dt, steps, every)
        return integrate(cls(a=a), EulerMaruyama(), Level(x0), grid, noise, States())["x"]

    point = tuple(map(jnp.asarray, (1.1, 0.5, 1.0 / steps)))
    expected = jax.jacrev(by_a_loop_written_out(cls, steps, every), (0, 1, 2))(*point)
    for derivative in (jax.jacrev, jax.jacfwd):
        actual = jax.jit(derivative(rows, (0, 1, 2)))(*point)
        np.testing.assert_allclose(np.stack(actual), np.stack(expected), rtol=1e-5, atol=1e-6)


def test_one_trace():
    """New parameters, start, step, initial value and path compile nothing."""
    traces = []

    @jax.jit
    def run(problem, y0, grid, path):
        traces.append(1)
        return integrate(problem, EulerMaruyama(), y0, grid, CounterNoise.of(seed_key(1), path), States())[
            "x"
        ][-1]

    seen = set()
    for i in range(3):
        y0 = PairState(jnp.asarray(0.5 + i), jnp.asarray(0.7))
        grid = Grid(0.1 * i, 0.01 * (i + 1), 8, 4)
        seen.add(float(run(Commutative(a=1.0 + i), y0, grid, jnp.uint32(i))))
    assert len(traces) == 1
    assert len(seen) == 3


def test_stochastic_problem_without_noise():
    y0 = PairState(jnp.asarray(0.5), jnp.asarray(0.7))
    with pytest.raises(ValueError, match="Commutative is stochastic: `noise` must be a driver, not None"):
        integrate(Commutative(), EulerMaruyama(), y0, Grid(0.0, 0.1, 2, 1), None, States())
