"""Differential equations written in the file, with noise or without."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import jax.numpy as jnp
from simkit_solvers.numerics.scalar import scalars
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE, Discontinuity, NoiseKind

from simkit.experiments.inline.model_text import AbstractText, discontinuities_of, environment
from simkit.expressions import Expression
from simkit.expressions.functions import NUMERIC, divide, where


@dataclasses.dataclass(frozen=True)
class Equation:
    """One variable: its drift, and what multiplies each of its noises."""

    variable: str
    drift: Expression
    noise: tuple[tuple[str, Expression], ...] = ()


@dataclasses.dataclass(frozen=True)
class DifferentialText(AbstractText):
    """Equations in the file. `correlation` holds pairs of noises."""

    equations: tuple[Equation, ...]
    parameters: tuple[str, ...]
    correlation: tuple[tuple[str, str, Expression], ...] = ()
    calculus: Literal["ito", "stratonovich"] = "ito"

    @property
    def name(self) -> str:
        """After its kind."""
        return "InlineSDE" if self.noises else "InlineODE"

    @property
    def base(self) -> type[AbstractODE]:
        """Stochastic where there is noise."""
        return AbstractSDE if self.noises else AbstractODE

    @property
    def variables(self) -> tuple[str, ...]:
        """The state variables in the order of the file."""
        return tuple(equation.variable for equation in self.equations)

    @property
    def noises(self) -> tuple[str, ...]:
        """The noises in the order in which they first appear."""
        return tuple(dict.fromkeys(name for equation in self.equations for name, _ in equation.noise))

    @property
    def discontinuities(self) -> tuple[Discontinuity, ...]:
        """Where the equations jump, or their slopes do."""
        factors = [factor for equation in self.equations for _, factor in equation.noise]
        return *discontinuities_of(*(equation.drift for equation in self.equations)), *discontinuities_of(
            *factors, noise=True
        )

    @property
    def description(self) -> str:
        """The equations as differentials."""
        lines = []
        for equation in self.equations:
            terms = [f"({equation.drift.text}) dt"]
            terms += [f"({factor.text}) d{name}" for name, factor in equation.noise]
            lines.append(f"d{equation.variable} = {' + '.join(terms)}")
        lines += [f"correlation of {a} and {b}: {rho.text}" for a, b, rho in self.correlation]
        return "A model written in the file.\n\n" + "\n".join(lines)

    def members(self, state: type) -> dict[str, Any]:
        """The drift, and the noise if there is one."""
        members: dict[str, Any] = {"drift": _drift(self, state)}
        if not self.noises:
            return members
        kind = noise_kind(self)
        return members | {
            "Noise": scalars("Noise", self.noises),
            "noise": _noise(self, state),
            "correlations": lambda model: _correlations(self, vars(model)),
            "noise_kind": kind,
            "calculus": "any" if kind == "additive" else self.calculus,
            "discontinuities": lambda model: (*self.discontinuities, *_degenerate_correlation(self, model)),
        }


def _degenerate_correlation(text: DifferentialText, model) -> tuple[Discontinuity, ...]:
    """The names in correlations of which the matrix is singular, where its root has no slope in them."""
    root = cholesky(len(text.noises), model.correlations()) if text.correlation else []
    names = frozenset().union(*(rho.names for _, _, rho in text.correlation))
    return () if all(row[-1] > 0 for row in root) else (Discontinuity(names),)


def _correlations(text: DifferentialText, values: Mapping[str, Any]) -> dict[tuple[int, int], Any]:
    """The entries (i, j), i > j, of the matrix of correlations."""
    position = {name: i for i, name in enumerate(text.noises)}
    pairs = ((sorted((position[a], position[b]), reverse=True), rho) for a, b, rho in text.correlation)
    return {(i, j): rho(values) for (i, j), rho in pairs}


def noise_kind(text: DifferentialText) -> NoiseKind:
    """What a solver may assume, seen from which variables multiply which noise.

    When each noise drives one variable by a factor of that variable alone, the columns commute, and they do
    so too under a constant correlation.
    """
    variables = set(text.variables)
    if not any(factor.names & variables for equation in text.equations for _, factor in equation.noise):
        return "additive"
    if len(text.noises) == 1:
        return "scalar"
    drives: dict[str, set[str]] = {}
    own = True
    for equation in text.equations:
        own &= len(equation.noise) <= 1
        for name, factor in equation.noise:
            drives.setdefault(name, set()).add(equation.variable)
            own &= factor.names & variables <= {equation.variable}
    own &= all(len(driven) == 1 for driven in drives.values())
    if own and len(text.noises) == len(variables) and not text.correlation:
        return "diagonal"
    return "commutative" if own else "general"


def cholesky(size: int, correlation: Mapping[tuple[int, int], Any]) -> list[list[Any]]:
    """The lower triangular L with $L L^T$ the matrix of unit diagonal and the given entries (i, j), i > j.

    Written out on scalars, plain or traced. A singular matrix has zeros in L, and zero slopes there.
    """
    rows: list[list[Any]] = []
    for i in range(size):
        row: list[Any] = []
        for j in range(i):
            rest = correlation.get((i, j), 0.0) - sum(
                (a * b for a, b in zip(row, rows[j], strict=False)), 0.0
            )
            positive = rows[j][j] > 0
            row.append(where(positive, divide(rest, where(positive, rows[j][j], 1.0)), 0.0))
        left = 1.0 - sum((a * a for a in row), 0.0)
        row.append(NUMERIC["sqrt"](NUMERIC["maximum"](left, 0.0)))
        rows.append(row)
    return rows


def _drift(text: DifferentialText, state: type):
    def drift(self, t, y):
        values = environment(self, text, t, y)
        dtype = jnp.result_type(*y)
        return state(*(jnp.asarray(equation.drift(values), dtype) for equation in text.equations))

    return drift


def _noise(text: DifferentialText, state: type):
    position = {name: i for i, name in enumerate(text.noises)}

    def noise(self, t, y, dW):
        values = environment(self, text, t, y)
        if text.correlation:
            dW = [
                sum((a * b for a, b in zip(row[1:], dW[1:], strict=False)), row[0] * dW[0])
                for row in cholesky(len(position), _correlations(text, values))
            ]
        dtype = jnp.result_type(*y)
        changes = []
        for equation in text.equations:
            change = jnp.zeros_like(y[0], dtype)
            for name, factor in equation.noise:
                change = change + jnp.asarray(factor(values), dtype) * dW[position[name]]
            changes.append(change)
        return state(*changes)

    return noise
