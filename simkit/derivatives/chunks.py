"""In which chunks the paths of a study run, and how many of them run on other steps too."""

from simkit.derivatives.moments import SAMPLE
from simkit.ensemble.chunk_program import quantity_rows
from simkit.ensemble.chunks import LEAF, Chunks, plan_chunks
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.step_bias.coupled_steps import BIAS_PATHS, PART_OF_WORK
from simkit.ensemble.work import workers_of, workers_on
from simkit.machine.on_each_device import Devices, local_devices

# Paths of a chunk on a processor: what their loops carry is read by many kernels.
IN_CACHE = 32 * LEAF
IN_REVERSE = 256 * LEAF  # on an accelerator: a reverse pass has a fixed memory for all of them


def chunks_of(simulation: Simulation) -> Chunks:
    """The chunks in which derivatives are estimated."""
    values = sum(quantity_rows(simulation).values())
    most = IN_CACHE if workers_of(simulation)[0].platform == "cpu" else IN_REVERSE
    return plan_chunks(simulation, simulation.paths, values, most, weight=4)


def affordable_paths(paths: int, cost: float) -> int:
    """How many paths run on the levels at most, which cost so much of the run; the first of them always."""
    return max(min(paths, BIAS_PATHS), min(int(PART_OF_WORK * paths / cost), SAMPLE))


def workers_of_levels(simulation: Simulation) -> Devices:
    """The device of each thread that simulates levels."""
    return workers_on(local_devices(1), simulation.threads)
