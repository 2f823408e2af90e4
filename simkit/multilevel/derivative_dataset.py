"""The derivatives of means from levels as a labelled `xarray.Dataset`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from simkit.derivatives import result as sensitivities
from simkit.derivatives.estimates import EstimatedSensitivities
from simkit.ensemble.simulation import Simulation
from simkit.multilevel.dataset import along_levels, level_attributes, of_levels
from simkit.multilevel.derivative_levels import derivative_name
from simkit.multilevel.level_rates import QuantityLevels
from simkit.multilevel.run import MultilevelResult
from simkit.results.quantity import described
from simkit.results.variables import Variables, power_of, variable, with_stderr

RATES = {"alpha": "means", "beta": "variances"}


def to_dataset(
    simulation: Simulation,
    study: EstimatedSensitivities,
    result: MultilevelResult,
    provenance: Mapping[str, Any],
) -> xr.Dataset:
    """The variables of any sensitivities, and along `level` what means and derivatives are made of."""
    variables = of_levels(result)
    for name in study.values:
        unit, description = described(simulation)[name]
        variables |= _levels(name, (), [result.levels[name]], unit, description)
        each = [result.levels[derivative_name(name, target.label)] for target in study.targets]
        what = f"derivative of the mean of {name}"
        variables |= _levels(f"{name}_derivative", ("parameter",), each, None, what)
    dataset = sensitivities.to_dataset(simulation, study, provenance)
    derivatives = [derivative_name(q, target.label) for q in study.values for target in study.targets]
    moved = [name for name in derivatives if result.levels[name].variance.any()]
    attributes = level_attributes(result, [*study.values, *moved])
    return dataset.assign(variables).assign_attrs(attributes)


def _levels(
    key: str, dims: tuple[str, ...], each: list[QuantityLevels], unit: str | None, description: str
) -> Variables:
    """What figures are made of along levels, and how fast that falls, an array for those that have `dims`."""

    def stacked(rows: list) -> np.ndarray:
        return np.stack(rows) if dims else np.asarray(rows[0])

    variables: Variables = {}
    for suffix, (_, power, what) in along_levels(each[0]).items():
        rows = [along_levels(one)[suffix][0] for one in each]
        units = None if unit is None else power_of(unit, power)
        variables[f"{key}_level_{suffix}"] = variable(
            (*dims, "level"), stacked(rows), units, f"{what}: {description}"
        )
    for suffix, what in RATES.items():
        long_name = f"power of the step with which {what} of levels fall: {description}"
        rates = [getattr(one, suffix) for one in each]
        both = (stacked([x.rate for x in rates]), stacked([x.stderr for x in rates]))
        variables |= with_stderr(f"{key}_{suffix}", dims, *both, "1", long_name)
    return variables
