"""What particles take of memory, which is known before there are any."""

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.machine.memory import available_memory
from simkit.progress import short_count

PER_PLACE = 104  # bytes in float64: position, momentum and force, images, mass, species, number
# The state; particles that are sorted; those of the file and those that a stage begins with, on the host.
COPIES = 4


def refuse_too_many(count: int, path: KeyPath, remedy: str) -> None:
    """Raise `SettingError` at the key that gives the number of particles where memory has too little room."""
    needed, available = COPIES * PER_PLACE * count, available_memory()
    if available is not None and needed > available:
        raise SettingError(
            path,
            f"gives {count:,} particles, which need at least {short_count(needed)}B of memory, and "
            f"{short_count(available)}B are available; {remedy}",
        )
