"""Momenta, velocities and energies of point masses, in any consistent units: energy is mass·length²/time²."""

from simkit_solvers import Scalar


def momentum(m: Scalar, v: Scalar) -> Scalar:
    r"""$p = m v$ of a mass at a velocity."""
    return m * v


def velocity(m: Scalar, p: Scalar) -> Scalar:
    r"""$v = p/m$ of a mass at a momentum."""
    return p / m


def kinetic_energy(m: Scalar, *p: Scalar) -> Scalar:
    r"""$T = |p|^2 / 2m$ of a mass with the given components of momentum."""
    return sum(component * component for component in p) / (2 * m)


def spring_energy(k: Scalar, x: Scalar) -> Scalar:
    r"""$U = k x^2 / 2$ of a spring of stiffness k (mass/time²) stretched by x."""
    return k * x * x / 2


def weight_energy(m: Scalar, g: Scalar, height: Scalar) -> Scalar:
    r"""$U = m g h$ of a mass at a height, in the uniform gravity g (length/time²)."""
    return m * g * height


def gravitational_energy(G: Scalar, m1: Scalar, m2: Scalar, distance: Scalar) -> Scalar:
    r"""$U = -G m_1 m_2 / r$ of two masses at a distance; G in length³/(mass·time²)."""
    return -G * m1 * m2 / distance
