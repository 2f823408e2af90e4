"""The numbers on the pages are those that the commands print, with all their paths.

test_docs.py runs the same commands on few paths, and therefore compares everything but the numbers.
"""

import re
import shlex
from pathlib import Path

import pytest
from checkout import ROOT
from test_docs import blocks
from typer.testing import CliRunner

from simkit.cli import app

PAGES = ("tutorial", "tutorials/barrier_option", "guides/uncertainty", "guides/which_derivative")
WITH_ERROR = re.compile(r"([-+]?\d[\d.]*) ± (\d[\d.]*)")


def printed(text: str) -> dict[tuple[str, ...], list[tuple[float, float]]]:
    """The numbers with errors in each row of a table, by the names in it and above it."""
    rows, above = {}, ""
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split("│")[1:-1]]
        if cells and (pairs := WITH_ERROR.findall(line)):
            names = [cell for cell in cells if cell and not re.match(r"[-+]?\d", cell)][:2]
            above = cells[0] or above
            rows[above, *names] = [(float(value), float(error)) for value, error in pairs]
    return rows


@pytest.mark.slow
@pytest.mark.user_code
@pytest.mark.parametrize("page", PAGES)
def test_numbers_are_those_that_the_command_prints(page, tmp_path, monkeypatch):
    """To a fiftieth of their errors: the same seed gives the same numbers up to rounding."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    compared = 0
    for tag, _, code in blocks((ROOT / f"docs/{page}.md").read_text("utf-8")):
        if tag == "yaml" and (name := re.match(r"# (\S+\.yaml)\n", code)):
            Path(name[1]).write_text(code, "utf-8")
        if tag != "console":
            continue
        for command, shown in re.findall(r"^\$ simkit (.*)\n((?:[^$].*\n)*)", code, re.M):
            expected = printed(shown)
            if command.startswith("new "):
                CliRunner().invoke(app, shlex.split(command))
            if not expected:
                continue
            result = CliRunner().invoke(app, [*shlex.split(command), "--no-plot", "--set", "output=null"])
            rows = printed(result.stdout)
            for names, numbers in expected.items():
                shorter = rows[names][: len(numbers)]  # a page may leave out the last columns
                for (value, error), (now, error_now) in zip(numbers, shorter, strict=True):
                    assert now == pytest.approx(value, abs=0.02 * error + 1e-12), (command, names)
                    assert error_now == pytest.approx(error, rel=0.02), (command, names)
                    compared += 1
    assert compared >= 3
