"""What a command that simulates does before jax is imported."""

import sys
import warnings

from simkit.garbage import collect_seldom
from simkit.machine.compilation_cache import keep_compiled_programs
from simkit.machine.memory import check_address_space
from simkit.machine.process import tune_process


def prepare(quiet: bool) -> None:
    """Tune this process, and keep compiled programs for the next process."""
    check_address_space()
    warnings.showwarning = lambda message, *_: (
        None if quiet else print(f"warning: {message}", file=sys.stderr)
    )
    collect_seldom()
    tune_process()
    warning = keep_compiled_programs()
    if warning and not quiet:
        print(f"warning: {warning}", file=sys.stderr)
