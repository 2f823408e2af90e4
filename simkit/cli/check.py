"""`simkit validate`, `simkit schema` and `simkit doctor`: is the file, the editor, the machine right?"""

import dataclasses
import sys
from pathlib import Path

import typer

from simkit.cli.failures import print_json, reported, warn
from simkit.cli.options import AsJson, ChosenVariants, ExperimentFile, Overrides
from simkit.cli.typer_app import app
from simkit.machine.process import tune_process
from simkit.progress import counted


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
        from simkit.engines.loaded import load_each
        from simkit.studies.plan import has_distributions, load_uncertain
        from simkit.sweeps.plan import SWEEP, load_sweep

        document, about, more = opened(experiment, overrides or []), {}, ""
        if variant is None and has_distributions(document):
            uncertain = load_uncertain(document)
            loaded = uncertain.centre
            names, method = list(uncertain.distributions), uncertain.settings.method
            about = {"uncertain": names, "method": method}
            more = f"{counted(len(names), 'uncertain parameter')}: {', '.join(names)} (method {method})"
        else:
            loaded = load_each(document, chosen=variant)
            if variant is None and document.data.get(SWEEP):
                about = {"points": len(load_sweep(document).axes.points)}
                more = f"sweep: valid ({counted(about['points'], 'point')})"
        warn(loaded.remarks)
        engine = loaded.engine
        _check_place_of(loaded.output)
        if as_json:
            each = {name: engine.about(simulation) for name, simulation in loaded.each.items()}
            print_json({"valid": True} | each.get("", {"variants": each}) | about)
            return
        for name, simulation in loaded.each.items():
            what = f"{experiment}: variant {name}" if name else str(experiment)
            print(f"{what}: valid ({engine.summary(simulation)})")
        if more:
            print(more)


def _check_place_of(output: Path | None) -> None:
    """Raise `OutputError` where a run could not write its dataset."""
    if output:
        from simkit.results.storage import check_place

        check_place(output)


@app.command()
def schema() -> None:
    """Print the JSON Schema of an experiment, for editors that complete and check YAML."""
    with reported():
        from simkit.schema import file_schema

        print_json(file_schema())


@app.command()
def doctor(as_json: AsJson = False) -> None:
    """Show versions, devices and vector width, and check a calculation that one version of jax gets wrong.

    The exit code is 3 if results cannot be trusted on this machine.
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
