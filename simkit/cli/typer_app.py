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
    """A command whose help shows flags as such, and which says how keys are set that are no options."""

    def get_params(self, ctx):
        return without_kinds(super().get_params(ctx))

    def parse_args(self, ctx, args):
        given = [*args]
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if hasattr(error, "possibilities"):  # no such option, for which typer has no public class
                self._refuse_key(ctx, getattr(error, "option_name", ""), given)
            raise

    def _refuse_key(self, ctx: Any, option: str, given: list[str]) -> None:
        """Fail with a hint where an option that there is not has the name of a key, as in `--seed 3`."""
        from simkit.config.settings import Experiment

        key = option.lstrip("-").replace("-", "_")
        sections = [
            name
            for name, field in Experiment.model_fields.items()
            if key in getattr(field.annotation, "model_fields", ())
        ]
        if not sections or not any("--set" in each.opts for each in self.get_params(ctx)):
            return
        after = [text.removeprefix(f"{option}=") for text in given if text.startswith(f"{option}=")]
        after += given[given.index(option) + 1 :][:1] if option in given else []
        value = next((text for text in after if not text.startswith("--")), "...")
        ctx.fail(f"No such option: {option}. Did you mean --set {sections[0]}.{key}={value}?")


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
