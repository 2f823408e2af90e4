"""The end of a run in its dataset: particles of every replica, and their states for going on exactly."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from simkit.errors import InputError
from simkit.md.files.frame import Cell, Frame
from simkit.md.particle_names import FROM_ZERO
from simkit.md.saved_state import DamagedStateError, SavedState
from simkit.results.storage import contents, read_dataset
from simkit.results.variables import Variables, variable
from simkit.results.variants import VARIANT

KIND = "particles"
PARTICLES = ("path", "particle", "axis")


class RunEnd(NamedTuple):
    """The particles of each replica at the end of a run, their states, and the number of the last step.

    `units` are the run's, and `momentum_is_conserved` says whether its method conserves momentum.
    """

    frames: tuple[Frame, ...]
    states: tuple[SavedState, ...]
    clock: int
    units: str
    momentum_is_conserved: bool


def end_variables(frames: list[Frame], states: list[SavedState], length: str, velocity: str) -> Variables:
    """The variables of a dataset for the ends of all replicas; `length` and `velocity` are units."""
    rows = {
        "end_position": ("positions", length, "position in the box at the end"),
        "end_velocity": ("velocities", velocity, "velocity at the end"),
        "end_image": ("images", "1", "box vectors to add for the position on the path without the box"),
    }
    packed = [state.packed() for state in states]
    lengths = np.array(list(map(len, packed)))
    content = packed[0][None]  # a quarter of a gigabyte for a million particles, which is not copied
    if len(packed) > 1:
        content = np.stack([np.pad(each, (0, max(lengths) - len(each))) for each in packed])
    variables = {
        "state": variable(("path", "byte"), content, "1", "state at the end, a NumPy archive"),
        "state_bytes": variable(("path",), lengths, "1", "length of the state"),
    }
    for name, (field, unit, text) in rows.items():
        if getattr(frames[0], field) is not None:
            values = np.stack([getattr(frame, field) for frame in frames])
            variables[name] = variable(PARTICLES, values, unit, text)
    return variables


def without_states(dataset: xr.Dataset) -> xr.Dataset:
    """The dataset without what is needed to go on exactly, whose length differs from run to run."""
    return dataset.drop_vars(["state", "state_bytes"])


def read_run(path: Path) -> RunEnd:
    """The end of a run. Raises `InputError` for a dataset that has none, or a damaged one."""
    dataset = read_dataset(path)
    kind = dataset.attrs.get("simkit_kind")
    if VARIANT in dataset.dims:
        raise InputError(
            f"{path}: this dataset holds variants, without the states to go on from; run the variant as a "
            "file of its own and give its dataset"
        )
    if kind != KIND or "end_position" not in dataset:
        what = f"it holds {contents(dataset)}" if kind != KIND else "it was written without"
        raise InputError(
            f"{path}: this dataset does not hold the end of a run of molecular dynamics ({what}); give the "
            "dataset under `output` of such a run"
        )
    names, about = tuple(dataset.attrs["species"].split()), dataset.attrs
    species, mass = dataset["particle_species"].values, dataset["particle_mass"].values
    masses = {name: float(mass[species == i][0]) for i, name in enumerate(names)}
    cell = Cell.of_vectors(dataset["box_vectors"].values) if "box_vectors" in dataset else None
    frames = []
    for replica in range(dataset.sizes["path"]):
        position, velocity, image = (
            dataset[name].values[replica] if name in dataset else None
            for name in ("end_position", "end_velocity", "end_image")
        )
        for what, rows in (("position", position), ("velocity", velocity)):
            if rows is not None and not np.all(np.isfinite(rows)):
                i = int(np.flatnonzero(~np.isfinite(rows).all(1))[0])
                raise InputError(
                    f"{path}: the {what} of {FROM_ZERO.of(i)} of replica {replica} is not finite: "
                    "it is damaged"
                )
        frames.append(Frame(_float64(position), species, names, cell, _float64(velocity), masses, image))
    return RunEnd(
        tuple(frames),
        tuple(_states(path, dataset)),
        int(about["clock"]),
        about["units"],
        bool(about["momentum_is_conserved"]),
    )


def _states(path: Path, dataset: xr.Dataset) -> list[SavedState]:
    contents, lengths = dataset["state"].values, dataset["state_bytes"].values
    try:
        return [
            SavedState.unpacked(row[:length].tobytes()) for row, length in zip(contents, lengths, strict=True)
        ]
    except DamagedStateError as error:
        raise InputError(f"{path}: its variable state is damaged: {error}; run it again") from error


def _float64(rows: Any) -> Any:
    return None if rows is None else np.asarray(rows, np.float64)
