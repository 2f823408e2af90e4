"""Small systems of particles, with forces written down plainly."""

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers import (
    AbstractForces,
    PairTotals,
    ParticleDynamics,
    ParticleNoise,
    Particles,
    Tensor,
    Vector,
    seed_key,
)

COMPONENTS = ((0, 0), (1, 1), (2, 2), (0, 1), (0, 2), (1, 2))


class AbstractPlainForces(AbstractForces):
    """Forces as the gradient of an energy of an array (particles, 3); no list."""

    def arranged(self, particles, course=None):
        return particles, ()

    def serves(self, listed, position):
        return jnp.asarray(True)

    def complete(self, listed):
        return jnp.asarray(True)

    def forces(self, particles, listed):
        return Vector.of(-jax.grad(self.energy)(particles.position.rows()))

    def totals(self, particles, listed):
        zero = jnp.zeros((), particles.mass.dtype)
        energy = self.energy(particles.position.rows())
        return self.forces(particles, listed), PairTotals(energy, Tensor(*[zero] * 6))


class Wells(AbstractPlainForces):
    """Springs to 0 in each coordinate, and along x two wells at -1 and 1, the right one higher by `tilt`.

    They are of any strength, so that a program for one kind serves all of them.
    """

    strength: jax.Array
    barrier: jax.Array
    tilt: jax.Array

    def energy(self, rows):
        x = rows[:, 0]
        double = self.barrier * (x * x - 1) ** 2 + 0.5 * self.tilt * x
        return 0.5 * jnp.sum(self.strength * rows * rows) + jnp.sum(double)


def springs(*strength: float) -> Wells:
    return Wells(jnp.asarray(strength), jnp.asarray(0.0), jnp.asarray(0.0))


def double_wells(barrier: float, tilt: float) -> Wells:
    return Wells(jnp.asarray([0.0, 1.0, 1.0]), jnp.asarray(barrier), jnp.asarray(tilt))


def no_forces() -> Wells:
    return springs(0.0, 0.0, 0.0)


class LennardJonesCluster(AbstractPlainForces):
    """All pairs in free space, without cutoff."""

    def energy(self, rows):
        n = len(rows)
        d = rows[:, None] - rows[None]
        r2 = jnp.sum(d * d, axis=2) + jnp.eye(n, dtype=rows.dtype)
        s6 = r2**-3
        return 2 * jnp.sum(jnp.where(jnp.eye(n, dtype=bool), 0, s6 * s6 - s6))


def soft(r2, cutoff):
    """(1 - r²/c²)⁴ within the cutoff: smooth to the third derivative."""
    inside = jnp.maximum(1 - r2 / cutoff**2, 0)
    return 10 * inside**4


class SoftSpheres(AbstractPlainForces):
    """Soft spheres in a cubic box, all pairs with their nearest images."""

    side: jax.Array
    cutoff: jax.Array

    def energy(self, rows):
        d = rows[:, None] - rows[None]
        d = d - self.side * jnp.round(d / self.side)
        r2 = jnp.sum(d * d, axis=2)
        itself = jnp.eye(len(rows), dtype=bool)
        return 0.5 * jnp.sum(jnp.where(itself, 0, soft(r2, self.cutoff)))


class ListedSoftSpheres(AbstractForces):
    """The same over lists of at most `capacity` neighbours, which sort the particles along x."""

    side: jax.Array
    cutoff: jax.Array
    skin: jax.Array
    capacity: int

    def arranged(self, particles, course=None):
        turns = [jnp.floor(c / self.side) for c in particles.position]
        inside = (c - self.side * t for c, t in zip(particles.position, turns, strict=True))
        images = (i + t.astype(i.dtype) for i, t in zip(particles.image, turns, strict=True))
        particles = particles.moved(Vector(*inside))
        particles = Particles(
            particles.position,
            particles.momentum,
            Vector(*images),
            particles.mass,
            particles.species,
            particles.identity,
            particles.count,
        )
        particles = particles.in_order(jnp.argsort(particles.position.x))
        d = self._nearest(particles.position, slice(None), (slice(None), None))
        near = d.dot(d) < (self.cutoff + self.skin) ** 2
        near = near & ~jnp.eye(particles.places, dtype=bool)
        members = jnp.argsort(~near, axis=1, stable=True)[:, : self.capacity]
        return particles, (particles.position, members, jnp.sum(near, axis=1))

    def serves(self, listed, position):
        moved = position.plus(-1, listed[0])
        return jnp.max(moved.dot(moved)) <= (self.skin / 2) ** 2

    def complete(self, listed):
        return jnp.max(listed[2]) <= self.capacity

    def forces(self, particles, listed):
        return self._sums(particles, listed)[0]

    def totals(self, particles, listed):
        force, energy, virial = self._sums(particles, listed)
        return force, PairTotals(energy, virial)

    def _nearest(self, position, others, own):
        d = Vector(*(c[own] - c[others] for c in position))
        return Vector(*(c - self.side * jnp.round(c / self.side) for c in d))

    def _sums(self, particles, listed):
        _, members, counts = listed
        d = self._nearest(particles.position, members, (slice(None), None))
        there = jnp.arange(self.capacity) < counts[:, None]
        energy, slope = jax.value_and_grad(lambda r2: jnp.sum(jnp.where(there, soft(r2, self.cutoff), 0)))(
            d.dot(d)
        )
        pair = d.times(-2 * slope)
        virial = Tensor(*(0.5 * jnp.sum(d[a] * pair[b]) for a, b in COMPONENTS))
        return Vector(*(jnp.sum(f, axis=1) for f in pair)), 0.5 * energy, virial


SIDE, CUTOFF, COUNT = 3.6, 1.5, 27


def soft_spheres() -> SoftSpheres:
    return SoftSpheres(jnp.asarray(SIDE), jnp.asarray(CUTOFF))


def listed_soft_spheres(skin: float = 0.3, capacity: int = 26) -> ListedSoftSpheres:
    return ListedSoftSpheres(jnp.asarray(SIDE), jnp.asarray(CUTOFF), jnp.asarray(skin), capacity)


def spheres(seed: int = 0, temperature: float = 1.0, count: int = COUNT, side: float = SIDE) -> Particles:
    """Particles at random places near a lattice, with momenta that add up to zero."""
    generator = np.random.default_rng(seed)
    cells = round(count ** (1 / 3))
    lattice = (np.indices((cells,) * 3).reshape(3, -1).T + 0.5) * side / cells
    assert len(lattice) == count
    momentum = np.sqrt(temperature) * generator.standard_normal((count, 3))
    jitter = 0.1 * generator.standard_normal((count, 3))
    return Particles.of(lattice + jitter, momentum - momentum.mean(0))


def at_rest(rows) -> Particles:
    return Particles.of(np.asarray(rows, float))


def dynamics(forces, method, dt: float, seed: int = 0, path: int = 0, **options) -> ParticleDynamics:
    return ParticleDynamics(forces, method, dt, ParticleNoise.of(seed_key(seed), path), **options)


def rows_of(state) -> np.ndarray:
    """Positions and momenta in the order of the particles' numbers, (particles, 6); paths without the box."""
    particles = state.particles.by_identity()
    return np.hstack([np.asarray(particles.position.rows()), np.asarray(particles.momentum.rows())])


def unwrapped(state, side: float = SIDE) -> np.ndarray:
    """The same with the positions outside the box."""
    rows, image = rows_of(state), state.particles.by_identity().image
    rows[:, :3] += side * np.stack([np.asarray(i) for i in image], axis=1)
    return rows


def z_score(samples, expected: float) -> float:
    """How many standard errors the mean of independent samples is from what it should be."""
    samples = np.asarray(samples, float)
    return float((samples.mean() - expected) / (samples.std(ddof=1) / np.sqrt(samples.size)))


def icosahedron(shells: int) -> np.ndarray:
    """The Mackay icosahedra of 13 and 55 atoms."""
    golden = (1 + 5**0.5) / 2
    corners = np.array([np.roll([0, a, b * golden], i) for a in (-1, 1) for b in (-1, 1) for i in range(3)])
    corners *= 1.08 / np.linalg.norm(corners[0])
    edge = min(np.linalg.norm(corners[0] - c) for c in corners[1:])
    middles = [
        a + b for i, a in enumerate(corners) for b in corners[:i] if np.linalg.norm(a - b) < 1.01 * edge
    ]
    return np.vstack([np.zeros((1, 3)), corners, *([2 * corners, middles] if shells > 1 else [])])


def truncated_octahedron() -> np.ndarray:
    """38 atoms of the face-centred lattice."""
    grid = np.indices((7, 7, 7)).reshape(3, -1).T - 3
    size = abs(grid).sum(1)
    kept = (size % 2 == 1) & (size <= 3) & (abs(grid).max(1) < 3)
    return grid[kept] * (1.1 / 2**0.5)
