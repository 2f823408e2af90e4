"""`simkit sweep`: an experiment at many values of some of its keys."""

import sys
from typing import Annotated

import typer

from simkit.cli.failures import reported
from simkit.cli.options import (
    AsJson,
    ClusterAddress,
    DeviceCount,
    DryRun,
    ExperimentFile,
    Memory,
    NoPlot,
    Out,
    Overrides,
    Overwrite,
    Quiet,
    Threads,
    with_options,
)
from simkit.cli.prepare import prepare
from simkit.cli.resuming import MaxTime, Resume
from simkit.cli.run import Execution
from simkit.cli.typer_app import app


@app.command()
def sweep(
    experiment: ExperimentFile,
    over: Annotated[
        list[str] | None,
        typer.Option(
            "--over",
            metavar="KEY=VALUES",
            help="Vary a key, as in --over model.sigma=0.1:0.5:9 (first:last:count; add :log for equal "
            "ratios) or --over solver=EulerMaruyama,Milstein, in place of the file's. May be repeated.",
            show_default=False,
        ),
    ] = None,
    side_by_side: Annotated[
        bool,
        typer.Option("--zip", help="Go through the lists of values side by side, not all combinations."),
    ] = False,
    overrides: Overrides = None,
    out: Out = None,
    no_plot: NoPlot = False,
    overwrite: Overwrite = False,
    resume: Resume = False,
    max_time: MaxTime = None,
    threads: Threads = None,
    devices: DeviceCount = None,
    memory: Memory = None,
    cluster: ClusterAddress = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    dry_run: DryRun = False,
) -> None:
    """Run an experiment at many values of some of its keys, on the same noise: one table and dataset."""
    with reported(as_json):
        prepare(quiet)
        from simkit.sweeps import table
        from simkit.sweeps.plan import load_sweep, read_over

        values = read_over(over) if over else None
        given = with_options(overrides, cluster, threads=threads, memory=memory, devices=devices)

        def note(line: str) -> None:
            if not quiet:
                print(line, file=sys.stderr)

        loaded = load_sweep(experiment, given, values, side_by_side, "--over", note)
        how = Execution(out, no_plot, overwrite, resume, max_time, quiet, as_json, dry_run)
        how.run(loaded.points, "sweep", lambda: table, loaded.labelled)
