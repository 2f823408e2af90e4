r"""Quantities computed from means, such as an implied volatility or a ratio, with their errors.

With $\Sigma$ the covariance of the means, g the slope and H the curvature of the expression f at the means,
the mean square error of f is to second order

$$g^T \Sigma g + \tfrac12 \mathrm{tr}(H \Sigma H \Sigma) + \tfrac14 \mathrm{tr}(H \Sigma)^2,$$

the delta method and what it leaves out where f bends within the errors of the means.
Reference: Casella & Berger (2002), Statistical Inference, 5.5.4.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from simkit.ensemble.simulation import EnsembleResult, Simulation
from simkit.ensemble.step_bias.rounding import rounding_error
from simkit.ensemble.step_bias.step_error import StepError
from simkit.expressions import Expression, ExpressionError
from simkit.results.dataset_errors import bias_variables, z_of
from simkit.results.quantity import RunQuantity
from simkit.results.variables import Variables, variable


@dataclasses.dataclass(frozen=True)
class Derived:
    """A figure made of means at the end; `constants` are the numbers in it."""

    name: str
    expression: Expression
    constants: Mapping[str, float]
    unit: str = ""
    exact: float | None = None

    def at(self, means: Mapping[str, Any]) -> Any:
        """The figure's value for these means."""
        return jnp.asarray(self.expression({**self.constants, **means}), jnp.float64)

    def slopes(self, means: Mapping[str, float]) -> tuple[np.ndarray, np.ndarray]:
        """The gradient and the Hessian with respect to the means, in their order."""
        with jax.enable_x64(True):
            point = jnp.asarray(list(means.values()), jnp.float64)

            def value(point):
                return self.at(dict(zip(means, point, strict=True)))

            # One program: each of the hundred operations of a closed form would be one of its own.
            gradient, hessian = jax.jit(lambda x: (jax.grad(value)(x), jax.hessian(value)(x)))(point)
            return np.asarray(gradient), np.asarray(hessian)


def derived_variables(
    quantities: Mapping[str, RunQuantity], simulation: Simulation, result: EnsembleResult
) -> Variables:
    """For each figure `v` its `v_value` and `v_stderr`, step bias and distance from the exact value."""
    variables: Variables = {}
    for each in simulation.derived:
        variables |= _figures(each, quantities, simulation, result)
    return variables


def _figures(
    derived: Derived, quantities: Mapping[str, RunQuantity], simulation: Simulation, result: EnsembleResult
) -> Variables:
    name, unit, what = derived.name, derived.unit, derived.expression.text
    names = [str(q) for q in result.statistics["covariance"]["quantity"]]
    used = [quantities[q] for q in names if q in derived.expression.names]
    means = {q.name: q.at_end("mean") for q in used}
    try:
        value = float(derived.expression({**derived.constants, **means}))
        reason = "" if np.isfinite(value) else f"{what} is {value} at these means"
    except ExpressionError as error:
        value, reason = np.nan, str(error)
    n = int(result.statistics["moments"]["n"])
    about = {"n": n, "means": " ".join(means), "reason": reason}
    if reason:
        return {f"{name}_value": variable((), np.nan, unit, what, **about)}
    gradient, hessian = derived.slopes(means)
    rounding = float(rounding_error(abs(value), simulation, result.mean_steps))
    error = max(mean_square_error(gradient, hessian, _covariance(used, names, result)) ** 0.5, rounding)
    variables: Variables = {
        f"{name}_value": variable((), value, unit, what, **about),
        f"{name}_stderr": variable((), error, unit, f"standard error of {name}_value", n=n),
    }
    bias = _bias(dict(zip(means, gradient, strict=True)), result)
    variables |= bias_variables(f"{name}_bias", unit, what, bias)
    if derived.exact is not None:
        z = z_of(value - derived.exact, error, bias, rounding)
        variables[f"{name}_exact"] = variable((), derived.exact, unit, f"exact value of {name}")
        variables[f"{name}_z"] = variable((), z, "1", f"(value - bias - exact) / standard error of {name}")
    return variables


def mean_square_error(gradient: np.ndarray, hessian: np.ndarray, covariance: np.ndarray) -> float:
    """The mean square error of a function of means with this covariance, to second order."""
    curved = np.where(np.isfinite(hessian), hessian, 0.0) @ covariance
    first, second = gradient @ covariance @ gradient, np.trace(curved @ curved)
    return float(np.maximum(first, 0.0) + 0.5 * np.maximum(second, 0.0) + 0.25 * np.trace(curved) ** 2)


def _covariance(used: list[RunQuantity], names: list[str], result: EnsembleResult) -> np.ndarray:
    """The covariance of the means, whose variances are the squares of the standard errors shown."""
    places = [names.index(q.name) for q in used]
    whole, n = result.covariance_and_count
    of_means = np.nan_to_num(whole[np.ix_(places, places)]) / max(n, 1)
    errors = np.array([q.stderr[-1] for q in used])
    return np.where(np.eye(len(used), dtype=bool), errors**2, of_means)


def _bias(slopes: Mapping[str, float], result: EnsembleResult) -> StepError | None:
    """The step bias to first order. Errors of the parts may go together, and are added."""
    parts = [(g, result.bias[q]) for q, g in slopes.items() if q in result.bias and g != 0]
    if not parts:
        return None
    if any(error.claim == "at least" for _, error in parts):
        least = float(sum(abs(g * error.bias) for g, error in parts))
        return StepError(least, np.nan, np.nan, "at least", np.nan)
    bias, stderr, noise = (
        float(sum(terms))
        for terms in zip(*((g * e.bias, abs(g) * e.stderr, abs(g) * e.noise) for g, e in parts), strict=True)
    )
    return StepError(bias, stderr, noise, "estimate", min(error.order for _, error in parts))
