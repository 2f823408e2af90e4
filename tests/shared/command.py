"""The command line, in this process."""

from pathlib import Path

from typer.testing import CliRunner

from simkit.cli import app

EXPERIMENT = """\
model: {type: GBM, mu: 0.05, sigma: 0.2}
initial: {S: 100.0}
time: {t1: 1.0, steps: 4}
ensemble: {paths: 200, seed: 1}
observe:
  call: {value: "exp(-0.05*t) * maximum(S - 100, 0)", exact: 10.45}
output: small.zarr
"""
# Whoever runs the tests may have set SIGINT aside, which a process inherits.
DEFAULT = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
HEEDFUL = f"{DEFAULT}; from simkit.cli import main; main()"


def simkit_command(*arguments: str, **options):
    """What `simkit` with these arguments prints, and its exit code."""
    return CliRunner().invoke(app, arguments, prog_name="simkit", **options)


def files_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def content_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
