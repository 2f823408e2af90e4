"""The optional library MDAnalysis, which reads and writes files of other programs in float32.

Reference: Gowers et al. (2016), MDAnalysis: a Python package for the rapid analysis of molecular dynamics
simulations, doi:10.25080/Majora-629e541a-00e.
"""

import importlib
import importlib.util
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from simkit.errors import InputError
from simkit.md.files.frame import Cell, Frame
from simkit.md.particle_names import ParticleNames

NAME = "MDAnalysis"
ANGSTROM, NANOMETRE = 1e-10, 1e-9  # m
SPEED = 1e3  # m/s, of a nanometre in a picosecond


def check_installed(file: Path) -> None:
    """Raise `InputError` where the library is missing that a file needs."""
    if importlib.util.find_spec(NAME) is None:
        raise InputError(
            f"{file.suffix} files need {NAME}, which is not installed: pip install 'simkit[files]'"
        )


def library(file: Path, module: str = NAME) -> Any:
    """The library, or a module of it."""
    check_installed(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what it imports in turn
        return importlib.import_module(module)


def last_frame(file: Path) -> Any:
    """The particles in the last frame of a file as the library has them, in the units of the file.

    Raises `InputError` where it cannot read them.
    """
    MDAnalysis = library(file)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about what simkit does not use, such as missing chains
        try:
            universe = MDAnalysis.Universe(str(file), convert_units=False, to_guess=())
            universe.trajectory[-1]
        except (ValueError, IndexError, EOFError, OSError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InputError(f"{file}: cannot be read by {NAME}: {reason}; is it complete?") from error
    return universe


def frame_of(
    universe: Any,
    kinds: Sequence[str],
    sizes: tuple[float, float],
    rounding: float,
    called: ParticleNames,
    file: Path,
) -> Frame:
    """The frame of the library as ours; `kinds` are the species of its particles, `called` their names.

    Raises `InputError` where a number is not finite, or where there is no such box.
    """
    step = universe.trajectory.ts
    positions = decimals(step.positions)
    velocities = decimals(step.velocities) if step.has_velocities else None
    for what, rows in (("position", positions), ("velocity", velocities)):
        if rows is not None and not np.all(np.isfinite(rows)):
            i = int(np.flatnonzero(~np.isfinite(rows).all(1))[0])
            raise InputError(f"{file}: the {what} of {called.of(i)} is not finite: {rows[i].tolist()}")
    cell = None
    if step.dimensions is not None:
        a, b, c, *angles = decimals(step.dimensions).tolist()
        try:
            cell = Cell.of_lengths_and_angles((a, b, c), angles)
        except ValueError as error:
            raise InputError(f"{file}: {error}; correct its box") from error
    names = tuple(dict.fromkeys(kinds))
    number = {name: i for i, name in enumerate(names)}
    species = np.array([number[kind] for kind in kinds])
    return Frame(positions, species, names, cell, velocities, sizes=sizes, rounding=rounding, called=called)


def decimals(values: np.ndarray) -> np.ndarray:
    """The shortest decimal numbers that round to these of float32: what a file of up to seven digits says."""
    return np.asarray(values, np.float32).astype(str).astype(np.float64)
