"""What commands do with experiments of molecular dynamics: run them, say how large they are, check them."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simkit.cli.failures import print_json
from simkit.cli.outputs import Outputs
from simkit.progress import counted, progress_bar, short_count

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

    check_trajectory(simulation, outputs.overwrite, outputs.target)
    with progress_bar(enabled=not (outputs.quiet or outputs.as_json), what="steps") as progress:
        dataset = run_particle_simulation(simulation, progress)
    from simkit.md import table

    outputs.show(dataset, table)
    outputs.deliver(dataset, table, compile_s=float(dataset.attrs["compile_s"]))


def print_estimate(simulation: "ParticleSimulation", target: Path | None, as_json: bool) -> None:
    """Particles, steps and measurements of a run."""
    content = size_of(simulation)
    if as_json:
        print_json(content | {"output": target and str(target)})
        return
    print(
        f"{counted(content['paths'], 'replica')} x {counted(content['particles'], 'particle')} x "
        f"{counted(content['steps'], 'step')}, {short_count(content['atom_steps'])} atom-steps\n"
        f"measurements: {content['measurements']:,}"
    )


def size_of(simulation: "ParticleSimulation") -> dict[str, int]:
    """How much work a run is."""
    steps = sum(stage.steps for stage in simulation.stages)
    count = simulation.system.count
    return {
        "paths": simulation.paths,
        "particles": count,
        "steps": steps,
        "atom_steps": count * steps * simulation.paths,
        "measurements": 1 + simulation.run.steps // simulation.system.every,
    }


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
