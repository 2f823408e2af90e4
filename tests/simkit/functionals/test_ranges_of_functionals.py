"""What a functional may be, whatever the path: its range holds the values before a condition has held too."""

import pytest
from functional_examples import rows, simulation

from simkit.ensemble.could_differ import range_of

RANGES = {
    "first(2, x < 2)": (0, 2),
    "first(-1, x < 2)": (-1, 0),
    "first(3 - 2*(y > 0), x > 50)": (0, 3),
    "hitting_time(x < 2)": (0.5, 2.5),
    "max(x > 2)": (0, 1),
    "min(-3*(x > 2))": (-3, 0),
    "mean(clip(x, 1, 2))": (1, 2),
    "at(exp(-abs(x)), 1.5)": (0, 1),
}


def test_a_functional_is_in_its_range_at_every_row():
    names = {f"f{i}": text for i, text in enumerate(RANGES)}
    run = simulation({name: {"value": text, "at": "each"} for name, text in names.items()})
    results = rows(run)
    for name, text in names.items():
        low, high = range_of(name, run)
        assert (low, high) == pytest.approx(RANGES[text]), text
        assert low <= results[name].min() <= results[name].max() <= high, text
