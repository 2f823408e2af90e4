"""Steady states as a labelled `xarray.Dataset`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import model_of

from simkit.ensemble.simulation import Simulation
from simkit.results.dataset import FORMAT
from simkit.results.quantity import described
from simkit.results.variables import Variables, variable
from simkit.steady_states.conserved import total_text
from simkit.steady_states.study import SteadyStates, below_range

KIND = "steady"


def to_dataset(simulation: Simulation, found: SteadyStates, provenance: Mapping[str, Any]) -> xr.Dataset:
    """The steady states along `root`, each figure with its error in `..._error`.

    `docs/reference/results.md` lists all variables and attributes. Eigenvalues are those where conserved
    totals stay, the largest real part first.
    """
    states, rates = found.states, found.rates
    units = [described(simulation)[name] for name in (*rates.names, *rates.observables)]
    root, state = ("root",), ("root", "quantity")

    def stacked(of: Any) -> np.ndarray:
        return np.stack([np.asarray(of(each)) for each in states])

    variables: Variables = {
        "value": variable(
            state, stacked(lambda x: [*x.root.state, *x.observed]), None, "value at the steady state"
        ),
        "value_error": variable(
            state, stacked(lambda x: [*x.root.error, *x.observed_error]), None, "estimated error of value"
        ),
        "residual": variable(
            ("root", "variable"), stacked(lambda x: x.root.residual), None, "rate of change that is left"
        ),
        "in_range": variable(
            ("root", "variable"),
            stacked(lambda x: ~below_range(rates, x.root)),
            None,
            "whether a variable is at least what it must be",
        ),
    }
    for name, part in (("real", np.real), ("imag", np.imag)):
        variables[f"eigenvalue_{name}"] = variable(
            ("root", "eigenvalue"),
            stacked(lambda x, part=part: part(x.stability.eigenvalues)),
            f"1/{simulation.time_unit}",
            f"{name} part of an eigenvalue of the Jacobian".replace("imag ", "imaginary "),
        )
    variables["eigenvalue_error"] = variable(
        ("root", "eigenvalue"),
        stacked(lambda x: x.stability.errors),
        f"1/{simulation.time_unit}",
        "estimated error of an eigenvalue",
    )
    times = stacked(lambda x: x.stability.relaxation_time)
    unit, text = simulation.time_unit, "slowest relaxation time"
    variables |= {
        "relaxation_time": variable(root, times[:, 0], unit, text),
        "relaxation_time_error": variable(root, times[:, 1], unit, f"estimated error of the {text}"),
        "kind": (root, [x.stability.kind for x in states]),
        "stable": variable(root, stacked(lambda x: x.stability.stable), None, "every small push decays"),
        "reached": variable(root, stacked(lambda x: x.reached), None, "the model comes to rest there"),
    }
    coordinates: dict[str, Any] = {
        "root": np.arange(1, len(states) + 1),
        "quantity": [*rates.names, *rates.observables],
        "quantity_unit": ("quantity", [unit for unit, _ in units]),
        "variable": [*rates.names],
    }
    if len(found.totals):
        texts = [total_text(weights, rates.names) for weights in found.fixed.weights]
        coordinates["conserved"] = texts
        variables["total"] = variable(("conserved",), found.totals, None, "conserved total of the start")
        variables["weight"] = variable(
            ("conserved", "variable"), found.fixed.weights, "1", "weight of a variable in a conserved total"
        )
    if found.targets:
        dims = ("root", "quantity", "parameter")
        derivative, error = stacked(lambda x: x.derivatives), stacked(lambda x: x.derivatives_error)
        variables["derivative"] = variable(
            dims, derivative, None, "derivative of value with respect to a parameter"
        )
        variables["derivative_error"] = variable(dims, error, None, "estimated error of derivative")
        coordinates["parameter"] = [*found.targets]
        values = [float(simulation.targets[name]) for name in found.targets.values()]
        coordinates["parameter_value"] = ("parameter", values)
    return xr.Dataset(variables, coordinates, _attributes(simulation, found) | dict(provenance))


def _attributes(simulation: Simulation, found: SteadyStates) -> dict[str, Any]:
    model: Any = model_of(found.rates.problem)
    network = isinstance(model, AbstractReactionNetwork)
    calculus = getattr(model, "calculus", "any") if model.stochastic else "any"
    calculus = {"ito": " (Itô)", "stratonovich": " (Stratonovich)"}.get(calculus, "")
    what = "steady state of the rate equation" if network else "steady state"
    return {
        "simkit_format": FORMAT,
        "simkit_kind": KIND,
        "model": type(model).__name__,
        "state_variables": " ".join(model.State._fields),
        "what": f"fixed point of the drift{calculus}" if model.stochastic else what,
        "time_unit": simulation.time_unit,
        "at": found.rates.time,
        "reached_within_10_percent_after": found.time,
        "notes": "\n".join(found.notes),
    }
