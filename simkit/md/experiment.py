"""From a file to a simulation of particles: read, checked and built."""

import os
from collections.abc import Collection, Mapping
from typing import Any

from simkit.config.diagnostics import Diagnostics
from simkit.config.documents import Document
from simkit.config.overrides import Overrides, opened
from simkit.config.settings.particles import SYSTEM
from simkit.config.settings.places import is_particles
from simkit.errors import InputError
from simkit.experiments.reading import read_particles
from simkit.md.simulation import ParticleSimulation
from simkit.suggestions import shown


def load_particles(
    source: str | os.PathLike | Mapping[str, Any] | Document,
    overrides: Overrides = (),
    chosen: Collection[str] | None = None,
) -> ParticleSimulation:
    """Read, check and build an experiment of molecular dynamics.

    `chosen` are variants, of which there are none. Raises one `InputError` that lists every mistake as
    `file:line:column: key: message`.
    """
    document = opened(source, overrides)
    if chosen:
        name = next(iter(chosen))
        raise InputError(f"there is no variant {shown(name)}: molecular dynamics has no variants")
    diagnostics = Diagnostics(document)
    if not is_particles(document.data):
        diagnostics.raise_if_any()
        place = f"{document.name}: " if document.name else ""
        raise InputError(f"{place}{SYSTEM}: is missing; molecular dynamics needs system and potential")
    from simkit.md.assembly import assemble_particles

    simulation = assemble_particles(read_particles(diagnostics), diagnostics)
    diagnostics.raise_if_any()
    if simulation is None:
        raise RuntimeError("an experiment without mistakes must give a simulation")
    return simulation
