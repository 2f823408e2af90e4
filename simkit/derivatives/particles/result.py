"""The derivatives of averages of molecular dynamics as a labelled `xarray.Dataset`."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr

from simkit.derivatives.particles.study import AverageDerivatives
from simkit.derivatives.result import KIND
from simkit.md.dataset import KIND as PARTICLES
from simkit.md.dataset import attributes_of, mean_of, scalar_values
from simkit.results.dataset import FORMAT
from simkit.results.variables import Variables, variable, with_stderr

ESTIMATOR = "fluctuations"


def to_average_dataset(study: AverageDerivatives, provenance: Mapping[str, str]) -> xr.Dataset:
    """The derivatives by flat names such as `P_derivative`, like those of an ensemble of paths.

    `P_derivative_unknown` says, where a standard error is NaN, why it is not known.
    """
    result, simulation = study.result, study.result.simulation
    with jax.enable_x64(True):
        values = scalar_values(simulation, result.measured)
    variables: Variables = {}
    for name, estimates in study.derivatives.items():
        scalar = simulation.scalars[name]
        mean = mean_of(values[name])
        about = {"stderr_unknown": mean.unknown} if mean.unknown else {}
        what = f"mean of {scalar.expression.text}"
        variables |= {
            f"{name}_mean": variable((), mean.value, scalar.unit, what, **about),
            f"{name}_mean_stderr": variable((), mean.stderr, scalar.unit, f"standard error of the {what}"),
        }
        key, dims = f"{name}_derivative", ("parameter",)
        figures = [
            np.array([float(getattr(each, part)) for each in estimates]) for part in ("value", "stderr")
        ]
        variables |= with_stderr(key, dims, *figures, None, f"derivative of the mean of {name}")
        reasons = [(each.reason or "").removeprefix("unknown: ") for each in estimates]
        texts = {
            "estimator": [ESTIMATOR] * len(estimates),
            "reason": ["constant temperature"] * len(estimates),
            "flag": [""] * len(estimates),
            "unknown": reasons,
        }
        variables |= {f"{key}_{part}": (dims, each) for part, each in texts.items()}
    coordinates: dict[str, Any] = {
        "parameter": [target.label for target in study.targets],
        "parameter_value": ("parameter", [target.value for target in study.targets]),
        "parameter_unit": ("parameter", [target.unit for target in study.targets]),
    }
    return xr.Dataset(variables, coordinates, _attributes(study) | dict(provenance))


def _attributes(study: AverageDerivatives) -> dict[str, Any]:
    own = attributes_of(study.result)
    return own | {
        "simkit_format": FORMAT,
        "simkit_kind": KIND,
        "kind": PARTICLES,
        "model": own["potential"],
        "quantities": " ".join(study.derivatives),
        "t1": study.result.simulation.run.steps * study.result.simulation.run.dt,
        "failed_paths": 0,
    }
