"""The command `simkit` and its subcommands."""

import importlib
import io
import sys
from typing import Annotated

import typer

from simkit.cli.catalogue import list_names
from simkit.cli.check import doctor, schema, validate
from simkit.cli.debug import debug
from simkit.cli.describe import describe
from simkit.cli.failures import BROKEN_PIPE, TERMINATED, leave_at_once, reported
from simkit.cli.inspect import inspect
from simkit.cli.picture import plot
from simkit.cli.run import run
from simkit.cli.sensitivity import sensitivity
from simkit.cli.templates import new
from simkit.cli.uncertainty import uncertainty
from simkit.errors import INTERRUPTED, InputError
from simkit.machine.xla_flags import prefer_wide_vectors
from simkit.version import __version__

app = typer.Typer(
    name="simkit",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(run)
app.command()(sensitivity)
app.command()(uncertainty)
app.command()(validate)
app.command(name="list")(list_names)
app.command()(describe)
app.command()(plot)
app.command()(new)
app.command()(inspect)
app.command()(debug)
app.command()(schema)
app.command()(doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"simkit {__version__}")
        raise typer.Exit


def _enter(modules: list[str]) -> None:
    """Import modules, from the current directory too, which enter models and solvers of their own."""
    if not modules:
        return
    prefer_wide_vectors()  # before a module makes an array
    sys.path.insert(0, "")
    for name in modules:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise InputError(
                f"--import {name}: no such module; name it as Python does, without .py, from the folder that "
                "it is in"
            ) from error


@app.callback()
def options(
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="Import a Python module that enters models or solvers of its own. May be repeated.",
            show_default=False,
        ),
    ] = None,
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, metavar="", help="Show the version."
    ),
) -> None:
    """Stochastic and ordinary differential equations in large, reproducible ensembles.

    Start with `simkit new gbm` and `simkit run gbm.yaml`.

    Exit codes: 0 done, 2 bad input, 3 numerical failure, 4 file not read or written,
    130 interrupted, 143 terminated.
    """
    with reported():
        _enter(modules or [])


def main() -> None:
    """Entry point of the command `simkit`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no Greek gets question marks
    try:
        app(prog_name="simkit")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        leave_at_once(INTERRUPTED)
    except SystemExit as end:
        if end.code in (INTERRUPTED, TERMINATED):
            leave_at_once(int(end.code))
        try:
            sys.stdout.flush()
        except BrokenPipeError:  # the reader, such as `head`, has seen enough
            leave_at_once(BROKEN_PIPE)
        if "jax" in sys.modules and isinstance(end.code, int):
            leave_at_once(end.code)  # a tidy end takes jax up to a second, and all that is written is closed
        raise
