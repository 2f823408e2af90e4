"""What a worker of a cluster does: the paths of a unit, of a simulation that came with it."""

import threading
from typing import Any, NamedTuple

from simkit.errors import InputError
from simkit.machine.process import tune_process
from simkit.records.path_file import PathFile

_at_work = threading.Lock()  # a unit has all threads of the process


class Unit(NamedTuple):
    """The paths `first` to `stop`, of which the final values of those before `ends` are wanted."""

    first: int
    stop: int
    ends: int


def simulate(
    program: bytes, unit: Unit, machine: dict[str, str] | None, keep: bool, paths_in: PathFile | None
) -> Any:
    """The state of an accumulator that has the paths of a unit; those to be stored go into a file if given.

    They come with the state where this process does not reach that file. Compiled programs are stored for
    later processes on its machine if it is to `keep` them. Raises `InputError` where this process would give
    other bits than one on `machine`, if that is given.
    """
    with _at_work:
        tune_process(keep)  # before jax is imported
        if machine is not None:
            _refuse_others(machine)
        import jax

        from simkit.cluster.shipping import unpacked
        from simkit.ensemble.run import accumulated

        with jax.enable_x64(True):
            paths_in = paths_in if paths_in is not None and paths_in.is_here else None
            part = range(unit.first, unit.stop)
            state, _ = accumulated(unpacked(program), part, unit.ends, paths_in=paths_in)
            return state


def _refuse_others(machine: dict[str, str]) -> None:
    """Raise `InputError` where versions, back end or processor differ from those of `machine`."""
    import socket

    from simkit.records.same_run import differences, of_this_machine

    other = differences(machine, of_this_machine(), "here", "there")
    if other:
        raise InputError(
            [
                f"cluster: a worker on {socket.gethostname()} would give other bits than this process; "
                "install the same versions there, or accept it with cluster.mixed: true",
                *other,
            ]
        )
