"""Observables that are more than one number: distributions, correlations, fluctuations, in `FUNCTIONS`."""

# isort: off
from simkit.md.functions.function import AbstractFunction

# The classes of `FUNCTIONS`, in its order: one more function is one more line here.
from simkit.md.functions.radial import RadialFunction
from simkit.md.functions.displacement import Displacement
from simkit.md.functions.velocity import VelocityFunction
from simkit.md.functions.structure import StructureFunction
from simkit.md.functions.fluctuations import FluctuationFunctions

# isort: on

# Of all that is imported above.
FUNCTIONS: dict[str, type[AbstractFunction]] = {
    each.key: each for each in list(globals().values()) if isinstance(each, type) and hasattr(each, "key")
}
