"""Observables that are more than one number: distributions, correlations, fluctuations."""

from simkit.md.functions.displacement import Displacement as Displacement
from simkit.md.functions.fluctuations import FluctuationFunctions as FluctuationFunctions
from simkit.md.functions.function import AbstractFunction as AbstractFunction
from simkit.md.functions.radial import RadialFunction as RadialFunction
from simkit.md.functions.structure import StructureFunction as StructureFunction
from simkit.md.functions.velocity import VelocityFunction as VelocityFunction

FUNCTIONS: dict[str, type[AbstractFunction]] = {
    "rdf": RadialFunction,
    "msd": Displacement,
    "vacf": VelocityFunction,
    "structure_factor": StructureFunction,
    "fluctuations": FluctuationFunctions,
}
