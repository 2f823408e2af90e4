"""The command line. Nothing that takes long to import is imported before a command needs it."""

from simkit.cli.app import app as app
from simkit.cli.app import main as main
