"""What a run begins with: its forces, its observers, and numbers in its precision."""

from typing import Any

import jax
import jax.numpy as jnp
from simkit_physics.particles.all_pairs import AllPairs
from simkit_physics.particles.choice import forces_for
from simkit_physics.particles.listed_forces import ListedForces
from simkit_solvers import TotalsSeries, on_accelerator

from simkit.errors import InputError
from simkit.machine.cores import usable_cores
from simkit.machine.on_each_device import Devices
from simkit.md.measured_rows import ROWS, TOTALS
from simkit.md.observables import Measurements
from simkit.md.simulation import ParticleSimulation

CHUNKS_EACH = 4  # of a list, at least: with these, two processors gain a fifth to a third on jax 0.12

# Replicas that step together. 32 of 32 particles are 1.3 to 3 times as fast as one by one; 8 may be slower.
FEWEST, MOST, ON_ACCELERATOR = 16, 32, 256


def chosen_forces(simulation: ParticleSimulation) -> ListedForces | AllPairs:
    """Lists or all pairs; raises `InputError` for particles at the same place."""
    system = simulation.system
    particles = in_precision(system.particles, simulation.precision)
    try:
        return forces_for(particles, system.box, system.potential, simulation.precision)[0]
    except ValueError as error:
        raise InputError(f"system: {error}") from error


def sharing(simulation: ParticleSimulation, forces: ListedForces | AllPairs) -> Devices:
    """The processors that share the clusters of one system: a thread each, if it is not a replica of many."""
    if simulation.paths > 1 or isinstance(forces, AllPairs) or on_accelerator():
        return ()
    most = forces.grid.chunks // CHUNKS_EACH
    return tuple(jax.local_devices())[: min(simulation.threads or usable_cores(), most)]


def lanes_for(simulation: ParticleSimulation, forces: ListedForces | AllPairs, workers: Devices) -> int:
    """How many replicas step together: those of small systems, where there are enough of them."""
    paths = simulation.paths
    if not isinstance(forces, AllPairs):
        return 1
    if workers[0].platform != "cpu":
        return min(paths, ON_ACCELERATOR)
    groups = -(-paths // min(-(-paths // len(workers)), MOST))
    return max(-(-paths // groups), FEWEST) if paths >= FEWEST else 1


def observer_of(simulation: ParticleSimulation, changes: int = 0) -> Measurements:
    """Totals for expressions, with `changes` derivatives, and each function such as g(r)."""
    particles = in_precision(simulation.system.particles, simulation.precision)
    observers: dict[str, Any] = {TOTALS: TotalsSeries(simulation.system.every, ROWS + 1, changes)}
    for name, function in simulation.functions.items():
        observers[name] = function.measurement(simulation.system, particles)
    return Measurements(observers)


def in_precision(tree: Any, precision: str) -> Any:
    """The tree with floating-point numbers as arrays: in float32, or in float64, also for `mixed`."""
    dtype = jnp.float32 if precision == "float32" else jnp.float64

    def cast(leaf: Any) -> Any:
        if isinstance(leaf, float) or (hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jnp.floating)):
            return jnp.asarray(leaf, dtype)
        return leaf

    return jax.tree.map(cast, tree)
