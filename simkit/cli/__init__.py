"""The command line. Nothing that takes long to import is imported before a command needs it."""

from simkit.cli.app import app as app
from simkit.cli.app import main as main
from simkit.cli.catalogue import opening as opening
from simkit.cli.describe import model_snippet as model_snippet
