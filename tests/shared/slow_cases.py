"""Cases of a law: `make test-more` takes a few that differ in kind, and `make test-slow` the others."""

from collections.abc import Container, Iterable

import pytest


def slow_but(kept: Container, cases: Iterable) -> list:
    """The cases, and all but the kept ones marked `slow`."""
    return [
        case
        if case in kept
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
        for case in cases
    ]
