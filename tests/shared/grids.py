"""The other grids by which a step bias is found."""

from simkit.ensemble import Simulation
from simkit.ensemble.step_bias.step_levels import levels


def factors(simulation: Simulation) -> tuple[float, ...]:
    """Their steps over those of the run."""
    return tuple(level.factor for level in levels(simulation))
