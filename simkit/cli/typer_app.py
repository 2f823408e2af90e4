"""The command line that commands enter by `@app.command()`."""

import typer
from typer.core import TyperGroup

ELSEWHERE = {
    "check": "validate",
    "init": "new",
    "show": "describe",
    "info": "describe",
    "sobol": "uncertainty",
}


class Commands(TyperGroup):
    """Commands by name, which also know what some are called elsewhere."""

    def resolve_command(self, ctx, args):
        if args and args[0] in ELSEWHERE and args[0] not in self.commands:
            ctx.fail(f"No such command {args[0]!r}. Did you mean {ELSEWHERE[args[0]]!r}?")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="simkit",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
