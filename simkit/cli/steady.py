"""`simkit steady`: where a model rests, how stable that is, and how it moves with parameters."""

from typing import Annotated

import typer

from simkit.cli.failures import reported, warn
from simkit.cli.options import (
    AsJson,
    ChosenVariants,
    DataOut,
    ExperimentFile,
    Overrides,
    Overwrite,
    Quiet,
    number,
    whole_number,
)
from simkit.cli.outputs import Outputs, note_unused
from simkit.cli.prepare import prepare
from simkit.cli.typer_app import app
from simkit.errors import InputError
from simkit.suggestions import shown


def _starts(text: str) -> int:
    """The number of starts of a search that is asked for."""
    starts = whole_number(text)
    if starts == 0:
        raise typer.BadParameter("must be at least 1, got 0; leave the option out to search for no others")
    return starts


@app.command()
def steady(
    experiment: ExperimentFile,
    search: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            parser=_starts,
            help="Search for other steady states too, by Newton's method from N starts.",
            show_default=False,
        ),
    ] = None,
    ranges: Annotated[
        list[str] | None,
        typer.Option(
            "--from",
            metavar="NAME=LOW:HIGH",
            help="Where the starts of a search lie, as in --from x=0:2. May be repeated.",
            show_default=False,
        ),
    ] = None,
    derivatives: Annotated[
        bool,
        typer.Option(
            "--derivatives",
            help="Differentiate with respect to the file's sensitivity.wrt, or all parameters.",
        ),
    ] = False,
    wrt: Annotated[
        list[str] | None,
        typer.Option(
            "--wrt",
            metavar="NAME",
            help="Differentiate with respect to this. May be repeated.",
            show_default=False,
        ),
    ] = None,
    at: Annotated[
        float | None,
        typer.Option(
            metavar="TIME",
            parser=number,
            help="Freeze equations that depend on time at this one, without events.",
            show_default=False,
        ),
    ] = None,
    overrides: Overrides = None,
    variant: ChosenVariants = None,
    out: DataOut = None,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Find where a model rests: values with errors, eigenvalues and stability, conserved totals, derivatives.

    It is the steady state that the model reaches from its initial values; for stochastic equations the fixed
    point of the drift, for reaction networks the steady state of the rate equation. Exit code 3 where none is
    found.
    """
    with reported(as_json):
        prepare(quiet)
        from simkit.steady_states.experiments import load_paths, steady_states

        within = _ranges(ranges or [])
        loaded = load_paths(experiment, overrides or (), variant)
        warn(() if quiet else loaded.remarks)
        outputs = Outputs.checked(out, True, overwrite, quiet, as_json)
        outputs.import_meanwhile("simkit.steady_states.table")
        with outputs.claimed([] if out is None else [out]):
            names = wrt or ([] if derivatives else None)
            dataset = steady_states(loaded, wrt=names, search=search or 0, ranges=within, at=at)
            note_unused(loaded.output, out, quiet, "steady states")
            from simkit.steady_states import table

            outputs.show(dataset, table)
            outputs.deliver(dataset, table)


def _ranges(texts: list[str]) -> dict[str, tuple[float, ...]]:
    """The ranges of a search, by variable."""
    result = {}
    for text in texts:
        name, _, ends = text.partition("=")
        try:
            result[name.strip()] = tuple(map(float, ends.split(":")))
        except ValueError:
            raise InputError(f"--from {shown(text)}: expected NAME=LOW:HIGH, as in --from x=0:2") from None
    return result
