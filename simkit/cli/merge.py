"""`simkit merge`: one result of the parts that `simkit run --part` wrote."""

from pathlib import Path
from typing import Annotated

import typer

from simkit.cli.failures import reported
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
    with_options,
)
from simkit.cli.prepare import prepare
from simkit.cli.run import Execution
from simkit.cli.typer_app import app
from simkit.errors import InputError


@app.command()
def merge(
    experiment: ExperimentFile,
    parts: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="[PARTS]...",
            help="The files of all parts; by default those beside the dataset.",
            show_default=False,
        ),
    ] = None,
    overrides: Overrides = None,
    variant: ChosenVariants = None,
    out: Out = None,
    no_plot: NoPlot = False,
    overwrite: Overwrite = False,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Join the parts that `simkit run --part` wrote: the table, dataset and picture of one run."""
    with reported(as_json):
        prepare(quiet)
        from simkit.cluster.parts import parts_beside, read_parts
        from simkit.engines.loaded import load_each

        loaded = load_each(experiment, with_options(overrides, threads=threads), variant)
        target, identity = out or loaded.output, loaded.identity("run") or {}
        loaded.engine.check_parts()
        files = parts or (parts_beside(target) if target else [])
        if not files:
            where = f"beside {target}" if target else "known: name them, or give --out FILE.zarr"
            raise InputError(
                f"simkit merge: no parts are {where}; `simkit run {experiment} --part 1/4` makes one"
            )
        states = read_parts(files, identity)
        how = Execution(out, no_plot, overwrite, False, None, quiet, as_json, False)
        how.run(loaded, "run", loaded.engine.table, parts=states)
