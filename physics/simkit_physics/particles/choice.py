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
from simkit_solvers import Particles, Vector

from simkit_physics.particles.all_pairs import AllPairs
from simkit_physics.particles.boxes import AbstractBox
from simkit_physics.particles.clusters import MEMBERS, ClusterGrid, cluster_grid
from simkit_physics.particles.listed_forces import ListedForces, Precision
from simkit_physics.particles.neighbours import GROUP, Capacities
from simkit_physics.particles.overlaps import check_no_overlap

FEW = 600  # particles: below, all pairs cost less than lists
SKIN = 0.38  # mean distances of particles: list work and superfluous pairs cost least about there
LEAST_SKIN = 0.05  # cutoffs: a thinner one is used up in no time
COARSE = 1e-8  # cutoffs: with a coarser unit of fixed point, forces would be off by more than 1e-7
MEMORY = 1.5e9  # bytes that lists may take by default


def forces_for(
    particles: Particles,
    box: AbstractBox,
    potential: Any,
    precision: Precision = "float64",
    *,
    skin: float | None = None,
) -> tuple[ListedForces | AllPairs, Particles]:
    """Forces of `potential` between the particles in a box, and the particles in as many places as these
    need.

    The sum is over neighbour lists or over all pairs.

    All pairs it is for at most 600 particles, and where the cutoff is so long, or the box so small, that a
    particle may meet several images of another. `precision` is "float64"; "mixed", with positions in float64
    and pair arithmetic in float32; or "float32", for positions in float32. `skin` is by how much lists reach
    beyond the cutoff; it is chosen from the density. `summary()` of the result says what was chosen.

    Called with numbers, not inside of `jit`. Raises `ValueError` where positions are not finite or of another
    precision, where two particles coincide, and where the cutoff is infinite in a periodic box.
    """
    dtype = particles.position.x.dtype
    wanted = "float32" if precision == "float32" else "float64"
    if dtype != wanted:
        raise ValueError(f"precision {precision}: takes positions in {wanted}, got {dtype}")
    box, potential = _in(dtype, box), _in(dtype, potential)
    cutoff = jnp.asarray(potential.cutoff, dtype)
    width = float(box.least_width)
    if not float(cutoff) > 0 or (box.periodic and math.isinf(float(cutoff))):
        raise ValueError(f"cutoff: must be > 0, and finite in a periodic box, got {float(cutoff):g}")
    position = _positions(particles, box)
    check_no_overlap(position, box, 1e-4 * _finite(cutoff, position))
    fixed_point = bool(
        precision == "mixed" and box.periodic and max(box.widths) * 2.0**-32 < COARSE * float(cutoff)
    )
    density = _Density.of(position, box, _finite(cutoff, position))
    room = width / 2 - float(cutoff)
    if skin is None:
        skin = min(SKIN * density.typical ** (-1 / 3), float(cutoff) / 2, 0.8 * room)
    elif not 0 < skin < max(room, 0):
        raise ValueError(
            f"skin: must be > 0 and, with the cutoff, below half the width of the box, got {skin:g}"
        )
    if particles.count <= FEW or skin < LEAST_SKIN * float(cutoff) or math.isinf(float(cutoff)):
        forces = AllPairs(potential, box, cutoff, _images(box, float(cutoff)), precision, fixed_point)
        return forces, particles
    reach = float(cutoff) + skin
    grid = cluster_grid(particles.count, density.extents)
    forces = ListedForces(
        potential,
        box,
        cutoff,
        jnp.asarray(skin, dtype),
        grid,
        _guess(grid, math.sqrt(density.typical * density.largest), reach),
        precision,
        fixed_point,
        each_pair=reach + 2 * (MEMBERS / density.typical) ** (1 / 3) > width / 2,
    )
    return forces, particles.padded(grid.places)


def enlarged(forces: Any, particles: Particles, listed: Any, memory: float = MEMORY) -> tuple[Any, Particles]:
    """Forces whose lists hold what did not find a place in this one, and the particles; the same, if it is
    complete.

    Called with numbers, not inside of `jit`. `memory` is how many bytes a list may take. Raises `ValueError`
    if it would take more, and where a box has become too small for the cutoff.
    """
    if bool(forces.complete(listed)):
        return forces, particles
    width = float(forces.box.least_width)
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
            f"{forces.grid.blocks * 8} clusters, and {memory / 1e9:.2g} GB are allowed; raise `memory`, or "
            "use a shorter cutoff or skin"
        )
    return dataclasses.replace(forces, capacities=larger), particles


def complete_list(forces: Any, particles: Particles, memory: float = MEMORY) -> tuple[Any, Particles, Any]:
    """Forces, particles in their order, and a list that is complete: enlarged as often as necessary.

    Called with numbers, not inside of `jit`. Raises `ValueError` where `enlarged` does.
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
    blocks, block_clusters, clusters, particles = capacities
    # Tables exist twice, with longer rows and without; that of particles also in the order of chunks.
    return 4 * grid.blocks * (2 * blocks + 2 * block_clusters + 8 * (2 * clusters + 3 * particles))


def _finite(cutoff: Any, position: np.ndarray) -> float:
    """The cutoff, or where there is none the extent of the system."""
    return float(cutoff) if math.isfinite(float(cutoff)) else float(np.ptp(position, axis=0).max())


def _in(dtype: Any, module: Any) -> Any:
    """The same module with all its floating-point numbers in one type."""

    def cast(leaf: Any) -> Any:
        inexact = isinstance(leaf, float) or (eqx.is_array_like(leaf) and eqx.is_inexact_array_like(leaf))
        return jnp.asarray(leaf, dtype) if inexact else leaf

    return jax.tree.map(cast, module)


def _positions(particles: Particles, box: AbstractBox) -> np.ndarray:
    """The positions of the particles in their order, inside the box."""
    ordered = particles.by_identity()
    rows = np.stack([np.asarray(c) for c in box.wrapped(ordered.position)[0]], 1)
    wrong = np.flatnonzero(~np.isfinite(np.asarray(ordered.position.rows())).all(1))
    if len(wrong):
        raise ValueError(f"positions must be finite numbers; that of particle {wrong[0]} is not")
    return rows


def _images(box: AbstractBox, cutoff: float) -> tuple[int, int, int]:
    """How many images on each side of the nearest one a cutoff may reach."""
    a, b, c = (max(0, math.ceil(cutoff / float(w) - 0.5)) if box.periodic else 0 for w in box.widths)
    return a, b, c


@dataclasses.dataclass(frozen=True)
class _Density:
    """How densely particles stand where they are: `typical`, at most, and over which extents."""

    typical: float
    largest: float
    extents: tuple[float, float, float]

    @classmethod
    def of(cls, position: np.ndarray, box: AbstractBox, cutoff: float) -> "_Density":
        coordinates = np.stack([np.asarray(c) for c in box.search_coordinates(Vector(*position.T))], 1)
        squeezed = math.prod(map(float, box.widths)) / float(box.volume) if box.periodic else 1.0
        low, high = np.percentile(coordinates, [2, 98], axis=0)
        a, b, c = np.maximum((high - low) / 0.96, 1e-3 * cutoff).tolist()
        side, counts = cutoff, np.ones(1)
        for _ in range(4):  # cells with 30 particles on average tell density from chance
            _, counts = np.unique((coordinates // side).astype(np.int64), axis=0, return_counts=True)
            mean = float((counts**2).sum() / counts.sum())
            if mean > 25:
                break
            side = min(side * (30 / mean) ** (1 / 3), max(a, b, c))
        volume = side**3 / squeezed
        return cls(float((counts**2).sum() / counts.sum()) / volume, float(counts.max()) / volume, (a, b, c))


def _guess(grid: ClusterGrid, density: float, reach: float) -> Capacities:
    """Capacities for particles of this density: how many stand within `reach` of a cube, with a margin."""
    side = (MEMBERS / density) ** (1 / 3)

    def within(edge: float, each: int) -> float:
        """How many groups of `each` particles are within reach of a cube."""
        rounded = edge**3 + 6 * edge**2 * reach + 3 * math.pi * edge * reach**2 + 4 / 3 * math.pi * reach**3
        return rounded * density / each

    # Bounding boxes are near each other where their gap is short: the cube has the edges of both.
    most = within(4 * side, 64), within(3 * side, 8), within(1.7 * side, 8), within(0.65 * side, 1)
    return _within(grid, Capacities(*(math.ceil(1.15 * n + 16) for n in most)))


def _within(grid: ClusterGrid, capacities: Capacities) -> Capacities:
    """Capacities that are not larger than all there is."""
    blocks = min(capacities.blocks, grid.blocks)
    block_clusters = min(capacities.block_clusters, 8 * grid.blocks)
    clusters = min(capacities.clusters, 8 * grid.blocks)
    particles = -(-min(capacities.particles, grid.places) // GROUP) * GROUP
    return Capacities(blocks, block_clusters, clusters, particles)
