"""Pair potentials, each a small class, and truncations, which end them at a cutoff.

`POTENTIALS` holds those made of numbers by class name, `TRUNCATIONS` the truncations by their names in YAML.
"""

from simkit_physics.particles.potentials.born_mayer import BornMayer as BornMayer
from simkit_physics.particles.potentials.buckingham import Buckingham as Buckingham
from simkit_physics.particles.potentials.coulomb import Coulomb as Coulomb
from simkit_physics.particles.potentials.lennard_jones import LennardJones as LennardJones
from simkit_physics.particles.potentials.mie import Mie as Mie
from simkit_physics.particles.potentials.morse import Morse as Morse
from simkit_physics.particles.potentials.potential import AbstractPotential as AbstractPotential
from simkit_physics.particles.potentials.soft_sphere import SoftSphere as SoftSphere
from simkit_physics.particles.potentials.truncation import TRUNCATIONS as TRUNCATIONS
from simkit_physics.particles.potentials.wca import WCA as WCA
from simkit_physics.particles.potentials.yukawa import Yukawa as Yukawa

# Of the classes imported above.
POTENTIALS: dict[str, type[AbstractPotential]] = {
    name: value
    for name, value in list(globals().items())
    if isinstance(value, type) and issubclass(value, AbstractPotential) and value is not AbstractPotential
}
