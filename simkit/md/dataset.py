"""The result of a run of particles as a labelled `xarray.Dataset`."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr

from simkit.md.quantities import COMPONENTS, QUANTITIES, Measured
from simkit.md.result import ParticleResult
from simkit.md.simulation import ParticleSimulation, RadialObservable, ScalarObservable
from simkit.results.variables import Variables, variable, with_stderr
from simkit.time_series import BlockSums, Estimate, of_series, slope

FORMAT = 1
KIND = "particles"
BLOCKS = 64  # of a series, from which the drift is fitted
CONSERVING = ("NVE", "NVT")


def to_particle_dataset(result: ParticleResult, provenance: Mapping[str, str]) -> xr.Dataset:
    """Series, means with standard errors and correlation times, distributions, and what a run was made of."""
    simulation = result.simulation
    with jax.enable_x64(True):
        measured = result.measured
        values = scalar_values(simulation, measured)
        drift = _drift(result, measured)
    variables: Variables = {}
    coordinates: Variables = {
        "time": variable(
            ("time",), result.steps * simulation.production.dt, _label(simulation, "time"), "time"
        ),
        "step": variable(("time",), result.steps, "1", "steps since the start of the run"),
        "path": variable(("path",), np.arange(simulation.paths), "1", "replica"),
    }
    for name, each in simulation.observables.items():
        if isinstance(each, ScalarObservable):
            variables |= _scalar(simulation, each, values[name])
        elif simulation.production.steps:
            own, axes = _radial(result, each)
            variables, coordinates = variables | own, coordinates | axes
    variables |= drift
    if not simulation.production.steps:
        own, axes = _single_point(result, measured)
        variables, coordinates = variables | own, coordinates | axes
    return xr.Dataset(variables, coordinates, _attributes(result, provenance))


def scalar_values(simulation: ParticleSimulation, measured: Measured) -> dict[str, np.ndarray]:
    """The values of each scalar observable, arrays (paths, rows)."""
    shape = np.shape(measured.totals.potential)
    environment: dict[str, Any] = dict(simulation.constants)
    scalars = [each for each in simulation.observables.values() if isinstance(each, ScalarObservable)]
    needed = {name for each in scalars for name in each.expression.names}
    environment |= {
        name: jnp.asarray(QUANTITIES[name].value(measured)) for name in QUANTITIES if name in needed
    }
    return {
        each.name: np.array(np.broadcast_to(np.asarray(each.expression(environment), float), shape))
        for each in scalars
    }


def _scalar(simulation: ParticleSimulation, observable: ScalarObservable, values: np.ndarray) -> Variables:
    name, unit, text = observable.name, observable.unit, observable.expression.text
    interval = simulation.every * simulation.production.dt
    mean, stderr, tau, reason = mean_of(values)
    about = {"n": int(values.size)} | ({"stderr_unknown": reason} if reason else {})
    variables = with_stderr(f"{name}_mean", (), mean, stderr, unit, f"mean of {text}", **about)
    variables[f"{name}_stderr"] = variables.pop(f"{name}_mean_stderr")
    what = f"integrated autocorrelation time of {text}"
    variables[f"{name}_correlation_time"] = variable((), tau * interval, _label(simulation, "time"), what)
    variables[f"{name}_path"] = variable(("path", "time"), values, unit, text)
    return variables


def mean_of(values: np.ndarray) -> tuple[float, float, float, str]:
    """Mean, standard error, autocorrelation time of a series (paths, rows), and why an error is unknown."""
    if values.shape[1] == 1:
        return float(values.mean()), np.nan, np.nan, ""
    found: Estimate = of_series(values[:, :, None])
    numbers = (float(np.ravel(each)[0]) for each in (found.value, found.stderr, found.tau))
    mean, stderr, tau = numbers
    return mean, stderr, tau, (found.reason or "").removeprefix("unknown: ")


def _drift(result: ParticleResult, measured: Measured) -> Variables:
    """How fast what the exact motion keeps changes in the long run, per particle."""
    simulation = result.simulation
    rows = len(result.steps)
    if simulation.production.method.ensemble not in CONSERVING or rows < 3:
        return {}
    energy = np.asarray(QUANTITIES["conserved_energy"].value(measured)) / measured.atoms
    deviations = (energy - energy[:, :1])[:, :, None]
    length = max(1, rows // BLOCKS)
    whole = rows // length
    cut = deviations[:, : whole * length].reshape(len(energy), whole, length, 1)
    sums = BlockSums(length, energy.size, cut.sum(2), deviations.sum((0, 1)))
    found = slope(sums, simulation.every * simulation.production.dt)
    unit = _label(simulation, "energy/time")
    value, stderr = float(found.value[0]), float(found.stderr[0])
    about = {"stderr_unknown": found.reason.removeprefix("unknown: ")} if found.reason else {}
    return with_stderr(
        "drift", (), value, stderr, unit, "drift of the conserved energy per particle", **about
    )


def _radial(result: ParticleResult, observable: RadialObservable) -> tuple[Variables, Variables]:
    simulation, name = result.simulation, observable.name
    found = result.observers[name].result([each.structured[name] for each in result.replicas])
    length, names = _label(simulation, "length"), simulation.names
    pairs = np.array([f"{names[a]}-{names[b]}" for a, b in found.pairs], object)
    dims = (f"{name}_pair", f"{name}_r")
    coordinates = {
        dims[0]: variable((dims[0],), pairs, "1", "pair of species"),
        dims[1]: variable((dims[1],), found.r, length, "distance"),
    }
    g, around = found.g, found.coordination
    variables = with_stderr(name, dims, g.value, g.stderr, "1", "radial distribution function")
    text = "mean number of the second species within the outer end of the bin around one of the first"
    variables |= with_stderr(f"{name}_coordination", dims, around.value, around.stderr, "1", text)
    return variables, coordinates


def _single_point(result: ParticleResult, measured: Measured) -> tuple[Variables, Variables]:
    """Energy, pressure and forces of the initial positions, by replica where there are several."""
    simulation = result.simulation
    forces = np.stack([each.forces for each in result.replicas if each.forces is not None])
    energy = np.asarray(QUANTITIES["potential_energy"].value(measured))[:, 0]
    variables = {
        "force": variable(
            ("path", "particle", "axis"), forces, _label(simulation, "energy/length"), "force on a particle"
        ),
        "potential_energy": variable(("path",), energy, _label(simulation, "energy"), "potential energy"),
    }
    coordinates = {
        "particle": variable(("particle",), np.arange(forces.shape[1]), "1", "number of the particle"),
        "axis": variable(("axis",), np.array(["x", "y", "z"], object), "1", "axis"),
    }
    if simulation.cell is not None:
        components = [np.asarray(measured.component(ab))[:, 0] for ab in COMPONENTS]
        label = _label(simulation, "pressure")
        variables["pressure"] = variable(
            ("path", "component"), np.stack(components, axis=1), label, "pressure"
        )
        coordinates["component"] = variable(("component",), np.array(COMPONENTS, object), "1", "component")
    return variables, coordinates


def _attributes(result: ParticleResult, provenance: Mapping[str, str]) -> dict[str, Any]:
    simulation, stage = result.simulation, result.simulation.production
    potential = simulation.experiment.potential
    scalars = [name for name, each in simulation.observables.items() if isinstance(each, ScalarObservable)]
    radial = [name for name in simulation.observables if name not in scalars]
    count = simulation.particles.count
    steps = sum(each.steps for each in simulation.stages)
    work = count * steps * simulation.paths
    return {
        "simkit_format": FORMAT,
        "simkit_kind": KIND,
        "potential": potential.type or f"energy {potential.energy}",
        "truncation": potential.truncation,
        "solver": simulation.experiment.solver.type,
        "ensemble": stage.method.ensemble,
        "units": simulation.units.name,
        "observables": " ".join(scalars),
        "distributions": " ".join(radial) if stage.steps else "",
        "particles": count,
        "species": " ".join(simulation.names),
        "paths": simulation.paths,
        "steps": stage.steps,
        "dt": stage.dt,
        "every": simulation.every,
        "stages": " ".join(each.name for each in simulation.stages[:-1]),
        "seed": str(simulation.seed),
        "precision": simulation.precision,
        "forces": _forces_text(result),
        **{f"forces_{key}": value for key, value in result.forces.items() if key != "forces"},
        "elapsed_s": float(result.elapsed_s),
        "compile_s": float(result.compile_s),
        "atom_steps_per_s": float(work / result.elapsed_s) if result.elapsed_s else 0.0,
        **provenance,
    }


def _forces_text(result: ParticleResult) -> str:
    """What was chosen for the forces, and how often lists were renewed."""
    facts = result.forces
    shown = [key for key in ("cutoff", "skin", "images") if key in facts]
    text = ", ".join(f"{key} {_short(facts[key])}" for key in shown)
    renewals = sum(each.renewals for each in result.replicas)
    steps = result.simulation.production.steps * result.simulation.paths
    if "skin" in facts and renewals > 1 and steps:
        fewest = min(each.fewest_steps for each in result.replicas)
        text += f", renewed every {steps / renewals:.1f} steps (at least {fewest})"
    return f"{facts['forces']}: {text}"


def _short(value: int | float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _label(simulation: ParticleSimulation, quantity: str) -> str:
    return simulation.units.label(quantity)
