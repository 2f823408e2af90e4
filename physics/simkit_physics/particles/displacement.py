r"""Paths of particles through periodic boxes, without the motion of their centre of mass; the diffusion
coefficient.

$D = \lim_{t \to \infty} \langle |x(t) - x(0)|^2 \rangle / 6t$. In a periodic box of N particles it is smaller
than in an infinite one, by hydrodynamics of the images.
"""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float
from simkit_solvers import Particles, Vector, velocity

from simkit_physics.particles.boxes import AbstractBox

CUBIC = 2.837297  # of Ewald's sum over the images of a cube


def unwrapped_paths(box: AbstractBox, particles: Particles) -> Float[Array, "3 particles"]:
    """The unwrapped positions in the order of the particles' numbers, from their centre of mass.

    >>> from simkit_physics import FreeBox, unwrapped_paths
    >>> from simkit_solvers import Particles
    >>> particles = Particles.of([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]])
    >>> unwrapped_paths(FreeBox(), particles)[0].tolist()
    [-0.5, 0.5]
    """
    return _without_centre(particles, box.unwrapped(particles.position, particles.image))


def peculiar_velocities(particles: Particles) -> Float[Array, "3 particles"]:
    """The velocities in the order of the particles' numbers, without that of their centre of mass.

    >>> from simkit_physics import peculiar_velocities
    >>> from simkit_solvers import Particles
    >>> positions, momenta = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]], [[1.0, 0.0, 0.0], [3.0, 0.0, 0.0]]
    >>> particles = Particles.of(positions, momenta)
    >>> peculiar_velocities(particles)[0].tolist()
    [-1.0, 1.0]
    """
    return _without_centre(particles, velocity(particles))


def _without_centre(particles: Particles, vector: Vector) -> Float[Array, "3 particles"]:
    order = jnp.argsort(particles.identity)[: particles.count]
    rows = jnp.stack([c[order] for c in vector])
    mass = particles.mass[order]
    return rows - (rows @ mass / jnp.sum(mass))[:, None]


def infinite_box_diffusion(
    diffusion: float, *, thermal_energy: float, viscosity: float, side: float
) -> float:
    r"""The diffusion coefficient in an infinite box, from that in a cube of the given side:
    $D + \xi k_B T / 6 \pi \eta L$ with $\xi = 2.837297$.

    Reference: Yeh & Hummer (2004), System-size dependence of diffusion coefficients and viscosities from
    molecular dynamics simulations with periodic boundary conditions, doi:10.1021/jp0477147.

    >>> from simkit_physics import infinite_box_diffusion
    >>> round(infinite_box_diffusion(0.03, thermal_energy=1.0, viscosity=2.0, side=8.0), 4)
    0.0394
    """
    return diffusion + CUBIC * thermal_energy / (6 * math.pi * viscosity * side)
