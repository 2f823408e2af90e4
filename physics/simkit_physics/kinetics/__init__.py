"""Reaction networks: chemical kinetics, gene expression, populations and epidemics."""

from simkit_physics.kinetics.birth_death import BirthDeath as BirthDeath
from simkit_physics.kinetics.immigration_death import ImmigrationDeath as ImmigrationDeath
