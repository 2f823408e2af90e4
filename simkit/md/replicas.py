"""Runs of particles: replicas in several threads, and as lanes of one program where they are small."""

import itertools
import time
from collections.abc import Sequence
from typing import Any

import jax

from simkit.ensemble.work import in_order, workers_on
from simkit.machine.freed_memory import give_back_freed_memory, large_arrays_mapped
from simkit.machine.on_each_device import local_devices
from simkit.md.continuing import start_text
from simkit.md.preparation import lanes_for
from simkit.md.recorded_replicas import RecordedReplica, RecordedReplicas
from simkit.md.replica import ReplicaProgram
from simkit.md.result import ParticleResult, ReplicaResult
from simkit.md.simulation import ParticleSimulation
from simkit.md.step_counter import Progress, StepCounter
from simkit.md.together import Lane, Together
from simkit.md.trajectory import trajectory_of


@large_arrays_mapped()
def run_particles(
    simulation: ParticleSimulation, progress: Progress | None = None, changes: Sequence[Any] = ()
) -> ParticleResult:
    """Run all replicas. Raises `NumericalError` where a step blows up or a list cannot be enlarged.

    `changes` are changes of the potential's numbers, pytrees like the potential: the totals that are measured
    then have their derivatives along each, on a last axis.
    """
    workers = workers_on(local_devices(1), simulation.threads)[: simulation.paths]
    counter, steps = StepCounter(simulation.all_steps, progress), sum(x.steps for x in simulation.stages)
    with jax.enable_x64(True), jax.default_device(workers[0]):
        program = ReplicaProgram.of(simulation, changes)
        start = start_text(simulation, program.forces)
        lanes = lanes_for(simulation, program.forces, workers)
        program, compile_s = program.in_lane(Together(1, lanes).lane(0)).compiled()

    every = range(simulation.paths)
    groups = [every[i : i + lanes] for i in every[::lanes]]
    records = [RecordedReplicas(len(paths), steps) for paths in groups]
    counter.done = sum(record.done for record in records)

    def group(number: int) -> list[ReplicaResult]:
        paths, record = groups[number], records[number]
        together = Together(len(paths), lanes)

        def replica(lane: int) -> ReplicaResult:
            def run(own: Lane) -> ReplicaResult:
                recorded = RecordedReplica(record, lane, own)
                return program.in_lane(own).replica(paths[lane], counter.add, frames, recorded)

            return together.run(lane, run)

        return list(in_order(replica, range(len(paths)), workers[:1] * len(paths)))

    give_back_freed_memory()
    began = time.perf_counter()
    resumed = any(record.done for record in records)
    with trajectory_of(simulation, resumed) as frames:
        try:
            results = in_order(group, range(len(groups)), workers)
            replicas = tuple(itertools.chain.from_iterable(results))
        finally:
            counter.stop()  # threads that are still at work, after a failure or an interrupt
    elapsed = time.perf_counter() - began
    give_back_freed_memory()
    return ParticleResult(
        simulation=simulation,
        replicas=replicas,
        observers=program.observer.observers,
        forces=replicas[0].chosen,
        elapsed_s=elapsed,
        compile_s=compile_s,
        start=start,
    )
