"""Pair potentials, each a small class, and truncations, which end them at a cutoff.

`POTENTIALS` holds the potentials by class name, `TRUNCATIONS` the truncations by their names in YAML.
"""

from simkit_physics.particles.potentials.lennard_jones import LennardJones as LennardJones
from simkit_physics.particles.potentials.potential import AbstractPotential as AbstractPotential
from simkit_physics.particles.potentials.truncation import TRUNCATIONS as TRUNCATIONS

# Of the classes imported above.
POTENTIALS: dict[str, type[AbstractPotential]] = {
    name: value
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, AbstractPotential) and value is not AbstractPotential
}
