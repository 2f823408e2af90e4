"""Models: each a small class with its equation, units and reference. `MODELS` finds them by class name."""

from simkit_solvers.problem import AbstractODE

from simkit_physics.cir import CIR as CIR
from simkit_physics.double_well import DoubleWell as DoubleWell
from simkit_physics.double_well import DoubleWellLangevin as DoubleWellLangevin
from simkit_physics.gbm import GBM as GBM
from simkit_physics.heston import Heston as Heston
from simkit_physics.kinetics import SEIR as SEIR
from simkit_physics.kinetics import SIR as SIR
from simkit_physics.kinetics import BirthDeath as BirthDeath
from simkit_physics.kinetics import ImmigrationDeath as ImmigrationDeath
from simkit_physics.kinetics import LotkaVolterra as LotkaVolterra
from simkit_physics.kinetics import MichaelisMenten as MichaelisMenten
from simkit_physics.kinetics import Repressilator as Repressilator
from simkit_physics.kinetics import Schlogl as Schlogl
from simkit_physics.ornstein_uhlenbeck import OrnsteinUhlenbeck as OrnsteinUhlenbeck

# Of the classes imported above.
MODELS: dict[str, type[AbstractODE]] = {
    name: value
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, AbstractODE) and value is not AbstractODE
}
