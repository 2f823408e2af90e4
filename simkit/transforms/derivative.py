r"""Derivatives behind one name: forward, reverse, or whichever costs less and fits.

The Jacobian of m numbers by n numbers is n directions in forward mode, its columns, or m in reverse mode, its
rows. Reference: Griewank & Walther (2008), Evaluating Derivatives, doi:10.1137/1.9780898717761.
"""

import dataclasses
from collections.abc import Callable
from typing import Literal

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit.errors import InputError
from simkit.transforms.arguments import Positions, check_floats, check_positions, count, positions

Strategy = Literal["auto", "forward", "reverse"]
By = Literal["auto", "columns", "rows"]
BUDGET = 2**30
# In plain runs, in addition to one; only their ratio decides. By benchmarks/gradient.py a direction of GBM in
# forward mode costs 0.2 to 0.7 and a row in reverse mode 1.2 to 2.1, and one of Heston 2.4 to 3.4.
FORWARD_RUNS, REVERSE_RUNS = 1.0, 3.5


@dataclasses.dataclass(frozen=True)
class Choice:
    """The strategy of a derivative and the reason: numbers of inputs and outputs, expected runs, memory.

    `residual_bytes` is the size of the arrays that the forward sweep of reverse mode stores for the backward
    sweep, as traced, before the compiler removes some; None if the function has no reverse mode.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import derivative
    >>> choice = derivative(lambda x: jnp.sum(x**2)).choice(jnp.ones(100))
    >>> choice.strategy, choice.inputs, choice.outputs
    ('reverse', 100, 1)
    """

    strategy: Literal["forward", "reverse"]
    inputs: int
    outputs: int
    forward_runs: float
    reverse_runs: float
    residual_bytes: int | None
    budget: int
    reason: str

    def __str__(self) -> str:
        return f"{self.strategy}: {self.reason}"


@dataclasses.dataclass(frozen=True)
class Derivative:
    """The derivative of `function`, as a function of the same arguments; see `derivative`.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import Derivative
    >>> Derivative(jnp.sin, with_value=True)(0.0)
    (Array(0., dtype=float32, weak_type=True), Array(1., dtype=float32, weak_type=True))
    """

    function: Callable
    wrt: Positions = 0
    strategy: Strategy = "auto"
    budget: int = BUDGET
    with_value: bool = False

    def __post_init__(self):
        if self.strategy not in ("auto", "forward", "reverse"):
            raise InputError(f"derivative: strategy must be auto, forward or reverse, got {self.strategy!r}")
        check_positions("derivative: wrt", self.wrt, self.function)

    def choice(self, *args: PyTree) -> Choice:
        """The strategy for such arguments, arrays or their shapes, and the reason; nothing is computed."""
        check_floats("derivative: wrt", args, self.wrt)
        out = jax.eval_shape(self.function, *args)
        inputs = sum(count(args[i]) for i in positions("wrt", self.wrt))
        outputs = count(out)
        forward, reverse = 1 + FORWARD_RUNS * inputs, 1 + REVERSE_RUNS * outputs
        if self.strategy != "auto":
            strategy, reason, residuals = self.strategy, "given", None
        else:
            residuals = residual_bytes(self.function, args, self.wrt) if forward > reverse else 0
            strategy, reason = _chosen(inputs, outputs, forward, reverse, residuals, self.budget)
        return Choice(strategy, inputs, outputs, forward, reverse, residuals, self.budget, reason)

    def __call__(self, *args: PyTree) -> PyTree:
        check_floats("derivative: wrt", args, self.wrt)
        out = jax.eval_shape(self.function, *args)
        strategy = self.strategy if self.strategy != "auto" else self.choice(*args).strategy
        try:
            value, slopes = self._both(strategy, out, args)
        except (TypeError, ValueError, NotImplementedError) as error:
            if strategy == "reverse" and _is_irreversible(error):
                raise InputError(
                    'derivative: the function has no reverse mode; use strategy="forward", or "auto", which '
                    "sees that"
                ) from error
            raise
        return (value, slopes) if self.with_value else slopes

    def _both(self, strategy: str, out, args):
        if strategy == "reverse" and isinstance(out, jax.ShapeDtypeStruct) and out.shape == ():
            return jax.value_and_grad(self.function, self.wrt)(*args)
        if strategy == "forward" and isinstance(self.wrt, int) and jnp.shape(args[self.wrt]) == ():
            # One direction needs no axis of directions, which would be the innermost one in memory.
            before, x, after = args[: self.wrt], jnp.asarray(args[self.wrt]), args[self.wrt + 1 :]

            def along(x):
                return self.function(*before, x, *after)

            return jax.jvp(along, (x,), (jnp.ones_like(x),))
        way = jax.jacfwd if strategy == "forward" else jax.jacrev

        def twice(*args):
            value = self.function(*args)
            return value, value

        slopes, value = way(twice, self.wrt, has_aux=True)(*args)
        return value, slopes


def derivative(
    function: Callable,
    wrt: Positions = 0,
    strategy: Strategy = "auto",
    *,
    budget: int = BUDGET,
    with_value: bool = False,
) -> Derivative:
    """The derivative of `function` in the arguments at positions `wrt`, as a function of the same arguments.

    For a scalar function it is the gradient, in the structure of the argument (a tuple of them where `wrt` is
    a tuple); for others the Jacobian, in the structure of the value with that of the argument in place of
    each array, as from `jax.jacobian`. `forward` computes columns, `reverse` rows. `auto` counts inputs and
    outputs and chooses what costs fewer runs, but forward if a reverse pass would store more than `budget`
    bytes or the function has no reverse mode (a loop of unknown length); `.choice(*args)` returns the choice
    and the reason. With `with_value` the value comes first. Raises `InputError` for arguments that are
    missing or not floating-point numbers.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import derivative
    >>> float(derivative(lambda x, y: x**2 * y)(3.0, 2.0))
    12.0
    >>> derivative(lambda x: jnp.stack([x[0] * x[1], x[0]]))(jnp.array([2.0, 3.0])).shape
    (2, 2)
    """
    return Derivative(function, wrt, strategy, budget, with_value)


def jacobian(function: Callable, wrt: Positions = 0, by: By = "auto", *, budget: int = BUDGET) -> Derivative:
    """The Jacobian by `columns` (forward mode), `rows` (reverse mode) or whichever costs less.

    >>> import jax.numpy as jnp
    >>> from simkit.transforms import jacobian
    >>> jacobian(lambda x: jnp.array([1.0, 2.0]) * x, by="columns")(jnp.ones(2)).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    strategies: dict[str, Strategy] = {"auto": "auto", "columns": "forward", "rows": "reverse"}
    if by not in strategies:
        raise InputError(f"jacobian: by is auto, columns or rows, not {by!r}")
    return Derivative(function, wrt, strategies[by], budget)


def residual_bytes(function: Callable, args: tuple, wrt: Positions = 0) -> int | None:
    """Bytes of what a reverse pass keeps, as traced; None where the function has no reverse mode."""
    chosen = positions("wrt", wrt)

    def residuals_of(*args):
        def varied(*some):
            whole = list(args)
            for i, x in zip(chosen, some, strict=True):
                whole[i] = x
            return function(*whole)

        value, back = jax.vjp(varied, *(args[i] for i in chosen))
        back(jax.tree.map(jnp.ones_like, value))  # what cannot be reversed says so here
        return back

    try:
        residuals = jax.eval_shape(residuals_of, *args)
    except (TypeError, ValueError, NotImplementedError) as error:
        if _is_irreversible(error):
            return None
        raise
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(residuals))


def _is_irreversible(error: Exception) -> bool:
    """Whether JAX says that there is no reverse mode, as of a loop of unknown length."""
    return "everse-mode" in str(error) or "transpose" in str(error).lower()


def _chosen(
    inputs, outputs, forward, reverse, residuals, budget
) -> tuple[Literal["forward", "reverse"], str]:
    counted = f"{inputs} in, {outputs} out"
    if forward <= reverse:
        return "forward", f"{counted}: {forward:.3g} runs against {reverse:.3g} in reverse mode"
    if residuals is None:
        return "forward", f"{counted}: the function has no reverse mode"
    if residuals > budget:
        return "forward", (
            f"{counted}: a reverse pass would store {residuals:.3g} bytes, more than "
            f"the budget of {budget:.3g}"
        )
    return (
        "reverse",
        f"{counted}: {reverse:.3g} runs against {forward:.3g} in forward mode, {residuals:.3g} bytes stored",
    )
