"""`simkit.inspect`: what a run compiles, what a step of it costs, and what depends on what."""

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

import jax
from simkit_solvers.loops.blocks import method_of
from simkit_solvers.random.generator import seed_key
from simkit_solvers.random.noise import CounterNoise

from simkit.config.overrides import Overrides
from simkit.diagnostics.inspection.compiled import CompiledProgram, compile_anew
from simkit.diagnostics.inspection.graph import Graph
from simkit.diagnostics.inspection.hlo import parse
from simkit.diagnostics.inspection.loops import Loop, loops_of, step_loop
from simkit.diagnostics.inspection.model_graph import model_graph
from simkit.diagnostics.inspection.operation_graph import operation_graph
from simkit.ensemble.chunks import Chunks
from simkit.ensemble.early_exercise.longstaff_schwartz import with_policies
from simkit.ensemble.run import chunk_plan, chunk_requests
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.work import devices_of
from simkit.experiments.variants import load_one


@dataclasses.dataclass(frozen=True)
class StepCost:
    """What a step of one path costs in the loop, as the optimised program says.

    An iteration of the loop is `steps_per_iteration` steps (or one event, or one trial) of `paths` paths, of
    one where all do the same.
    Operations are those on floating-point numbers and on integers, which the random numbers take, and
    transcendental ones, all of one path in one step; `bytes` what the kernels read and write for it.
    `kernels` are those of an iteration, `loops_inside` loops within a step, whose operations are not counted.
    """

    steps_per_iteration: int
    paths: int
    kernels: int
    path_kernels: int
    loops_inside: int
    floating: float
    integer: float
    transcendental: float
    bytes: float

    @property
    def kernels_per_step(self) -> float:
        """Kernels over the paths per step; all kernels where paths do not differ."""
        return (self.path_kernels or self.kernels) / self.steps_per_iteration

    @property
    def intensity(self) -> float | None:
        """Operations per byte, `None` where nothing is read or written."""
        operations = self.floating + self.integer + self.transcendental
        return operations / self.bytes if self.bytes else None


@dataclasses.dataclass(frozen=True)
class Inspection:
    """What is inside a run.

    `programs` are `simulation`, which simulates a chunk of paths, and `statistics`, which reduces it, as the
    run compiles them; `loops` are those of the first, and `step` is what a step costs there, `None` where the
    compiler has left no loop. `model` is the graph of the model's names, `operations` that of one step.
    """

    programs: dict[str, CompiledProgram]
    loops: tuple[Loop, ...]
    step: StepCost | None
    paths: int
    chunks: int
    paths_per_chunk: int
    devices: int
    model: Graph
    operations: Graph


def inspect(
    source: str | os.PathLike | Mapping[str, Any],
    *,
    overrides: Overrides = (),
    variant: str | None = None,
    compiling: bool = True,
) -> Inspection:
    """Compile the programs of an experiment as `simkit run` would, and say what is in them; nothing is run.

    `source` and `overrides` are those of `simkit.run`. Where the file has variants, `variant` names one.
    Without `compiling` there are the graphs alone. Policies of early exercise are fitted first, since the
    program has them in it. Raises `InputError`.

    >>> import simkit
    >>> experiment = {
    ...     "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    ...     "initial": {"S": 100.0},
    ...     "time": {"t1": 1.0, "steps": 16},
    ...     "ensemble": {"paths": 1000},
    ... }
    >>> report = simkit.inspect(experiment, compiling=False)
    >>> [node.name for node in report.model.nodes][:3]
    ['variable S', 'parameter mu', 'parameter sigma']
    """
    simulation = load_one(source, overrides, variant)
    with jax.enable_x64(True):
        devices = len(devices_of(simulation))
        plan, count = chunk_plan(simulation), simulation.paths
        model, operations = model_graph(simulation), operation_graph(simulation)
        if not compiling:
            return Inspection({}, (), None, count, plan.count, plan.paths, devices, model, operations)
        simulation, _, _ = with_policies(simulation)
        simulated, reduced = chunk_requests(simulation, plan)
        requests = {"simulation": simulated, "statistics": reduced}
        programs = {name: compile_anew(request) for name, request in requests.items()}
        lanes = _lanes(simulation, plan)
        size = steps_per_iteration(simulation)
        loops = tuple(
            _counted(loop, simulation.grid, size)
            for loop in loops_of(parse(programs["simulation"].hlo), lanes)
        )
        step = _step_cost(step_loop(loops), size, lanes)
        return Inspection(programs, loops, step, count, plan.count, plan.paths, devices, model, operations)


def _counted(loop: Loop, grid, size: int) -> Loop:
    """The loop with how often it runs, which XLA does not know where the program is given the steps."""
    if not loop.steps or loop.trips is not None or grid.steps is None:
        return loop
    return dataclasses.replace(loop, trips=grid.blocks(size))


def steps_per_iteration(simulation: Simulation) -> int:
    """How many steps are compiled as one iteration of the loop."""
    if simulation.grid.steps is None:
        return 1
    problem = simulation.problem
    noise = None
    if problem.stochastic:
        noise = CounterNoise.of(seed_key(0), jax.numpy.uint32(0), simulation.normals == "float64")
    zero = jax.numpy.zeros((), simulation.precision)
    y0 = problem.State(*[zero] * len(problem.State._fields))
    return method_of(problem, simulation.solver, y0, simulation.grid, noise).size


def _lanes(simulation: Simulation, plan: Chunks) -> int:
    """How many paths a thread computes at once."""
    return simulation.stepping.group or plan.paths


def _step_cost(loop: Loop | None, steps: int, lanes: int) -> StepCost | None:
    if loop is None:
        return None
    lanes = lanes if loop.path_kernels else 1  # what does not differ between paths is computed once
    path_steps = steps * lanes
    return StepCost(
        steps_per_iteration=steps,
        paths=lanes,
        kernels=loop.kernels,
        path_kernels=loop.path_kernels,
        loops_inside=loop.loops_inside,
        floating=loop.work.floating / path_steps,
        integer=loop.work.integer / path_steps,
        transcendental=loop.work.transcendental / path_steps,
        bytes=loop.bytes / path_steps,
    )
