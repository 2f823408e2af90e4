"""Initial configurations: particles at rest, lattices, species and velocities.

What is random is a pure function of (key, path, number of the particle).
"""

from collections.abc import Sequence
from typing import Literal, get_args

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float
from simkit_solvers import (
    MotionUnits,
    Particles,
    Scalar,
    Stream,
    Vector,
    Words,
    block,
    standard_normal,
    stream_key,
)

from simkit_physics.particles.boxes import OrthorhombicBox

VELOCITY_BLOCKS, SPECIES_BLOCK, POSITION_BLOCKS = (0, 1), 2, 4  # of the random words of each particle

REDUCED = MotionUnits()
Lattice = Literal["sc", "bcc", "fcc", "diamond"]
_FACES = ((0, 0, 0), (0, 0.5, 0.5), (0.5, 0, 0.5), (0.5, 0.5, 0))
BASES: dict[Lattice, tuple] = {  # positions in the cubic cell
    "sc": _FACES[:1],
    "bcc": ((0, 0, 0), (0.5, 0.5, 0.5)),
    "fcc": _FACES,
    "diamond": (*_FACES, *(tuple(c + 0.25 for c in place) for place in _FACES)),
}


def particles_at_rest(
    positions: Float[ArrayLike, "particles 3"], mass: ArrayLike = 1.0, species: ArrayLike = 0
) -> Particles:
    """Particles at these positions, with no momentum; mass and species are scalars, or arrays `(particles,)`.

    >>> from simkit_physics import particles_at_rest
    >>> particles = particles_at_rest([[0.0, 0.0, 0.0], [1.2, 0.0, 0.0]], mass=[1.0, 2.0])
    >>> particles.count, particles.momentum.x.tolist()
    (2, [0.0, 0.0])
    """
    rows = positions if isinstance(positions, jax.Array) else np.asarray(positions)
    kind, count, dtype = rows.__array_namespace__(), len(rows), rows.dtype
    zero, nowhere = kind.zeros(count, dtype), kind.zeros(count, np.int32)
    particles = Particles(
        position=Vector(*rows.T),
        momentum=Vector(zero, zero, zero),
        image=Vector(nowhere, nowhere, nowhere),
        mass=kind.broadcast_to(kind.asarray(mass, dtype=dtype), (count,)),
        species=kind.broadcast_to(kind.asarray(species, dtype=np.int32), (count,)),
        identity=kind.arange(count, dtype=np.int32),
        count=count,
    )
    return jax.tree.map(jnp.asarray, particles)


def lattice(
    kind: Lattice,
    cells: Sequence[int],
    *,
    density: float | None = None,
    spacing: float | None = None,
    mass: float = 1.0,
) -> tuple[Particles, OrthorhombicBox]:
    """A cubic lattice and its periodic box: `cells` unit cells along x, y and z, from the corner of the box.

    Given are either the number density or the side of the cubic cell, `spacing`.

    Raises `ValueError` for a lattice that is not known, and unless there is one of the two.

    >>> from simkit_physics import lattice
    >>> particles, box = lattice("fcc", (3, 3, 3), density=0.5)
    >>> particles.count, float(box.sides.x)  # four particles a cell
    (108, 6.0)
    """
    if kind not in BASES:
        raise ValueError(f"lattice: must be one of {', '.join(get_args(Lattice))}, got {kind!r}")
    if len(cells) != 3 or min(cells) < 1:
        raise ValueError(f"cells: must be three whole numbers >= 1, got {list(cells)}")
    basis = np.array(BASES[kind], float)
    side = _spacing(density, spacing, len(basis))
    corners = np.stack(np.meshgrid(*(np.arange(n) for n in cells), indexing="ij"), axis=-1).reshape(-1, 1, 3)
    sides = Vector(*(jnp.asarray(side * n) for n in cells))
    return particles_at_rest(side * (corners + basis).reshape(-1, 3), mass), OrthorhombicBox(sides)


def _spacing(density: float | None, spacing: float | None, in_cell: int) -> float:
    if (density is None) == (spacing is None):
        raise ValueError("lattice: give either density or spacing")
    value, name = (density, "density") if spacing is None else (spacing, "spacing")
    if value is None or not value > 0:
        raise ValueError(f"{name}: must be > 0, got {value}")
    return value if name == "spacing" else (in_cell / value) ** (1 / 3)


def with_species(
    particles: Particles, counts: Sequence[int], masses: Sequence[float], key: Words, path: Array | int = 0
) -> Particles:
    """These particles as a mixture in random order: `counts` of each species, with their masses.

    `path`, a scalar, numbers the system of an ensemble.
    Raises `ValueError` unless the counts add up to the number of particles.

    >>> from simkit_physics import lattice, with_species
    >>> from simkit_solvers import seed_key
    >>> particles, box = lattice("fcc", (2, 2, 2), density=0.5)
    >>> mixture = with_species(particles, counts=(24, 8), masses=(1.0, 2.0), key=seed_key(1))
    >>> int(mixture.species.sum()), float(mixture.mass.sum())
    (8, 40.0)
    """
    if sum(counts) != particles.count or len(counts) != len(masses) or min(counts) < 0:
        raise ValueError(
            f"species: counts {list(counts)} and masses {list(masses)} for {particles.count} particles"
        )
    key, identity, old, mass = jax.tree.map(
        np.asarray, (key, particles.identity, particles.species, particles.mass)
    )
    real = identity < particles.count
    words = block(stream_key(key, path, Stream.INITIAL), identity.astype(np.uint32), SPECIES_BLOCK)
    order = np.lexsort((identity, words.b, words.a, ~real))
    species = old.copy()
    species[order[: particles.count]] = np.repeat(np.arange(len(counts)), counts)
    mass = np.where(real, np.asarray(masses, mass.dtype)[species], mass)
    replaced = jnp.asarray(species), jnp.asarray(mass)
    return eqx.tree_at(lambda p: (p.species, p.mass), particles, replaced)


def with_velocities(
    particles: Particles,
    temperature: Scalar,
    key: Words,
    path: Array | int = 0,
    units: MotionUnits = REDUCED,
) -> Particles:
    r"""These particles with normal velocities at exactly this temperature and without drift.

    $\sum_i p_i = 0$ and $\sum_i p_i^2/m_i = (3N - 3)\,k_B T$, as energies in these units. A particle draws by
    its number, whatever the order.

    Raises `ValueError` for a single particle, which has no temperature without drift.

    `path`, a scalar, numbers the system of an ensemble.

    >>> import jax.numpy as jnp
    >>> from simkit_physics import lattice, with_velocities
    >>> from simkit_solvers import kinetic_energy, seed_key
    >>> particles, box = lattice("fcc", (2, 2, 2), density=0.5)
    >>> moving = with_velocities(particles, temperature=1.0, key=seed_key(1))
    >>> round(2.0 * float(kinetic_energy(moving)) / (3 * particles.count - 3), 5)
    1.0
    """
    if particles.count < 2:
        raise ValueError("velocities: a single particle has no temperature without drift; give two or more")
    real, dtype = particles.real, particles.mass.dtype
    mass = jnp.where(real, particles.mass, 1)
    first, second = (
        block(stream_key(key, path, Stream.INITIAL), _numbers(particles), jnp.uint32(place))
        for place in VELOCITY_BLOCKS
    )
    normals = (standard_normal(word).astype(dtype) for word in (first.a, first.b, second.a))
    drawn = [jnp.where(real, jnp.sqrt(mass) * z, 0) for z in normals]
    total = jnp.sum(jnp.where(real, mass, 0))
    p = Vector(*(jnp.where(real, c - mass / total * jnp.sum(c), 0) for c in drawn))
    twice_kinetic = units.kinetic * jnp.sum(p.dot(p) / mass)
    wanted = jnp.asarray((3 * particles.count - 3) * units.boltzmann * temperature)
    return particles.pushed(p.times(jnp.sqrt(wanted.astype(dtype) / twice_kinetic)))


def _numbers(particles: Particles) -> Array:
    return particles.identity.astype(jnp.uint32)
