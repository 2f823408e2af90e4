"""What commands do with experiments of molecular dynamics: run them, say how large they are, check them."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simkit.cli.failures import print_json
from simkit.cli.outputs import Outputs
from simkit.progress import counted, progress_bar

if TYPE_CHECKING:
    from simkit.config.documents import Document
    from simkit.md.simulation import ParticleSimulation


def load(document: "Document", chosen: Collection[str] | None) -> "ParticleSimulation":
    """The simulation in a document; `chosen` are variants that the command line names."""
    from simkit.md.experiment import load_particles

    return load_particles(document, chosen=chosen)


def output_of(simulation: "ParticleSimulation", out: Path | None) -> Path | None:
    """Where the dataset goes: what the command line says, or the file."""
    named = simulation.experiment.output
    return out or (Path(named) if named else None)


def run(simulation: "ParticleSimulation", outputs: Outputs) -> None:
    """Run, print the table, write dataset and picture."""
    from simkit.api import run_particle_simulation
    from simkit.md.trajectory import check_trajectory

    check_trajectory(simulation, outputs.overwrite)
    with progress_bar(enabled=not (outputs.quiet or outputs.as_json), what="steps") as progress:
        dataset = run_particle_simulation(simulation, progress)
    from simkit.md import table

    outputs.show(dataset, table)
    outputs.deliver(dataset, table, compile_s=float(dataset.attrs["compile_s"]))


def print_estimate(simulation: "ParticleSimulation", target: Path | None, as_json: bool) -> None:
    """What a run would do, and how much memory and disk it would take."""
    from simkit.md.size import size_of, size_text

    content = size_of(simulation)
    if as_json:
        print_json(content | {"output": target and str(target)})
    else:
        print(size_text(content))


def about(simulation: "ParticleSimulation") -> dict[str, Any]:
    """What `simkit validate` says of a simulation."""
    experiment = simulation.experiment
    return {
        "potential": experiment.potential.type or "energy",
        "solver": experiment.solver.type,
        "particles": simulation.system.count,
        "paths": simulation.paths,
        "steps": simulation.run.steps,
        "stages": [stage.name for stage in simulation.stages[:-1]],
        "observables": [*simulation.scalars, *simulation.functions],
    }


def line(what: str, simulation: "ParticleSimulation") -> str:
    """The same in one line."""
    content = about(simulation)
    sizes = [counted(content["particles"], "particle"), counted(content["paths"], "replica")]
    sizes.append(counted(content["steps"], "step"))
    return f"{what}: valid ({content['potential']}, {content['solver']}, {', '.join(sizes)})"
