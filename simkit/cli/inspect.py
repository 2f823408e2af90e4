"""`simkit inspect`: what a run compiles, what a step costs, and what depends on what."""

from pathlib import Path
from typing import Annotated

import typer

from simkit.cli.failures import print_json, reported
from simkit.cli.options import AsJson, ExperimentFile, OneVariant, Overrides
from simkit.cli.typer_app import app
from simkit.errors import InputError
from simkit.machine.process import tune_process
from simkit.suggestions import did_you_mean, shown

WHAT = ("jaxpr", "stablehlo", "hlo", "cost", "memory", "kernels", "graph", "all")


@app.command()
def inspect(
    experiment: ExperimentFile,
    overrides: Overrides = None,
    variant: OneVariant = None,
    what: Annotated[
        str,
        typer.Option(
            metavar="PART",
            help=f"Only this: {', '.join(WHAT)}. The text of a program is printed in full.",
            autocompletion=lambda incomplete: [part for part in WHAT if part.startswith(incomplete)],
        ),
    ] = "all",
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write program texts, report and graphs into this folder."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace files in the folder.")] = False,
    as_json: AsJson = False,
) -> None:
    """Examine a run without running it: programs, kernels, cost of a step, and the graph of the model."""
    with reported(as_json):
        if what not in WHAT:
            raise InputError(f"--what: there is no part {shown(what)}{did_you_mean(what, WHAT)}")
        tune_process()
        from simkit.diagnostics.inspection.inspection import inspect as inspected
        from simkit.diagnostics.inspection.report import PARTS, TEXTS, as_dict, check_folder, text, write

        parts = PARTS if what == "all" else (what,)
        if out:
            check_folder(out, overwrite, parts)
        result = inspected(
            experiment, overrides=overrides or [], variant=variant, compiling=parts != ("graph",)
        )
        written = write(result, out, parts) if out else []
        if as_json:
            files = {"files": [str(path) for path in written]} if out else {}
            print_json(as_dict(result, parts) | files)
        elif what in TEXTS and not out:
            print(getattr(result.programs["simulation"], what))
        else:
            print(text(result, parts))
            if written:
                print(f"\nwrote {', '.join(path.name for path in written)} into {out}")
