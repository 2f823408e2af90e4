"""Progress on a terminal, and how long a run will take."""

import io
import re
import sys
import time

import pytest

import simkit.progress
from simkit.progress import Forecast, duration, progress_bar, short_count, steps_text


@pytest.fixture
def clock(monkeypatch):
    """A clock that is moved by hand."""
    now = [100.0]
    monkeypatch.setattr(simkit.progress.time, "perf_counter", lambda: now[0])
    return now


def test_one_path_of_a_network_has_a_number_of_events_and_no_average():
    assert steps_text({"events_mean": 1830.0, "events_max": 1830}) == "1,830 events"
    assert steps_text({"leaps_mean": 2.5, "leaps_max": 3}) == "2 leaps on average (at most 3)"


def test_a_steady_run_takes_as_long_as_is_left_at_its_rate(clock):
    """What came before the first part, such as compilation, does not count."""
    forecast = Forecast()
    assert forecast.left(50, 1000) is None
    clock[0] += 1
    assert forecast.left(60, 1000) is None  # too early
    clock[0] += 2
    assert forecast.left(80, 1000) == pytest.approx((1000 - 80) / 10)
    assert forecast.left(1000, 1000) == 0


@pytest.mark.parametrize(("hours", "said"), [(2, "about 2 hours"), (0.005, "")])
@pytest.mark.parametrize("lost", ["", "nothing is kept"])
def test_a_run_says_once_that_it_is_long_and_keeps_nothing(clock, capsys, hours, said, lost):
    total = int(1e6)
    with progress_bar(True, "paths", lost) as show:
        for done in range(0, 20_000, 4_000):
            show(done, total)
            clock[0] += 3600 * hours * 4_000 / total
            clock[0] += 0 if hours > 1 else 1e-9
    expected = f"note: {said} to go{lost and '; ' + lost}\n" if said else ""
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("done", [0, 1])
def test_a_run_without_progress_says_once_what_would_make_it_shorter(monkeypatch, capsys, done):
    """Also where no terminal is; not once a part of it is done, nor after the end."""
    monkeypatch.setattr(simkit.progress, "PATIENCE", 0.5)
    for patience in (1.0, 0.0):
        with progress_bar(True, "paths", shorter="fewer steps") as show:
            for part in range(done):
                show(part + 1, 10)
            time.sleep(patience)
    time.sleep(0.7)
    said = "note: no paths are done in 0 seconds; `--max-time 10m` would end it; fewer steps\n"
    assert capsys.readouterr().err == ("" if done else said)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(20, "less than a minute"), (61, "about 1 minute"), (5400, "about 2 hours"), (1e6, "about 12 days")],
)
def test_durations_in_words(seconds, text):
    assert duration(seconds) == text


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_shows_paths_and_speed_on_a_terminal_only(monkeypatch):
    terminal, file = Terminal(), io.StringIO()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress_bar(enabled=True) as advance:
        advance(1_250_000, 5_000_000)
    assert "1.25M/5M paths" in terminal.getvalue()
    assert re.search(r"[0-9]/s", terminal.getvalue()) is None  # of one chunk nothing is known yet
    with progress_bar(enabled=False) as advance:
        assert advance is None
    monkeypatch.setattr(sys, "stderr", file)
    with progress_bar(enabled=True) as advance:
        assert advance is not None
        advance(1_250_000, 5_000_000)
    assert file.getvalue() == ""


def test_progress_shows_speed_and_time_left(monkeypatch):
    """A hundred paths a second, and three hundred to go."""
    seconds, terminal = [0.0], Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("rich.console.monotonic", lambda: seconds[0])
    with progress_bar(enabled=True) as advance:
        assert advance is not None
        for done in (100, 200, 300):
            seconds[0] += 1
            advance(done, 600)
    assert " 300/600 paths" in terminal.getvalue()
    assert " 100/s" in terminal.getvalue()
    assert "0:00:03" in terminal.getvalue()


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0"), (999, "999"), (12_500, "12.5k"), (3.2e6, "3.2M"), (1.1e9, "1.1G")]
)
def test_counts_are_short(number, text):
    assert short_count(number) == text


def test_a_run_that_compiles_is_not_told_to_be_shorter(monkeypatch, capsys):
    """No part is done while its programs are made, which takes as long for few paths."""
    monkeypatch.setattr(simkit.progress, "PATIENCE", 0.1)
    with simkit.progress.progress_bar(True, shorter="fewer paths"):
        with simkit.progress.compiling():
            time.sleep(0.35)
        said = capsys.readouterr().err
        time.sleep(0.35)
    assert said.count("note: compiling takes more than 0 seconds") == 1
    assert "fewer paths" not in said
    assert "fewer paths" in capsys.readouterr().err


def test_the_time_of_compiling_is_none_of_the_patience(monkeypatch, capsys):
    monkeypatch.setattr(simkit.progress, "PATIENCE", 0.6)
    with simkit.progress.progress_bar(True, shorter="fewer paths"):
        with simkit.progress.compiling():
            time.sleep(0.5)
        time.sleep(0.3)
        assert capsys.readouterr().err == ""
        time.sleep(0.6)
    assert "fewer paths" in capsys.readouterr().err
