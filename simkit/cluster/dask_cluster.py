"""An ensemble on a cluster of Dask: units of paths go to workers, and their statistics are merged in order.

A unit is simulated again elsewhere where its worker ends. Statistics have the bits of a run on one machine.
"""

import contextlib
import dataclasses
import logging
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import TYPE_CHECKING, Any

from simkit.cluster.shipping import packed
from simkit.cluster.worker import Unit, simulate
from simkit.config.settings.cluster import LOCAL, Cluster
from simkit.ensemble.accumulator import Accumulator
from simkit.ensemble.chunks import LEAF, Chunk, Chunks
from simkit.ensemble.over_chunks import Progress, over_chunks
from simkit.ensemble.simulation import Simulation
from simkit.errors import ClusterError, InputError, SimkitError
from simkit.machine.compilation_cache import keeps_programs
from simkit.machine.cores import usable_cores
from simkit.machine.on_each_device import local_devices
from simkit.progress import counted, working_on
from simkit.records.recording import current
from simkit.records.same_run import of_this_machine

if TYPE_CHECKING:
    from distributed import Client

UNITS_OF_WORKER = 8  # at least, where there are enough paths: so that workers finish together
CHUNKS_OF_UNIT = 16  # at most: some seconds of a core
WAITING = 64  # threads that wait for units, at least: workers that come later have some too


@dataclasses.dataclass(frozen=True)
class DaskCluster:
    """A cluster at work: a call adds all paths of a simulation to an accumulator.

    `threads` are those of each worker; all that it has unless given.
    """

    client: "Client"
    settings: Cluster
    threads: int | None = None

    def __call__(
        self, simulation: Simulation, accumulator: Accumulator, plan: Chunks, progress: Progress | None
    ) -> float:
        program = packed(simulation, simulation.threads or self.threads)
        # A task of its own, which is done again where the worker that has it ends.
        shipped = self.client.submit(bytes, program, pure=False)
        machine = None if self.settings.mixed else of_this_machine()
        workers = len(self._workers())
        record, stored = current(), min(simulation.stored_paths, simulation.paths)
        if record is not None and stored > LEAF:
            accumulator.paths_in = record.path_file(stored)

        def work(chunk: Chunk) -> Any:
            unit = Unit(chunk.first, chunk.first + chunk.count, accumulator.wanted_ends)
            task = simulate, shipped, unit, machine, keeps_programs(), accumulator.paths_in
            return self._result(unit, self.client.submit(*task, pure=False))

        waiting = local_devices(1) * max(WAITING, 2 * workers)
        with working_on(self._place):
            return over_chunks(
                units_of(plan, workers), work, accumulator.join, waiting, progress, accumulator
            )

    def _workers(self) -> dict[str, Any]:
        return self.client.scheduler_info(n_workers=-1)["workers"]

    def _place(self) -> str:
        return counted(len(self._workers()), "worker")

    def _result(self, unit: Unit, future: Any) -> Any:
        """What a unit gives. Raises what it raised there, and `ClusterError` for faults of workers."""
        from distributed import KilledWorker

        paths = f"paths {unit.first:,} to {unit.stop - 1:,}"
        try:
            return future.result()
        except (SimkitError, MemoryError):
            raise
        except KilledWorker as error:
            raise ClusterError(
                f"cluster: {paths} were given up, as several workers ended with them: they "
                "may have too little memory (give ensemble.memory), or their time may have been up"
            ) from error
        except CancelledError as error:
            raise ClusterError(
                f"cluster: {paths} were lost, as the scheduler at {self.settings.address} has ended"
            ) from error
        except Exception as error:
            raise ClusterError(f"cluster: {paths} failed there: {type(error).__name__}: {error}") from error


def units_of(plan: Chunks, workers: int) -> Chunks:
    """The units of a plan for so many workers: of a power of two leaves, at multiples of which they begin."""
    leaves = -(-plan.total // plan.lanes)
    most = max(1, min(CHUNKS_OF_UNIT * plan.leaves, leaves // (UNITS_OF_WORKER * max(workers, 1))))
    return dataclasses.replace(plan, leaves=1 << most.bit_length() - 1)


@contextlib.contextmanager
def opened(settings: Cluster) -> Iterator[DaskCluster]:
    """Within it the cluster can be used: one that is there, or `local:N` processes, which end with it.

    Raises `InputError` where Dask is not installed, and `ClusterError` where no scheduler answers, or no
    worker comes, in time.
    """
    try:
        import distributed
    except ImportError as error:
        raise InputError(
            f"cluster: needs Dask, which is not installed ({error}): pip install 'simkit[cluster]'"
        ) from error
    local = LOCAL.fullmatch(settings.address)
    with contextlib.ExitStack() as stack:
        address, threads = settings.address, None
        if local:
            count = int(local[1])
            threads = max(1, usable_cores() // count)
            address = stack.enter_context(
                distributed.LocalCluster(
                    n_workers=count,
                    threads_per_worker=1,
                    memory_limit=None,
                    dashboard_address=":0",
                    silence_logs=logging.CRITICAL,
                )
            )
        client = stack.enter_context(_connected(address, settings))
        _await_workers(client, settings)
        yield DaskCluster(client, settings, threads)


@contextlib.contextmanager
def _connected(address: Any, settings: Cluster) -> Iterator["Client"]:
    from distributed import Client

    try:
        client = Client(address, timeout=settings.timeout, set_as_default=False)
    except (OSError, ValueError) as error:  # a timeout is an OSError
        raise ClusterError(
            f"cluster: no scheduler answers at {settings.address} within {settings.timeout:g} s ({error}); "
            "start one with `dask scheduler`, which says its address, or see whether this machine reaches it"
        ) from error
    with client:
        yield client


def _await_workers(client: "Client", settings: Cluster) -> None:
    end = time.monotonic() + settings.timeout
    while not client.scheduler_info(n_workers=-1)["workers"]:
        if time.monotonic() >= end:
            raise ClusterError(
                f"cluster: {settings.address} has no workers, and none came within {settings.timeout:g} s; "
                f"start some with `dask worker {settings.address}`"
            )
        time.sleep(0.1)
