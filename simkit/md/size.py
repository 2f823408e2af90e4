"""How much work a run is, and what it takes: memory, and files on disk."""

import io
from typing import Any

import jax
import numpy as np
from simkit_physics.particles.all_pairs import AllPairs
from simkit_physics.particles.choice import kept_list_bytes, list_bytes
from simkit_physics.particles.listed_forces import ListedForces
from simkit_solvers.methods.particles.particle_methods import PARTICLE_METHODS

from simkit.ensemble.work import workers_on
from simkit.machine.memory import available_memory
from simkit.machine.on_each_device import local_devices
from simkit.md.files.frame import Frame
from simkit.md.files.xyz import write_frame
from simkit.md.particle_memory import COPIES, PER_PLACE
from simkit.md.preparation import chosen_forces, lanes_for, observer_of, sharing
from simkit.md.simulation import ParticleSimulation
from simkit.progress import counted, short_count

SAMPLE = 200  # particles of a frame that is written to see how long its lines are
LIGHTER = "take fewer particles, a shorter cutoff, or fewer replicas at a time (ensemble.threads)"
SUMS = 15  # numbers that are kept of each measurement: step, energies, two tensors


def size_of(simulation: ParticleSimulation) -> dict[str, Any]:
    """Steps, particles, the choice of forces, bytes of memory in addition to jax, and bytes on disk.

    Memory is that of all replicas that run at a time.
    """
    steps = sum(stage.steps for stage in simulation.stages)
    count, rows = simulation.system.count, 1 + simulation.run.steps // simulation.system.every
    with jax.enable_x64(True):
        forces = chosen_forces(simulation)
        memory = _memory(simulation, forces, rows)
        output, frame = _dataset_bytes(simulation, rows), _bytes_per_frame(simulation)
    names = {method: name for name, method in PARTICLE_METHODS.items()}
    every = simulation.trajectory and simulation.trajectory.every
    frames = simulation.paths * (1 + simulation.run.steps // every) if every else 0
    return {
        "paths": simulation.paths,
        "particles": count,
        "steps": steps,
        "atom_steps": count * steps * simulation.paths,
        "measurements": rows,
        "stages": {
            each.name: {"solver": names[type(each.method)], "dt": each.dt, "steps": each.steps}
            for each in simulation.stages
        },
        "forces": forces.summary(),
        "observables": [*simulation.scalars],
        "functions": {name: each.every for name, each in simulation.functions.items()},
        "memory_bytes": sum(memory.values()),
        "memory": memory,
        "memory_available_bytes": available_memory(),
        "output_bytes": output,
        "frames": frames,
        "trajectory_bytes": frames * frame,
        "end_bytes": simulation.paths * frame if simulation.end else 0,
    }


def _memory(simulation: ParticleSimulation, forces: ListedForces | AllPairs, rows: int) -> dict[str, int]:
    """Bytes of the particles, their lists, the accumulators of observers, and what is measured."""
    workers = workers_on(local_devices(1), simulation.threads)
    replicas = min(len(workers) * lanes_for(simulation, forces, workers), simulation.paths)
    shares = max(1, len(sharing(simulation, forces)))
    copies = replicas * shares
    listed = isinstance(forces, ListedForces)
    places = forces.grid.places if listed else simulation.system.count
    accumulators = sum(_accumulators(simulation).values())
    # A list is made while the one before is there. Devices that share a system share the tables of the
    # search too, and each has the list that is made.
    lists = 0
    if listed:
        kept = shares * kept_list_bytes(forces.grid, forces.capacities)
        lists = list_bytes(forces.grid, forces.capacities) + kept
    return {
        "particles": copies * COPIES * PER_PLACE * places,
        "lists": replicas * lists,
        "observers": copies * 2 * accumulators,
        "series": 8 * SUMS * rows * simulation.paths,
    }


def _accumulators(simulation: ParticleSimulation) -> dict[str, int]:
    """Bytes by observer."""
    observers = observer_of(simulation)
    each = jax.eval_shape(observers.init, simulation.system.particles)
    return {
        name: sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(own))
        for name, own in each.items()
    }


def _dataset_bytes(simulation: ParticleSimulation, rows: int) -> int:
    """Series, the last configuration in float32, and functions with their errors, before compression."""
    series = 8 * rows * simulation.paths * (1 + len(simulation.scalars))
    functions = sum(size for name, size in _accumulators(simulation).items() if name in simulation.functions)
    return series + 36 * simulation.system.count + functions


def _bytes_per_frame(simulation: ParticleSimulation) -> int:
    """From a sample, with velocities of as many digits."""
    system = simulation.system
    rows = np.asarray(system.particles.position.rows())
    some = rows[np.linspace(0, len(rows) - 1, min(SAMPLE, len(rows))).astype(int)] * (1 + 1e-15) + 1 / 3
    frame = Frame(some, np.zeros(len(some), int), system.names, system.cell, some)
    file = io.StringIO()
    write_frame(file, frame)
    return len(file.getvalue()) * system.count // len(some)


def size_text(sizes: dict[str, Any]) -> str:
    """The sizes of `size_of` as lines of text."""
    particles, paths = counted(sizes["particles"], "particle"), counted(sizes["paths"], "replica")
    steps, work = counted(sizes["steps"], "step"), short_count(sizes["atom_steps"])
    lines = [f"{paths} x {particles} x {steps}, {work} atom-steps"]
    for name, stage in sizes["stages"].items():
        lines.append(f"{name}: {counted(stage['steps'], 'step')} of {stage['dt']:g}, {stage['solver']}")
    lines.append(_forces_text(sizes["forces"]))
    measured = [f"{name} every {counted(every, 'step')}" for name, every in sizes["functions"].items()]
    if sizes["observables"]:
        times = counted(sizes["measurements"], "time")
        measured = [f"{', '.join(sizes['observables'])} {times}", *measured]
    lines.append(f"measured: {'; '.join(measured) or 'nothing'}")
    parts = ", ".join(f"{name} {short_count(size)}B" for name, size in sizes["memory"].items() if size)
    memory = short_count(sizes["memory_bytes"])
    lines.append(f"about {memory}B of memory in addition to jax: {parts}")
    kept = [f"dataset {short_count(sizes['output_bytes'])}B before compression"]
    if sizes["frames"]:
        kept.append(f"{counted(sizes['frames'], 'frame')} {short_count(sizes['trajectory_bytes'])}B")
    if sizes["end_bytes"]:
        kept.append(f"last configuration {short_count(sizes['end_bytes'])}B")
    lines.append(f"kept: {', '.join(kept)}")
    available = sizes["memory_available_bytes"]
    if available is not None and sizes["memory_bytes"] > available:
        left = short_count(available)
        lines.append(f"warning: that is more than the {left}B of memory that are available: {LIGHTER}")
    return "\n".join(lines)


def _forces_text(forces: dict[str, Any]) -> str:
    """Lists or all pairs, and how far they reach."""
    text = f"forces: {forces['forces']}, cutoff {forces['cutoff']:.4g}"
    if "skin" not in forces:
        return f"{text}, images {forces['images']}"
    room = forces["particles_near_cluster"]
    return f"{text}, skin {forces['skin']:.4g}, room for {room} neighbours of each 8 particles"
