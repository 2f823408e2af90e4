"""What commands do with experiments of molecular dynamics: run them, say how large they are, check them."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simkit.cli.failures import print_json
from simkit.cli.outputs import Outputs
from simkit.progress import counted, progress_bar

if TYPE_CHECKING:
    from simkit.config.documents import Document
    from simkit.md.experiment import ParticleVariants
    from simkit.md.simulation import ParticleSimulation

    Loaded = ParticleSimulation | ParticleVariants


def load(document: "Document", chosen: Collection[str] | None) -> "Loaded":
    """The simulation in a document, or those of its variants; `chosen` are those that the command names."""
    from simkit.md.experiment import load_particle_variants

    return load_particle_variants(document, (), chosen)


def output_of(loaded: "Loaded", out: Path | None) -> Path | None:
    """Where the dataset goes: what the command line says, or the file."""
    named = next(iter(_by_name(loaded).values())).experiment.output
    return out or (Path(named) if named else None)


def _by_name(loaded: "Loaded") -> "ParticleVariants":
    from simkit.md.experiment import by_name

    return by_name(loaded)


def run(loaded: "Loaded", outputs: Outputs) -> None:
    """Run, print the table, write dataset and picture."""
    from simkit.api import run_particle_variants
    from simkit.md.trajectory import check_trajectory

    for simulation in _by_name(loaded).values():
        check_trajectory(simulation, outputs.overwrite, outputs.target)
    with progress_bar(enabled=not (outputs.quiet or outputs.as_json), what="steps") as progress:
        dataset = run_particle_variants(loaded, progress)
    from simkit.md import table

    outputs.show(dataset, table)
    outputs.deliver(dataset, table, compile_s=float(dataset.attrs["compile_s"]))


def print_estimate(loaded: "Loaded", target: Path | None, as_json: bool) -> None:
    """What a run, or that of each variant, would do, and how much memory and disk it would take."""
    from simkit.md.size import size_of, size_text

    each = {name: size_of(simulation) for name, simulation in _by_name(loaded).items()}
    if as_json:
        print_json(each.get("", {"variants": each}) | {"output": target and str(target)})
        return
    for name, content in each.items():
        print(f"variant {name}: {size_text(content)}" if name else size_text(content))


def validate(experiment: str, loaded: "Loaded", as_json: bool) -> None:
    """Say that an experiment, or each variant of one, is valid."""
    if as_json:
        each = {name: about(simulation) for name, simulation in _by_name(loaded).items()}
        print_json({"valid": True} | each.get("", {"variants": each}))
        return
    for name, simulation in _by_name(loaded).items():
        print(line(f"{experiment}: variant {name}" if name else experiment, simulation))


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
    """What `simkit validate` says of a simulation, in one line."""
    content = about(simulation)
    sizes = [counted(content["particles"], "particle"), counted(content["paths"], "replica")]
    sizes.append(counted(content["steps"], "step"))
    return f"{what}: valid ({content['potential']}, {content['solver']}, {', '.join(sizes)})"
