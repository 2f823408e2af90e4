"""Models: each a small class with its equation, units and reference. `MODELS` finds them by class name."""

import importlib
from collections.abc import Mapping

from simkit_solvers.problem import AbstractODE

from simkit_physics.finance.cir import CIR as CIR
from simkit_physics.finance.gbm import GBM as GBM
from simkit_physics.finance.heston import Heston as Heston
from simkit_physics.statistical.double_well import DoubleWell as DoubleWell
from simkit_physics.statistical.double_well import DoubleWellLangevin as DoubleWellLangevin
from simkit_physics.statistical.ornstein_uhlenbeck import OrnsteinUhlenbeck as OrnsteinUhlenbeck

# Of the classes imported above.
MODELS: dict[str, type[AbstractODE]] = {
    name: value
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, AbstractODE) and value is not AbstractODE
}


def models_by_field(
    models: Mapping[str, type[AbstractODE]] = MODELS,
) -> dict[str, dict[str, type[AbstractODE]]]:
    """The models by the field that their folder is for, as its docstring names it; `your own` for others."""
    found: dict[str, dict[str, type[AbstractODE]]] = {}
    for name, model in models.items():
        package, _, rest = model.__module__.partition(".")
        folder = rest.partition(".")[0]
        inside = package == __name__ and rest != folder
        text = importlib.import_module(f"{__name__}.{folder}").__doc__ if inside else "your own"
        found.setdefault((text or folder).partition(":")[0], {})[name] = model
    return found
