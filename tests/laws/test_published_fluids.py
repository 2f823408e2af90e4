"""Lennard-Jones fluids against published numbers at the same density, size and truncation."""

import numpy as np
import pytest
from checkout import EXAMPLES
from md_examples import fluid
from simkit_physics.particles import choice

import simkit

pytestmark = [pytest.mark.slow, pytest.mark.user_code]


@pytest.fixture(autouse=True)
def lists(monkeypatch):
    """Lists for fewer particles than usual, which take less time here than all pairs."""
    monkeypatch.setattr(choice, "FEW", 200)


def sigmas(dataset, name: str, expected: float, uncertainty: float = 0.0) -> float:
    """How many standard errors a number is from the one expected, whose own error is added."""
    value, error = float(dataset[name]), float(dataset[f"{name.removesuffix('_mean')}_stderr"])
    print(f"{name}: {value:.5f} ± {error:.5f}, published {expected}")
    return (value - expected) / np.hypot(error, uncertainty)


def test_the_equation_of_state_and_the_heat_capacity_are_those_published():
    """Cut and shifted at 2.5: Thol et al. (2015), doi:10.1063/1.4908213, with 500 particles.

    Their fit is good to 0.3 % in U and P and to 2 % in C_V.
    """
    run = simkit.run(
        EXAMPLES / "particles/lj_fluid.yaml",
        overrides={"output": None, "observe.g": None, "ensemble.paths": 2, "time.steps": 24000},
    )
    assert run.attrs["particles"] == 500
    assert float(run["T_stderr"]) < 0.005
    for name, expected, relative in (("U_mean", -2.928651, 3e-3), ("P_mean", 0.989696, 3e-3)):
        assert abs(sigmas(run, name, expected, relative * abs(expected))) < 3
    assert abs(sigmas(run, "cv_heat_capacity", 2.278735, 0.02 * 2.278735)) < 3
    assert float(run["cv_heat_capacity_stderr"]) < 0.3


def at_nist_state(density: float, temperature: float, cells: int = 5, **changes):
    """The state of NIST's runs at constant energy: 500 particles, cutoff 3, tail corrections, steps of 0.005.

    A weak thermostat of the kinetic energy as a whole keeps the temperature, which moves diffusion by 1/N.
    """
    bath = {"type": "StochasticVelocityRescaling", "temperature": temperature, "relaxation_time": 2.0}
    return fluid(
        system={
            "lattice": {"type": "fcc", "cells": cells, "density": density},
            "velocities": {"temperature": 2 * temperature},
        },
        potential={
            "type": "LennardJones",
            "epsilon": 1.0,
            "sigma": 1.0,
            "cutoff": 3.0,
            "truncation": "plain",
            "tail": True,
        },
        stages={"melt": {"solver": bath | {"relaxation_time": 0.1}, "steps": 3000}},
        solver=bath,
        time={"dt": 0.005, "steps": 20_000},
        ensemble={"paths": 2, "seed": 7},
        save={"every": 10},
        observe={
            "T": "temperature",
            "U": "potential_energy/atoms",
            "P": "pressure",
            "D": {"msd": {"every": 20, "longest": 10.0}},
        },
        **changes,
    )


@pytest.mark.parametrize(
    ("temperature", "density", "U", "P", "D"),
    [(0.851, 0.776, -5.517, 0.030, 0.061), (0.851, 0.84, -5.909, 0.910, 0.042)],
)
def test_diffusion_energy_and_pressure_are_those_of_nist(temperature, density, U, P, D):
    """NIST's Lennard-Jones fluid properties, molecular dynamics (NVE), 500 particles.

    https://www.nist.gov/mml/csd/chemical-informatics-group/lennard-jones-fluid-properties. The standard
    deviations there are 0.001 of T and of U, 0.006 of P; D has three digits, and changes by 0.002 against the
    trend from one density to the next. An error of T makes one of U 2.4 times and one of P 6 times as large.
    """
    run = simkit.run(at_nist_state(density, temperature))
    assert abs(sigmas(run, "T_mean", temperature)) < 4.5
    assert abs(sigmas(run, "U_mean", U, 0.0026)) < 3
    assert abs(sigmas(run, "P_mean", P, 0.0085)) < 3
    value, error = float(run["D_diffusion"].squeeze()), float(run["D_diffusion_stderr"].squeeze())
    print(f"D: {value:.5f} ± {error:.5f}, published {D}")
    assert error < 0.0015
    assert abs(value - D) < 3 * np.hypot(error, 0.002)
