"""`simkit sensitivity`: how the means of an experiment change with its numbers."""

import functools
from types import ModuleType
from typing import TYPE_CHECKING, Annotated

import typer

from simkit.cli.failures import end_on_unresolved, reported, warn
from simkit.cli.options import (
    AsJson,
    ChosenVariants,
    DerivativesOut,
    DeviceCount,
    ExperimentFile,
    Memory,
    NoPlot,
    Overrides,
    Overwrite,
    Quiet,
    Threads,
    with_options,
)
from simkit.cli.outputs import Outputs, note_unused
from simkit.cli.prepare import prepare
from simkit.cli.resuming import MaxTime, Resume, Resuming
from simkit.cli.typer_app import app
from simkit.config.option import Option
from simkit.progress import progress_bar

if TYPE_CHECKING:
    import xarray as xr


@app.command()
def sensitivity(
    experiment: ExperimentFile,
    wrt: Annotated[
        list[str] | None,
        typer.Option(
            "--wrt",
            metavar="NAME",
            help="Differentiate with respect to this, in place of the file's list. May be repeated.",
            show_default=False,
        ),
    ] = None,
    check: Annotated[
        bool,
        typer.Option("--check", help="Show finite differences next to each derivative, and the difference."),
    ] = False,
    overrides: Overrides = None,
    variant: ChosenVariants = None,
    out: DerivativesOut = None,
    no_plot: NoPlot = False,
    overwrite: Overwrite = False,
    resume: Resume = False,
    max_time: MaxTime = None,
    threads: Threads = None,
    devices: DeviceCount = None,
    memory: Memory = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Differentiate the means of an experiment: print each derivative with its error and its estimator.

    The file's `sensitivity:` names the parameters. Nothing is written without --out: `output:` is for
    the datasets of run, sweep and uncertainty.
    """
    with reported(as_json):
        prepare(quiet)
        from simkit.engines.loaded import load_each

        given = with_options(overrides, threads=threads, memory=memory, devices=devices) + _as_overrides(
            wrt, check
        )
        loaded = load_each(experiment, given, variant)
        warn(() if quiet else loaded.remarks_here)
        loaded.check_target(out)
        resuming = Resuming(out, resume, overwrite, max_time, quiet)

        def unresolved(dataset: "xr.Dataset") -> list[str]:
            return [] if loaded.keeps_unresolved else _table().all_unresolved(dataset)

        def contents() -> dict[str, str]:
            return loaded.contents("sensitivity")

        files = loaded.files(out)
        if resuming.is_complete(files, contents, _table, as_json, unresolved):
            return
        outputs = Outputs.checked(out, no_plot, resuming.may_replace(), quiet, as_json)
        outputs.import_meanwhile("simkit.derivatives.table")
        with outputs.claimed(files), resuming.recorded(loaded.identity("sensitivity")):
            shorter = loaded.shorter
            with progress_bar(not (quiet or as_json), loaded.engine.counted, shorter=shorter) as progress:
                note = functools.cache(lambda: note_unused(loaded.output, out, quiet, "derivatives"))

                def running(done: int, total: int) -> None:
                    note()  # not before what is asked for has been checked
                    if progress is not None:
                        progress(done, total)

                dataset = loaded.differentiate(running)
                note()
            outputs.show(dataset, _table())
            outputs.deliver(dataset, _table())
        end_on_unresolved(unresolved(dataset), quiet or as_json)


def _table() -> ModuleType:
    """The module of tables of derivatives, which imports what a run does not need."""
    from simkit.derivatives import table

    return table


def _as_overrides(wrt: list[str] | None, check: bool) -> list[Option]:
    """The options of this command as overrides."""
    overrides = [Option(f"sensitivity.wrt=[{', '.join(wrt)}]", "--wrt")] if wrt else []
    return overrides + ([Option("sensitivity.check=true", "--check")] if check else [])
