"""From a file to a simulation: read, checked and built once."""

import os
from collections.abc import Mapping
from typing import Any

from simkit_solvers.problems.schedule import model_of

from simkit.config.diagnostics import Diagnostics
from simkit.config.documents import Document
from simkit.config.overrides import Overrides, opened
from simkit.config.settings.particles import SYSTEM
from simkit.config.settings.places import is_particles
from simkit.ensemble.programs import forget_changed
from simkit.ensemble.simulation import Simulation
from simkit.experiments.assembly import assemble
from simkit.experiments.reading import read_experiment
from simkit.experiments.sections.curve_plan import with_curve_numbers

VARIANTS = "variants"
SWEEP = "sweep"


def load(source: str | os.PathLike | Mapping[str, Any], overrides: Overrides = ()) -> Simulation:
    """Read, check and build an experiment: a file, a YAML text of more than one line, or a mapping.

    `overrides` replace single keys: `"model.sigma=0.3"`, several of them, or `{"model.sigma": 0.3}`.
    Raises one `InputError` that lists every error as `file:line:column: key: message` (in a mapping as
    `key: message`), and `OutputError` when the file cannot be read. The simulation's `experiment` has its
    defaults filled in, those that depend on the model too, and holds the numbers of the files that it names;
    `experiment.resolved()` is plain data that loads to the same simulation.

    `simulation.bind({"r": value, …})` gives problem, observer, initial values and grid for other constants,
    traced ones too; constants defined by others follow them. Besides constants, all that `simulation.targets`
    names can be given: a parameter as `model.sigma`, an initial value as `initial.S`, an end of time as
    `time.t1`. `simulation.bind({"r": value}, {"model.mu": 0.01})` adds to what the constants give the second.

    >>> import simkit
    >>> simulation = simkit.load({
    ...     "constants": {"r": 0.05},
    ...     "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
    ...     "initial": {"S": 100.0},
    ...     "time": {"t1": 1.0, "steps": 50},
    ...     "ensemble": {"paths": 1000},
    ... })
    >>> simulation.paths, simulation.grid.steps
    (1000, 50)
    >>> simulation.bind({"r": 0.1})[0]
    GBM(mu=0.1, sigma=0.2)
    """
    document = opened(source, overrides)
    if VARIANTS in document.data:
        diagnostics = Diagnostics(document)
        message = "there are several experiments here; simkit.run takes them all; remove variants to load one"
        diagnostics.add((VARIANTS,), message, at_key=True)
        diagnostics.raise_if_any()
    return simulation_of(document)


def refuse_particles(diagnostics: Diagnostics) -> None:
    """Raise `InputError` for an experiment of molecular dynamics."""
    if is_particles(diagnostics.document.data):
        message = (
            "this does not work for molecular dynamics, which has the commands run, sweep, sensitivity, "
            "validate and plot, and simkit.run, simkit.sweep, simkit.sensitivity and simkit.single_point in "
            "Python"
        )
        diagnostics.add((SYSTEM,), message, at_key=True)
        diagnostics.raise_if_any()


def simulation_of(document: Document, *, of_paths: bool = True) -> Simulation:
    """The simulation of a document without variants. Raises `InputError` that lists every error.

    Where no path is to be run, `of_paths` is false, and path functionals may be those that no run would know.
    """
    diagnostics = Diagnostics(document)
    refuse_particles(diagnostics)
    experiment = with_curve_numbers(read_experiment(diagnostics), diagnostics)
    simulation = assemble(experiment, diagnostics, of_paths=of_paths)
    diagnostics.raise_if_any()
    if simulation is None:
        raise RuntimeError("an experiment without errors must give a simulation")
    forget_changed(
        [type(model_of(simulation.problem)), type(simulation.solver), *document.functions.values()]
    )
    return simulation
