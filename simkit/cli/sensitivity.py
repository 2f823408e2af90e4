"""`simkit sensitivity`: how the means of an experiment change with its numbers."""

from pathlib import Path
from typing import Annotated

import typer

from simkit.cli.failures import print_json, reported
from simkit.cli.options import AsJson, ExperimentFile, NoPlot, Overrides, Overwrite, Quiet
from simkit.cli.picture import check_picture
from simkit.cli.run import draw, write
from simkit.progress import progress_bar
from simkit.xla_flags import prefer_wide_vectors


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
        typer.Option(
            "--check", help="Set finite differences beside each derivative, and how far it is away."
        ),
    ] = False,
    overrides: Overrides = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Write a dataset, .zarr or .nc, and a picture beside it."),
    ] = None,
    no_plot: NoPlot = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Differentiate the means of an experiment: print each derivative with its error and its estimator.

    The file's `sensitivity:` says with respect to what; `output:` is for runs, and nothing is written here
    without --out.
    """
    with reported(as_json):
        prefer_wide_vectors()
        from simkit.build import build
        from simkit.experiment import load
        from simkit.sensitivity import asked, run_study

        given: list = list(overrides or [])
        if wrt:
            given.append(("sensitivity.wrt", f"[{', '.join(wrt)}]"))
        if check:
            given.append(("sensitivity.check", "true"))
        loaded = load(experiment, given)
        section = asked(loaded)
        simulation = build(loaded)
        if out:
            from simkit.storage import check_output

            check_output(out, overwrite)
        picture = out.with_suffix(".png") if out and not no_plot else None
        if picture:
            check_picture(picture, overwrite)
        with progress_bar(enabled=not (quiet or as_json)) as progress:
            dataset = run_study(loaded, simulation, section, progress)
        if not (quiet or as_json):
            from simkit.sensitivity.table import print_table

            print_table(dataset)
        if out:
            write(dataset, out, overwrite, quiet)
        if picture:
            picture = draw(dataset, picture, quiet)
        if as_json:
            from simkit.sensitivity.table import summary

            print_json(summary(dataset) | {"output": out and str(out), "picture": picture and str(picture)})
