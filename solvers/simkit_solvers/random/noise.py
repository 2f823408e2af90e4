"""Brownian noise as a pure function of (key, path, stream, step, component).

Words come two at a time, so when a step needs an odd number of them, two steps share a block: `group` says
how many steps do, and `draws` starts where a group does.
"""

import abc
import math
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import Array, Bool, UInt32

from simkit_solvers.numerics.delegated import delegated
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.random.draws import Draw, merged, split
from simkit_solvers.random.generator import Stream, Words, block, stream_key
from simkit_solvers.random.normal import standard_normal, standard_normal_float64

LONG_DRAW = 32  # draws of the generator: what takes so many is not drawn in each kernel of a loop anew


class Purpose(IntEnum):
    """What the random words of a step are for, other than its normals."""

    TRANSITION = 0
    JUMPS = 1


class StepWords(NamedTuple):
    """Random words of one step for one purpose, as many blocks of two as are needed.

    They are computed where they are used: what a loop reads are the few numbers here, not the words.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import StepWords, seed_key
    >>> words = StepWords(seed_key(1), step=jnp.uint32(0), purpose=jnp.uint32(0))
    >>> words.block(0).a.dtype, int(words.block(0).a) != int(words.block(1).a)
    (dtype('uint32'), True)
    """

    key: Words
    step: UInt32[Array, ""]
    purpose: UInt32[Array, ""]

    def block(self, n: UInt32[Array, ""] | int) -> Words:
        """Block number n, from 0 to 2^31 - 1, an integer or a `uint32` that may be traced."""
        return block(self.key, self.step, jnp.uint32(len(Purpose)) * jnp.uint32(n) + self.purpose)


class AbstractNoise(eqx.Module):
    """The source of a path's standard normals; quasi-random and antithetic drivers have the same shape.

    >>> from simkit_solvers import AbstractNoise, CounterNoise, seed_key
    >>> isinstance(CounterNoise.of(seed_key(1), path=0), AbstractNoise)
    True
    """

    @property
    @abc.abstractmethod
    def capacity(self) -> int:
        """How many steps it can drive before a counter would wrap."""

    @property
    @abc.abstractmethod
    def refinement(self) -> int:
        """How many draws of the generator make one of its own; the loop sizes its blocks by this."""

    @abc.abstractmethod
    def group(self, components: int) -> int:
        """How many consecutive steps share random blocks."""

    @abc.abstractmethod
    def draws(self, components: int, areas: int, first: UInt32[Array, ""] | int, count: int) -> list[Draw]:
        """The normals of steps `first`, …, `first + count - 1`.

        `first` is a `uint32`, usually traced, and a multiple of `group`; `areas` is 0, 1 (H) or 2 (H and K).
        `ValueError` where `first` is known and inside a group, or the steps exceed `capacity`.
        """

    @abc.abstractmethod
    def words(
        self, purpose: Purpose, first: UInt32[Array, ""] | int, count: int
    ) -> list[tuple[StepWords, ...]]:
        """Random words of the same steps, for variates other than normals, for each equal part of a step.

        A part is a step of the grid on which the words are drawn, so that a longer step has all that happens
        in those it is made of. `ValueError` where a step cannot be cut like this.
        """


class CounterNoise(AbstractNoise):
    """Independent normals from the counter-based generator, float32 unless `float64` is set.

    The stream keys are those of the path: `CounterNoise.of(key, path)`.

    >>> from simkit_solvers import CounterNoise, seed_key
    >>> noise = CounterNoise.of(seed_key(1), path=7)
    >>> draws = noise.draws(components=2, areas=0, first=0, count=4)
    >>> len(draws), len(draws[0].W)
    (4, 2)
    """

    increments: Words
    areas: Words
    float64: bool = eqx.field(static=True, default=False)
    variates: Words | None = None

    @staticmethod
    def of(key: Words, path: UInt32[Array, ""] | int, float64: bool = False) -> "CounterNoise":
        """The noise of one path id under a key."""
        streams = Stream.INCREMENTS, Stream.AREAS, Stream.VARIATES
        increments, areas, variates = (stream_key(key, path, stream) for stream in streams)
        return CounterNoise(increments, areas, float64, variates)

    @property
    def refinement(self) -> int:
        return 1

    @property
    def capacity(self) -> int:
        return 2**32

    def group(self, components: int) -> int:
        return 1 if self.float64 or components % 2 == 0 else 2

    def draws(self, components: int, areas: int, first: UInt32[Array, ""] | int, count: int) -> list[Draw]:
        check_steps(self, components, first, count)
        W = self._normals(self.increments, components, first, count)
        HK = self._normals(self.areas, areas * components, first, count)
        return [
            Draw(W[i], HK[i][:components] if areas else (), HK[i][components:] if areas > 1 else ())
            for i in range(count)
        ]

    def words(
        self, purpose: Purpose, first: UInt32[Array, ""] | int, count: int
    ) -> list[tuple[StepWords, ...]]:
        if self.variates is None:
            raise ValueError("noise: has no key for variates; make it by CounterNoise.of(key, path)")
        place = jnp.uint32(int(purpose))
        return [(StepWords(self.variates, first + jnp.uint32(i), place),) for i in range(count)]

    def _normals(self, key: Words, per_step: int, first: UInt32[Array, ""] | int, count: int) -> list[tuple]:
        """`count` tuples of `per_step` normals from step `first`, where a group starts."""
        if not per_step:
            return [()] * count
        if self.float64:
            return [
                tuple(standard_normal_float64(block(key, first + jnp.uint32(i), c)) for c in range(per_step))
                for i in range(count)
            ]
        group = self.group(per_step)
        start = first >> jnp.uint32(group - 1)
        blocks: dict[tuple[int, int], Words] = {}

        def normal(word):
            which = divmod(word, group * per_step)
            index = which[0], which[1] // 2
            if index not in blocks:
                blocks[index] = block(key, start + jnp.uint32(index[0]), index[1])
            return standard_normal(blocks[index][which[1] % 2])

        return [tuple(normal(i * per_step + c) for c in range(per_step)) for i in range(count)]


class CoarsenedNoise(AbstractNoise):
    """The Brownian path of `fine` on a grid `factor` times coarser, areas included: sums of the fine draws.

    With `keeps` its draws have those as their `parts`.
    Raises `ValueError` unless `factor` is positive.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import CoarsenedNoise, CounterNoise, seed_key
    >>> fine = CounterNoise.of(seed_key(1), path=7)
    >>> coarse = CoarsenedNoise(fine, 2).draws(components=1, areas=0, first=0, count=1)[0].W[0]
    >>> first, second = (draw.W[0] for draw in fine.draws(components=1, areas=0, first=0, count=2))
    >>> bool(jnp.isclose(coarse, (first + second) / 2**0.5))
    True
    """

    fine: AbstractNoise
    factor: int = eqx.field(static=True)
    keeps: bool = eqx.field(static=True, default=False)

    def __check_init__(self):
        if self.factor < 1:
            raise ValueError(f"factor: must be at least 1, got {self.factor}")

    @property
    def refinement(self) -> int:
        return self.factor * self.fine.refinement

    @property
    def capacity(self) -> int:
        return self.fine.capacity // self.factor

    def group(self, components: int) -> int:
        group = self.fine.group(components)
        return group // math.gcd(group, self.factor)

    def draws(self, components: int, areas: int, first: UInt32[Array, ""] | int, count: int) -> list[Draw]:
        check_steps(self, components, first, count)
        fine = self.fine.draws(components, areas, first * jnp.uint32(self.factor), count * self.factor)
        parts = [fine[i * self.factor : (i + 1) * self.factor] for i in range(count)]
        return [
            merged(each, components, areas)._replace(parts=tuple(each) if self.keeps else ())
            for each in parts
        ]

    def words(
        self, purpose: Purpose, first: UInt32[Array, ""] | int, count: int
    ) -> list[tuple[StepWords, ...]]:
        fine = self.fine.words(purpose, first * jnp.uint32(self.factor), count * self.factor)
        parts = [fine[i * self.factor : (i + 1) * self.factor] for i in range(count)]
        return [sum(part, ()) for part in parts]


class HalvedNoise(AbstractNoise):
    """The Brownian path of `whole` on a grid of half the step, areas included: each step by `split`, with the
    normals of `bridge`.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import CounterNoise, HalvedNoise, seed_key
    >>> whole = CounterNoise.of(seed_key(1), path=7).draws(components=1, areas=0, first=0, count=1)[0].W[0]
    >>> halved = HalvedNoise.of(seed_key(1), path=7)
    >>> first, second = (draw.W[0] for draw in halved.draws(components=1, areas=0, first=0, count=2))
    >>> bool(jnp.isclose(whole, (first + second) / 2**0.5))
    True
    """

    whole: AbstractNoise
    bridge: AbstractNoise

    @staticmethod
    def of(key: Words, path: UInt32[Array, ""] | int, float64: bool = False) -> "HalvedNoise":
        """The halved noise of one path id under a key."""
        bridge = (stream_key(key, path, stream) for stream in (Stream.BRIDGE, Stream.BRIDGE_AREAS))
        return HalvedNoise(CounterNoise.of(key, path, float64), CounterNoise(*bridge, float64))

    @staticmethod
    def twice(key: Words, path: UInt32[Array, ""] | int, float64: bool = False) -> "HalvedNoise":
        """The halved noise of one path id with each half split once more."""
        streams = Stream.SECOND_BRIDGE, Stream.SECOND_BRIDGE_AREAS
        bridge = (stream_key(key, path, stream) for stream in streams)
        return HalvedNoise(HalvedNoise.of(key, path, float64), CounterNoise(*bridge, float64))

    @property
    def refinement(self) -> int:
        return self.whole.refinement

    @property
    def capacity(self) -> int:
        return min(2 * self.whole.capacity, 2**32)

    def group(self, components: int) -> int:
        return 2 * math.lcm(self.whole.group(components), self.bridge.group(components))

    def draws(self, components: int, areas: int, first: UInt32[Array, ""] | int, count: int) -> list[Draw]:
        check_steps(self, components, first, count)
        start, wholes = first >> jnp.uint32(1), (count + 1) // 2
        parts = [noise.draws(components, areas, start, wholes) for noise in (self.whole, self.bridge)]
        halves = [half for whole, fresh in zip(*parts, strict=True) for half in split(whole, fresh)]
        return halves[:count]

    def words(
        self, purpose: Purpose, first: UInt32[Array, ""] | int, count: int
    ) -> list[tuple[StepWords, ...]]:
        raise ValueError(
            "noise: the jumps and other variates of a step are not split between its halves; use "
            "CoarsenedNoise, whose steps are longer"
        )


class MirroredNoise(AbstractNoise):
    """The normals of `pair`, which two paths share, of the other sign where `negative`, and `own` words.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import CounterNoise, MirroredNoise, seed_key
    >>> pair, own = (CounterNoise.of(seed_key(1), path=path) for path in (3, 7))
    >>> mirrored = MirroredNoise(pair, own, jnp.array(True)).draws(components=1, areas=0, first=0, count=1)[0]
    >>> bool(mirrored.W[0] == -pair.draws(components=1, areas=0, first=0, count=1)[0].W[0])
    True
    """

    pair: AbstractNoise
    own: AbstractNoise
    negative: Bool[Array, ""]

    @property
    def refinement(self) -> int:
        return self.pair.refinement

    @property
    def capacity(self) -> int:
        return self.pair.capacity

    def group(self, components: int) -> int:
        return self.pair.group(components)

    def draws(self, components: int, areas: int, first: UInt32[Array, ""] | int, count: int) -> list[Draw]:
        def mirrored(normals: tuple) -> tuple:
            return tuple(jnp.where(self.negative, -x, x) for x in normals)

        draws = self.pair.draws(components, areas, first, count)
        return [Draw(mirrored(draw.W), mirrored(draw.H), mirrored(draw.K), draw.words) for draw in draws]

    def words(
        self, purpose: Purpose, first: UInt32[Array, ""] | int, count: int
    ) -> list[tuple[StepWords, ...]]:
        return self.own.words(purpose, first, count)


class SwappedNoise(AbstractNoise):
    """The draws of `noise` with those of steps 2k and 2k + 1 in each other's place.

    Sums of pairs stay, so that a path on steps twice as long is the same.

    >>> from simkit_solvers import CounterNoise, SwappedNoise, seed_key
    >>> plain = CounterNoise.of(seed_key(1), path=7)
    >>> first, second = (noise.draws(1, 0, first=0, count=2) for noise in (plain, SwappedNoise(plain)))
    >>> bool(first[0].W[0] == second[1].W[0]), bool(first[1].W[0] == second[0].W[0])
    (True, True)
    """

    noise: AbstractNoise
    refinement = delegated("noise")
    capacity = delegated("noise")

    def group(self, components: int) -> int:
        return math.lcm(2, self.noise.group(components))

    def draws(self, components: int, areas: int, first: UInt32[Array, ""] | int, count: int) -> list[Draw]:
        check_steps(self, components, first, count)
        return _swapped(self.noise.draws(components, areas, first, count + count % 2))[:count]

    def words(
        self, purpose: Purpose, first: UInt32[Array, ""] | int, count: int
    ) -> list[tuple[StepWords, ...]]:
        return _swapped(self.noise.words(purpose, first, count + count % 2))[:count]


def _swapped(steps: list) -> list:
    return [steps[i ^ 1] for i in range(len(steps))]


class ShiftedNoise(AbstractNoise):
    """The normals of `noise` with a number added to that of each component, in the number's type; else alike.

    With $\\theta\\sqrt h$ added on steps of length h the Brownian path has the drift $\\theta$. Areas do not
    change: they are of the path less the line between the ends of a step.

    >>> from simkit_solvers import CounterNoise, ShiftedNoise, seed_key
    >>> plain = CounterNoise.of(seed_key(1), path=7)
    >>> draws = [noise.draws(1, 0, first=0, count=1)[0] for noise in (plain, ShiftedNoise(plain, (2.0,)))]
    >>> float(draws[1].W[0] - draws[0].W[0])
    2.0
    """

    noise: AbstractNoise
    shift: tuple[Scalar, ...]
    refinement = delegated("noise")
    capacity = delegated("noise")

    def group(self, components: int) -> int:
        return self.noise.group(components)

    def draws(self, components: int, areas: int, first: UInt32[Array, ""] | int, count: int) -> list[Draw]:
        def shifted(normals: tuple) -> tuple:
            pairs = zip(normals, map(jnp.asarray, self.shift), strict=True)
            return tuple(z.astype(shift.dtype) + shift for z, shift in pairs)

        draws = self.noise.draws(components, areas, first, count)
        return [draw._replace(W=shifted(draw.W)) for draw in draws]

    def words(
        self, purpose: Purpose, first: UInt32[Array, ""] | int, count: int
    ) -> list[tuple[StepWords, ...]]:
        return self.noise.words(purpose, first, count)


def on_base(
    noise: AbstractNoise, steps: int, change: Callable[[AbstractNoise, int], AbstractNoise]
) -> AbstractNoise:
    """The noise of so many steps with that which it sums or splits changed.

    `change` takes the latter and how many steps it has.
    """
    if isinstance(noise, CoarsenedNoise):
        return CoarsenedNoise(on_base(noise.fine, steps * noise.factor, change), noise.factor, noise.keeps)
    if isinstance(noise, HalvedNoise):
        return HalvedNoise(on_base(noise.whole, -(-steps // 2), change), noise.bridge)
    return change(noise, steps)


def on_sums(noise: AbstractNoise, factor: int, keeps: bool = False) -> AbstractNoise:
    """The noise with each of its own draws replaced by the sum of `factor` finer ones, which it may keep."""
    return on_base(noise, 0, lambda base, _: CoarsenedNoise(base, factor, keeps))


def check_steps(noise: AbstractNoise, components: int, first: UInt32[Array, ""] | int, count: int) -> None:
    """Refuse a start inside a group or a counter that would wrap, where the step is known."""
    if isinstance(first, Tracer):
        return
    group = noise.group(components)
    if int(first) % group:
        raise ValueError(f"first: step {first} is inside a group of {group}; start at a multiple of it")
    if int(first) + count > noise.capacity:
        raise ValueError(f"steps: {count} from step {first} exceed the noise's {noise.capacity}; use fewer")
