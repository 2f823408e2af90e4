"""The result of a run of particles as a labelled `xarray.Dataset`."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import xarray as xr
from jaxtyping import Float
from simkit_physics.particles.potentials.potential import AbstractPotential

from simkit.md.files.run_dataset import KIND, end_variables, without_states
from simkit.md.functions.function import species_axis
from simkit.md.quantities import COMPONENTS, QUANTITIES, Measured
from simkit.md.result import ParticleResult
from simkit.md.simulation import ParticleSimulation, ScalarObservable, conserves
from simkit.md.trajectory import FORMAT, axis_coordinate, frame_of, particle_variables
from simkit.results.variables import Variables, variable, with_stderr
from simkit.results.variant_dataset import side_by_side
from simkit.time_series import (
    FEWEST_REPLICAS,
    begins_away,
    blocks_of,
    in_one_block,
    of_series,
    slope,
    transient_of,
)

DIAMETER = "sigma of the potential, as large as particles are drawn"


def to_particle_dataset(result: ParticleResult, provenance: Mapping[str, str]) -> xr.Dataset:
    """Series, means with standard errors and correlation times, functions, and what a run was made of."""
    with jax.enable_x64(True):
        return _labelled(result, provenance)


def _labelled(result: ParticleResult, provenance: Mapping[str, str]) -> xr.Dataset:
    simulation, system, measured = result.simulation, result.simulation.system, result.measured
    values, variables = scalar_values(simulation, measured), _drift(result, measured)
    time = system.units.label("time")
    coordinates: Variables = {
        "time": variable(("time",), result.steps * system.run.dt, time, "time"),
        "step": variable(("time",), result.steps, "1", "steps since the start of the run"),
        "path": variable(("path",), np.arange(simulation.paths), "1", "replica"),
    }
    for name, scalar in simulation.scalars.items():
        variables |= _scalar(name, scalar, simulation, values[name])
    numbers: list[str] = []
    for name, function in simulation.functions.items():
        accumulators = [each.accumulators[name] for each in result.replicas]
        if simulation.energies_are_drawn and len(accumulators) >= FEWEST_REPLICAS:
            accumulators = in_one_block(accumulators)
        own_result = result.observers[name].result(accumulators)
        labelled = function.labelled(system, own_result)
        variables |= labelled.variables
        coordinates |= labelled.coordinates
        numbers += labelled.numbers
    variables |= _end(result)
    coordinates |= particle_variables(simulation) | axis_coordinate()
    if (sigma := _sigma(system.potential.potential)) is not None:
        species, kinds = species_axis(system)
        coordinates[species] = kinds
        table = np.broadcast_to(sigma, (len(system.names),) * 2)
        variables["diameter"] = variable((species,), np.diag(table), system.units.label("length"), DIAMETER)
    if not system.run.steps:
        own, axes = _single_point(result, measured)
        variables, coordinates = variables | own, coordinates | axes
    attributes = attributes_of(result) | {"numbers": " ".join(numbers)} | dict(provenance)
    return xr.Dataset(variables, coordinates, attributes)


def _sigma(potential: AbstractPotential) -> np.ndarray | None:
    """The parameter `sigma`, of a potential by its name or one that is written as an energy."""
    sigma = getattr(potential, "sigma", getattr(potential, "parameters", {}).get("sigma"))
    return None if sigma is None else np.asarray(sigma, float)


def of_variants(datasets: Mapping[str, xr.Dataset], configuration: str) -> xr.Dataset:
    """The datasets of variants as one along `variant` (`side_by_side`), with the `configuration` of all.

    Times are sums, and the speed is that of all. States to go on from are left out.
    """
    each = [dataset.attrs for dataset in datasets.values()]
    elapsed, compiled = (sum(attributes[key] for attributes in each) for key in ("elapsed_s", "compile_s"))
    work = sum(attributes["atom_steps_per_s"] * attributes["elapsed_s"] for attributes in each)
    ends = {name: without_states(dataset) for name, dataset in datasets.items()}
    return side_by_side(ends).assign_attrs(
        {
            "configuration": configuration,
            "elapsed_s": elapsed,
            "compile_s": compiled,
            "atom_steps_per_s": work / elapsed if elapsed else 0.0,
        }
    )


def scalar_values(simulation: ParticleSimulation, measured: Measured) -> dict[str, np.ndarray]:
    """The values of each scalar observable, arrays (paths, rows)."""
    values = observed(simulation, measured, simulation.constants.values)
    return {name: np.array(each) for name, each in values.items()}


def observed(
    simulation: ParticleSimulation, measured: Measured, constants: Mapping[str, Any]
) -> dict[str, jax.Array]:
    """The scalar observables as a function of measurements and constants that JAX can differentiate."""
    shape = np.shape(measured.totals.potential)
    environment: dict[str, Any] = dict(constants)
    needed = {name for each in simulation.scalars.values() for name in each.expression.names}
    for name in needed & QUANTITIES.keys():
        environment[name] = jnp.asarray(QUANTITIES[name].value(measured))
    return {
        name: jnp.broadcast_to(jnp.asarray(each.expression(environment), float), shape)
        for name, each in simulation.scalars.items()
    }


def _scalar(
    name: str, scalar: ScalarObservable, simulation: ParticleSimulation, values: np.ndarray
) -> Variables:
    system, separate = simulation.system, simulation.energies_are_drawn
    unit, text = scalar.unit, scalar.expression.text
    mean = mean_of(values, separate)
    about: dict[str, Any] = {"n": int(values.size)}
    about |= {"stderr_unknown": mean.unknown} if mean.unknown else {}
    if (start := transient_of(values, separate)) is not None:
        about |= {"transient": start.samples * system.interval}
        about |= {"settled_mean": start.mean, "settled_stderr": start.stderr}
    elif np.isnan(mean.stderr) and (away := begins_away(values)) is not None:
        about |= {"begins_away": away}
    variables = {
        f"{name}_mean": variable((), mean.value, unit, f"mean of {text}", **about),
        f"{name}_stderr": variable((), mean.stderr, unit, f"standard error of the mean of {text}"),
        f"{name}_path": variable(("path", "time"), values, unit, text),
    }
    return variables | with_stderr(
        f"{name}_correlation_time",
        (),
        mean.tau * system.interval,
        mean.tau_stderr * system.interval,
        system.units.label("time"),
        f"integrated autocorrelation time of {text}",
    )


class SeriesMean(NamedTuple):
    """A mean over a series, its integrated autocorrelation time in samples, their standard errors, and why
    that of the mean is not known."""

    value: float
    stderr: float
    tau: float
    tau_stderr: float
    unknown: str


def mean_of(values: Float[np.ndarray, "paths rows"], separate: bool = False) -> SeriesMean:
    """The mean over all rows of all paths, which may have `separate` means. A single row has no error."""
    if values.shape[1] == 1:
        return SeriesMean(float(values.mean()), np.nan, np.nan, np.nan, "")
    estimate = of_series(values[:, :, None], separate)
    figures = estimate.value, estimate.stderr, estimate.tau, estimate.tau_stderr
    return SeriesMean(
        *(float(np.ravel(each)[0]) for each in figures), (estimate.reason or "").removeprefix("unknown: ")
    )


def _drift(result: ParticleResult, measured: Measured) -> Variables:
    """How fast what the exact motion conserves changes in the long run, per particle."""
    system, rows = result.simulation.system, len(result.steps)
    if not conserves(system.run.method) or rows < 3:
        return {}
    energy = np.asarray(QUANTITIES["conserved_energy"].value(measured)) / measured.atoms
    energy = energy - energy[:, :1]
    drift_estimate = slope(blocks_of(energy[:, :, None]), system.interval)
    about = (
        {"stderr_unknown": drift_estimate.reason.removeprefix("unknown: ")} if drift_estimate.reason else {}
    )
    drift = with_stderr(
        "drift",
        (),
        float(drift_estimate.value[0]),
        float(drift_estimate.stderr[0]),
        system.units.label("energy/time"),
        "drift of the conserved energy per particle",
        **about,
    )
    what = "conserved energy per particle since the start"
    return drift | {"drift_path": variable(("path", "time"), energy, system.units.label("energy"), what)}


def _end(result: ParticleResult) -> Variables:
    """The particles of all replicas at the end, and what is needed to go on from there."""
    simulation, label = result.simulation, result.simulation.system.units.label
    frames = [frame_of(simulation, each.last) for each in result.replicas]
    states = [each.state for each in result.replicas]
    return end_variables(frames, states, label("length"), label("length/time"))


def _single_point(result: ParticleResult, measured: Measured) -> tuple[Variables, Variables]:
    """The forces and the pressure at the initial positions, by replica."""
    system = result.simulation.system
    forces = np.stack([each.forces for each in result.replicas if each.forces is not None])
    unit = system.units.label("energy/length")
    variables = {"force": variable(("path", "particle", "axis"), forces, unit, "force on a particle")}
    coordinates: Variables = {}
    if system.cell is not None:
        components = np.stack([np.asarray(measured.component(ab))[:, 0] for ab in COMPONENTS], axis=1)
        unit = system.units.label("pressure")
        variables["pressure"] = variable(("path", "component"), components, unit, "pressure")
        coordinates["component"] = variable(("component",), np.array(COMPONENTS, object), "1", "component")
    return variables, coordinates


def attributes_of(result: ParticleResult) -> dict[str, Any]:
    """What a run was made of, how its forces were computed, and how long it took."""
    simulation, system = result.simulation, result.simulation.system
    potential = simulation.experiment.potential
    work = system.count * simulation.all_steps
    return {
        "simkit_format": FORMAT,
        "simkit_kind": KIND,
        "file": simulation.file,
        "potential": potential.type or f"energy {potential.energy}",
        "truncation": potential.truncation,
        "solver": simulation.experiment.solver.type,
        "ensemble": system.ensemble,
        "units": system.units.name,
        "observables": " ".join(simulation.scalars),
        "functions": " ".join(simulation.functions),
        "particles": system.count,
        "species": " ".join(system.names),
        "paths": simulation.paths,
        "steps": system.run.steps,
        "dt": system.run.dt,
        "every": system.every,
        "stages": " ".join(stage.name for stage in simulation.stages[:-1]),
        "clock": result.replicas[0].clock,
        "momentum_is_conserved": int(0 < system.freedom < 3 * system.count),
        "seed": str(simulation.seed),
        "precision": simulation.precision,
        **({"start": result.start} if result.start else {}),
        **({"errors": errors} if (errors := _of_drawn_energies(simulation)) else {}),
        "forces": _forces_text(result),
        **{f"forces_{key}": value for key, value in result.forces.items() if key != "forces"},
        **{f"largest_force_after_{name}": force for name, force in _minimised(result).items()},
        "elapsed_s": float(result.elapsed_s),
        "compile_s": float(result.compile_s),
        "atom_steps_per_s": float(work / result.elapsed_s) if result.elapsed_s else 0.0,
    }


def _of_drawn_energies(simulation: ParticleSimulation) -> str:
    """That errors leave out how means differ between energies, where too few of these were drawn."""
    count = simulation.paths
    if not simulation.run.steps or not simulation.energies_are_drawn or count >= FEWEST_REPLICAS:
        return ""
    drawn = "the energy was" if count == 1 else f"the energies of the {count} replicas were"
    these = "this energy" if count == 1 else "these energies"
    return (
        f"{drawn} drawn before the run and kept in it: errors are those of means at {these}, and other draws "
        f"have other means; for the error over draws take at least {FEWEST_REPLICAS} replicas"
    )


def _minimised(result: ParticleResult) -> dict[str, float]:
    """The largest force of all replicas at the end of each stage that minimises."""
    names = result.replicas[0].minimised
    return {name: max(each.minimised[name] for each in result.replicas) for name in names}


def _forces_text(result: ParticleResult) -> str:
    """What was chosen for the forces, and how often lists were renewed."""
    chosen = result.forces
    shown = [key for key in ("cutoff", "skin", "images") if key in chosen]
    text = ", ".join(f"{key} {_short(chosen[key])}" for key in shown)
    renewals = sum(each.renewals for each in result.replicas)
    steps = result.simulation.run.steps
    served = [each.fewest_steps for each in result.replicas if 0 < each.fewest_steps <= steps]
    if "skin" in chosen and served:
        every = steps * len(result.replicas) / renewals
        text += f", renewed every {every:.1f} steps (at least {min(served)})"
    return f"{chosen['forces']}: {text}"


def _short(value: int | float | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
