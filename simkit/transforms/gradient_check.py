r"""Are the derivatives of a program those of its values?

Forward mode, reverse mode and central differences $D(h) = (f(x + h v) - f(x - h v)) / 2h$, extrapolated to
zero from steps that become four times finer each time. Reference: Ridders (1982), Accurate computation of
F'(x) and F'(x)F''(x), doi:10.1016/S0141-1195(82)80057-0.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from simkit.errors import InputError, NumericalError
from simkit.transforms.arguments import Positions, check_floats, check_positions, count, name_of, positions

MOST = 256  # components; more are checked along random directions
STEPS, FINER = 10, 4  # from a twentieth of the argument to 2e-7 of it, for functions of any steepness
FIRST_STEP = 0.05


@dataclasses.dataclass(frozen=True)
class Component:
    """A derivative along one direction in three ways, NaN for a way that the function does not support.

    `error` is that of the differences, from two extrapolations and the rounding of the values.
    """

    name: str
    forward: float
    reverse: float
    differences: float
    error: float
    wrong: str = ""


@dataclasses.dataclass(frozen=True)
class GradientReport:
    """The result of `check_gradient`. `missing` says why a way is not available.

    >>> import jax
    >>> from simkit.transforms import check_gradient
    >>> report = check_gradient(lambda x: x * jax.lax.stop_gradient(x), 3.0, raises=False)
    >>> component = report.components[0]
    >>> component.forward, round(float(component.differences), 1)
    (3.0, 6.0)
    """

    function: str
    components: tuple[Component, ...]
    missing: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not any(each.wrong for each in self.components)

    @property
    def worst(self) -> Component:
        """A wrong component where there is one, else any: that with the largest disagreement."""

        def disagreement(each: Component) -> float:
            ways = [x for x in (each.forward, each.reverse) if not np.isnan(x)]
            if not ways or np.isnan(each.differences):
                return np.inf
            return max(abs(x - each.differences) for x in ways) / (
                abs(each.differences) + each.error + 1e-300
            )

        return max(self.components, key=lambda each: (bool(each.wrong), disagreement(each)))

    def raise_if_wrong(self) -> "GradientReport":
        """Return the report, or raise `NumericalError` that names the worst component if one is wrong."""
        if self.ok:
            return self
        bad, worst = sum(bool(each.wrong) for each in self.components), self.worst
        raise NumericalError(
            f"{self.function}: {bad} of {len(self.components)} derivatives are wrong; "
            f"{worst.name}: {worst.wrong}"
        )

    def __str__(self):
        width = max(len(each.name) for each in self.components)
        head = f"{'':<{width}}  {'forward':>14}  {'reverse':>14}  {'differences':>14}  {'± error':>8}"
        lines = [
            f"{each.name:<{width}}  {each.forward:>14.8g}  {each.reverse:>14.8g}  {each.differences:>14.8g}  "
            f"{each.error:>8.1g}  {each.wrong}"
            for each in self.components
        ]
        return "\n".join([head, *lines, *self.missing])


def check_gradient(
    function: Callable,
    *args: Any,
    wrt: Positions = 0,
    directions: int | None = None,
    rtol: float | None = None,
    raises: bool = True,
) -> GradientReport:
    """Compare the derivatives of `function` at `args`, in both modes, with differences of its values.

    Each component of the arguments `wrt` in turn, or `directions` random directions (16 by default where
    there are more than 256 components). A value of many numbers is weighted by fixed random ones. Modes must
    agree with each other to `rtol` of the largest derivative, by default 3·eps^(2/3), and with the
    differences to that and ten times their error. Detects wrong custom rules, `stop_gradient`, steps such as
    `round`, and derivatives that are NaN where values are finite. With `raises` a wrong derivative raises
    `NumericalError`; without, the report names it. Raises `InputError` for arguments that are missing or not
    floating-point numbers, and if the function is not finite at `args`. Check in float64 where possible:
    differences in float32 have three or four digits.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from simkit.transforms import check_gradient
    >>> with jax.enable_x64(True):
    ...     report = check_gradient(lambda x: jnp.sum(jnp.sin(x)), jnp.array([0.1, 0.2]))
    >>> len(report.components)
    2
    """
    check_positions("check_gradient: wrt", wrt, function)
    check_floats("check_gradient: wrt", args, wrt)
    chosen = positions("wrt", wrt)
    args = tuple(jax.tree.map(jnp.asarray, x) if i in chosen else x for i, x in enumerate(args))
    names, ways = _directions(args, chosen, directions)
    weights = _weights(jax.eval_shape(function, *args))

    def scalar(x):
        whole = list(args)
        for i, each in zip(chosen, x, strict=True):
            whole[i] = each
        terms = jax.tree.map(lambda w, v: jnp.sum(w * v).real, weights, function(*whole))
        return sum(jax.tree.leaves(terms))

    x = tuple(args[i] for i in chosen)
    value = float(scalar(x))
    if not np.isfinite(value):
        raise InputError(
            f"check_gradient: {name_of(function)} is {value} at these arguments; check where it is finite"
        )
    along = jax.jit(lambda x, v, h: scalar(jax.tree.map(lambda a, b: a + h.astype(a.dtype) * b, x, v)))
    missing: list[str] = []
    forward = _tried(
        lambda: jax.jit(lambda x, v: jax.jvp(scalar, (x,), (v,))[1]), x, ways[0], "forward", missing
    )
    gradient = _tried(lambda: jax.jit(lambda x, v: jax.grad(scalar)(x)), x, ways[0], "reverse", missing)
    slopes = None if gradient is None else gradient(x, ways[0])

    result = []
    for name, v in zip(names, ways, strict=True):
        one = np.nan if forward is None else float(forward(x, v))
        other = np.nan if slopes is None else _inner(slopes, v)
        result.append(Component(name, one, other, *_ridders(along, x, v, value)))
    eps = max(float(jnp.finfo(leaf.dtype).eps) for leaf in jax.tree.leaves(x))
    tolerance = 3 * eps ** (2 / 3) if rtol is None else rtol
    finite = [abs(y) for each in result for y in (each.forward, each.reverse) if np.isfinite(y)]
    slack = tolerance * max(finite, default=0.0)
    judged = tuple(_judged(each, slack, forward is not None, slopes is not None) for each in result)
    report = GradientReport(name_of(function), judged, tuple(missing))
    return report.raise_if_wrong() if raises else report


def _directions(args, chosen, wanted: int | None):
    """Names, and trees like the varied arguments: one component each, or random ones of the size of each."""
    x = tuple(args[i] for i in chosen)
    leaves, structure = jax.tree.flatten(x)
    total = count(x)
    if wanted is not None and (isinstance(wanted, bool) or wanted < 1):
        raise InputError(f"check_gradient: directions must be a positive whole number, got {wanted!r}")
    if wanted is None and total > MOST:
        wanted = 16
    if wanted is not None:
        random = np.random.default_rng(0)
        drawn = [
            [_sized(leaf) * random.choice([-1.0, 1.0], np.shape(leaf)) for leaf in leaves]
            for _ in range(wanted)
        ]
        names = [f"direction {i}" for i in range(wanted)]
        ways = [[jnp.asarray(v, leaf.dtype) for v, leaf in zip(d, leaves, strict=True)] for d in drawn]
        return names, [jax.tree.unflatten(structure, way) for way in ways]
    names, ways = [], []
    for number, (path, leaf) in enumerate(jax.tree.leaves_with_path(x)):
        position = chosen[path[0].idx]
        where = f"argument {position}{jax.tree_util.keystr(path[1:])}"
        for index in np.ndindex(*leaf.shape):
            names.append(where + (f"[{', '.join(map(str, index))}]" if index else ""))
            way = [jnp.zeros_like(other) for other in leaves]
            way[number] = way[number].at[index].set(1)
            ways.append(jax.tree.unflatten(structure, way))
    return names, ways


def _sized(leaf) -> float:
    return max(float(jnp.max(jnp.abs(leaf))), 1e-3)


def _weights(out):
    """1 for a single number; for many fixed random ones, so that no two errors cancel."""
    if count(out) == 1:
        return jax.tree.map(lambda x: jnp.ones(x.shape, x.dtype), out)
    random = np.random.default_rng(1)
    return jax.tree.map(lambda x: jnp.asarray(random.uniform(0.5, 1.5, x.shape), x.dtype), out)


def _tried(make: Callable, x, v, mode: str, missing: list[str]):
    """The compiled derivative, None where the function has none in this mode."""
    function = make()
    try:
        function(x, v)
    except (TypeError, ValueError, NotImplementedError) as error:
        missing.append(f"no {mode} mode: {str(error).splitlines()[0]}")
        return None
    return function


def _inner(slopes, v) -> float:
    terms = jax.tree.map(lambda a, b: jnp.sum(a * b).real, slopes, v)
    return float(sum(jax.tree.leaves(terms)))


def _ridders(along: Callable, x, v, value: float) -> tuple[float, float]:
    """The derivative by extrapolated central differences, and its error."""
    moving = [
        (float(jnp.max(jnp.abs(leaf))), float(jnp.max(jnp.abs(way))), float(jnp.finfo(leaf.dtype).eps))
        for leaf, way in zip(jax.tree.leaves(x), jax.tree.leaves(v), strict=True)
        if bool(jnp.any(way != 0))
    ]
    eps = max(each[2] for each in moving)
    step = FIRST_STEP * min(max(size, 1e-2) / way for size, way, _ in moving)
    best, best_error = np.nan, np.inf
    table: list[float] = []
    for number in range(STEPS):
        h = step / FINER**number
        ahead, behind = (float(along(x, v, jnp.asarray(s * h))) for s in (1, -1))
        row = [(ahead - behind) / (2 * h)]
        for k, before in enumerate(table, 1):
            row.append(row[-1] + (row[-1] - before) / (float(FINER) ** (2 * k) - 1))
        rounding = eps * max(abs(ahead), abs(behind), abs(value)) / h
        if table and np.isfinite(row[-1]):
            error = max(abs(row[-1] - row[-2]), abs(row[-1] - table[-1])) + 4 * rounding
            # A finer step that contradicts wins: coarse ones agree with each other where they see no detail.
            if error < best_error or abs(row[-1] - best) > 3 * (error + best_error):
                best, best_error = row[-1], error
        table = row
    return best, best_error


def _judged(each: Component, slack: float, has_forward: bool, has_reverse: bool) -> Component:
    ways = [
        (name, x)
        for name, x, there in (("forward", each.forward, has_forward), ("reverse", each.reverse, has_reverse))
        if there
    ]
    wrong = ""
    for name, x in ways:
        if not np.isfinite(x):
            wrong = wrong or f"{name} mode gives {x} where the function is finite"
        elif np.isfinite(each.differences) and abs(x - each.differences) > slack + 10 * each.error:
            wrong = (
                wrong or f"{name} mode gives {x:.8g}, differences {each.differences:.8g} ± {each.error:.1g}"
            )
    if not wrong and len(ways) == 2 and abs(each.forward - each.reverse) > slack:
        wrong = f"forward mode gives {each.forward:.8g}, reverse mode {each.reverse:.8g}"
    return dataclasses.replace(each, wrong=wrong)
