"""A simulation as bytes for another process, with the classes and functions of the user's own modules."""

import contextlib
import dataclasses
import functools
import pickle
from collections.abc import Iterator

from simkit.ensemble.simulation import Simulation
from simkit.errors import InputError
from simkit.machine.own_modules import own_modules


def packed(simulation: Simulation, threads: int | None) -> bytes:
    """A simulation as bytes, to be run in so many threads, all that a process has unless given.

    What it has of the user's own modules is packed with it, so that these need not be where it is run.
    """
    import cloudpickle

    with _own_modules_included():
        try:
            return cloudpickle.dumps(dataclasses.replace(simulation, threads=threads))
        except (TypeError, pickle.PicklingError, AttributeError) as error:
            raise InputError(
                f"cluster: the experiment cannot be sent to another process ({error}); what own models, "
                "solvers and observables refer to must be functions, classes, numbers and arrays"
            ) from error


@functools.lru_cache(maxsize=8)  # so that programs are compiled once
def unpacked(data: bytes) -> Simulation:
    """The simulation that was packed."""
    return pickle.loads(data)


@contextlib.contextmanager
def _own_modules_included() -> Iterator[None]:
    """Within it what is pickled has the code of the user's own modules, in place of their names."""
    import cloudpickle

    there = cloudpickle.list_registry_pickle_by_value()
    own = [module for name, module in own_modules().items() if name not in there]
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)
