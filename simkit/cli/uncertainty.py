"""`simkit uncertainty`: which of the uncertain parameters matter, and what they do to the output."""

from simkit.cli.failures import reported, warn
from simkit.cli.options import (
    AsJson,
    DeviceCount,
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
from simkit.cli.outputs import Outputs
from simkit.cli.prepare import prepare
from simkit.cli.resuming import MaxTime, Resume, Resuming
from simkit.cli.typer_app import app
from simkit.progress import progress_bar


@app.command()
def uncertainty(
    experiment: ExperimentFile,
    overrides: Overrides = None,
    out: Out = None,
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
    """Study an experiment whose parameters are distributions: which of them matter, and how much."""
    with reported(as_json):
        prepare(quiet)
        from simkit.studies.experiments import study_experiment
        from simkit.studies.plan import load_uncertain

        loaded = load_uncertain(
            experiment, with_options(overrides, threads=threads, memory=memory, devices=devices)
        )
        warn(() if quiet else loaded.centre.remarks_here)
        target = out or loaded.centre.output
        loaded.centre.check_target(target)
        resuming = Resuming(target, resume, overwrite, max_time, quiet)
        from simkit.studies import table

        files = loaded.centre.files(target)
        if resuming.is_complete(files, loaded.contents, lambda: table, as_json):
            return
        outputs = Outputs.checked(target, no_plot, resuming.may_replace(), quiet, as_json)
        with outputs.claimed(files), resuming.recorded(loaded.identity):
            with progress_bar(not (quiet or as_json), shorter=loaded.centre.shorter) as progress:
                dataset = study_experiment(loaded, progress)
            outputs.show(dataset, table)
            outputs.deliver(dataset, table)
