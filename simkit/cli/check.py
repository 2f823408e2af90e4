"""`simkit validate`, `simkit schema` and `simkit doctor`: is the file, the editor, the machine right?"""

import dataclasses
import sys

import typer

from simkit.cli.failures import print_json, reported
from simkit.cli.options import AsJson, ExperimentFile, Overrides
from simkit.progress import counted
from simkit.xla_flags import prefer_wide_vectors


def validate(experiment: ExperimentFile, overrides: Overrides = None, as_json: AsJson = False) -> None:
    """Check an experiment without running it. Every mistake is listed with its line and column."""
    with reported(as_json):
        prefer_wide_vectors()
        from simkit_solvers.grid import Grid
        from simkit_solvers.jump_grid import JumpGrid

        from simkit.build import build
        from simkit.experiment import load
        from simkit.reaction_plan import model_of

        simulation = build(load(experiment, overrides=overrides or []))
        unknown = "events as they come" if isinstance(simulation.grid, JumpGrid) else "adaptive steps"
        steps = simulation.grid.steps if isinstance(simulation.grid, Grid) else None
        model, solver = type(model_of(simulation.problem)).__name__, type(simulation.solver).__name__
        if as_json:
            print_json(
                {
                    "valid": True,
                    "model": model,
                    "solver": solver,
                    "paths": simulation.paths,
                    "steps": steps,
                    "observables": list(simulation.observables),
                }
            )
        else:
            print(
                f"{experiment}: valid ({model}, {solver}, {counted(simulation.paths, 'path')}, "
                f"{unknown if steps is None else counted(steps, 'step')})"
            )


def schema() -> None:
    """Print the JSON Schema of an experiment, for editors that complete and check YAML."""
    with reported():
        from simkit.experiment import experiment_schema

        print_json(experiment_schema())


def doctor(as_json: AsJson = False) -> None:
    """Show versions, devices and vector width, and check a calculation that one version of jax gets wrong.

    Exit code 3 when results could not be trusted on this machine.
    """
    with reported(as_json):
        prefer_wide_vectors()
        from simkit.doctor import examine, healthy

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
