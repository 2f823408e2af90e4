"""Models: each a small class with its equation, units and reference. `MODELS` finds them by class name."""

from simkit_solvers.problem import AbstractODE

from simkit_physics.cir import CIR as CIR
from simkit_physics.double_well import DoubleWell as DoubleWell
from simkit_physics.double_well import DoubleWellLangevin as DoubleWellLangevin
from simkit_physics.gbm import GBM as GBM
from simkit_physics.heston import Heston as Heston
from simkit_physics.ornstein_uhlenbeck import OrnsteinUhlenbeck as OrnsteinUhlenbeck

# Of the classes imported above.
MODELS: dict[str, type[AbstractODE]] = {
    name: value
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, AbstractODE) and value is not AbstractODE
}
