"""`simkit run`: from a file to a table, a dataset and a picture."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from simkit.cli.failures import end_on_unresolved, leave_at_once, print_json, reported, warn
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
from simkit.cli.resuming import MaxTime, Resume, Resuming
from simkit.cli.typer_app import app
from simkit.progress import duration, progress_bar

if TYPE_CHECKING:
    import xarray as xr

    from simkit.engines.loaded import Loaded


LOST = "nothing but the table is kept: to keep the results give --out FILE.zarr, or output: in the file"


@app.command()
def run(
    experiment: ExperimentFile,
    overrides: Overrides = None,
    variant: ChosenVariants = None,
    out: Out = None,
    no_plot: NoPlot = False,
    overwrite: Overwrite = False,
    resume: Resume = False,
    max_time: MaxTime = None,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Report steps, memory, disk space, and the duration, estimated from the first seconds.",
        ),
    ] = False,
) -> None:
    """Run an experiment: print a table with error bars, write the dataset and a picture next to it."""
    with reported(as_json):
        prepare(quiet)
        from simkit.engines.loaded import load_each
        from simkit.results.storage import check_place

        loaded = load_each(experiment, with_threads(overrides, threads), variant)
        target = out or loaded.output
        warn(() if quiet else loaded.remarks)
        loaded.check_target(target)
        if dry_run:
            if target:
                check_place(target)
            _print_estimate(loaded, target, as_json)
            return
        resuming = Resuming(target, resume, overwrite, max_time, quiet)
        replace = resuming.may_replace()
        outputs = Outputs.checked(target, no_plot, replace, quiet, as_json)
        loaded.check_files(target, replace)
        outputs.import_meanwhile()
        with outputs.claimed(loaded.files(target)), resuming.recorded(loaded.identity("run")):
            lost = "" if target else LOST
            with progress_bar(
                not (quiet or as_json), loaded.engine.counted, lost, loaded.shorter
            ) as progress:
                dataset = loaded.run(progress)
            table = loaded.engine.table()
            from simkit.results.step_notes import all_unresolved

            outputs.show(dataset, table)
            if not quiet:
                _warn_of_failures(dataset)
            outputs.deliver(dataset, table, compile_s=float(dataset.attrs["compile_s"]))
        if not loaded.keeps_unresolved:
            end_on_unresolved(all_unresolved(dataset), quiet or as_json)


def _print_estimate(loaded: "Loaded", target: Path | None, as_json: bool) -> None:
    from simkit.engines.pilot import Pilot

    each = {name: loaded.engine.size(simulation) for name, simulation in loaded.each.items()}
    if not as_json:
        for name, sizes in each.items():
            text = loaded.engine.size_text(sizes)
            print(f"variant {name}: {text}" if name else text, flush=True)
    pilot = Pilot(loaded)
    if as_json:
        more = {"seconds": pilot.seconds, "output": target and str(target)}
        print_json(each.get("", {"variants": each}) | more)
    elif pilot.seconds is None:
        print(f"how long it takes is not known: {pilot.why}")
    else:
        print(f"{duration(pilot.seconds)} on this machine" + ("" if target else f"; {LOST}"))
    if pilot.busy:
        leave_at_once(0)


def _warn_of_failures(dataset: "xr.Dataset") -> None:
    from simkit.results.variants import each_variant

    for name, one in each_variant(dataset).items():
        failed, paths = int(one.attrs.get("failed_paths", 0)), int(one.attrs["paths"])
        if failed:
            variant = f" of variant {name}" if name else ""
            print(
                f"warning: {failed:,} of {paths:,} paths{variant} failed and are left out; the figures are "
                "those of the others, and biased if failing goes with what is averaged",
                file=sys.stderr,
            )
