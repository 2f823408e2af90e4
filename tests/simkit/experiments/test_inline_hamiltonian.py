"""Hamiltonian systems written in the file by their energies."""

import copy

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_physics import HenonHeiles, Pendulum
from simkit_solvers import AbstractHamiltonian

import simkit
from simkit import InputError, experiment_schema, load

PENDULUM = {
    "constants": {"g": 9.81},
    "model": {
        "hamiltonian": {"kinetic": "p**2/(2*m*l**2)", "potential": "-m*g*l*cos(theta)"},
        "coordinates": {"theta": "p"},
        "parameters": {"m": 1.2, "l": "0.5 + 0.2"},
    },
    "initial": {"theta": 2.5, "p": 0.0},
    "solver": "Leapfrog",
    "time": {"t1": 5.0, "steps": 500},
    "save": {"points": 100},
    "observe": {"energy": {"value": "p**2/(2*m*l**2) - m*g*l*cos(theta)", "at": "each"}},
}
STAR = {
    "model": {
        "hamiltonian": {
            "kinetic": "(px**2 + py**2)/2",
            "potential": "(x**2 + y**2)/2 + c*(x**2*y - y**3/3)",
        },
        "coordinates": {"x": "px", "y": "py"},
        "parameters": {"c": 0.8},
    },
    "initial": {"x": 0.0, "y": 0.1, "px": 0.4, "py": 0.0},
    "time": {"t1": 5.0, "steps": 500},
}


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize(
    ("experiment", "model"),
    [(PENDULUM, Pendulum(m=1.2, l=0.7, g=9.81)), (STAR, HenonHeiles(coupling=0.8))],
    ids=["pendulum", "star"],
)
def test_the_equations_follow_from_the_energies(experiment, model, dtype):
    """They are those of the model written in Python, in the same precision."""
    problem = load(experiment).problem
    numbers = np.random.default_rng(1).normal(size=len(model.State._fields))
    y = [jnp.asarray(x, dtype) for x in numbers]
    assert isinstance(problem, AbstractHamiltonian)
    assert problem.State._fields == model.State._fields
    for a, b in zip(problem.drift(0.0, problem.State(*y)), model.drift(0.0, model.State(*y)), strict=True):
        assert a.dtype == dtype
        assert a == pytest.approx(float(b), rel=5 * float(jnp.finfo(dtype).eps))
    assert problem.energy(problem.State(*y)).dtype == dtype
    assert problem.energy(problem.State(*y)) == pytest.approx(float(model.energy(model.State(*y))), rel=1e-6)


def test_a_symplectic_run_keeps_the_energy():
    result = simkit.run(PENDULUM, overrides=["ensemble.devices=1"])
    energy = result["energy_mean"].values
    assert 1e-5 < np.ptp(energy) < 2e-3 * abs(energy[0])  # of the order of the square of the step
    assert np.ptp(result["theta_mean"].values) > 4.9


def test_derivatives_reach_constants_in_the_energies():
    simulation = load(PENDULUM)
    assert simulation.bind is not None

    def pull(g):
        problem = simulation.bind({"g": g}).problem
        return problem.drift(0.0, problem.State(jnp.asarray(2.5), jnp.asarray(0.0))).p

    assert jax.grad(pull)(9.81) == pytest.approx(-1.2 * 0.7 * np.sin(2.5))


def changed(path, value):
    experiment = copy.deepcopy(PENDULUM)
    *folders, last = path.split(".")
    section = experiment
    for folder in folders:
        section = section[folder]
    if value is None:
        del section[last]
    else:
        section[last] = value
    return experiment


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (
            "model.hamiltonian.kinetic",
            "p**2*theta",
            "model.hamiltonian.kinetic: uses theta, a position; the kinetic energy may depend on the momenta "
            "(p) alone; write a system that does not separate under ode",
        ),
        (
            "model.hamiltonian.potential",
            "cos(theta) + p",
            "model.hamiltonian.potential: uses p, a momentum; the potential energy may depend on the "
            "positions (theta) alone; write a system that does not separate under ode",
        ),
        (
            "model.hamiltonian.potential",
            "cos(theta - t)",
            "model.hamiltonian.potential: uses t, the time; the potential energy may depend on the "
            "positions (theta) alone; write a system that does not separate under ode",
        ),
        (
            "model.hamiltonian.kinetic",
            "q**2",
            "model.hamiltonian.kinetic: unknown name 'q' (column 1 of the expression)",
        ),
        (
            "model.hamiltonian.potential",
            None,
            "model.hamiltonian.potential: is missing; potential energy; an expression of the positions",
        ),
        (
            "model.hamiltonian.kinetc",
            "p",
            "model.hamiltonian.kinetc: unknown key",
        ),
        (
            "model.coordinates",
            {"theta": "theta"},
            "model.coordinates.theta: theta is the name of two variables; choose another name",
        ),
        ("model.coordinates", {}, "model.coordinates: needs at least one position with its momentum"),
        ("model.coordinates", None, "model.coordinates: is missing; each position with its momentum"),
        ("model.coordinates.theta", 3, "model.coordinates.theta: must be text, got 3; put it in quotes"),
        (
            "model.parameters.energy",
            1.0,
            "model.parameters.energy: 'energy' is the name of a part of a model; choose another",
        ),
        ("model.parameters.p", 1.0, "model.parameters.p: p is a state variable; choose another name"),
        ("model.ode", {"x": "v"}, "model.hamiltonian: give ode or hamiltonian, not both"),
        ("initial.p", None, "initial.p: is missing; the value of p at t0"),
        ("constants.m", 2.0, "model.hamiltonian.kinetic: m is a constant and also a parameter of the model"),
    ],
)
def test_an_error_is_named_with_its_remedy(path, value, message):
    with pytest.raises(InputError) as caught:
        load(changed(path, value))
    assert any(line.startswith(message) for line in str(caught.value).splitlines())


def test_an_error_in_a_constant_of_the_energies_is_the_only_one():
    wrong = {"hamiltonian": {"kinetic": "p**2/2", "potential": "k*q**2/2"}, "coordinates": {"q": "p"}}
    experiment = {"constants": {"k": "1/"}, "model": wrong, "initial": {"q": 1, "p": 0}}
    with pytest.raises(InputError, match=r"^constants.k: not an expression: it ends too early[^\n]*$"):
        load({**experiment, "time": {"t1": 1, "steps": 4}})


def test_the_schema_describes_it():
    schema = experiment_schema()
    definitions = schema["$defs"]
    assert {"$ref": "#/$defs/InlineHamiltonian"} in schema["properties"]["model"]["oneOf"]
    assert set(definitions["InlineHamiltonian"]["required"]) == {"hamiltonian", "coordinates"}
    assert set(definitions["Energies"]["required"]) == {"kinetic", "potential"}
