"""Arguments and options that several commands share."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from simkit.config.option import Option, set_option
from simkit.suggestions import shown


def whole_number(text: str) -> int:
    """The number of an option. Raises `typer.BadParameter`, which the command line reports."""
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"must be a whole number, got {shown(text)}") from None


def number(text: str) -> float:
    """The number of an option. Raises `typer.BadParameter`, which the command line reports."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"must be a number, got {shown(text)}") from None


ExperimentFile = Annotated[
    Path,
    typer.Argument(metavar="EXPERIMENT", help="A YAML file, or - for standard input.", show_default=False),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override one key, as in --set model.sigma=0.3. May be repeated.",
        show_default=False,
        callback=lambda texts: [*map(set_option, texts or ())],
    ),
]
ChosenVariants = Annotated[
    list[str] | None,
    typer.Option(
        "--variant",
        metavar="NAME",
        help="Run only this variant. May be repeated.",
        show_default=False,
    ),
]
OneVariant = Annotated[
    str | None,
    typer.Option("--variant", metavar="NAME", help="The variant to examine.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object on stdout.")]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="PATH", help="Where to write a dataset (.zarr, .nc) or table (.csv), instead of `output:`."
    ),
]
DerivativesOut = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="PATH",
        help="Write a dataset (.zarr, .nc) or a table (.csv), and a picture next to it.",
    ),
]
DataOut = Annotated[
    Path | None, typer.Option("--out", metavar="PATH", help="Write a dataset (.zarr, .nc) or a table (.csv).")
]
NoPlot = Annotated[bool, typer.Option("--no-plot", help="Write no picture next to the dataset.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing dataset and picture.")]
Threads = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        parser=whole_number,
        help="Largest number of CPU threads; by default one per core.",
        show_default=False,
    ),
]
DeviceCount = Annotated[
    int | None,
    typer.Option(
        "--devices",
        metavar="N",
        parser=whole_number,
        help="How many devices to use: by default all accelerators, or one processor with all its cores.",
        show_default=False,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Report steps, memory, disk space, and the duration, estimated from the first seconds.",
    ),
]
Memory = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="The memory that the process may take on processors, such as 2GB: chunks are made to fit.",
        show_default=False,
    ),
]
ClusterAddress = Annotated[
    str | None,
    typer.Option(
        "--cluster",
        metavar="ADDRESS",
        help="Simulate on a cluster of Dask: its scheduler, as in tcp://10.0.0.7:8786, or local:4 for four "
        "processes on this machine.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]


def with_options(overrides: list | None, cluster: str | None = None, **limits: Any) -> list:
    """The overrides, and with them what options of their own say: the cluster, and keys of `ensemble`."""
    address = None if cluster is None else json.dumps(cluster, ensure_ascii=False)  # `local:` is a mapping
    options = {"cluster": address, **{f"ensemble.{key}": value for key, value in limits.items()}}
    given = [Option(f"{key}={x}", f"--{key.split('.')[-1]}") for key, x in options.items() if x is not None]
    return [*given, *(overrides or ())]
