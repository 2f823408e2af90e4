"""From a file to a simulation of particles: read, checked and built."""

import os
from collections.abc import Mapping
from typing import Any

from simkit.config.diagnostics import Diagnostics
from simkit.config.documents import Document
from simkit.config.overrides import Overrides, opened
from simkit.config.settings.particles import SYSTEM
from simkit.config.settings.places import is_particles
from simkit.errors import InputError
from simkit.experiments.reading import read_particles
from simkit.experiments.variants import build_each, the_only
from simkit.md.simulation import ParticleSimulation

Source = str | os.PathLike | Mapping[str, Any] | Document


def load_particles(
    source: Source, overrides: Overrides = (), variant: str | None = None
) -> ParticleSimulation:
    """Read, check and build an experiment of molecular dynamics, or the variant of it that is named.

    Raises one `InputError` that lists every error as `file:line:column: key: message`, and one where there
    are several variants.
    """
    from simkit.md.experiment_section import particle_experiment

    chosen = None if variant is None else [variant]
    return the_only(build_each(opened(source, overrides), chosen, simulation_of, particle_experiment()))


def simulation_of(document: Document) -> ParticleSimulation:
    """The simulation of a document without variants. Raises `InputError` that lists every error."""
    diagnostics = Diagnostics(document)
    if not is_particles(document.data):
        diagnostics.raise_if_any()
        place = f"{document.name}: " if document.name else ""
        raise InputError(f"{place}{SYSTEM}: is missing; molecular dynamics needs system and potential")
    from simkit.machine.on_each_device import a_device_for_each_core
    from simkit.md.assembly import assemble_particles
    from simkit.md.experiment_section import particle_experiment

    a_device_for_each_core()
    simulation = assemble_particles(read_particles(diagnostics, particle_experiment()), diagnostics)
    diagnostics.raise_if_any()
    if simulation is None:
        raise RuntimeError("an experiment without errors must give a simulation")
    return simulation
