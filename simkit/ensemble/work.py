"""Where chunks meet threads and devices: units of work in several threads, with their results in order.

XLA runs the kernels of a loop one after another, on one core. Threads that call the same compiled program,
each on paths of its own, use all of them: Python waits outside its lock.
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

import jax

from simkit.ensemble.simulation import Simulation
from simkit.machine.cores import usable_cores
from simkit.machine.memory import is_shortage
from simkit.machine.on_each_device import Devices, local_devices

Unit = TypeVar("Unit")
Result = TypeVar("Result")

PER_ACCELERATOR = 2  # threads, so that one prepares a unit while the device computes another


def workers_of(simulation: Simulation) -> Devices:
    """The device of each thread that simulates: of one for each core, or two for each accelerator."""
    return workers_on(local_devices(simulation.devices), simulation.threads)


def devices_of(simulation: Simulation) -> Devices:
    """The devices on which a simulation runs: no more processors than `threads` allows."""
    return tuple(dict.fromkeys(workers_of(simulation)))


def workers_on(devices: Devices, threads: int | None) -> Devices:
    """The device of each thread. Without `threads` there is one for each core, and for each device."""
    if devices[0].platform != "cpu":
        return devices * PER_ACCELERATOR
    count = threads or max(usable_cores(), len(devices))
    return tuple(itertools.islice(itertools.cycle(devices), count))


def most_in_memory(workers: int) -> int:
    """How many units of `in_order` are in memory: those at work, as many finished ones, one being merged."""
    return 2 * workers + 1


def in_order(work: Callable[[Unit], Result], units: Iterable[Unit], workers: Devices) -> Iterator[Result]:
    """What `work` gives for each unit, in the order of the units, however long each takes.

    Each worker is a thread with 64-bit types and its own default device, on which compiled programs run. The
    first error in the order of the units is raised here; units that have not started are then dropped,
    as they are when the caller stops or is interrupted.
    """
    free: SimpleQueue = SimpleQueue()
    for device in workers:
        free.put(device)

    def run(unit: Unit) -> Result:
        device = free.get()
        try:
            with jax.enable_x64(True), jax.default_device(device):
                return jax.block_until_ready(work(unit))
        finally:
            free.put(device)

    pool = ThreadPoolExecutor(len(workers), thread_name_prefix="simkit")
    waiting = deque()
    try:
        for unit in units:
            waiting.append(pool.submit(run, unit))
            if len(waiting) == most_in_memory(len(workers)) - 1:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except (MemoryError, RuntimeError) as error:
        if is_shortage(error):  # what the others take is free before anything else is tried
            pool.shutdown(wait=True, cancel_futures=True)
        raise
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
