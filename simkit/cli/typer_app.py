"""The command line that commands enter by `@app.command()`."""

import typer

app = typer.Typer(
    name="simkit",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
