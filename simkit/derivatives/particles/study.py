"""The derivatives of the averages of a run of particles: what is refused, the run, and the estimates."""

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from simkit.config.settings import ParticleSensitivity
from simkit.derivatives.particles.fluctuations import derivatives_of
from simkit.derivatives.particles.targets import ParticleTarget, RunNumbers, find_target
from simkit.errors import InputError
from simkit.md.replicas import run_particles
from simkit.md.result import ParticleResult
from simkit.md.simulation import ParticleSimulation, temperature_changes
from simkit.time_series import Estimate

CANONICAL = ("NVT", "configurations")
METHODS = "BAOAB, NoseHooverChains, StochasticVelocityRescaling or BrownianDynamics"


@dataclasses.dataclass(frozen=True)
class AverageDerivatives:
    """The run, what was differentiated by what, and each derivative by quantity, in the order of targets."""

    result: ParticleResult
    targets: tuple[ParticleTarget, ...]
    derivatives: dict[str, list[Estimate]]


def find_derivatives(
    simulation: ParticleSimulation,
    section: ParticleSensitivity,
    progress: Callable[[int, int], None] | None = None,
) -> AverageDerivatives:
    """Run the simulation once, with the derivatives of energy and virial at every measurement.

    Raises `InputError` where fluctuations do not give the derivatives that are asked for, and what
    `run_particles` raises.
    """
    quantities = section.of or list(simulation.scalars)
    _refuse_ensemble(simulation)
    _refuse_observables(simulation, quantities)
    with jax.enable_x64(True):
        _refuse_step_at_cutoff(simulation)
        changed = [find_target(simulation, label) for label in section.wrt]
        for target, change in changed:
            _refuse_jumps(simulation, quantities, target, change)
        potential, changes = _in_one_shape(simulation.system.potential, [change for _, change in changed])
    system = dataclasses.replace(simulation.system, potential=potential)
    # Nothing is written, and no function such as g(r) is measured.
    run = dataclasses.replace(simulation, system=system, functions={}, trajectory=None, end=None)
    moving = [change.potential for change in changes if _moves(change.potential)]
    result = run_particles(run, progress, moving)
    slopes = iter(_slopes(result, len(moving)))
    with jax.enable_x64(True):
        each = [
            derivatives_of(result, change, next(slopes) if _moves(change.potential) else None, quantities)
            for change in changes
        ]
    return AverageDerivatives(
        result,
        tuple(target for target, _ in changed),
        {name: [own[name] for own in each] for name in quantities},
    )


def _moves(change: PyTree) -> bool:
    return any(np.any(np.asarray(leaf)) for leaf in jax.tree.leaves(change))


def _slopes(result: ParticleResult, count: int) -> list[Any]:
    """The derivatives of energy and virial along each change of the potential, arrays (paths, rows)."""
    together = jax.tree.map(lambda *rows: np.stack(rows), *(each.totals.changes for each in result.replicas))
    return [jax.tree.map(operator.itemgetter((..., i)), together) for i in range(count)]


def _in_one_shape(potential: Any, changes: list[RunNumbers]) -> tuple[Any, list[RunNumbers]]:
    """Potential and changes with tables by species wherever any of them has one."""
    whole = jax.tree.map(
        lambda *leaves: np.broadcast_shapes(*map(np.shape, leaves)),
        potential,
        *(c.potential for c in changes),
    )

    def shaped(tree: Any) -> Any:
        return jax.tree.map(lambda x, shape: jnp.broadcast_to(jnp.asarray(x, float), shape), tree, whole)

    return shaped(potential), [change._replace(potential=shaped(change.potential)) for change in changes]


def _refuse_ensemble(simulation: ParticleSimulation) -> None:
    """Raise `InputError` where averages are not those of a constant temperature."""
    method, name = simulation.run.method, simulation.experiment.solver.type
    if not simulation.run.steps:
        raise InputError("sensitivity: needs averages over a run, and time.steps is 0; give more steps")
    if method.ensemble not in CANONICAL:
        raise InputError(
            f"sensitivity: fluctuations give derivatives at constant temperature, and {name} keeps the "
            f"energy; take {METHODS}"
        )
    if temperature_changes(method):
        raise InputError(
            "sensitivity: needs a constant temperature, and that of the solver follows a curve; let a stage "
            "follow it, and give the run the temperature at its end"
        )


def _refuse_observables(simulation: ParticleSimulation, quantities: list[str]) -> None:
    if not quantities:
        raise InputError("sensitivity: nothing to differentiate; add an expression to observe")
    for name in quantities:
        if "conserved_energy" in simulation.scalars[name].expression.names:
            raise InputError(
                f"sensitivity: {name} names conserved_energy, which has no mean in a heat bath; name "
                "total_energy, or the other observables in sensitivity.of"
            )


def _refuse_step_at_cutoff(simulation: ParticleSimulation) -> None:
    """The motion does not feel a step of the energy, so that it samples another energy."""
    truncation = simulation.system.potential
    if truncation.energy_jumps and np.any(
        np.asarray(truncation.potential.energy(jnp.asarray(truncation.cutoffs) ** 2))
    ):
        raise InputError(
            "sensitivity: with truncation: plain the energy jumps at the cutoff, which the motion does not "
            "feel; take shifted, shifted_force or switched"
        )


def _refuse_jumps(
    simulation: ParticleSimulation, quantities: list[str], target: ParticleTarget, change: RunNumbers
) -> None:
    """Where an observable jumps as the target moves its value, the jumps would be missing."""
    moving = {name for name, moved in change.constants.items() if moved}
    for name in quantities:
        expression = simulation.scalars[name].expression
        jumps = expression.discontinuities.jumps
        of_bath = not simulation.system.freedom and change.temperature  # the momenta in the pressure
        if jumps and (_moves(change.potential) or any(change.tail) or jumps & moving or of_bath):
            raise InputError(
                f"sensitivity: {name} jumps as {target.label} moves what is in it, which its derivative "
                "would miss; compare variants at two values, or name other observables in sensitivity.of"
            )
