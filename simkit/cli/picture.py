"""`simkit plot`: the picture of a dataset."""

from pathlib import Path
from typing import Annotated

import typer

from simkit.cli.failures import reported
from simkit.cli.outputs import check_picture
from simkit.cli.typer_app import app


@app.command()
def plot(
    dataset: Annotated[
        Path, typer.Argument(metavar="DATASET", help="A .zarr or .nc from a run.", show_default=False)
    ],
    out: Annotated[
        Path | None, typer.Option(help="The picture; its suffix sets the format (.png, .pdf, .svg).")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing picture.")] = False,
) -> None:
    """Draw the picture of a dataset: quantiles over time, sample paths, distributions at the end."""
    with reported():
        target = out or dataset.with_suffix(".png")
        from simkit.pictures import save_picture
        from simkit.results.storage import read_dataset

        content = read_dataset(dataset)  # first: what is no dataset has no picture to replace
        check_picture(target, overwrite)
        save_picture(content, target)
        print(f"wrote {target}")
