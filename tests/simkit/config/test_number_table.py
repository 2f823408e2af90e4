"""Tables of numbers as other programs write them."""

import itertools

import numpy as np
import pytest

from simkit.config.number_table import read_table

WRITTEN = [*itertools.product(("", "\ufeff"), ",;\t", ("\n", "\r\n", "\r"))]


@pytest.mark.parametrize(("mark", "delimiter", "end"), WRITTEN)
def test_a_table_is_the_same_however_it_was_written(tmp_path, mark, delimiter, end):
    """With a mark of its byte order in front, as spreadsheets have it, or none; of any system's lines."""
    lines = ["t , level", "# of 2024", "0, 1.5", "", "2.5e-1,-2"]
    text = mark + end.join(line.replace(",", delimiter) for line in lines)
    path = tmp_path / "a.csv"
    path.write_bytes(text.encode())
    table = read_table(path, "a.csv")
    assert table.header == ("t", "level")
    np.testing.assert_array_equal(table.column("t"), [0, 0.25])
    np.testing.assert_array_equal(table.column("level"), [1.5, -2])
    assert table.place(1) == "a.csv:5"
