"""reaction networks: chemical kinetics, gene expression, populations and epidemics."""

from simkit_physics.kinetics.birth_death import BirthDeath as BirthDeath
from simkit_physics.kinetics.epidemics import SEIR as SEIR
from simkit_physics.kinetics.epidemics import SIR as SIR
from simkit_physics.kinetics.immigration_death import ImmigrationDeath as ImmigrationDeath
from simkit_physics.kinetics.lotka_volterra import LotkaVolterra as LotkaVolterra
from simkit_physics.kinetics.michaelis_menten import MichaelisMenten as MichaelisMenten
from simkit_physics.kinetics.repressilator import Repressilator as Repressilator
from simkit_physics.kinetics.schlogl import Schlogl as Schlogl
