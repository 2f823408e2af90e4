"""In which chunks the paths of a study run, and how many of them run on other steps too."""

from simkit.derivatives.moments import SAMPLE
from simkit.ensemble.chunk_program import quantity_rows
from simkit.ensemble.chunks import OF_DERIVATIVES, Chunks, plan_derivatives
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.sizes import check_chunks
from simkit.ensemble.step_bias.coupled_steps import BIAS_PATHS, PART_OF_WORK
from simkit.ensemble.work import workers_on
from simkit.machine.on_each_device import Devices, local_devices


def chunks_of(simulation: Simulation) -> Chunks:
    """The chunks in which derivatives are estimated. Raises `InputError` for more than the memory allowed."""
    values = sum(quantity_rows(simulation).values())
    plan = plan_derivatives(simulation, values)
    check_chunks(simulation, plan, OF_DERIVATIVES * values)
    return plan


def affordable_paths(paths: int, cost: float) -> int:
    """How many paths run on the levels at most, which cost so much of the run; the first of them always."""
    return max(min(paths, BIAS_PATHS), min(int(PART_OF_WORK * paths / cost), SAMPLE))


def workers_of_levels(simulation: Simulation) -> Devices:
    """The device of each thread that simulates levels."""
    return workers_on(local_devices(1), simulation.threads)
