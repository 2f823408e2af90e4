"""Derivatives of averages of molecular dynamics: exact identities, exact gases, and other runs."""

import copy
from typing import Any

import jax
import numpy as np
import pytest
from md_examples import fluid

import simkit
from simkit.derivatives.particles.study import find_derivatives
from simkit.md.experiment import load_particles

pytestmark = pytest.mark.more

BATH = {"type": "BAOAB", "temperature": 1.4, "friction": 1.0}
SPHERES = fluid(
    system={"lattice": {"type": "fcc", "cells": 2, "density": 0.5}},
    potential={"type": "SoftSphere", "epsilon": 1.3, "sigma": 0.9, "n": 12.0, "cutoff": 1.9},
    solver={"type": "BrownianDynamics", "temperature": 1.4, "friction": 20.0},
    time={"dt": 0.02, "steps": 600},
    observe={"P": "pressure", "U": "potential_energy"},
    sensitivity={"wrt": ["epsilon", "sigma", "temperature"]},
)
# Balls that hardly interact: with k = 0 an ideal gas, whose averages are integrals over a pair.
COUNT, DENSITY = 12, 0.6
GAS = fluid(
    system={"random": {"count": COUNT, "density": DENSITY, "least_distance": 0.0}},
    potential={"energy": "k*(1 - r)**2", "parameters": {"k": 0.0}, "cutoff": 1.0},
    solver={"type": "BrownianDynamics", "temperature": 0.7, "friction": 2.0},
    time={"dt": 0.015, "steps": 20_000},
    observe={"P": "pressure", "U": "potential_energy"},
    sensitivity={"wrt": ["k", "temperature"]},
)
SPRING = {
    "system": {"file": "", "box": {"free": True}, "velocities": {"temperature": 1.0}},
    "potential": {"energy": "k*r**2", "parameters": {"k": 2.0}, "cutoff": 40.0},
    "solver": {"type": "BAOAB", "temperature": 1.0, "friction": 2.0},
    "time": {"dt": 0.15, "steps": 6000},
    "save": {"every": 4},
    # The potential is shifted by its value at the cutoff.
    "observe": {
        "U": "potential_energy + 1600*stiffness",
        "K": "kinetic_energy",
        "Z": "(potential_energy + 1600*stiffness)**2 / stiffness",
    },
    "constants": {"stiffness": 2.0},
}


def derivative(dataset, quantity: str, parameter: str) -> tuple[float, float]:
    """A derivative and its standard error."""
    own = dataset.sel(parameter=parameter)
    return float(own[f"{quantity}_derivative"]), float(own[f"{quantity}_derivative_stderr"])


def z(found: tuple[float, float], exact: float, error: float = 0.0) -> float:
    return (found[0] - exact) / np.hypot(found[1], error)


@pytest.mark.slow
def test_inverse_powers_have_one_number_for_energy_size_and_temperature():
    r"""$\epsilon\sigma^n/kT$ is all that configurations depend on, so that, sample by sample,
    $\sigma\partial_\sigma = n\epsilon\partial_\epsilon$ and $\epsilon\partial_\epsilon + T\partial_T$ of an
    energy is that energy, and of a pressure with the ideal part of the bath that pressure.
    """
    found = simkit.sensitivity(SPHERES)
    values = dict(zip(found["parameter"].values, found["parameter_value"].values, strict=True))
    assert values == {"epsilon": 1.3, "sigma": 0.9, "temperature": 1.4}
    for name in ("P", "U"):
        by = {key: values[key] * derivative(found, name, key)[0] for key in values}
        assert by["sigma"] == pytest.approx(12 * by["epsilon"], rel=1e-9)
        assert by["epsilon"] + by["temperature"] == pytest.approx(float(found[f"{name}_mean"]), rel=1e-9)
        assert abs(by["epsilon"]) > 0.04 * float(found[f"{name}_mean"])


@pytest.fixture(scope="module")
def gas():
    return simkit.sensitivity(GAS)


def test_an_ideal_gas_has_the_derivatives_of_its_pair_integrals(gas):
    r"""With $k = 0$ positions are independent, $\langle U'\rangle = N(N-1)/2V \int u' 4\pi r^2 dr$, and
    the covariances vanish: what is left is the explicit term.
    """
    volume = COUNT / DENSITY
    pairs = 4 * np.pi * COUNT * (COUNT - 1) / (2 * volume)
    exact = {"U": pairs / 30, "P": pairs * 2 / (20 * 3 * volume)}
    for name, value in exact.items():
        found = derivative(gas, name, "k")
        assert abs(z(found, value)) < 4.9, name
        assert found[1] < 0.05 * value  # so small that a missing or doubled term is 10 standard errors off


def test_the_pressure_of_an_ideal_gas_is_proportional_to_its_temperature(gas):
    assert derivative(gas, "P", "temperature") == (pytest.approx(DENSITY, rel=1e-12), 0)
    assert derivative(gas, "U", "temperature") == (0, 0)


@pytest.mark.slow
@pytest.mark.user_code  # in quick code some normals, which are float32, have another last bit
def test_the_heat_capacity_is_the_derivative_of_the_energy():
    """By the same fluctuations, but for the temperature, which `fluctuations` takes from the velocities."""
    experiment = fluid(
        solver=BATH | {"friction": 5.0},
        time__steps=10_000,
        system__lattice={"type": "fcc", "cells": 2, "density": 0.6},
        observe={"E": "total_energy/atoms", "T": "temperature", "cv": {"fluctuations": {}}},
        sensitivity={"wrt": ["temperature"], "of": ["E"]},
    )
    run, found = simkit.run(experiment), simkit.sensitivity(experiment)
    assert float(run["E_mean"]) == float(found["E_mean"])  # the same run
    capacity = float(run["cv_heat_capacity"]) * (float(run["T_mean"]) / 1.4) ** 2
    value, error = derivative(found, "E", "temperature")
    assert abs(value - capacity) < 0.02 * error
    assert error < 0.25 * value


def spring(tmp_path, **changes: Any) -> dict[str, Any]:
    file = tmp_path / "two.xyz"
    file.write_text("2\n\nA 0 0 0\nA 1 0 0\n")
    experiment = copy.deepcopy(SPRING) | changes
    experiment["system"]["file"] = str(file)
    return experiment


def test_errors_are_those_of_independent_runs(tmp_path):
    r"""Two particles on a spring: $\langle U\rangle = \frac32 kT$ whatever its strength, $K$ with 6 degrees
    of freedom; the second moment of $U$ over the stiffness has another explicit term.
    """
    experiment = spring(tmp_path, sensitivity={"wrt": ["stiffness", "temperature"]})
    experiment["potential"]["parameters"]["k"] = "stiffness"
    exact = {
        ("U", "stiffness"): 0.0,
        ("U", "temperature"): 1.5,
        ("K", "temperature"): 3.0,
        ("Z", "stiffness"): -3.75 / 4,
        ("Z", "temperature"): 3.75,
    }
    seeds = 24
    scores = {key: [] for key in exact}
    for seed in range(seeds):
        found = simkit.sensitivity(experiment, overrides={"ensemble.seed": seed})
        for (name, by), value in exact.items():
            scores[name, by].append(z(derivative(found, name, by), value))
    for key, each in scores.items():
        squares = np.sum(np.square(each))
        # chi-square of 24 degrees: 3.9 and 69 leave out 1e-6 on either side, and errors have errors.
        assert 5 < squares < 80, (key, squares)
        assert abs(np.sum(each)) < 5.5 * np.sqrt(seeds), key


FLUID = fluid(
    system={
        "lattice": {"type": "fcc", "cells": 2, "density": 0.6},
        "velocities": {"temperature": 1.5},
    },
    potential={
        "type": "LennardJones",
        "epsilon": 1.0,
        "sigma": 1.0,
        "cutoff": 1.8,
        "truncation": "shifted_force",
    },
    stages={"melt": {"steps": 2000}},
    time={"dt": 0.005, "steps": 40_000},
    observe={"P": "pressure", "U": "potential_energy/atoms", "T": "temperature"},
    sensitivity={"wrt": ["epsilon", "sigma", "temperature"]},
)
THERMOSTATS = {
    "BAOAB": {"type": "BAOAB", "temperature": 1.5, "friction": 1.0},
    "bussi": {"type": "StochasticVelocityRescaling", "temperature": 1.5, "relaxation_time": 0.2},
    "chains": {"type": "NoseHooverChains", "temperature": 1.5, "relaxation_time": 0.3},
}


@pytest.mark.slow
@pytest.mark.parametrize("thermostat", THERMOSTATS.values(), ids=THERMOSTATS)
def test_derivatives_are_differences_of_two_runs(thermostat):
    """Of pressure, energy and temperature, by the potential and by the bath, within both errors."""
    experiment = FLUID | {"solver": thermostat}
    found = simkit.sensitivity(experiment)
    for key, change in (("epsilon", 0.1), ("sigma", 0.01), ("temperature", 0.1)):
        section = "solver" if key == "temperature" else "potential"
        value = float(found["parameter_value"].sel(parameter=key))
        ends = [{f"{section}.{key}": value + side * change, "ensemble.seed": 100 + side} for side in (-1, 1)]
        runs = simkit.run(experiment | {"variants": {"below": ends[0], "above": ends[1]}})
        for name in ("P", "U", "T"):
            below, above = (float(x) for x in runs[f"{name}_mean"])
            difference = (above - below) / (2 * change)
            error = np.hypot(*(float(x) for x in runs[f"{name}_stderr"])) / (2 * change)
            own = derivative(found, name, key)
            assert abs(z(own, difference, error)) < 4.9, (name, key, own, difference, error)
            if (name, key) in (("P", "epsilon"), ("U", "epsilon"), ("U", "temperature")):
                assert own[1] < 0.15 * abs(own[0]), (name, key)


MIXED = fluid(
    system__species={"A": {"fraction": 0.75}, "B": {}},
    potential__sigma={"A": 1.0, "B": 0.9},
    potential__epsilon={"A": 1.0, "B": 1.0},
    potential__pairs={"A-B": {"epsilon": 1.2}},
    potential__truncation="switched",
    potential__switch_from=1.7,
    solver=BATH,
    time__steps=40,
    observe={"P": "pressure", "U": "potential_energy"},
)
NUMBERS = ["sigma.A", "epsilon.B", "pairs.A-B.epsilon", "cutoff"]


@pytest.mark.parametrize("count", [pytest.param(0, marks=pytest.mark.slow), 600])
@pytest.mark.parametrize("precision", ["float64", pytest.param("mixed", marks=pytest.mark.slow)])
def test_slopes_of_energy_and_pressure_are_those_of_single_points(precision, count, monkeypatch):
    """By numbers of species and of pairs, over lists and over all pairs, at the first positions."""
    from simkit_physics.particles import choice

    monkeypatch.setattr(choice, "FEW", count)
    experiment = MIXED | {"precision": precision, "sensitivity": {"wrt": NUMBERS}}
    simulation = load_particles(experiment)
    section = simulation.experiment.sensitivity
    assert section is not None
    changes = find_derivatives(simulation, section).result.replicas[0].totals.changes
    volume = simulation.system.volume
    for i, key in enumerate(NUMBERS):
        value, h = 2.0 if key == "cutoff" else 1.0, 1e-5
        value = 1.2 if "pairs" in key else value
        ends = [
            simkit.single_point(MIXED, overrides={f"potential.{key}": value + side * h}) for side in (-1, 1)
        ]
        energy = (ends[1].energy - ends[0].energy) / (2 * h)
        pressure = (ends[1].pressure - ends[0].pressure)[:3].mean() / (2 * h)
        tolerance = 2e-5 if precision == "mixed" else 1e-6
        assert changes.energy[0, i] == pytest.approx(energy, rel=tolerance), key
        assert changes.virial.trace[0, i] / (3 * volume) == pytest.approx(pressure, rel=tolerance), key


@pytest.mark.slow
def test_tails_and_constants_add_their_explicit_terms():
    """The correction for what lies beyond the cutoff, and the constants that an observable names."""
    plain = fluid(
        constants={"bath": 1.4, "depth": 1.1},
        solver=BATH | {"temperature": "bath"},
        potential__epsilon="depth",
        potential__truncation="switched",
        potential__switch_from=1.8,
        observe={"P": "pressure", "Z": "pressure/(density*bath)", "D": "pressure*depth"},
        sensitivity={"wrt": ["bath", "temperature", "depth", "epsilon"]},
    )
    short, long = simkit.sensitivity(plain), simkit.sensitivity(plain, overrides={"potential.tail": True})
    tail = float(long["P_mean"]) - float(short["P_mean"])
    assert tail < -0.5

    def values(dataset, quantity):
        return {str(key): derivative(dataset, quantity, str(key))[0] for key in dataset["parameter"].values}

    pressure, factor, product = (values(short, name) for name in ("P", "Z", "D"))
    mean = {name: float(short[f"{name}_mean"]) for name in ("P", "Z", "D")}
    for key, more in {"epsilon": tail / 1.1, "depth": tail / 1.1, "bath": 0, "temperature": 0}.items():
        assert values(long, "P")[key] == pytest.approx(pressure[key] + more, rel=1e-9)
    assert pressure["bath"] == pytest.approx(pressure["temperature"], rel=1e-9)
    assert pressure["depth"] == pytest.approx(pressure["epsilon"], rel=1e-9)
    assert factor["temperature"] == pytest.approx(pressure["temperature"] / (0.8 * 1.4), rel=1e-9)
    assert factor["bath"] == pytest.approx(factor["temperature"] - mean["Z"] / 1.4, rel=1e-9)
    assert product["epsilon"] == pytest.approx(1.1 * pressure["epsilon"], rel=1e-9)
    assert product["depth"] == pytest.approx(product["epsilon"] + mean["P"], rel=1e-9)


@pytest.mark.slow
@pytest.mark.user_code  # in quick code some normals, which are float32, have another last bit
def test_a_run_with_slopes_is_the_run_without(tmp_path):
    """Steps, seeds and rows are those of `simkit run`."""
    experiment = fluid(solver=BATH, ensemble__paths=2)
    found, run = simkit.sensitivity(experiment, ["sigma"]), simkit.run(experiment)
    for name in ("T", "P", "U", "E"):
        assert float(found[f"{name}_mean"]) == pytest.approx(float(run[f"{name}_mean"]), rel=1e-12)
    assert jax.config.jax_enable_x64
