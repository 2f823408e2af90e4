"""What can be measured with which method, potential and run; the rest is refused, or a reason is given."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from md_examples import fluid, problems
from simkit_solvers import ParticleTotals, Tensor

from simkit.md.experiment import load_particles
from simkit.md.functions import FluctuationFunctions, RadialFunction
from simkit.md.functions.fluctuations import FluctuationResult
from simkit.md.functions.radial import RadialResult
from simkit.md.quantities import QUANTITIES, Measured
from simkit.md.result import ParticleResult, ReplicaResult
from simkit.md.saved_state import SavedState
from simkit.md.simulation import conserves
from simkit.md.table import closing_lines
from simkit.time_series import Estimate

BATH = {"temperature": 1.3, "friction": 2.0}
CURVE = {"bath": {"times": [0, 0.05, 0.1], "values": [2.0, 1.0, 4.0], "outside": "hold"}}
MEANINGLESS = "needs velocities, and those of BrownianDynamics mean nothing; take potential_energy"


@pytest.mark.parametrize(
    "quantity", ["temperature", "kinetic_energy", "total_energy/atoms", "conserved_energy"]
)
def test_momenta_that_mean_nothing_are_not_measured(quantity):
    experiment = fluid(solver={"type": "BrownianDynamics", **BATH}, observe={"X": quantity})
    name = quantity.removesuffix("/atoms")
    assert any(line.startswith(f"observe.X: {name} {MEANINGLESS}") for line in problems(experiment))


def test_without_velocities_the_usual_observables_are_pressure_and_potential_energy():
    simulation = load_particles(fluid(solver={"type": "BrownianDynamics", **BATH}))
    assert list(simulation.scalars) == ["P", "U"]


def tensor(values) -> Tensor:
    return Tensor(*jnp.moveaxis(jnp.asarray(values), -1, 0))


def test_a_tail_is_in_all_energies_but_the_kinetic_one_and_on_the_diagonal_of_the_pressure():
    virial, kinetic = np.random.default_rng(0).standard_normal((2, 1, 1, 6))
    ones = jnp.ones((1, 1))
    without = Measured(
        ParticleTotals(ones, tensor(virial), tensor(kinetic), 3 * ones),
        atoms=10,
        volume=20.0,
        degrees=27,
        boltzmann=2.0,
        pressure=4.0,
    )
    with_it = dataclasses.replace(without, tail_energy=-5.0, tail_pressure=-0.25)
    energies = dict.fromkeys(("potential_energy", "total_energy", "conserved_energy"), -5.0)
    pressures = dict.fromkeys(("pressure", "pressure_xx", "pressure_yy", "pressure_zz"), -0.25 * 4)
    for name, quantity in QUANTITIES.items():
        change = float(quantity.value(with_it)[0, 0] - quantity.value(without)[0, 0])
        assert change == pytest.approx((energies | pressures).get(name, 0.0), abs=1e-12), name


@pytest.mark.parametrize(("bath", "temperatures"), [(1.3, [1.3] * 3), ("bath", [2, 1, 2.5])])
def test_the_pressure_of_brownian_dynamics_has_the_ideal_part_of_its_bath(bath, temperatures):
    """And nothing of its momenta, which never change."""
    solver = {"type": "BrownianDynamics", "temperature": bath, "friction": 2.0}
    simulation = load_particles(fluid(solver=solver, curves=CURVE, time__dt=0.025))
    virials, kinetic = np.random.default_rng(0).standard_normal((2, 3, 6))
    totals = ParticleTotals(jnp.zeros(3), tensor(virials), tensor(kinetic), jnp.zeros(3))
    replica = ReplicaResult(
        steps=np.array([0, 2, 3]),
        totals=totals,
        accumulators={},
        renewals=0,
        fewest_steps=0,
        chosen={},
        last=simulation.system.particles,
        state=SavedState({}, {}),
        clock=3,
        forces=None,
    )
    measured = ParticleResult(simulation, (replica,), {}, {}, 1.0, 1.0, "").measured
    volume = 108 / 0.8
    ideal = 0.8 * np.array(temperatures)
    for i, name in enumerate(("xx", "yy", "zz", "xy", "xz", "yz")):
        exact = virials[:, i] / volume + (ideal if i < 3 else 0)
        np.testing.assert_allclose(measured.component(name)[0], exact, rtol=1e-12)
    exact = virials[:, :3].mean(1) / volume + ideal
    np.testing.assert_allclose(measured.mean_pressure[0], exact, rtol=1e-12)


FLUCTUATIONS = {"c": {"fluctuations": {}}}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, "with truncation: shifted the force jumps at the cutoff; take shifted_force or switched"),
        ({"potential__truncation": "plain"}, "with truncation: plain the force jumps"),
        (
            {"potential__truncation": "switched", "potential__switch_from": 1.5, "potential__tail": True},
            "it would lack what lies beyond the cutoff; take tail: false",
        ),
        (
            {"potential__truncation": "shifted_force", "potential__cutoff": 2.6},
            "the cutoff 2.6 is more than 2.56496, half the least width of the box; take a larger box",
        ),
        ({"potential__truncation": "shifted_force"}, None),
    ],
)
def test_a_compressibility_needs_continuous_forces_no_tail_and_a_box_of_two_cutoffs(changes, reason):
    simulation = load_particles(fluid(observe=FLUCTUATIONS, **changes))
    function, system = simulation.functions["c"], simulation.system
    assert isinstance(function, FluctuationFunctions)
    assert (function.measurement(system, system.particles).box is None) == (reason is not None)
    if reason is not None:
        assert function.missing.startswith(f"no compressibility: {reason}")


def test_a_compressibility_has_the_unit_of_one_over_the_pressure():
    """In a system of units whose pressure is not energy over volume."""
    changes = {"system__units": "real", "system__species": {"A": {"mass": 40.0}}}
    simulation = load_particles(fluid(observe=FLUCTUATIONS, potential__truncation="shifted_force", **changes))
    one = Estimate(*map(np.asarray, (2.0, 0.1, 0.5, 0.1, 10.0)), samples=100)
    function, system = simulation.functions["c"], simulation.system
    variables = function.labelled(system, FluctuationResult(one, one)).variables
    value, error = (variables[f"c_compressibility{end}"] for end in ("", "_stderr"))
    assert value[2]["units"] == "1/atm"
    assert float(value[1]) * system.units.pressure == pytest.approx(2.0)
    assert float(error[1]) * system.units.pressure == pytest.approx(0.1)


@pytest.mark.parametrize("type", ["BAOAB", "NoseHooverChains", "StochasticVelocityRescaling"])
def test_fluctuations_need_a_constant_temperature(type):
    more = {"BAOAB": {"friction": 1.0}}.get(type, {"relaxation_time": 0.1})
    solver = {"type": type, "temperature": "bath", **more}
    experiment = fluid(solver=solver, curves=CURVE, observe=FLUCTUATIONS)
    expected = "observe.c.fluctuations: needs a constant temperature, and that of the solver follows a curve"
    assert problems(experiment)[0].startswith(expected)


def test_a_chain_of_thermostats_conserves_nothing_where_its_temperature_changes():
    for type, temperature, expected in (
        ("NoseHooverChains", 1.0, True),
        ("NoseHooverChains", "bath", False),
        ("StochasticVelocityRescaling", "bath", True),
    ):
        solver = {"type": type, "temperature": temperature, "relaxation_time": 0.1}
        experiment = fluid(solver=solver, curves=CURVE, observe={"U": "potential_energy"})
        assert conserves(load_particles(experiment).run.method) == expected
        if not expected:
            line = problems(experiment | {"observe": {"H": "conserved_energy"}})[0]
            assert line.startswith("observe.H: conserved_energy is not conserved by NoseHooverChains")


@pytest.mark.parametrize("steps", [40, 41, 57, 1000])
def test_by_default_there_are_enough_lags_to_fit(steps):
    load_particles(fluid(time__steps=steps, save__every=1, observe={"D": {"msd": {"every": 1}}}))


def test_a_longest_time_that_leaves_no_lags_to_fit_is_refused():
    for lags, fits in ((8, False), (16, True)):
        wanted = {"D": {"msd": {"every": 1, "longest": 0.004 * lags}}}
        experiment = fluid(time__steps=1000, save__every=1, observe=wanted)
        if fits:
            load_particles(experiment)
        else:
            expected = "observe.D.msd.longest: must be at least 0.064 for a diffusion coefficient"
            assert problems(experiment)[0].startswith(expected)


def test_a_drift_without_an_error_says_so_with_the_reason():
    about = {"units": "E/t", "stderr_unknown": "9 autocorrelation times of data"}
    attributes = {
        "functions": "",
        "observables": "",
        "numbers": "",
        "paths": 1,
        "steps": 10,
        "particles": 4,
        "ensemble": "NVE",
    }
    attributes |= {"units": "lj", "forces": "f", "elapsed_s": 1.0, "atom_steps_per_s": 1.0, "compile_s": 1.0}
    drift = {"drift": ((), 1.5e-5, about), "drift_stderr": ((), np.nan, {})}
    lines = closing_lines(xr.Dataset(drift, attrs=attributes))
    assert lines[0] == "error of drift unknown: 9 autocorrelation times of data"
    assert lines[1] == "drift of the conserved energy: 1.5e-05 ± ? E/t per particle"


def test_coordination_numbers_stand_at_the_outer_ends_of_bins():
    simulation = load_particles(fluid(observe={"g": {"rdf": {"bins": 10, "max": 2.0, "every": 10}}}))
    function, system = simulation.functions["g"], simulation.system
    assert isinstance(function, RadialFunction)
    nothing = Estimate(*(np.zeros((1, 10)),) * 5, samples=1)
    edges = np.linspace(0, 2, 11)
    result = RadialResult([(0, 0)], edges[1:] - 0.1, edges, nothing, nothing, np.zeros((1, 10), int))
    labelled = function.labelled(system, result)
    dataset = xr.Dataset(labelled.variables, labelled.coordinates)
    assert dataset["g"].dims == ("g_pair", "g_r")
    assert dataset["g_coordination"].dims == ("g_pair", "g_edge")
    np.testing.assert_allclose(dataset["g_edge"], 0.2 * np.arange(1, 11))
    np.testing.assert_allclose(dataset["g_r"], 0.2 * np.arange(10) + 0.1)
