"""The loops of a compiled program, among them the loop over steps, and the work of one iteration."""

import dataclasses
from collections.abc import Iterable, Iterator

from simkit_solvers.numerics.scopes import STEPS, STEPS_WITHIN

from simkit.diagnostics.inspection.hlo import (
    Instruction,
    Module,
    Work,
    body_of,
    instructions_within,
    is_kernel,
    with_fused,
    work_of,
)


@dataclasses.dataclass(frozen=True)
class Loop:
    """A loop: how deep it lies in others, how often it runs where XLA knows, and one iteration of it.

    Of the `kernels`, `path_kernels` give a number for each path, the others are counters and conditions, or
    all there is where paths do not differ. `copies` move data only; `loops_inside` are not counted into the
    rest. `bytes` are those that the path kernels read and write, or all kernels where there are none. `steps`
    says whether paths advance in it.
    """

    name: str
    depth: int
    trips: int | None
    kernels: int
    path_kernels: int
    copies: int
    work: Work
    bytes: int
    loops_inside: int
    steps: bool


def loops_of(module: Module, lanes: int) -> list[Loop]:
    """All loops, outer ones first. `lanes` is how many paths are computed at once."""
    return [_loop(module, each, depth, lanes) for each, depth in _whiles(module, module.entry, 0)]


def step_loop(loops: Iterable[Loop]) -> Loop | None:
    """The loop whose iterations are steps or blocks of steps, `None` where the compiler has left none.

    Where several are, as in a loop that begins anew after each event, the one that does most.
    """
    return max((loop for loop in loops if loop.steps), key=lambda loop: loop.work.total, default=None)


def _whiles(module: Module, computation: str, depth: int) -> Iterator[tuple[Instruction, int]]:
    for each in module.computations[computation]:
        if each.opcode == "while":
            yield each, depth
            yield from _whiles(module, body_of(module, each), depth + 1)
        elif each.opcode in ("call", "conditional"):
            for name in each.calls:
                yield from _whiles(module, name, depth)


def _loop(module: Module, loop: Instruction, depth: int, lanes: int) -> Loop:
    inside = instructions_within(module, body_of(module, loop))
    kernels = [each for each in inside if is_kernel(each)]
    over_paths = [each for each in kernels if each.elements >= lanes]
    sizes = {each.name: each.bytes for each in inside}
    return Loop(
        name=loop.name,
        depth=depth,
        trips=loop.trips,
        kernels=len(kernels),
        path_kernels=len(over_paths),
        copies=sum(each.opcode.startswith("copy") for each in inside),
        work=work_of(module, inside),
        bytes=sum(
            each.bytes + sum(sizes.get(name, 0) for name in each.operands) for each in over_paths or kernels
        ),
        loops_inside=sum(each.opcode == "while" for each in inside),
        steps=_advances(loop.scope, (each.scope for each in with_fused(module, inside))),
    )


def _advances(loop: str, scopes: Iterable[str]) -> bool:
    """Whether a loop is the innermost one around what is marked as steps, or the outermost one inside.

    What the compiler moves out of a loop keeps its name, so that the loops further out have it as well.
    """
    _, marked, inside = loop.rpartition(STEPS_WITHIN)
    if marked:
        return inside.count("/while") == 1
    for name in scopes:
        between, result, _ = name.removeprefix(loop).partition(STEPS)
        if loop and name.startswith(loop) and result and "/while" not in between:
            return True
    return False
