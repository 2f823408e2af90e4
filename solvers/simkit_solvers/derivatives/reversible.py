r"""Reverse passes that keep no state: steps taken back.

Some methods undo a step by one with $-h$ and the increments $-\Delta W$, from what they carry: the state
and, of reversible Heun, its second copy of it. So all that the forward run went through is found again from
its end, up to rounding, and the adjoint of each step is taken there. The increments are drawn again: they
are functions of the step's number.
Reference: Hairer, Lubich & Wanner (2006), Geometric Numerical Integration, doi:10.1007/3-540-30666-8, chapter
V; Kidger, Foster, Li & Lyons (2021), Efficient and accurate gradients for neural SDEs,
doi:10.48550/arXiv.2105.13493.
"""

from typing import Any, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.grids.grid import Grid
from simkit_solvers.loops.blocks import method_of
from simkit_solvers.loops.stepper import AbstractStepper
from simkit_solvers.methods.registry import facts_of
from simkit_solvers.methods.solver_check import check_solver
from simkit_solvers.methods.switched import Switched
from simkit_solvers.numerics.tangents import is_real
from simkit_solvers.problems.hamiltonian import AbstractHamiltonian
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.schedule import schedule_of
from simkit_solvers.problems.terms import takes_halves
from simkit_solvers.random.noise import AbstractNoise, Draw


def goes_back(problem: AbstractODE, solver: diffrax.AbstractSolver | Switched) -> bool:
    """Whether a step of the solver on such a problem is undone by one with $-h$."""
    if schedule_of(problem) is not None or isinstance(problem, AbstractJumpDiffusion):
        return False
    if isinstance(solver, Switched) or not facts_of(solver).reversible:
        return False
    return isinstance(problem, AbstractHamiltonian) or not takes_halves(solver)


class _Numbers(NamedTuple):
    """What derivatives are taken by, beside the state."""

    problem: Any
    t0: jax.Array
    dt: jax.Array


class _Steps(NamedTuple):
    """The steps of a run as functions of its numbers and of what it carries."""

    stepper: AbstractStepper
    problem: Any  # without its numbers
    noise: Any  # without its words

    def begin(self, numbers: _Numbers, y0):
        """What is carried, at the start."""
        return y0, self.stepper.init(self._whole(numbers), numbers.t0, numbers.dt, y0)

    def forth(self, numbers: _Numbers, carry, k, draw):
        """After step k."""
        t = numbers.t0 + k.astype(numbers.dt.dtype) * numbers.dt
        return self._step(numbers, t, numbers.dt, carry, draw)

    def back(self, numbers: _Numbers, carry, k, draw):
        """Before step k, from what is carried after it."""
        t = numbers.t0 + (k + jnp.uint32(1)).astype(numbers.dt.dtype) * numbers.dt
        return self._step(numbers, t, -numbers.dt, carry, draw)

    def draws(self, words, first, count: int) -> list[tuple[jax.Array, Draw]]:
        """The numbers of steps `first`, …, where a group begins, and their normals."""
        found = [Draw(())] * count
        if self.noise is not None:
            noise = eqx.combine(words, self.noise)
            found = noise.draws(len(self.problem.Noise._fields), self.stepper.areas, first, count)
        return [(first + jnp.uint32(i), draw) for i, draw in enumerate(found)]

    def _step(self, numbers, t, dt, carry, draw):
        y, state = carry
        return self.stepper.step(self._whole(numbers), t, dt, y, draw, state)

    def _whole(self, numbers: _Numbers):
        return eqx.combine(numbers.problem, self.problem)


def end_state(
    problem: AbstractODE,
    solver: diffrax.AbstractSolver | Switched,
    y0: PyTree,
    grid: Grid,
    noise: AbstractNoise | None = None,
) -> PyTree:
    r"""The state at the end of `grid` from `y0`; reverse mode takes the same memory for any number of steps.

    The state is that of `integrate`. Its reverse pass goes back from the end with $-h$, and costs one step
    back and one step's adjoint for each. Rounding in what is found again is that of a run as long as the
    forward one: on a chaotic system it grows by the Lyapunov exponent, and derivatives with it; under
    reversible Heun also where the drift contracts, since a way back along it expands. Reverse mode only, by
    parameters, `y0`, `grid.t0` and `grid.dt`.
    Solvers are `Leapfrog`, `Yoshida4` and `Yoshida6` on Hamiltonian systems and `ReversibleHeun` on ordinary
    and Stratonovich problems. Raises `ValueError` for others, which do not go back, for a stochastic problem
    without noise, and for one with jumps or a schedule.
    """
    if not goes_back(problem, solver):
        raise ValueError(
            f"end_state: {type(solver).__name__} on {type(problem).__name__} does not go back step by step; "
            "take Leapfrog, Yoshida4 or Yoshida6 on a Hamiltonian system, ReversibleHeun on another without "
            "jumps and schedule, or integrate() with a budget"
        )
    check_solver(solver, problem)
    method = method_of(problem, solver, y0, grid, noise, forth=False)
    dtype = method.dtype

    def typed(tree):
        return jax.tree.map(lambda x: jnp.asarray(x, dtype), tree)

    model, others = eqx.partition(problem, is_real)
    words, driver = eqx.partition(noise if method.components else None, eqx.is_array)
    steps = _Steps(method.stepper, others, driver if method.components else None)
    blocks, rest = divmod(grid.steps, method.size)
    whole, last = jnp.uint32(blocks), jnp.uint32(grid.steps - rest)

    def forward(numbers, y0, words):
        def block(first, carry, count=method.size):
            for k, draw in steps.draws(words, first, count):
                carry = steps.forth(numbers, carry, k, draw)
            return carry

        carry = steps.begin(numbers, y0)
        size = jnp.uint32(method.size)
        carry = jax.lax.fori_loop(jnp.uint32(0), whole, lambda i, carry: block(i * size, carry), carry)
        return block(last, carry, rest)

    @jax.custom_vjp
    def run(numbers, y0, words):
        return forward(numbers, y0, words)[0]

    def kept(numbers, y0, words):
        end = forward(numbers, y0, words)
        return end[0], (numbers, words, end)

    def backward(found, slope):
        numbers, words, end = found

        def block(first, now, count=method.size):
            carry, slopes, gathered = now
            for k, draw in reversed(steps.draws(words, first, count)):
                carry = steps.back(numbers, carry, k, draw)
                _, adjoint = jax.vjp(lambda *x, k=k, draw=draw: steps.forth(*x, k, draw), numbers, carry)
                more, slopes = adjoint(slopes)
                gathered = jax.tree.map(jnp.add, gathered, more)
            return carry, slopes, gathered

        nothing = jax.tree.map(jnp.zeros_like, numbers)
        now = block(last, (end, (slope, jax.tree.map(jnp.zeros_like, end[1])), nothing), rest)
        size = jnp.uint32(method.size)

        def turn(i, now):
            return block((whole - jnp.uint32(1) - i) * size, now)

        (y0, _), slopes, gathered = jax.lax.fori_loop(jnp.uint32(0), whole, turn, now)
        _, adjoint = jax.vjp(steps.begin, numbers, y0)
        more, slope = adjoint(slopes)
        return jax.tree.map(jnp.add, gathered, more), slope, None

    run.defvjp(kept, backward)
    return run(_Numbers(typed(model), typed(grid.t0), typed(grid.dt)), typed(y0), words)
