"""`simkit validate`, `simkit schema` and `simkit doctor`: is the file, the editor, the machine right?"""

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from simkit.cli import particles
from simkit.cli.failures import print_json, reported
from simkit.cli.options import AsJson, ChosenVariants, ExperimentFile, Overrides
from simkit.cli.typer_app import app
from simkit.machine.process import tune_process
from simkit.progress import counted

if TYPE_CHECKING:
    from simkit.ensemble.simulation import Simulation


@app.command()
def validate(
    experiment: ExperimentFile,
    overrides: Overrides = None,
    variant: ChosenVariants = None,
    as_json: AsJson = False,
) -> None:
    """Check an experiment without running it. Every error is listed with its line and column."""
    with reported(as_json):
        tune_process()
        from simkit.config.overrides import opened
        from simkit.config.settings.places import is_particles
        from simkit.experiments.variants import by_name, load_variants, output_of
        from simkit.studies.plan import has_distributions

        document = opened(experiment, overrides or [])
        if is_particles(document.data):
            loaded = particles.load(document, variant)
            _check_place_of(particles.output_of(loaded, None))
            particles.validate(str(experiment), loaded, as_json)
            return
        if variant is None and has_distributions(experiment, overrides or []):
            _validate_uncertain(experiment, overrides, as_json)
            return
        loaded = load_variants(experiment, overrides or [], variant)
        _check_place_of(output_of(loaded))
        if as_json:
            each = {name: _about(simulation) for name, simulation in by_name(loaded).items()}
            print_json({"valid": True} | each.get("", {"variants": each}))
            return
        for name, simulation in by_name(loaded).items():
            print(_line(f"{experiment}: variant {name}" if name else str(experiment), simulation))


def _validate_uncertain(experiment: ExperimentFile, overrides: Overrides, as_json: bool) -> None:
    """Check an experiment with uncertain parameters."""
    from simkit.experiments.variants import output_of
    from simkit.studies.plan import load_uncertain

    loaded = load_uncertain(experiment, overrides or [])
    simulation = loaded.simulation
    _check_place_of(output_of(simulation))
    if as_json:
        studied = {"uncertain": list(loaded.distributions), "method": loaded.settings.method}
        print_json({"valid": True, **_about(simulation), **studied})
        return
    print(_line(str(experiment), simulation))
    count = counted(len(loaded.distributions), "uncertain parameter")
    print(f"{count}: {', '.join(loaded.distributions)} (method {loaded.settings.method})")


def _check_place_of(output: Path | None) -> None:
    """Raise `OutputError` where a run could not write its dataset."""
    if output:
        from simkit.results.storage import check_place

        check_place(output)


def _about(simulation: "Simulation") -> dict[str, Any]:
    from simkit_solvers.problems.schedule import model_of

    return {
        "model": type(model_of(simulation.problem)).__name__,
        "solver": type(simulation.solver).__name__,
        "paths": simulation.paths,
        "steps": simulation.grid.steps,
        "observables": list(simulation.observables),
    }


def _line(what: str, simulation: "Simulation") -> str:
    about, steps = _about(simulation), simulation.stepping.description
    if about["steps"] is not None:
        steps = counted(about["steps"], "step")
    return f"{what}: valid ({about['model']}, {about['solver']}, {counted(about['paths'], 'path')}, {steps})"


@app.command()
def schema() -> None:
    """Print the JSON Schema of an experiment, for editors that complete and check YAML."""
    with reported():
        from simkit.schema import file_schema

        print_json(file_schema())


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Show versions, devices and vector width, and check a calculation that one version of jax gets wrong.

    Exit code 3 when results could not be trusted on this machine.
    """
    with reported(as_json):
        tune_process()
        from simkit.machine.doctor import examine, healthy

        findings = examine()
        if as_json:
            print_json(
                {"healthy": healthy(findings), "findings": [dataclasses.asdict(each) for each in findings]}
            )
        else:
            width = max(len(each.name) for each in findings)
            for each in findings:
                mark = "" if each.status == "ok" else f"{each.status}: "
                print(f"{each.name:<{width}}  {mark}{each.value}")
            print("healthy" if healthy(findings) else "not healthy: results here cannot be trusted")
        if not healthy(findings):
            sys.stdout.flush()
            raise typer.Exit(3)
