"""Reverse passes within a budget: the memory is known in advance, and no derivative changes."""

import functools
import math
import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from accelerator import needs_processor
from checkout import ROOT
from hypothesis import example, given
from hypothesis import strategies as st
from simkit_physics import Heston
from simkit_solvers import (
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
from simkit_solvers.loops.checkpoints import nested_scan, nesting
from solver_problems import Level, OneNoise
from user_code import user_jit

from simkit.ensemble import Run, Simulation, path_ids, path_program


@given(st.integers(1, 3000), st.integers(2, 200_000), st.integers(1, 3000))
@example(1, 25_000, 1000)
@example(1, 2, 1)
def test_loops_hold_every_block_and_no_more_than_requested(rows, blocks, most):
    """All rows and blocks fit in, at most half as many again, and d loops keep about d n^(1/d) carries."""
    loops = nesting(rows, blocks, most)
    assert math.prod(loops.rows) >= rows
    assert math.prod(loops.blocks) >= blocks
    assert loops.iterations <= 1.5 * rows * blocks
    assert loops.levels <= 6
    fewest = 1.5 * 6 * (rows * blocks) ** (1 / 6) + 12
    assert loops.carries <= max(most, fewest)
    if rows * (blocks + 1) <= most:
        assert loops.levels == 1
    elif 3 * (rows * (blocks + 1)) ** 0.5 + 6 <= most:
        assert loops.levels == 2


@pytest.mark.parametrize("lengths", [(24,), (4, 6), (2, 3, 4)])
def test_nested_scans_are_one_scan(lengths):
    """Carry, rows and reverse gradient of a recursion that no two orders agree on."""

    def run(a, lengths):
        def body(x, i):
            return jnp.sin(a * x) + 0.1 * i.astype(x.dtype), x

        end, rows = nested_scan(body, a, lengths)
        return end + jnp.sum(rows[::3]), rows

    def both(lengths):
        return user_jit(jax.value_and_grad(functools.partial(run, lengths=lengths), has_aux=True))(1.3)

    (value, rows), slope = both(lengths)
    (expected, all_rows), exact = both((24,))
    np.testing.assert_allclose(rows, all_rows, rtol=1e-14)
    np.testing.assert_allclose((value, slope), (expected, exact), rtol=1e-13)


class SingularODE(AbstractODE):
    """Its rate is infinite where it ends, so that a step beyond the end would make NaN of a derivative."""

    State = Level
    a: Scalar = 1.1

    def drift(self, t, y):
        return Level((self.a - jnp.sin(y.x)) / (1.0 - t))


class SingularSDE(AbstractSDE):
    """The same with noise."""

    State = Level
    Noise = OneNoise
    calculus = "any"
    noise_kind = "additive"
    a: Scalar = 1.1

    def drift(self, t, y):
        return Level((self.a - jnp.sin(y.x)) / (1.0 - t))

    def noise(self, t, y, dW):
        return Level(0.2 * self.a * dW.W)


@pytest.mark.more
@pytest.mark.parametrize(
    ("cls", "steps", "every"),
    [
        (SingularODE, 174, 174),
        (SingularODE, 171, 3),
        pytest.param(SingularSDE, 264, 264, marks=pytest.mark.slow),
        pytest.param(SingularSDE, 171, 3, marks=pytest.mark.slow),
    ],
)
def test_a_budget_changes_no_derivative(cls, steps, every):
    """Many blocks of one row, and many rows of parts of blocks, with loops that do not divide either."""

    def rows(a, x0, memory):
        noise = CounterNoise.of(seed_key(1), jnp.uint32(2)) if cls is SingularSDE else None
        grid = Grid(0.0, 1.0 / steps, steps, every)
        return integrate(cls(a=a), EulerMaruyama(), Level(x0), grid, noise, States(), memory)["x"]

    def with_budget(memory):
        def total(a, x0):
            kept = rows(a, x0, memory)
            return jnp.sum(kept * jnp.cos(jnp.arange(kept.shape[0]))), kept

        return user_jit(jax.value_and_grad(total, (0, 1), has_aux=True))(1.1, 0.5)

    (_, kept), slopes = with_budget(10**6)
    (_, again), nested = with_budget(80)
    assert np.all(np.isfinite(slopes))
    np.testing.assert_allclose(again, kept, rtol=1e-12)
    np.testing.assert_allclose(nested, slopes, rtol=1e-11)


def heston(steps: int, precision: str = "float64", paths: int = 10_240) -> Simulation:
    return Simulation(
        run=Run(
            problem=Heston(0.05, 4.0, 0.25, 1.0, -0.5),
            observer=States(),
            initial={"S": 100.0, "v": 0.04},
            grid=Grid(0.0, 1.0 / steps, steps, steps),
            solver=EulerMaruyama(),
        ),
        observables={},
        paths=paths,
        seed=1,
        precision=precision,
    )


def reverse(simulation: Simulation, budget: int):
    """The mean call as a function of the model, its arguments, and what the reverse pass should keep."""
    program, inputs = path_program(simulation, simulation.grid, reverse_bytes=budget)
    ids = path_ids(0, simulation.paths // 2048, 2048)

    def call(problem):
        S = program(inputs._replace(problem=problem), ids)["S"][-1]
        return jnp.mean(jnp.maximum(S - 100.0, 0).reshape(-1))

    return call, inputs.problem, program.reverse_pass(inputs, ids)


def temporary(call, problem) -> int:
    return user_jit(jax.value_and_grad(call)).lower(problem).compile().memory_analysis().temp_size_in_bytes


@pytest.mark.slow
def test_the_compiler_uses_the_planned_memory():
    """Heston, 10^5 steps of 10 240 paths: a few per cent of the 4 GB of all carries, predicted to 10 MB."""
    call, problem, plan = reverse(heston(10**5), 2**28)
    assert plan.sweeps == 3
    assert plan.bytes * 10_240 < 2**28
    measured = temporary(call, problem)
    assert abs(measured - plan.bytes * 10_240) < 10e6
    assert measured < 80e6


def test_the_planned_memory_grows_as_the_root_of_the_steps():
    """A hundred times the steps: ten times the carries on two levels, 4.6 times on three."""
    sizes = {
        budget: [reverse(heston(steps), budget)[2] for steps in (10**5, 10**7)] for budget in (2**30, 2**22)
    }
    assert [each.sweeps for each in sizes[2**30]] == [3, 3]
    assert sizes[2**30][1].bytes / sizes[2**30][0].bytes == pytest.approx(10, rel=0.1)
    assert sizes[2**22][0].sweeps > 3
    assert reverse(heston(10**3), 2**28)[2].sweeps == 2


def test_an_adaptive_run_has_no_such_plan():
    from simkit import load

    built = load(ROOT / "examples/arenstorf.yaml")
    program, inputs = path_program(built, built.grid)
    with pytest.raises(
        ValueError, match="says what the steps of a fixed grid keep, and this is AdaptiveGrid"
    ):
        program.reverse_pass(inputs, path_ids(0, 1, 64))


LONG = """
import jax
from peak_memory import peak_memory
from test_checkpointing import heston, reverse
with jax.enable_x64(True):
    call, problem, _ = reverse(heston(100_000), 2**28)
    slopes = jax.jit(jax.grad(call))(problem)
    print(float(slopes.theta), peak_memory() / 2**30)
"""


@pytest.mark.slow
def test_a_long_gradient_fits_in_a_gigabyte():
    """10^5 steps of 10 240 paths in one chunk, in a process of its own, everything included."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "XLA_FLAGS": ""}
    done = subprocess.run(
        [sys.executable, "-c", LONG], env=environment, capture_output=True, text=True, check=True
    )
    slope, gigabytes = map(float, done.stdout.split())
    assert 20 < slope < 60
    assert gigabytes < 1.0


@needs_processor
def test_a_reverse_pass_has_its_normals_in_memory():
    """Drawn in a branch that the compiler cannot take away, also where all but the model are constants."""
    call, problem, _ = reverse(heston(256, paths=2048), 2**30)
    assert " conditional(" in user_jit(jax.grad(call)).lower(problem).compile().as_text()
