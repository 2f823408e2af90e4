r"""Reverse passes that keep no state: symmetric steps taken back.

A symmetric method undoes its own step with $-h$, so that the states of the forward run are found again from
the last one, up to rounding, and the adjoint of each step is taken there.
Reference: Hairer, Lubich & Wanner (2006), Geometric Numerical Integration, doi:10.1007/3-540-30666-8, chapter
V; Kidger, Foster, Li & Lyons (2021), Efficient and accurate gradients for neural SDEs, arXiv:2105.13493.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

from simkit_solvers.grid import Grid
from simkit_solvers.hamiltonian import AbstractHamiltonian
from simkit_solvers.noise import Draw
from simkit_solvers.step import stepper_for
from simkit_solvers.symplectic import AbstractLeapfrogComposition


def end_state(problem: AbstractHamiltonian, solver: AbstractLeapfrogComposition, y0, grid: Grid):
    r"""The state at the end of `grid` from `y0`; reverse mode takes the same memory for any number of steps.

    The state is that of `integrate`. Its reverse pass goes back from the end with $-h$, and costs one step
    back and one step's adjoint for each. Rounding in the states found again is that of a run as long as the
    forward one: on a chaotic system it grows by the Lyapunov exponent, and derivatives with it. Reverse mode
    only, by parameters, `y0`, `grid.t0` and `grid.dt`.
    Raises `ValueError` for other problems and solvers, which do not go back.
    """
    if not isinstance(problem, AbstractHamiltonian) or not isinstance(solver, AbstractLeapfrogComposition):
        raise ValueError(
            f"end_state: {type(solver).__name__} on {type(problem).__name__} does not go back step by step; "
            "take Leapfrog, Yoshida4 or Yoshida6 on a Hamiltonian system, or integrate() with a budget"
        )
    stepper, dtype = stepper_for(solver), jnp.result_type(*jax.tree.leaves(y0))
    y0 = jax.tree.map(lambda x: jnp.asarray(x, dtype), y0)
    times = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.dt, dtype)
    numbers, others = eqx.partition(problem, lambda x: isinstance(x, float) or eqx.is_inexact_array(x))
    numbers = jax.tree.map(lambda x: jnp.asarray(x, dtype), numbers)

    def clock(t0, dt, k):
        return t0 + k.astype(dtype) * dt

    def force(numbers, t, dt, y):
        return stepper.init(eqx.combine(numbers, others), t, dt, y)

    def step(numbers, t, dt, y, pushed):
        return stepper.step(eqx.combine(numbers, others), t, dt, y, Draw(()), pushed)

    def forward(numbers, times, y0):
        t0, dt = times

        def body(k, carry):
            return step(numbers, clock(t0, dt, k), dt, *carry)

        return jax.lax.fori_loop(
            jnp.uint32(0), jnp.uint32(grid.steps), body, (y0, force(numbers, t0, dt, y0))
        )[0]

    @jax.custom_vjp
    def run(numbers, times, y0):
        return forward(numbers, times, y0)

    def kept(numbers, times, y0):
        end = forward(numbers, times, y0)
        return end, (numbers, times, end)

    def back(found, slope):
        numbers, (t0, dt), end = found

        def one(numbers, times, y, k):
            t = clock(*times, k)
            return step(numbers, t, times[1], y, force(numbers, t, times[1], y))[0]

        def body(i, carry):
            y, pushed, slope, gathered = carry
            after = jnp.uint32(grid.steps) - i
            k = after - jnp.uint32(1)
            y, pushed = step(numbers, clock(t0, dt, after), -dt, y, pushed)
            _, adjoint = jax.vjp(lambda *x: one(*x, k), numbers, (t0, dt), y)
            *more, slope = adjoint(slope)
            return (y, pushed, slope, jax.tree.map(jnp.add, gathered, tuple(more)))

        nothing = jax.tree.map(jnp.zeros_like, (numbers, (t0, dt)))
        begin = end, force(numbers, clock(t0, dt, jnp.uint32(grid.steps)), dt, end), slope, nothing
        _, _, slope, gathered = jax.lax.fori_loop(jnp.uint32(0), jnp.uint32(grid.steps), body, begin)
        return *gathered, slope

    run.defvjp(kept, back)
    return run(numbers, times, y0)
