"""One replica of a run of particles through its stages, in chunks of steps."""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from simkit_physics.particles.all_pairs import AllPairs
from simkit_physics.particles.listed_forces import ListedForces
from simkit_physics.particles.parameter_changes import ParameterChanges
from simkit_solvers import ParticleDynamics, ParticleNoise, Particles, seed_key
from simkit_solvers.loops.simulate_particles import (
    ListOverflowError,
    ParticleRun,
    UnstableStepError,
    simulate_particles,
)
from simkit_solvers.loops.two_level import ParticleState
from simkit_solvers.problems.motion import MotionUnits
from simkit_solvers.problems.particles import Vector

from simkit.errors import NumericalError
from simkit.md.continuing import state_for
from simkit.md.failures import larger_lists, why_it_blew_up
from simkit.md.measured_rows import ROWS, TOTALS, MeasuredRows
from simkit.md.observables import Measurements
from simkit.md.pace import Pace
from simkit.md.preparation import chosen_forces, in_precision, observer_of, sharing
from simkit.md.programs import Programs, on_host
from simkit.md.recorded_replicas import RecordedReplica, ReplicaSnapshot
from simkit.md.result import ReplicaResult
from simkit.md.saved_state import SavedState
from simkit.md.simulation import ParticleSimulation, PlannedStage, clock_of
from simkit.md.together import Lane
from simkit.md.trajectory import Frames, OfReplica, write_end
from simkit.md.velocities import in_motion

# A chunk without measurements is about as long: this many pairs or steps, with NEIGHBOURS in each list.
STAGE_PAIRS, NEIGHBOURS, STAGE_STEPS = 2**27, 64, 2**14
LARGEST_MOVE = 0.5  # cutoffs, in a step: beyond, a particle passes others without meeting them
AT_ONCE = 10  # steps: after so few of them, the closest pair of the beginning shows why a step blew up


@dataclasses.dataclass(frozen=True)
class AtWork:
    """A replica in a stage, which begins at a `step` of its clock, after `taken` steps of this run."""

    stage: int
    path: int
    step: int
    taken: int
    advance: Callable[[int], None]
    minimised: dict[str, float]
    record: RecordedReplica

    @property
    def before(self) -> ReplicaSnapshot | None:
        """Where an earlier process left this stage."""
        before = self.record.before
        return before if before is not None and before.stage == self.stage else None

    @property
    def file_end(self) -> int | None:
        """Where the file of frames ended in the process that this stage goes on from."""
        return None if self.before is None else self.before.frames

    def keep(
        self,
        run: ParticleRun,
        done: int,
        rows: MeasuredRows | None = None,
        frames: Callable[[], int] = int,
        last: bool = False,
    ) -> None:
        """Record the state after `done` steps of the stage, if that is due."""
        if self.record.due(last):
            about = {"stage": self.stage, "done": done, "frames": frames(), "minimised": dict(self.minimised)}
            self.record.keep(self.taken + done, ReplicaSnapshot.of(run, rows, **about))


@dataclasses.dataclass(frozen=True)
class ReplicaProgram:
    """What all replicas share: forces with lists that are large enough so far, and what is measured."""

    simulation: ParticleSimulation
    forces: Any
    observer: Measurements
    key: Any
    changes: ParameterChanges | None
    programs: Programs
    lane: Lane = dataclasses.field(default_factory=Lane)

    @staticmethod
    def of(simulation: ParticleSimulation, changes: Sequence[Any]) -> "ReplicaProgram":
        forces = chosen_forces(simulation)
        observer, key = observer_of(simulation, len(changes)), on_host(seed_key(simulation.seed))
        along = ParameterChanges.of(forces, changes) if changes else None
        return ReplicaProgram(simulation, forces, observer, key, along, Programs(sharing(simulation, forces)))

    def in_lane(self, lane: Lane) -> "ReplicaProgram":
        """The program of a replica that takes its chunks in this lane."""
        return dataclasses.replace(self, lane=lane)

    def compiled(self) -> tuple["ReplicaProgram", float]:
        """What the replicas share, with all programs compiled, and the seconds that this took."""
        start = time.perf_counter()
        particles, (program, saved) = self.starting(0), self.continued(0)
        for i, stage in enumerate(self.simulation.stages):
            run = program.initial_run(particles, stage, 0, 0, i == len(self.simulation.stages) - 1, saved)
            program, saved = dataclasses.replace(program, forces=run.dynamics.forces), None
        return program, time.perf_counter() - start

    def replica(
        self, path: int, advance: Callable[[int], None], frames: OfReplica, record: RecordedReplica
    ) -> ReplicaResult:
        """One replica through all stages, or through those that are left of it."""
        simulation, particles, earlier = self.simulation, self.starting(path), self.simulation.system.earlier
        before, taken = record.before, 0
        first = 0 if before is None else before.stage
        step = 0 if earlier is None else earlier.clock
        minimised = {} if before is None else dict(before.minimised)
        program, saved = self.continued(path)
        for number, stage in enumerate(simulation.stages):
            if number >= first:
                at_work = AtWork(number, path, step, taken, advance, minimised, record)
                if before is None or number > first:
                    particles = self.in_motion(particles, path, number)
                if number == len(simulation.stages) - 1:
                    with frames(path, at_work.file_end) as writer:
                        result = program.production(particles, at_work, writer, saved)
                    return dataclasses.replace(result, minimised=minimised)
                run = program.advanced(particles, at_work, saved)
                saved, program = None, dataclasses.replace(program, forces=run.dynamics.forces)
                if stage.method.ensemble == "none":
                    minimised[stage.name] = float(np.sqrt(np.max(np.square(run.state.force).sum(0))))
                particles = on_host(run.state.particles).by_identity()
            step, taken = step + stage.steps, taken + stage.steps
        raise AssertionError("an experiment has a stage that is measured")

    def starting(self, path: int) -> Particles:
        """The particles of a replica, at rest or with the velocities of the file."""
        system = self.simulation.system
        earlier, particles = system.earlier, system.particles
        if earlier is not None:
            particles = earlier.particles[earlier.of_replica(path)]
        return in_precision(particles, self.simulation.precision)

    def continued(self, path: int) -> tuple["ReplicaProgram", SavedState | None]:
        """The program with lists of the size of the state that a replica goes on from, and that state."""
        saved = state_for(self.simulation, self.forces, path)
        if saved is None:
            return self, None
        return dataclasses.replace(self, forces=saved.forces(self.forces)), saved

    def in_motion(self, particles: Particles, path: int, number: int) -> Particles:
        """The particles as a stage wants them."""
        units = self.motion_units
        return in_motion(self.simulation, number, particles, self.key, path, units, self.programs)

    @property
    def motion_units(self) -> MotionUnits:
        units = self.simulation.system.units
        return MotionUnits(units.boltzmann, units.kinetic)

    def initial_run(
        self,
        particles: Particles,
        stage: PlannedStage,
        path: int,
        step: int,
        measured: bool,
        saved: SavedState | None = None,
    ) -> ParticleRun:
        """The forces at the start of a stage, or where a saved state goes on, and its first measurement."""
        cutoff = float(np.max(np.asarray(self.simulation.system.potential.cutoffs)))
        method = stage.method.for_cutoff(cutoff)
        particles = on_host(particles)
        clock = self.clock(step) if measured else step
        dynamics = ParticleDynamics(
            self.forces,
            method,
            dt=stage.dt,
            noise=ParticleNoise.of(self.key, path),
            units=self.motion_units,
            t0=-clock * stage.dt,
            largest_move=LARGEST_MOVE * cutoff,
            changes=self.changes if measured else None,
        )
        dynamics = in_precision(dynamics, self.simulation.precision)
        if isinstance(self.forces, ListedForces):
            particles = particles.padded(self.forces.grid.places)
        state = dynamics.start(particles, clock)
        if saved is not None:
            state = saved.restored(state, method)
        observer = self.observer if measured else None
        return self.simulated(dynamics, state, 0, observer, None, stage, particles)

    def clock(self, step: int) -> int:
        """The number of the first measured step: a multiple of all intervals, so that noise never repeats."""
        return clock_of(step, (each.every for each in self.observer.observers.values()))

    def begun(
        self, particles: Particles, at_work: "AtWork", measured: bool, saved: SavedState | None
    ) -> tuple[ParticleRun, int]:
        """A stage at its start, or where an earlier process left it, and the steps that are left of it."""
        stage, before = self.simulation.stages[at_work.stage], at_work.before
        if before is None:
            return self.initial_run(
                particles, stage, at_work.path, at_work.step, measured, saved
            ), stage.steps
        program = dataclasses.replace(self, forces=before.forces(self.forces))
        run = program.initial_run(particles, stage, at_work.path, at_work.step, measured)
        return before.restored(run), stage.steps - before.done

    def advanced(self, start: Particles, at_work: "AtWork", saved: SavedState | None) -> ParticleRun:
        """A stage to its end, without measurements.

        The clock has no say in where its chunks end: the first step of a chunk may have other last bits, as
        has the one after a measurement.
        """
        stage = self.simulation.stages[at_work.stage]
        run, left = self.begun(start, at_work, False, saved)
        count = self.simulation.system.particles.count
        pairs = count * (count if isinstance(run.dynamics.forces, AllPairs) else NEIGHBOURS)
        most = min(max(STAGE_PAIRS // pairs, 1), STAGE_STEPS)
        while left:
            done, steps = stage.steps - left, min(most, left)
            run = self.simulated(run.dynamics, run.state, steps, None, run.accumulator, stage, start, done)
            left -= steps
            at_work.advance(steps)
            at_work.keep(run, stage.steps - left)
        return run

    def simulated(
        self,
        dynamics: ParticleDynamics,
        state: ParticleState,
        steps: int,
        observer: Measurements | None,
        accumulator: Any,
        stage: PlannedStage,
        start: Particles,
        done: int = 0,
    ) -> ParticleRun:
        """`simulate_particles` with programs that are kept, and failures as errors of simkit.

        The arrays of `state` are used up: those of a million particles are a quarter of a gigabyte. `start`
        are the particles at the start of the stage, `done` its steps so far.
        """

        def chunk(*arguments):
            return self.lane.chunk(self.programs, *arguments)

        before = int(state.step) - done
        try:
            return simulate_particles(
                dynamics, state, steps, observer, accumulator, enlarge=larger_lists, chunk=chunk
            )
        except UnstableStepError as error:
            into = error.step - before
            first = start if into <= AT_ONCE else None
            step = f"step {into:,} of {stage.steps:,}"
            of_stage = f" of the stage {stage.name}" if len(self.simulation.stages) > 1 else ""
            reason = why_it_blew_up(error, stage.dt, self.forces, first, self.simulation)
            raise NumericalError(f"{step}{of_stage} blew up: {reason}") from error
        except ListOverflowError as error:
            raise NumericalError(str(error)) from error

    def production(
        self, particles: Particles, at_work: "AtWork", writer: Frames, saved: SavedState | None
    ) -> ReplicaResult:
        """The stage that is measured."""
        simulation, stage, before = self.simulation, self.simulation.run, at_work.before
        run, left = self.begun(particles, at_work, True, saved)
        rows = MeasuredRows(self.clock(at_work.step))
        if before is None:
            run = rows.collect(run)
            writer.add(run.state.particles, 0)
        else:
            before.measured(rows, run)
        forces, pace = run.state.force, Pace(simulation.system.every)
        while left:
            done = stage.steps - left
            most = min(left, ROWS * simulation.system.every, writer.until_next(done))
            steps = self.lane.agreed(min(pace.steps, most))
            with pace:
                run = self.simulated(
                    run.dynamics, run.state, steps, self.observer, run.accumulator, stage, particles, done
                )
            left -= steps
            run = rows.collect(run)
            writer.add(run.state.particles, stage.steps - left)
            at_work.advance(steps)
            at_work.keep(run, stage.steps - left, rows, writer.end, last=not left)
        write_end(simulation, run.state.particles, at_work.path)
        renewals, last_forces = run.state.renewals, run.dynamics.forces
        assert isinstance(last_forces, ListedForces | AllPairs)
        return ReplicaResult(
            steps=rows.steps,
            totals=rows.totals,
            accumulators={name: a for name, a in run.accumulator.items() if name != TOTALS},
            renewals=int(renewals.count),
            fewest_steps=int(renewals.fewest),
            chosen=last_forces.summary(),
            last=on_host(run.state.particles).by_identity(),
            state=SavedState.of(run, simulation.precision),
            clock=int(run.state.step),
            forces=None if stage.steps else _by_identity(run.state.particles, forces),
        )


def _by_identity(particles: Particles, force: Vector) -> np.ndarray:
    order = np.argsort(np.asarray(particles.identity))[: particles.count]
    return np.asarray(force.rows())[order]
