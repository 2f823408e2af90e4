"""`simkit debug`: which path failed, where and why, and what single paths did step by step."""

from typing import Annotated

import typer

from simkit.cli.failures import print_json, reported
from simkit.cli.options import AsJson, ExperimentFile, OneVariant, Overrides, whole_number
from simkit.cli.typer_app import app
from simkit.errors import NumericalError
from simkit.machine.process import tune_process


@app.command()
def debug(
    experiment: ExperimentFile,
    overrides: Overrides = None,
    variant: OneVariant = None,
    path: Annotated[
        list[int] | None,
        typer.Option(
            metavar="N",
            parser=whole_number,
            help="Examine this path, from 0. May be repeated.",
            show_default=False,
        ),
    ] = None,
    paths: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=whole_number,
            help="Run the first N paths, by default 10000.",
            show_default=False,
        ),
    ] = None,
    values: Annotated[
        str | None,
        typer.Option(
            "--print",
            metavar="NAMES",
            help="Print these variables, observables and increments, as in --print S,dW; `all` prints all.",
            show_default=False,
        ),
    ] = None,
    every: Annotated[
        int | None,
        typer.Option(metavar="N", parser=whole_number, help="Print every N-th step.", show_default=False),
    ] = None,
    keys: Annotated[
        bool, typer.Option("--keys", help="Search for random words that are used twice.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find the first value that is not finite: which path, which step, which part of which equation.

    The exit code is 3 if something was found.
    """
    with reported(as_json):
        tune_process()
        from simkit.diagnostics.debugging.debug import debug as debugged
        from simkit.diagnostics.debugging.report import as_dict, text

        names = None if values is None else [] if values == "all" else [x.strip() for x in values.split(",")]
        report = debugged(
            experiment,
            overrides=overrides or [],
            variant=variant,
            path=path or (),
            paths=paths,
            values=names,
            every=every,
            keys=keys,
        )
        print_json(as_dict(report)) if as_json else print(text(report))
    if not report.sound:
        raise typer.Exit(NumericalError.exit_code)
