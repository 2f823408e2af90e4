"""The ranges in which parameters and initial values of a run must stay."""

from typing import Any

import jax.numpy as jnp
from simkit_solvers.problems.problem import AbstractODE, AbstractSDE, Parameter, parameters_of, variables_of
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import model_of

from simkit.distributions.distribution import AbstractDrawn
from simkit.ensemble.initial import numbers_of
from simkit.ensemble.simulation import Run

CORRELATIONS = "the least eigenvalue of the correlations"
RATES = "the least rate of the reactions"

SMALLEST_EIGENVALUE = -1e-12  # rounding of a correlation matrix that is singular


def ranges_of(problem: AbstractODE) -> dict[str, Parameter]:
    """The range of each target by its name, such as `model.sigma` and `initial.v`."""
    model = model_of(problem)
    ranges = {f"model.{name}": spec for name, spec in parameters_of(model).items()}
    for name, quantity in variables_of(model).items():
        if quantity.at_least is not None:
            ranges[f"initial.{name}"] = Parameter(
                quantity.unit, quantity.description, at_least=quantity.at_least
            )
    if isinstance(model, AbstractSDE) and model.correlations():
        ranges[CORRELATIONS] = Parameter("1", "", at_least=SMALLEST_EIGENVALUE)
    if isinstance(model, AbstractReactionNetwork) and any(x.mass_action for x in model.reactions.values()):
        ranges[RATES] = Parameter("", "", at_least=0)
    return ranges


def ranged_values(run: Run) -> dict[str, Any]:
    """The values of a run that have ranges, traced ones too; of initial values the least.

    A distribution without a least value is left out.
    """
    model, initial = model_of(run.problem), numbers_of(run.initial)
    values = {}
    for name in ranges_of(run.problem):
        if name == CORRELATIONS:
            values[name] = _least_eigenvalue(model)
            continue
        if name == RATES:
            values[name] = _least_rate(model)
            continue
        section, key = name.split(".", 1)
        value = getattr(model, key) if section == "model" else initial[key]
        if isinstance(value, AbstractDrawn):
            value = value.least
            if value is None:
                continue
        values[name] = jnp.min(jnp.asarray(value, jnp.float64))
    return values


def _least_rate(model: Any):
    """The least rate of the reactions under mass action, whose rates no count changes."""
    nothing = model.State(*[jnp.zeros(())] * len(model.State._fields))
    pairs = zip(model.reactions.values(), model.rates(jnp.zeros(()), nothing), strict=True)
    return jnp.min(jnp.stack([jnp.asarray(rate, jnp.float64) for each, rate in pairs if each.mass_action]))


def _least_eigenvalue(model: Any):
    """The least eigenvalue of the matrix of correlations of a model's noises."""
    matrix = jnp.eye(len(model.Noise._fields), dtype=jnp.float64)
    for (i, j), rho in model.correlations().items():
        matrix = matrix.at[i, j].set(rho).at[j, i].set(rho)
    return jnp.linalg.eigvalsh(matrix)[0]
