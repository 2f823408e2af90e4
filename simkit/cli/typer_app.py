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

SET = "--set"


def without_kinds(options: list) -> list:
    """Options whose flags are shown as such, and not as booleans."""
    for each in options:
        if getattr(each, "is_flag", False):
            each.metavar = ""
    return options


class Command(TyperCommand):
    """A command whose help shows flags as such, and which knows that keys of the file are no options."""

    def get_params(self, ctx):
        return without_kinds(super().get_params(ctx))

    def parse_args(self, ctx, args):
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except Exception as error:  # typer has its own copy of click's
            flags = [flag for each in self.params for flag in each.opts]
            remedy = _as_override(error, given, flags) if SET in flags else None
            if remedy is None:
                raise
            ctx.fail(remedy)


class Commands(TyperGroup):
    """Commands by name, which also know what some are called elsewhere."""

    def get_params(self, ctx):
        return without_kinds(super().get_params(ctx))

    def resolve_command(self, ctx, args):
        if args and args[0] in ELSEWHERE and args[0] not in self.commands:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {ELSEWHERE[args[0]]!r}?")
        return super().resolve_command(ctx, args)


def _as_override(error: Exception, given: list[str], flags: list[str]) -> str | None:
    """What to say where a key of the file was given as an option, or without `=`; `None` for other errors."""
    option = getattr(error, "option_name", None) if type(error).__name__ == "NoSuchOption" else None
    if option and not any(option.startswith(flag) for flag in flags if flag != "-"):
        from simkit.config.settings import Experiment
        from simkit.experiments.elsewhere import sections_with

        key = option.lstrip("-").replace("-", "_")
        homes = [key] if key in Experiment.model_fields else [f"{each}.{key}" for each in sections_with(key)]
        return f"No such option: {option}. It is a key of the file: {SET} {homes[0]}=VALUE" if homes else None
    if "extra argument" in str(getattr(error, "message", "")):
        for flag, key, value in zip(given, given[1:], given[2:], strict=False):
            if flag == SET and "=" not in key and not value.startswith("-"):
                return f"{SET} takes KEY=VALUE in one: {SET} {key}={value}"
    return None


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
