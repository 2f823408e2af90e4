"""XLA's optimised programs as text: computations, loops, kernels and their operations.

Only the text is stable enough to read: it has the same form in all versions of jax that simkit supports.
"""

import dataclasses
import math
import re
from collections.abc import Iterable, Iterator

BYTES = {"pred": 1, "bf16": 2, "c64": 8, "c128": 16, "token": 0, "opaque": 0}  # others by their digits
_TRANSCENDENTAL = """
atan2 cbrt cosine erf exponential exponential-minus-one log log-plus-one logistic power rsqrt sine
sqrt tan tanh
"""
TRANSCENDENTAL = frozenset(_TRANSCENDENTAL.split())
_ARITHMETIC = """
abs add and ceil clamp clz compare complex convert count-leading-zeros divide floor imag is-finite
maximum minimum multiply negate not or popcnt real remainder round-nearest-afz round-nearest-even
select shift-left shift-right-arithmetic shift-right-logical sign subtract xor
"""
ARITHMETIC = frozenset(_ARITHMETIC.split())
_CONTROL = """
after-all bitcast call conditional constant get-tuple-element opt-barrier parameter partition-id
replica-id tuple while
"""
CONTROL = frozenset(_CONTROL.split())

_HEAD = re.compile(r"^(ENTRY )?%?(\S+) \(.*-> .* \{$")
_LINE = re.compile(r"^\s+(?:ROOT )?%?(\S+) = (\(.*?\)|\S+) ([a-z][\w-]*)\((.*)$")
_SHAPE = re.compile(r"([a-z]+\d*\w*)\[([\d,]*)\]")


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line of a computation: opcode, shape of what it gives, operands, computations that it calls.

    `scope` is where it comes from in Python, as jax names it; `trips` how often a loop runs, where known.
    """

    name: str
    opcode: str
    shape: str
    operands: tuple[str, ...]
    calls: tuple[str, ...]
    scope: str
    trips: int | None

    @property
    def elements(self) -> int:
        """How many numbers it gives."""
        return sum(n for _, n in arrays(self.shape))

    @property
    def bytes(self) -> int:
        """How many bytes these are."""
        return sum(width(kind) * n for kind, n in arrays(self.shape))


@dataclasses.dataclass(frozen=True)
class Module:
    """A program: computations by name, each a list of instructions in the order in which they run."""

    computations: dict[str, tuple[Instruction, ...]]
    entry: str


@dataclasses.dataclass(frozen=True)
class Work:
    """Operations of some instructions: on floating-point numbers, on integers, and transcendental ones."""

    floating: int = 0
    integer: int = 0
    transcendental: int = 0

    def __add__(self, other: "Work") -> "Work":
        pairs = zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
        return Work(*(a + b for a, b in pairs))

    @property
    def total(self) -> int:
        """All of them."""
        return self.floating + self.integer + self.transcendental


def arrays(shape: str) -> list[tuple[str, int]]:
    """The arrays of a shape, or of a tuple of shapes: the type and the number of elements of each."""
    return [(kind, math.prod(int(n) for n in sizes.split(",") if n)) for kind, sizes in _SHAPE.findall(shape)]


def width(kind: str) -> int:
    """Bytes of a number of this type."""
    digits = re.search(r"\d+", kind)
    return BYTES[kind] if kind in BYTES else max(1, int(digits[0]) // 8) if digits else 0


def parse(text: str) -> Module:
    """Read a module as `Compiled.as_text` writes it. Raises `ValueError` for a text without an entry."""
    computations: dict[str, tuple[Instruction, ...]] = {}
    entry, name, lines = "", "", []
    for line in text.splitlines():
        head = _HEAD.match(line)
        if head:
            name, lines = head[2], []
            entry = name if head[1] else entry
        elif line.startswith("}") and name:
            computations[name], name = tuple(lines), ""
        elif name:
            result = _LINE.match(line)
            if result:
                lines.append(_instruction(*result.groups()))
    if not entry:
        raise ValueError("not the text of an optimised program: it has no ENTRY computation")
    return Module(computations, entry)


def _instruction(name: str, shape: str, opcode: str, rest: str) -> Instruction:
    inside, _, attributes = rest.partition("), ") if "), " in rest else (rest.rstrip(")"), "", "")
    calls = re.findall(r"(?:calls|to_apply|body|condition)=%?([\w.\-]+)", attributes)
    for group in re.findall(r"(?:branch_computations|called_computations)=\{([^}]*)\}", attributes):
        calls += [each.strip().lstrip("%") for each in group.split(",")]
    calls += re.findall(r"(?:true|false)_computation=%?([\w.\-]+)", attributes)
    scope = re.search(r'op_name="([^"]*)"', attributes)
    trips = re.search(r'known_trip_count":\{"n":"(\d+)"', attributes)
    operands = re.findall(r"%([\w.\-]+)", inside)
    return Instruction(
        name,
        opcode,
        shape,
        tuple(operands),
        tuple(calls),
        scope[1] if scope else "",
        int(trips[1]) if trips else None,
    )


def is_kernel(instruction: Instruction) -> bool:
    """Whether it is launched by itself: a fusion, or an operation that was not fused with others."""
    return instruction.opcode not in CONTROL and not instruction.opcode.startswith("copy")


def body_of(module: Module, loop: Instruction) -> str:
    """The name of a loop's body: of its two computations the one that gives what the loop carries."""
    bodies = [name for name in loop.calls if not module.computations[name][-1].shape.startswith("pred[]")]
    return bodies[0] if bodies else loop.calls[-1]


def instructions_within(module: Module, computation: str) -> list[Instruction]:
    """What runs when a computation does once, those in calls and branches too, but not in loops and fusions.

    Of the branches of a conditional, the one with most instructions counts.
    """
    result = []
    for each in module.computations[computation]:
        result.append(each)
        if each.opcode == "conditional":
            result += max((instructions_within(module, name) for name in each.calls), key=len)
        elif each.opcode == "call":
            result += instructions_within(module, each.calls[0])
    return result


def work_of(module: Module, instructions: list[Instruction]) -> Work:
    """The operations of instructions, those inside fusions too; loops and what they call are left out."""
    return sum(map(_own_work, with_fused(module, instructions)), Work())


def with_fused(module: Module, instructions: Iterable[Instruction]) -> Iterator[Instruction]:
    """The instructions, and those inside fusions."""
    for each in instructions:
        yield each
        if each.opcode == "fusion":
            yield from with_fused(module, module.computations[each.calls[0]])


def _own_work(instruction: Instruction) -> Work:
    count = instruction.elements
    if instruction.opcode in TRANSCENDENTAL:
        return Work(transcendental=count)
    if instruction.opcode not in ARITHMETIC:
        return Work()
    kinds = [kind for kind, _ in arrays(instruction.shape)]
    real = bool(kinds) and kinds[0][0] in "fbc"
    return Work(floating=count) if real else Work(integer=count)
