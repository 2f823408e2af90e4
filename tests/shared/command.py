"""The command line, in this process."""

from typer.testing import CliRunner

from simkit.cli import app


def simkit_command(*arguments: str, **options):
    """What `simkit` with these arguments prints, and its exit code."""
    return CliRunner().invoke(app, arguments, prog_name="simkit", **options)
