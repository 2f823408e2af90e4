"""Means over a run that begins away from equilibrium say so, and what they are without its beginning."""

import pytest

import simkit
from simkit.md.table import closing_lines, summary

HOT = {
    "system": {
        "lattice": {"type": "fcc", "cells": 2, "density": 0.4},
        "velocities": {"temperature": 12.0},
    },
    "potential": {"type": "LennardJones", "epsilon": 1.0, "sigma": 1.0, "cutoff": 2.1},
    "solver": {"type": "BAOAB", "temperature": 1.5, "friction": 2.0},
    "time": {"dt": 0.004, "steps": 12000},
    "ensemble": {"paths": 4, "seed": 3},
    "save": {"every": 10},
    "observe": {"T": "temperature"},
}


@pytest.fixture(scope="module")
def hot():
    return simkit.run(HOT)


def test_a_hot_start_is_said_with_the_mean_after_it(hot):
    """The temperature falls from 12 to that of the bath, 1.5, at twice the friction."""
    figures = summary(hot)["observables"]["T"]
    assert 0.5 < figures["transient"] < 24
    assert abs(figures["settled_mean"] - 1.5) < 4 * figures["settled_stderr"] < 0.1
    assert figures["mean"] - 1.5 > 2 * figures["settled_stderr"]
    (line,) = (line for line in closing_lines(hot) if "away from equilibrium" in line)
    assert line.startswith("! the run begins away from equilibrium")
    assert "equilibrate in a stage before the run" in line


def test_after_a_stage_nothing_is_said():
    cool = simkit.run(HOT | {"stages": {"equilibrate": {"steps": 2000}}})
    assert "transient" not in summary(cool)["observables"]["T"]
    assert not [line for line in closing_lines(cool) if "equilibrium" in line]


def test_a_short_run_that_begins_far_away_says_so_though_its_errors_are_unknown():
    """A perfect crystal, whose potential energy rises in the first steps."""
    short = simkit.run(
        HOT
        | {
            "system": {
                "lattice": {"type": "fcc", "cells": 3, "density": 1.1},
                "velocities": {"temperature": 1.0},
            },
            "solver": {"type": "BAOAB", "temperature": 1.0, "friction": 2.0},
            "time": {"dt": 0.004, "steps": 500},
            "ensemble": {"paths": 1, "seed": 1},
            "observe": {"U": "potential_energy/atoms", "T": "temperature"},
        }
    )
    figures = summary(short)["observables"]
    assert figures["U"]["stderr"] is None
    assert figures["U"]["begins_away"] > 8
    assert "begins_away" not in figures["T"]
    (line,) = (line for line in closing_lines(short) if line.startswith("! the run begins away"))
    assert f"U {figures['U']['begins_away']:.0f} standard deviations from what follows" in line
    assert "equilibrate in a stage before the run" in line


def test_each_variant_has_its_own():
    variants = {"hot": {}, "cool": {"system.velocities.temperature": 1.5}}
    both = simkit.run(HOT | {"variants": variants})
    figures = summary(both)["variants"]
    assert "transient" in figures["hot"]["observables"]["T"]
    (line,) = (line for line in closing_lines(both) if "away from equilibrium" in line)
    assert line.startswith("! hot: the run begins")
