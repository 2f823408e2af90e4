r"""Heat capacity and compressibilities from fluctuations, by the formulas of the ensembles NVT and NVE.

Reference: Allen & Tildesley (2017), Computer Simulation of Liquids, section 2.5,
doi:10.1093/oso/9780198803195.001.0001.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from simkit_solvers import Particles

from simkit_physics.particles.boxes import AbstractBox
from simkit_physics.particles.clusters import ClusterGrid
from simkit_physics.particles.near_pairs import Tile, over_near_pairs


def hypervirial(
    grid: ClusterGrid, box: AbstractBox, potential: Any, particles: Particles
) -> Float[Array, ""]:
    r"""The hypervirial of a truncated potential, $X = \tfrac19 \sum_{i<j} r (r u'(r))'$, an energy.

    It is what compressibilities from fluctuations need besides the virial. The force must be continuous at
    the cutoff $r_c$, as with `ShiftedForce` and `Switched`. Where it jumps, as with `Plain` and `Shifted`,
    the derivative has a peak, which is left out; its mean is
    $-\frac{2\pi}{9} V \sum_{ab} \rho_a \rho_b r_c^4 g_{ab}(r_c) u_{ab}'(r_c)$.
    `grid` is `block_grid(box, particles)`.

    >>> from simkit_physics import LennardJones, ShiftedForce, block_grid, hypervirial, lattice
    >>> particles, box = lattice("fcc", (3, 3, 3), density=0.85)
    >>> potential = ShiftedForce(LennardJones(epsilon=1.0, sigma=1.0), 2.0)
    >>> round(float(hypervirial(block_grid(box, particles), box, potential, particles)))
    1448
    """

    dtype = particles.position.x.dtype
    potential = jax.tree.map(lambda a: a.astype(dtype) if eqx.is_inexact_array(a) else a, potential)

    def add(sum_, tile: Tile):
        pair = potential.of_pair(tile.first, tile.second)
        far = jnp.square(2 * potential.cutoff)
        r2 = jnp.minimum(tile.r2, far)

        def virial(r2):  # r du/dr = 2 r^2 du/d(r^2)
            return 2 * r2 * pair.slope(r2)

        _, slope = jax.jvp(virial, (r2,), (jnp.ones_like(r2),))
        return sum_ + jnp.sum(jnp.where(tile.r2 < far, 2 * r2 * slope, 0)) / 9

    blank = jnp.zeros((), dtype)
    return over_near_pairs(grid, box, particles, potential.cutoff, add, blank)


def constant_volume_heat_capacity(
    energy_variance: ArrayLike, temperature: ArrayLike, boltzmann: ArrayLike = 1.0
) -> Any:
    r"""$C_V = \langle \delta E^2 \rangle / k_B T^2$ of a system at constant temperature (NVT).

    All are scalars, or arrays of one shape for several systems.

    >>> from simkit_physics import constant_volume_heat_capacity
    >>> constant_volume_heat_capacity(energy_variance=600.0, temperature=2.0)
    150.0
    """
    return energy_variance / (boltzmann * temperature**2)


def constant_energy_heat_capacity(
    kinetic_mean: ArrayLike, kinetic_variance: ArrayLike, freedom: int, boltzmann: ArrayLike = 1.0
) -> Any:
    r"""$C_V$ of a system at constant energy (NVE), from the fluctuations of its kinetic energy:

    $\langle \delta K^2 \rangle = \tfrac f2 (k_B T)^2 \left(1 - \frac{f k_B}{2 C_V}\right)$ with f degrees of
    freedom and $\langle K \rangle = \tfrac f2 k_B T$, to order 1/N.
    Reference: Lebowitz, Percus & Verlet (1967), Ensemble dependence of fluctuations with application to
    machine computations, doi:10.1103/PhysRev.153.250.

    All are scalars, or arrays of one shape for several systems.

    >>> from simkit_physics import constant_energy_heat_capacity
    >>> heat_capacity = constant_energy_heat_capacity(kinetic_mean=150.0, kinetic_variance=75.0, freedom=300)
    >>> float(heat_capacity)
    300.0
    """
    ratio = (
        kinetic_variance * freedom / (2 * kinetic_mean**2)
    )  # of the variance to that at constant temperature
    return 0.5 * freedom * boltzmann / (1 - ratio)


def isothermal_compressibility(
    volume: float, thermal_energy: ArrayLike, atoms: int, virial: Any, virial_variance: Any, hypervirial: Any
) -> Any:
    r"""$\kappa_T$ of a system at constant temperature, of the isotropic virial $W = \tfrac13 \sum r f$:

    $V / \kappa_T = N k_B T + \langle W \rangle + \langle X \rangle - \langle \delta W^2 \rangle / k_B T$
    with the `hypervirial` X. Nothing is added for a tail beyond the cutoff.

    All are scalars, or arrays of one shape for several systems.

    >>> from simkit_physics import isothermal_compressibility
    >>> compressibility = isothermal_compressibility(
    ...     volume=100.0, thermal_energy=1.0, atoms=100,
    ...     virial=400.0, virial_variance=300.0, hypervirial=4000.0,
    ... )
    >>> round(float(compressibility), 4)
    0.0238
    """
    stiffness = atoms * thermal_energy + virial + hypervirial - virial_variance / thermal_energy
    return volume / stiffness


def adiabatic_compressibility(
    volume: float,
    thermal_energy: ArrayLike,
    freedom: int,
    pressure: Any,
    pressure_variance: Any,
    hypervirial: Any,
) -> Any:
    r"""$\kappa_S$ of a system at constant energy:

    $\langle \delta P^2 \rangle = \frac{k_B T}{V} \left(\frac{2 f k_B T}{9 V} + \langle P \rangle
    - \frac1{\kappa_S} + \frac{\langle X \rangle}{V}\right)$, with $f = 3N$ in the thermodynamic limit,
    and the `hypervirial` X. All are scalars, or arrays of one shape for several systems.

    >>> from simkit_physics import adiabatic_compressibility
    >>> compressibility = adiabatic_compressibility(
    ...     volume=100.0, thermal_energy=1.0, freedom=297,
    ...     pressure=5.0, pressure_variance=0.02, hypervirial=4000.0,
    ... )
    >>> round(float(compressibility), 4)
    0.0229
    """
    kinetic = 2 * freedom * thermal_energy / (9 * volume)
    stiffness = kinetic + pressure + hypervirial / volume - pressure_variance * volume / thermal_energy
    return 1 / stiffness
