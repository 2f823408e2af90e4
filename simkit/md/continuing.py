"""Whether a run can go on from the state of an earlier one, and how it reports its start."""

from simkit_physics.particles.all_pairs import AllPairs
from simkit_physics.particles.listed_forces import ListedForces

from simkit.md.saved_state import SavedState
from simkit.md.simulation import ParticleSimulation


def state_for(
    simulation: ParticleSimulation, forces: ListedForces | AllPairs, replica: int
) -> SavedState | None:
    """The state that a replica goes on from exactly, if there is one that serves these forces."""
    earlier = simulation.system.earlier
    if earlier is None or _reason_against(simulation, forces):
        return None
    return earlier.states[earlier.of_replica(replica)]


def start_text(simulation: ParticleSimulation, forces: ListedForces | AllPairs) -> str:
    """What a run says of its start: how it goes on from another, and whether a drift was removed."""
    system, first = simulation.system, simulation.stages[0].method
    file, method, parts = simulation.experiment.system.file, type(first).__name__, []
    if system.earlier is not None:
        how, reason = "exactly", _reason_against(simulation, forces)
        if reason:
            how = f"with new lists and a new thermostat, as {reason}"
        elif not system.earlier.states[0].has_thermostat_of(first, system.particles):
            how = f"exactly but for {method}, which begins anew"
        parts.append(f"goes on from {file} after step {system.earlier.clock:,}, {how}")
    if system.drift:
        unit = system.units.label("length/time")
        parts.append(
            f"the drift of the velocities in {file}, {system.drift:.3g} {unit}, was removed: "
            f"{method} would keep it"
        )
    return "; ".join(parts)


def _reason_against(simulation: ParticleSimulation, forces: ListedForces | AllPairs) -> str:
    """Why a run cannot go on exactly; empty if it can."""
    earlier = simulation.system.earlier
    assert earlier is not None
    return earlier.changed or earlier.states[0].reason_against(forces, simulation.precision)
