"""How often Python looks for objects that refer to each other and to which nothing else does.

Tracing makes millions of objects that stay, and by default each 700 are a reason to go through many of them:
a sixth of the processor time to a first table of derivatives.
"""

import contextlib
import gc
from collections.abc import Iterator

OBJECTS = 100_000


def collect_seldom() -> None:
    """From now on, after as many new objects; nothing changes where collections are off."""
    gc.set_threshold(OBJECTS, *gc.get_threshold()[1:])


@contextlib.contextmanager
def seldom_collected() -> Iterator[None]:
    """Collect seldom for as long as something is traced."""
    before = gc.get_threshold()
    collect_seldom()
    try:
        yield
    finally:
        gc.set_threshold(*before)
