"""The command `simkit` and its subcommands."""

import importlib
import io
import sys
from typing import Annotated, cast

import typer
from typer.core import TyperGroup

from simkit.cli.failures import BROKEN_PIPE, TERMINATED, leave_at_once, reported
from simkit.cli.own_modules import import_modules
from simkit.cli.typer_app import app
from simkit.errors import INTERRUPTED
from simkit.machine.own_modules import remember_code
from simkit.version import __version__

# Modules that enter commands, which the help shows in this order.
COMMANDS = [
    "run",
    "sensitivity",
    "steady",
    "uncertainty",
    "sweep",
    "merge",
    "check",
    "catalogue",
    "describe",
    "picture",
    "templates",
    "inspect",
    "debug",
]
for name in COMMANDS:
    importlib.import_module(f"simkit.cli.{name}")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"simkit {__version__}")
        raise typer.Exit


def _enter(context: typer.Context, modules: list[str]) -> list[str]:
    """Import modules, from the current directory too, and enter what they define: commands too."""
    remember_code(())  # a process may run several commands
    if modules and not context.resilient_parsing:  # as the shell does to complete a name
        with reported():
            import_modules(modules)
        commands = cast(TyperGroup, context.command).commands
        commands.update(cast(TyperGroup, typer.main.get_command(app)).commands)
    return modules


@app.callback()
def options(
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="Import a Python module that defines models, solvers or commands. May be repeated.",
            show_default=False,
            callback=_enter,
            is_eager=True,
        ),
    ] = None,
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Reproducible ensembles of simulations: stochastic and ordinary differential equations, reaction
    networks and molecular dynamics.

    Start with `simkit new gbm` and `simkit run gbm.yaml`.

    Exit codes: 0 done, 1 a bug in simkit, 2 bad input, 3 numerical failure,
    4 file not read or written, 69 no cluster, 75 stopped and recorded,
    130 interrupted, 141 broken pipe, 143 terminated.
    """


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
