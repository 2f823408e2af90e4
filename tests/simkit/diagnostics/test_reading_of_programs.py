"""Compiled programs are read as loops and kernels, whose operations are counted as XLA counts them."""

import jax
import jax.numpy as jnp
import pytest
from simkit_solvers.numerics.scopes import STEPS

from simkit.diagnostics.inspection.hlo import Work, parse, work_of
from simkit.diagnostics.inspection.loops import loops_of
from simkit.ensemble.flat import flat, influences

LANES = 64


def hand_made(kernels: int):
    """A loop of 7 iterations, each of which changes as many arrays, in a different way each."""

    def function(arrays):
        @jax.named_scope(STEPS)
        def body(carry, _):
            return [jnp.sin(x) * (1.0 + i) + 0.25 for i, x in enumerate(carry)], None

        return jax.lax.scan(body, arrays, None, length=7)[0]

    arrays = [jnp.linspace(0, 1, LANES) + i for i in range(kernels)]
    return jax.jit(function).lower(arrays).compile()


@pytest.mark.parametrize("kernels", [1, 3])
def test_the_kernels_of_a_loop_made_by_hand_are_counted(kernels):
    compiled = hand_made(kernels)
    (loop,) = loops_of(parse(compiled.as_text()), LANES)
    assert (loop.trips, loop.steps, loop.depth) == (7, True, 0)
    # XLA may make one kernel of all arrays, but each has its own sine, product and sum.
    assert 1 <= loop.path_kernels <= kernels
    assert loop.work.transcendental == kernels * LANES
    assert loop.work.floating == (2 * kernels - 1) * LANES  # the product with 1.0 is none


def test_operations_without_a_loop_are_those_that_xla_counts():
    def function(x, n):
        return jnp.exp(x) * x - jnp.sqrt(x) / (1.5 + jnp.tanh(x)), (n ^ (n >> 3)) + n

    arguments = jnp.linspace(0.1, 1, LANES), jnp.arange(LANES, dtype=jnp.uint32)
    compiled = jax.jit(function).lower(*arguments).compile()
    module = parse(compiled.as_text() or "")
    work = work_of(module, list(module.computations[module.entry]))
    cost = compiled.cost_analysis()
    assert work == Work(floating=4 * LANES, integer=3 * LANES, transcendental=3 * LANES)
    assert work.floating + work.integer == cost["flops"]
    assert work.transcendental == cost["transcendentals"]


def test_a_text_that_is_no_program_is_refused():
    with pytest.raises(ValueError, match="no ENTRY"):
        parse("HloModule nothing")


def test_influences_go_through_calls_and_not_through_what_is_unused():
    def function(a, b, c):
        twice = jax.jit(lambda x, unused: 2 * x)
        last, _ = jax.lax.scan(lambda s, _: (s + b, None), a, None, length=2)
        return twice(a, c), jnp.zeros_like(c), last, jax.checkpoint(jnp.sin)(c)

    ones = [jnp.ones(())] * 3
    result = influences(flat(jax.make_jaxpr(function)(*ones)))
    assert result == [{0}, frozenset(), {0, 1}, {2}]
