"""The state of a replica as bytes: particles, thermostat and list of neighbours, to go on from exactly.

It is one unit: what is in it belongs together, and damage is found by checksums. Continued by the same
program, a run has the bits that it would have had without the stop.
"""

import dataclasses
import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import UInt8
from simkit_physics.particles.all_pairs import AllPairs
from simkit_physics.particles.listed_forces import ListedForces
from simkit_solvers import AbstractParticleMethod, Particles
from simkit_solvers.loops.simulate_particles import ParticleRun
from simkit_solvers.loops.two_level import ParticleState
from simkit_solvers.problems.motion import REDUCED

FORMAT = 1
ABOUT = "about"
CARRIED = ("particles", "listed", "serves", "memory")  # of a state; the forces follow from them
OF_THE_RUN = ("potential", "box", "cutoff")  # of forces; the rest was chosen, and may have been enlarged


class DamagedStateError(ValueError):
    """Bytes that are not a state, or no longer."""


@dataclasses.dataclass(frozen=True)
class SavedState:
    """The arrays of a state by their names, and what it is about: method, forces, precision and box."""

    arrays: Mapping[str, np.ndarray]
    about: Mapping[str, Any]

    @staticmethod
    def of(run: ParticleRun, precision: str) -> "SavedState":
        """The state at the end of a run."""
        state, forces = run.state, run.dynamics.forces
        carried = {name: getattr(state, name) for name in CARRIED}
        about = {
            "format": FORMAT,
            "method": type(run.dynamics.method).__name__,
            "precision": precision,
            "forces": type(forces).__name__,
            "chosen": chosen_of(forces),
            "range": _range(forces),
        }
        return SavedState(_named(carried), about)

    def packed(self) -> UInt8[np.ndarray, " bytes"]:
        """The state in the format of NumPy's archives."""
        text = np.frombuffer(json.dumps(self.about).encode(), np.uint8)
        file = io.BytesIO()
        np.savez(file, allow_pickle=False, **{ABOUT: text}, **self.arrays)
        return np.frombuffer(file.getbuffer(), np.uint8)

    @staticmethod
    def unpacked(content: bytes) -> "SavedState":
        """The state in these bytes. Raises `DamagedStateError`."""
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            about = json.loads(arrays.pop(ABOUT).tobytes())
        except (zipfile.BadZipFile, ValueError, KeyError, OSError, EOFError) as error:
            raise DamagedStateError(str(error)) from error
        return SavedState(arrays, about)

    def reason_against(self, forces: ListedForces | AllPairs, precision: str) -> str:
        """Why the list and the order of the particles are of no use for these forces; empty if they are."""
        if self.about["format"] != FORMAT:
            return "it was written by another version of simkit"
        if self.about["precision"] != precision:
            return f"its precision is {self.about['precision']}"
        if self.about["forces"] != type(forces).__name__ or self.about["range"] != _range(forces):
            return "the cutoff or the box is another"
        return ""

    def forces(self, forces: Any) -> Any:
        """These forces with lists as large as those of the state."""
        return with_chosen(forces, self.about["chosen"])

    def restored(self, state: ParticleState, method: AbstractParticleMethod) -> ParticleState:
        """A state at its start, with everything from this one; the thermostat too where it is the same."""
        same = self.has_thermostat_of(method, state.particles)
        fresh = {name: getattr(state, name) for name in (CARRIED if same else CARRIED[:-1])}
        leaves, structure = jax.tree_util.tree_flatten_with_path(fresh)
        own = [jnp.asarray(self.arrays[jax.tree_util.keystr(path)]) for path, _ in leaves]
        return dataclasses.replace(state, **jax.tree.unflatten(structure, own))

    def has_thermostat_of(self, method: AbstractParticleMethod, particles: Particles) -> bool:
        """Whether the memory of the state is that of such a method, with as many variables."""
        if self.about["method"] != type(method).__name__:
            return False
        fresh = _named({"memory": method.init(particles, REDUCED)})
        own = {name: array for name, array in self.arrays.items() if name.startswith("['memory']")}
        return {name: a.shape for name, a in fresh.items()} == {name: a.shape for name, a in own.items()}


def chosen_of(forces: Any) -> dict[str, Any]:
    """What was chosen for forces during a run, such as how large their lists are, in plain data."""
    return {
        field.name: _plain(getattr(forces, field.name))
        for field in dataclasses.fields(forces)
        if field.name not in OF_THE_RUN
    }


def with_chosen(forces: Any, chosen: Mapping[str, Any]) -> Any:
    """These forces with what was chosen for others."""
    changes = {}
    for name, value in chosen.items():
        own = getattr(forces, name)
        if isinstance(own, tuple):
            value = type(own)(*value) if hasattr(own, "_fields") else tuple(value)
        elif isinstance(own, jax.Array):
            value = jnp.asarray(value, own.dtype)
        changes[name] = value
    return dataclasses.replace(forces, **changes)


def _named(tree: Any) -> dict[str, np.ndarray]:
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def _plain(value: Any) -> Any:
    """A choice as JSON has it."""
    if isinstance(value, np.ndarray | jax.Array):
        return np.asarray(value).tolist()
    return list(value) if isinstance(value, tuple) else value


def _range(forces: Any) -> list:
    """How far forces reach, in which box."""
    box = [np.asarray(leaf, float).tolist() for leaf in jax.tree.leaves(forces.box)]
    return [type(forces.box).__name__, box, float(forces.cutoff)]
