r"""Reverse passes that store no states: they undo the steps.

Some methods undo a step by one with $-h$ and the increments $-\Delta W$, from what they carry: the state and,
of reversible Heun, its second copy of it. So all that the forward run went through is computed again from its
end, up to rounding, and the adjoint of each step is computed there. The increments are drawn again: they are
functions of the step's number.
Reference: Hairer, Lubich & Wanner (2006), Geometric Numerical Integration, doi:10.1007/3-540-30666-8, chapter
V; Kidger, Foster, Li & Lyons (2021), Efficient and accurate gradients for neural SDEs,
doi:10.48550/arXiv.2105.13493.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.grids.grid import Grid
from simkit_solvers.loops.blocks import Method, method_of
from simkit_solvers.methods.registry import info_or_default
from simkit_solvers.methods.solver_check import check_solver
from simkit_solvers.methods.switched import Solver, SwitchedSolver
from simkit_solvers.numerics.tangents import in_precision, is_real
from simkit_solvers.problems.hamiltonian import AbstractHamiltonian
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.schedule import schedule_of
from simkit_solvers.problems.terms import takes_halves
from simkit_solvers.random.draws import Draw
from simkit_solvers.random.noise import AbstractNoise


def goes_back(problem: AbstractODE, solver: Solver) -> bool:
    """Whether a step of the solver on such a problem is undone by one with $-h$."""
    if schedule_of(problem) is not None or isinstance(problem, AbstractJumpDiffusion):
        return False
    if isinstance(solver, SwitchedSolver) or not info_or_default(solver).reversible:
        return False
    return isinstance(problem, AbstractHamiltonian) or not takes_halves(solver)


class _Numbers(NamedTuple):
    """The numbers with respect to which derivatives are taken, other than the state."""

    problem: Any
    t0: jax.Array
    dt: jax.Array


class _Steps(NamedTuple):
    """The steps of a run as functions of its numbers and of what it carries: the state and the solver's."""

    method: Method
    problem: Any  # without its numbers
    noise: Any  # without its words
    count: int

    def start(self, numbers: _Numbers, y0):
        """What is carried before the first step."""
        return y0, self.method.stepper.init(self._whole(numbers), numbers.t0, numbers.dt, y0)

    def forward(self, numbers: _Numbers, y0, words):
        """What is carried after the last step."""

        def block(first, carry, count=self.method.size):
            for k, draw in self._draws(words, first, count):
                carry = self._forth(numbers, carry, k, draw)
            return carry

        whole, last, rest = self._blocks()
        carry, size = self.start(numbers, y0), jnp.uint32(self.method.size)
        carry = jax.lax.fori_loop(jnp.uint32(0), whole, lambda i, carry: block(i * size, carry), carry)
        return block(last, carry, rest)

    def backward(self, numbers: _Numbers, words, end, slope):
        """The slopes of the numbers and of the initial state, from what is carried at the end.

        `slope` is that of the last state. Each step is undone, and its adjoint computed from where it began.
        """

        def block(first, now, count=self.method.size):
            carry, slopes, total = now
            for k, draw in reversed(self._draws(words, first, count)):
                carry = self._back(numbers, carry, k, draw)
                _, adjoint = jax.vjp(lambda *x, k=k, draw=draw: self._forth(*x, k, draw), numbers, carry)
                more, slopes = adjoint(slopes)
                total = jax.tree.map(jnp.add, total, more)
            return carry, slopes, total

        whole, last, rest = self._blocks()
        zero = jax.tree.map(jnp.zeros_like, numbers)
        now = block(last, (end, (slope, jax.tree.map(jnp.zeros_like, end[1])), zero), rest)
        size = jnp.uint32(self.method.size)

        def one_block(i, now):
            return block((whole - jnp.uint32(1) - i) * size, now)

        (y0, _), slopes, total = jax.lax.fori_loop(jnp.uint32(0), whole, one_block, now)
        _, adjoint = jax.vjp(self.start, numbers, y0)
        more, slope = adjoint(slopes)
        return jax.tree.map(jnp.add, total, more), slope

    def _blocks(self) -> tuple[jax.Array, jax.Array, int]:
        """How many whole blocks there are, the step after them, and how many steps are left there."""
        blocks, rest = divmod(self.count, self.method.size)
        return jnp.uint32(blocks), jnp.uint32(self.count - rest), rest

    def _draws(self, words, first, count: int) -> list[tuple[jax.Array, Draw]]:
        """The numbers of steps `first`, …, where a group begins, and their normals."""
        noise = None if self.noise is None else eqx.combine(words, self.noise)
        draws = self.method.driving(noise, first, count)
        return [(first + jnp.uint32(i), draw) for i, (draw, _) in enumerate(draws)]

    def _forth(self, numbers: _Numbers, carry, k, draw):
        """After step k."""
        t = numbers.t0 + k.astype(numbers.dt.dtype) * numbers.dt
        return self._step(numbers, t, numbers.dt, carry, draw)

    def _back(self, numbers: _Numbers, carry, k, draw):
        """Before step k, from what is carried after it."""
        t = numbers.t0 + (k + jnp.uint32(1)).astype(numbers.dt.dtype) * numbers.dt
        return self._step(numbers, t, -numbers.dt, carry, draw)

    def _step(self, numbers, t, dt, carry, draw):
        y, state = carry
        return self.method.stepper.step(self._whole(numbers), t, dt, y, draw, state)

    def _whole(self, numbers: _Numbers):
        return eqx.combine(numbers.problem, self.problem)


def end_state(
    problem: AbstractODE, solver: Solver, y0: PyTree, grid: Grid, noise: AbstractNoise | None = None
) -> PyTree:
    r"""The state at the end of `grid` from `y0`; reverse mode takes the same memory for any number of steps.

    The state is that of `integrate`. Its reverse pass goes back from the end with $-h$, and costs one step
    back and one step's adjoint for each. The rounding of what is computed again is that of a run as long as
    the forward one: on a chaotic system it grows by the Lyapunov exponent, and derivatives with it; under
    reversible Heun also where the drift contracts, since a way back along it expands. Reverse mode only, by
    parameters, `y0`, `grid.t0` and `grid.dt`. Solvers are `Leapfrog`, `Yoshida4` and `Yoshida6` on
    Hamiltonian systems and `ReversibleHeun` on ordinary and Stratonovich problems. Raises `ValueError` for
    others, which do not go back, for a stochastic problem without noise, and for one with jumps or a
    schedule.

    >>> import jax
    >>> from simkit_physics import HarmonicOscillator
    >>> from simkit_solvers import Grid, Leapfrog, end_state
    >>> def position(k):
    ...     model = HarmonicOscillator(m=1.0, k=k)
    ...     grid = Grid(t0=0.0, dt=0.01, steps=100, every=100)
    ...     return end_state(model, Leapfrog(), model.State(q=1.0, p=0.0), grid).q
    >>> round(float(position(1.0)), 3), round(float(jax.grad(position)(1.0)), 3)
    (0.54, -0.421)
    """
    if not goes_back(problem, solver):
        raise ValueError(
            f"end_state: {type(solver).__name__} on {type(problem).__name__} does not go back step by step; "
            "use Leapfrog, Yoshida4 or Yoshida6 on a Hamiltonian system, ReversibleHeun on another without "
            "jumps and schedule, or integrate() with a budget"
        )
    check_solver(solver, problem)
    method = method_of(problem, solver, y0, grid, noise, undone=True)
    t0, dt = jnp.asarray(grid.t0, method.dtype), jnp.asarray(grid.dt, method.dtype)
    numbers = _Numbers(in_precision(eqx.filter(problem, is_real), method.dtype), t0, dt)
    words, driver = eqx.partition(noise if method.components else None, eqx.is_array)
    driver = driver if method.components else None
    steps = _Steps(method, eqx.filter(problem, is_real, inverse=True), driver, grid.steps)

    @jax.custom_vjp
    def run(numbers, y0, words):
        return steps.forward(numbers, y0, words)[0]

    def forward(numbers, y0, words):
        end = steps.forward(numbers, y0, words)
        return end[0], (numbers, words, end)

    def backward(residuals, slope):
        return *steps.backward(*residuals, slope), None

    run.defvjp(forward, backward)
    return run(numbers, jax.tree.map(lambda x: jnp.asarray(x, method.dtype), y0), words)
