"""What a command that simulates does before jax is imported."""

import sys

from simkit.garbage import collect_seldom
from simkit.machine.compilation_cache import keep_compiled_programs
from simkit.machine.xla_flags import prefer_wide_vectors


def prepare(quiet: bool, keep: bool = True) -> None:
    """Ask XLA for wide vectors, and `keep` compiled programs for the next process."""
    collect_seldom()
    prefer_wide_vectors()
    warning = keep_compiled_programs() if keep else None
    if warning and not quiet:
        print(f"warning: {warning}", file=sys.stderr)
