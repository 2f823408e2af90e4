"""Which forces fit a system: neighbour lists or all pairs, and how large lists must be.

All is chosen from the configuration, on the host. `forces_for` makes a first guess from the density; where a
list turns out too small, `enlarged` makes a larger one, and `complete_list` repeats that until everything has
a place.
"""

import dataclasses
import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers import Particles

from simkit_physics.particles.all_pairs import AllPairs
from simkit_physics.particles.boxes import AbstractBox
from simkit_physics.particles.clusters import BLOCKS, MEMBERS, ClusterGrid, cluster_grid
from simkit_physics.particles.density import Density, Snapshot
from simkit_physics.particles.listed_forces import ListedForces, Precision
from simkit_physics.particles.neighbours import GROUP, Capacities
from simkit_physics.particles.overlaps import check_no_overlap

FEW = 600  # particles: below, all pairs cost less than lists
SKIN = 0.38  # mean distances of particles: list work and superfluous pairs cost least about there
LEAST_SKIN = 0.05  # cutoffs: a thinner one is used up in no time
COARSE = 1e-8  # cutoffs: with a coarser unit of fixed point, forces would be off by more than 1e-7
# Of guessed capacities. All tables but the last are small, and their largest counts are those of the least
# compact of many clusters: of 10^6 particles near a crystal, 1.6, 1.7 and 1.2 times the guess of blocks and
# clusters. Where one of them overflows, all behind it grow, and an accelerator computes empty places too.
MARGINS = 1.4, 1.6, 2.0, 1.4, 1.15
MEMORY = 1.5e9  # bytes that lists may take by default


def forces_for(
    particles: Particles,
    box: AbstractBox,
    potential: Any,
    precision: Precision = "float64",
    *,
    skin: float | None = None,
) -> tuple[ListedForces | AllPairs, Particles]:
    """The forces of a potential in a box, and the particles in as many places as these forces need.

    They are over neighbour lists, or over all pairs: for at most 600 particles, and where the cutoff is so
    long, or the box so small, that a particle may meet several images of another. `precision` is "float64";
    "mixed", with positions in float64 and pair arithmetic in float32; or "float32", for positions in float32.
    `skin` is by how much lists reach beyond the cutoff; it is chosen from the density. `summary()` of the
    result says what was chosen.

    Called with numbers, not inside of `jit`. Raises `ValueError` where positions are not finite or of another
    precision, where two particles coincide, and where the cutoff is infinite in a periodic box.

    >>> from simkit_physics import LennardJones, Shifted, forces_for, lattice
    >>> particles, box = lattice("fcc", (3, 3, 3), density=0.85)
    >>> potential = Shifted(LennardJones(epsilon=1.0, sigma=1.0), 2.0)
    >>> forces, particles = forces_for(particles, box, potential, precision="float32")
    >>> forces.summary()["forces"]  # the system is small
    'all pairs'
    """
    dtype = particles.position.x.dtype
    wanted = "float32" if precision == "float32" else "float64"
    if dtype != wanted:
        remedy = 'enable x64, as by `with jax.enable_x64(True):`, or choose precision="float32"'
        if wanted == "float32":
            remedy = "cast them, or choose another precision"
        raise ValueError(f"precision {precision}: takes positions in {wanted}, got {dtype}; {remedy}")
    box, potential = _in(dtype, box), _in(dtype, potential)
    cutoff = float(np.max(np.asarray(potential.cutoffs)))
    if not cutoff > 0 or (box.periodic and math.isinf(cutoff)):
        raise ValueError(f"cutoff: must be > 0, and finite in a periodic box, got {cutoff:g}")
    snapshot = Snapshot.of(particles, box)
    length = cutoff if math.isfinite(cutoff) else snapshot.extent or 1.0
    check_finite(snapshot.position)
    check_no_overlap(snapshot, box, length)
    fixed_point = precision == "mixed" and box.periodic and max(snapshot.widths) < COARSE * 2**32 * cutoff
    density = Density.of(snapshot, length)
    room = float(min(snapshot.widths)) / 2 - cutoff
    if skin is not None and not 0 < skin < max(room, 0):
        raise ValueError(
            f"skin: must be > 0 and, with the cutoff, below half the width of the box, got {skin:g}"
        )
    thickness = skin or min(SKIN * density.typical ** (-1 / 3), cutoff / 2, 0.8 * room)
    at = jnp.asarray(np.asarray(cutoff, dtype))
    if particles.count <= FEW or thickness < LEAST_SKIN * cutoff or math.isinf(cutoff):
        return AllPairs(potential, box, at, _images(box, cutoff), precision, bool(fixed_point)), particles
    grid = cluster_grid(particles.count, density.extents)
    capacities = _guess(grid, math.sqrt(density.typical * density.largest), cutoff + thickness)
    wide = thickness + 2 * (MEMBERS / density.typical) ** (1 / 3) > room
    thick = jnp.asarray(np.asarray(thickness, dtype))
    forces = ListedForces(potential, box, at, thick, grid, capacities, precision, bool(fixed_point), wide)
    return forces, particles.padded(grid.places)


def check_finite(position: np.ndarray) -> None:
    """Raise `ValueError`, which names the particle, if a position is not finite."""
    wrong = np.flatnonzero(~np.isfinite(position).all(1))
    if len(wrong):
        raise ValueError(f"positions must be finite numbers; that of particle {wrong[0]} is not")


def enlarged(forces: Any, particles: Particles, listed: Any, memory: float = MEMORY) -> tuple[Any, Particles]:
    """Forces whose lists hold what did not find a place in this one, and the particles.

    They are the same forces if the list is complete.
    Called with numbers, not inside of `jit`. `memory` is how many bytes a list may take. Raises `ValueError`
    if it would take more, and where a box has become too small for the cutoff.

    >>> from simkit_physics import LennardJones, Shifted, enlarged, forces_for, lattice
    >>> particles, box = lattice("fcc", (3, 3, 3), density=0.85)
    >>> potential = Shifted(LennardJones(epsilon=1.0, sigma=1.0), 2.0)
    >>> forces, particles = forces_for(particles, box, potential, precision="float32")
    >>> particles, neighbours = forces.arranged(particles)
    >>> larger, particles = enlarged(forces, particles, neighbours)
    >>> larger is forces  # the list was complete
    True
    """
    if bool(forces.complete(listed)):
        return forces, particles
    width = min(map(float, forces.box.widths))
    if isinstance(forces, AllPairs):
        return dataclasses.replace(forces, images=_images(forces.box, float(forces.cutoff))), particles
    reach = float(forces.cutoff + forces.skin)
    if reach >= width / 2:
        raise ValueError(
            f"box: cutoff + skin is {reach:g}, and must be less than half the least width, {width / 2:g}; "
            "shorten the skin, or begin with `forces_for`, which then takes all pairs"
        )
    if not bool(forces.fits(listed)):
        forces = dataclasses.replace(forces, each_pair=True)
    # A level of the search that was cut off hides what the next ones need: those grow with it.
    growth, capacities = 1.0, []
    for counted, capacity in zip(np.asarray(listed.counts).tolist(), forces.capacities, strict=True):
        growth = max(growth, counted / capacity)
        capacities.append(math.ceil(1.2 * max(counted, growth * capacity)) if growth > 1 else capacity)
    larger = _within(forces.grid, Capacities(*capacities))
    needed = list_bytes(forces.grid, larger)
    if needed > memory:
        raise ValueError(
            f"neighbour list: needs {needed / 1e9:.2g} GB for {larger.particles} neighbours of each of "
            f"{forces.grid.blocks * 8} clusters, and {memory / 1e9:.2g} GB are allowed; take a shorter "
            "cutoff, fewer particles or a machine with more memory (from Python a larger `memory`)"
        )
    return dataclasses.replace(forces, capacities=larger), particles


def complete_list(forces: Any, particles: Particles, memory: float = MEMORY) -> tuple[Any, Particles, Any]:
    """Forces, particles in their order, and a list that is complete: enlarged as often as necessary.

    Called with numbers, not inside of `jit`. Raises `ValueError` where `enlarged` does.

    >>> from simkit_physics import LennardJones, Shifted, complete_list, forces_for, lattice
    >>> particles, box = lattice("fcc", (3, 3, 3), density=0.85)
    >>> potential = Shifted(LennardJones(epsilon=1.0, sigma=1.0), 2.0)
    >>> forces, particles = forces_for(particles, box, potential, precision="float32")
    >>> forces, particles, neighbours = complete_list(forces, particles)
    >>> force, totals = forces.totals(particles, neighbours)
    >>> round(float(totals.energy) / particles.count, 2)
    -5.5
    """
    while True:
        arranged, listed = _arranged(forces, particles)
        if bool(forces.complete(listed)):
            return forces, arranged, listed
        forces, particles = enlarged(forces, particles, listed, memory)


@eqx.filter_jit
def _arranged(forces, particles):
    return forces.arranged(particles)


def list_bytes(grid: ClusterGrid, capacities: Capacities) -> int:
    """About how many bytes a list takes while it is made."""
    chunks, blocks, block_clusters, clusters, particles = capacities
    # Tables exist twice, with longer rows and without; that of particles also in the order of chunks.
    return (
        4 * grid.blocks * (chunks // 4 + 2 * blocks + 2 * block_clusters + 8 * (2 * clusters + 3 * particles))
    )


def kept_list_bytes(grid: ClusterGrid, capacities: Capacities) -> int:
    """About how many bytes a list takes that is made."""
    return 4 * grid.blocks * 8 * capacities.particles


def _in(dtype: Any, module: Any) -> Any:
    """The module with all its floating-point numbers in one type."""

    def cast(leaf: Any) -> Any:
        inexact = isinstance(leaf, float) or (eqx.is_array_like(leaf) and eqx.is_inexact_array_like(leaf))
        return jnp.asarray(np.asarray(leaf, dtype)) if inexact else leaf

    return jax.tree.map(cast, module)


def _images(box: AbstractBox, cutoff: float) -> tuple[int, int, int]:
    """How many images on each side of the nearest one a cutoff may reach."""
    a, b, c = (max(0, math.ceil(cutoff / float(w) - 0.5)) if box.periodic else 0 for w in box.widths)
    return a, b, c


def _guess(grid: ClusterGrid, density: float, reach: float) -> Capacities:
    """Capacities for particles of this density: how many stand within `reach` of a cube, with a margin."""
    side = (MEMBERS / density) ** (1 / 3)

    def within(edge: float, each: int) -> float:
        """How many groups of `each` particles are within reach of a cube."""
        rounded = edge**3 + 6 * edge**2 * reach + 3 * math.pi * edge * reach**2 + 4 / 3 * math.pi * reach**3
        return rounded * density / each

    # Bounding boxes are near each other where their gap is short: the cube has the edges of both.
    most = (
        # Where layers are of no whole number of chunks, some chunks go from one to the next, and are long.
        grid.chunks * (8 * side + 2 * reach) / (2 * side * grid.x)
        if grid.z % BLOCKS
        else within(12 * side, 512),
        within(4 * side, 64),
        within(3 * side, 8),
        within(1.7 * side, 8),
        within(0.65 * side, 1),
    )
    return _within(
        grid, Capacities(*(math.ceil(margin * n + 16) for margin, n in zip(MARGINS, most, strict=True)))
    )


def _within(grid: ClusterGrid, capacities: Capacities) -> Capacities:
    """Capacities that are not larger than all there is."""
    chunks = min(capacities.chunks, grid.chunks)
    blocks = min(capacities.blocks, grid.blocks)
    block_clusters = min(capacities.block_clusters, 8 * grid.blocks)
    clusters = min(capacities.clusters, 8 * grid.blocks)
    particles = -(-min(capacities.particles, grid.places) // GROUP) * GROUP
    return Capacities(chunks, blocks, block_clusters, clusters, particles)
