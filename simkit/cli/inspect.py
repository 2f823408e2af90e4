"""`simkit inspect`: what a run compiles, what a step costs, and what depends on what."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from simkit.cli.failures import print_json, reported
from simkit.cli.options import AsJson, ExperimentFile, OneVariant, Overrides
from simkit.xla_flags import prefer_wide_vectors


class What(StrEnum):
    """What can be looked at by itself."""

    jaxpr = "jaxpr"
    stablehlo = "stablehlo"
    hlo = "hlo"
    cost = "cost"
    memory = "memory"
    kernels = "kernels"
    graph = "graph"
    all = "all"


def inspect(
    experiment: ExperimentFile,
    overrides: Overrides = None,
    variant: OneVariant = None,
    what: Annotated[
        What, typer.Option(help="Only this. Of a program's text, all of it is printed.", show_default=True)
    ] = What.all,
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write texts, report and graphs into it.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", metavar="", help="Replace files in the folder.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Look inside a run without running it: programs, kernels, cost of a step, and the graph of the model."""
    with reported(as_json):
        prefer_wide_vectors()
        from simkit.inspection.inspection import inspect as inspected
        from simkit.inspection.report import PARTS, TEXTS, as_dict, check_folder, text, write

        parts = PARTS if what is What.all else (what.value,)
        if out:
            check_folder(out, overwrite, parts)
        found = inspected(
            experiment, overrides=overrides or [], variant=variant, compiling=parts != ("graph",)
        )
        written = write(found, out, parts) if out else []
        if as_json:
            files = {"files": [str(path) for path in written]} if out else {}
            print_json(as_dict(found, parts) | files)
        elif what.value in TEXTS and not out:
            print(getattr(found.programs["simulation"], what.value))
        else:
            print(text(found, parts))
            if written:
                print(f"\nwrote {', '.join(path.name for path in written)} into {out}")
