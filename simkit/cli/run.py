"""`simkit run`: from a file to a table, a dataset and a picture."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from simkit.cli import particles
from simkit.cli.failures import end_on_unresolved, print_json, reported
from simkit.cli.options import (
    AsJson,
    ChosenVariants,
    ExperimentFile,
    NoPlot,
    Out,
    Overrides,
    Overwrite,
    Quiet,
    Threads,
    with_threads,
)
from simkit.cli.outputs import Outputs
from simkit.cli.prepare import prepare
from simkit.cli.typer_app import app
from simkit.progress import progress_bar


@app.command()
def run(
    experiment: ExperimentFile,
    overrides: Overrides = None,
    variant: ChosenVariants = None,
    out: Out = None,
    no_plot: NoPlot = False,
    overwrite: Overwrite = False,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Report steps, memory and disk space without running."),
    ] = False,
) -> None:
    """Run an experiment: print a table with error bars, write the dataset and a picture next to it."""
    with reported(as_json):
        prepare(quiet, keep=not dry_run)
        from simkit.config.overrides import opened
        from simkit.config.settings.places import is_particles
        from simkit.experiments.variants import keeps_unresolved, load_variants, output_of, refuse_paths
        from simkit.results.storage import check_place

        document = opened(experiment, with_threads(overrides, threads))
        if is_particles(document.data):
            systems = particles.load(document, variant)
            target = particles.output_of(systems, out)
            if dry_run:
                if target:
                    check_place(target)
                particles.print_estimate(systems, target, as_json)
                return
            particles.run(systems, Outputs.checked(target, no_plot, overwrite, quiet, as_json))
            return
        loaded = load_variants(document, (), variant)
        target = out or output_of(loaded)
        refuse_paths(loaded, target)
        if dry_run:
            if target:
                check_place(target)
            _print_estimate(loaded, target, as_json)
            return
        outputs = Outputs.checked(target, no_plot, overwrite, quiet, as_json)

        from simkit.api import run_loaded

        outputs.import_meanwhile()
        with progress_bar(enabled=not (quiet or as_json)) as progress:
            dataset = run_loaded(loaded, progress)
        from simkit.results import table
        from simkit.results.step_notes import all_unresolved

        outputs.show(dataset, table)
        if not quiet:
            _warn_of_failures(dataset)
        outputs.deliver(dataset, table, compile_s=float(dataset.attrs["compile_s"]))
        if not keeps_unresolved(loaded):
            end_on_unresolved(all_unresolved(dataset), quiet or as_json)


def _print_estimate(loaded, target: Path | None, as_json: bool) -> None:
    from simkit.ensemble.sizes import estimate, estimate_text
    from simkit.experiments.variants import by_name

    each = {name: estimate(simulation) for name, simulation in by_name(loaded).items()}
    if as_json:
        print_json(each.get("", {"variants": each}) | {"output": target and str(target)})
        return
    for name, sizes in each.items():
        print(f"variant {name}: {estimate_text(sizes)}" if name else estimate_text(sizes))


def _warn_of_failures(dataset) -> None:
    from simkit.results.variants import each_variant

    for name, one in each_variant(dataset).items():
        failed, paths = int(one.attrs["failed_paths"]), int(one.attrs["paths"])
        if failed:
            variant = f" of variant {name}" if name else ""
            print(
                f"warning: {failed:,} of {paths:,} paths{variant} failed and are left out; the figures are "
                "those of the others, and biased if failing goes with what is averaged",
                file=sys.stderr,
            )
