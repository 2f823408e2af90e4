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

from simkit_solvers.grid import Grid
from simkit_solvers.hamiltonian import AbstractHamiltonian
from simkit_solvers.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.noise import AbstractNoise, Draw
from simkit_solvers.problem import AbstractODE, AbstractSDE
from simkit_solvers.registry import check_solver
from simkit_solvers.schedule import schedule_of
from simkit_solvers.step import AbstractStepper, stepper_for
from simkit_solvers.symplectic import AbstractLeapfrogComposition
from simkit_solvers.tangents import is_real


def goes_back(problem: AbstractODE, solver: diffrax.AbstractSolver) -> bool:
    """Whether a step of the solver on such a problem is undone by one with $-h$."""
    if schedule_of(problem) is not None or isinstance(problem, AbstractJumpDiffusion):
        return False
    if isinstance(solver, AbstractLeapfrogComposition):
        return isinstance(problem, AbstractHamiltonian)
    return isinstance(solver, diffrax.ReversibleHeun)


class _Numbers(NamedTuple):
    """What derivatives are taken by, beside the state."""

    problem: Any
    t0: jax.Array
    dt: jax.Array


class _Steps(NamedTuple):
    """The steps of a run as functions of its numbers, of what it carries and of the words of its noise."""

    stepper: AbstractStepper
    problem: Any  # without its numbers
    noise: Any  # without its words

    def begin(self, numbers: _Numbers, y0):
        """What is carried, at the start."""
        return y0, self.stepper.init(self._whole(numbers), numbers.t0, numbers.dt, y0)

    def forth(self, numbers: _Numbers, carry, k, words):
        """After step k."""
        t = numbers.t0 + k.astype(numbers.dt.dtype) * numbers.dt
        return self._step(numbers, t, numbers.dt, carry, k, words)

    def back(self, numbers: _Numbers, carry, k, words):
        """Before step k, from what is carried after it."""
        t = numbers.t0 + (k + jnp.uint32(1)).astype(numbers.dt.dtype) * numbers.dt
        return self._step(numbers, t, -numbers.dt, carry, k, words)

    def _step(self, numbers, t, dt, carry, k, words):
        y, state = carry
        return self.stepper.step(self._whole(numbers), t, dt, y, self._draw(k, words), state)

    def _whole(self, numbers: _Numbers):
        return eqx.combine(numbers.problem, self.problem)

    def _draw(self, k, words) -> Draw:
        """The normals of step k, whose neighbours share its random blocks."""
        if self.noise is None:
            return Draw(())
        noise, components = eqx.combine(words, self.noise), len(self.problem.Noise._fields)
        group = noise.group(components)
        place = k % jnp.uint32(group)
        found, *others = noise.draws(components, self.stepper.areas, k - place, group)
        for i, other in enumerate(others, 1):
            found = jax.tree.map(lambda x, z, i=i: jnp.where(place == i, z, x), found, other)
        return found


def end_state(problem: AbstractODE, solver, y0, grid: Grid, noise: AbstractNoise | None = None):
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
    if isinstance(problem, AbstractSDE) == (noise is None):
        needed = "a driver, not None: the problem is stochastic" if noise is None else "None for this problem"
        raise ValueError(f"end_state: noise must be {needed}")
    dtype = jnp.result_type(*jax.tree.leaves(y0))

    def typed(tree):
        return jax.tree.map(lambda x: jnp.asarray(x, dtype), tree)

    model, others = eqx.partition(problem, is_real)
    words, driver = eqx.partition(noise, eqx.is_array)
    steps = _Steps(stepper_for(solver), others, None if noise is None else driver)
    count = jnp.uint32(grid.steps)

    def forward(numbers, y0, words):
        carry = steps.begin(numbers, y0)
        return jax.lax.fori_loop(
            jnp.uint32(0), count, lambda k, carry: steps.forth(numbers, carry, k, words), carry
        )

    @jax.custom_vjp
    def run(numbers, y0, words):
        return forward(numbers, y0, words)[0]

    def kept(numbers, y0, words):
        end = forward(numbers, y0, words)
        return end[0], (numbers, words, end)

    def backward(found, slope):
        numbers, words, end = found

        def body(i, carry):
            now, slopes, gathered = carry
            k = count - i - jnp.uint32(1)
            before = steps.back(numbers, now, k, words)
            _, adjoint = jax.vjp(
                lambda numbers, carry: steps.forth(numbers, carry, k, words), numbers, before
            )
            more, slopes = adjoint(slopes)
            return before, slopes, jax.tree.map(jnp.add, gathered, more)

        nothing = jax.tree.map(jnp.zeros_like, numbers)
        slopes = slope, jax.tree.map(jnp.zeros_like, end[1])
        (y0, _), slopes, gathered = jax.lax.fori_loop(jnp.uint32(0), count, body, (end, slopes, nothing))
        _, adjoint = jax.vjp(steps.begin, numbers, y0)
        more, slope = adjoint(slopes)
        return jax.tree.map(jnp.add, gathered, more), slope, None

    run.defvjp(kept, backward)
    return run(_Numbers(typed(model), typed(grid.t0), typed(grid.dt)), typed(y0), words)
