"""Compiled programs, cached for later runs that differ in numbers alone."""

import functools
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from simkit_solvers import shared_among

from simkit.ensemble.stored_programs import file_of, store, stored
from simkit.garbage import seldom_collected
from simkit.machine.on_each_device import Devices, local_devices, lower, lower_for_all
from simkit.machine.outside_values import is_of_library, outside_values
from simkit.progress import compiling

CACHED = 64
# Code that is made in half the time and runs ten times as long: LLVM leaves it as it is. The emitter of
# fused loops costs a third more, and jax 0.12 has no other.
QUICKLY_MADE: dict[str, bool | int] = {"xla_backend_optimization_level": 0}
if jax.__version_info__ < (0, 11):
    QUICKLY_MADE["xla_cpu_use_fusion_emitters"] = False

_one_at_a_time = threading.RLock()  # or two threads would compile the same program
_cache: OrderedDict[Hashable, Callable] = OrderedDict()
_meanwhile: list[Callable[[], object]] = []
_read: dict[Hashable, Hashable] = {}


class Request(NamedTuple):
    """A program, and arguments of the shapes and types to compile it for.

    It is compiled for each of `devices`, the first one unless given; or once for all `together`, which share
    its parts. One that runs a moment may be `quick` to make instead of quick to run, on processors. Arguments
    whose numbers are `donated` are used up by a call.
    """

    program: Callable
    arguments: tuple
    devices: Devices = ()
    quick: bool = False
    together: bool = False
    donated: tuple[int, ...] = ()

    @property
    def places(self) -> Devices:
        """The devices that it is compiled for."""
        return self.devices or local_devices(1)

    @property
    def key(self) -> Hashable:
        """What distinguishes compiled programs."""
        leaves, structure = jax.tree.flatten(self.arguments)
        types = tuple((np.shape(x), getattr(x, "dtype", None) or jax.numpy.result_type(x)) for x in leaves)
        return self.program, self.places, self.quick, self.together, self.donated, structure, types


@seldom_collected()
def compiled(*requests: Request) -> tuple[list[Callable], float]:
    """The programs compiled, and the seconds that this took; several at a time, while the next is traced.

    Two programs are the same where they are equal: frozen dataclasses whose fields are all that their call
    reads. The last ones used stay in memory.
    """
    with _one_at_a_time, compiling():
        return _compiled(requests)


def _compiled(requests: tuple[Request, ...]) -> tuple[list[Callable], float]:
    start = time.perf_counter()
    keys = [request.key for request in requests]
    wanted = dict(zip(keys, requests, strict=True))
    result = {key: _cache.pop(key) for key in wanted if key in _cache}
    new = [key for key in wanted if key not in result]
    if len(new) == 1:  # here, where an interrupt reaches it
        result[new[0]] = _lowered(wanted[new[0]])()
    elif new:
        with ThreadPoolExecutor(len(new)) as pool:
            started = {key: pool.submit(_lowered(wanted[key])) for key in new}
            while _meanwhile:
                _meanwhile.pop()()
        result |= {key: each.result() for key, each in started.items()}
    for key in new:
        result[key] = result[key] or _compiling(wanted[key], None)()
    for key in wanted:
        _cache[key] = result[key]
    while len(_cache) > CACHED:
        _cache.popitem(last=False)
    return [result[key] for key in keys], time.perf_counter() - start


def forget_changed(own: Iterable[Any]) -> None:
    """Forget all programs where the user's functions or classes read other values than when last seen.

    A program has what was read when it was traced, and the same function would seem to be the same program.
    """
    now = {each: outside_values(each) for each in own if not is_of_library(each)}
    if any(_read.get(each, values) != values for each, values in now.items()):
        _cache.clear()
        jax.clear_caches()
    _read.update(now)


def while_compiling(work: Callable[[], object]) -> None:
    """Have work done when XLA next compiles several programs, all of them lowered: Python is idle then."""
    _meanwhile.append(work)


def _lowered(request: Request) -> Callable[[], Any]:
    """What reads a stored program, or None where its file cannot be read; of another, what compiles it."""
    file = file_of(request)
    if file is not None and file.exists():
        return functools.partial(stored, request, file)
    return _compiling(request, file)


def _compiling(request: Request, file: Path | None) -> Callable[[], Callable]:
    """Trace and lower; what is returned compiles, and stores what it has compiled in a file."""
    compile_it = _traced(request)
    if file is None:
        return compile_it

    def compile_and_store() -> Callable:
        program: Any = compile_it()
        store(program, file)
        return program

    return compile_and_store


def _traced(request: Request) -> Callable[[], Callable]:
    """Trace and lower; what is returned compiles."""
    if request.together:
        shared = jax.jit(shared_among(request.places, request.program), donate_argnums=request.donated)
        return lower_for_all(shared, request.arguments, request.places)
    quick = request.quick and jax.default_backend() == "cpu"
    jitted = (_quick_jit if quick else _jit)(request.program, donate_argnums=request.donated)
    return lower(jitted, request.arguments, request.places)


def _jit(program: Callable, **options: Any) -> Any:
    return jax.jit(program, **options)


def _quick_jit(program: Callable, **options: Any) -> Any:
    return jax.jit(program, compiler_options=QUICKLY_MADE, **options)
