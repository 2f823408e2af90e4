"""The command line that commands enter by `@app.command()`."""

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

ELSEWHERE = {
    "check": "validate",
    "init": "new",
    "show": "describe",
    "info": "describe",
    "sobol": "uncertainty",
}


def without_kinds(options: list) -> list:
    """Options whose flags are shown as such, and not as booleans."""
    for each in options:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return options


class Command(TyperCommand):
    """A command whose help shows flags as such."""

    def get_params(self, ctx):
        return without_kinds(super().get_params(ctx))


class Commands(TyperGroup):
    """Commands by name, which also know what some are called elsewhere."""

    def get_params(self, ctx):
        return without_kinds(super().get_params(ctx))

    def resolve_command(self, ctx, args):
        if args and args[0] in ELSEWHERE and args[0] not in self.commands:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {ELSEWHERE[args[0]]!r}?")
        return super().resolve_command(ctx, args)


class App(typer.Typer):
    """The command line."""

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **options: Any
    ) -> Callable:
        return super().command(name, cls=cls, **options)


app = App(
    name="simkit",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
