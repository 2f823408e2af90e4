"""The counter-based generator: Threefry-2x32 with 20 rounds, in two hops.

`stream_key` turns (key, path, stream) into a key once per path, `block` turns that key and (step group,
component block) into two random words, so that path, stream, step and component each own 32 bits. Threefry
under a fixed key is a bijection, so no two (path, stream) share a stream key and no two (group, block) share
words. Written as `uint32` arithmetic on scalars: under `vmap` it fuses into the integration step, where
`jax.random` would store its draws.

Reference: Salmon, Moraes, Dror & Shaw (2011), Parallel random numbers: as easy as 1, 2, 3,
doi:10.1145/2063384.2063405.
"""

from enum import IntEnum
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, UInt32

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


class Stream(IntEnum):
    """The use of a stream of words; no two streams of one path have a word in common.

    >>> from simkit_solvers import Stream
    >>> [stream.name for stream in Stream][:2]
    ['INCREMENTS', 'AREAS']
    """

    INCREMENTS = 0
    AREAS = 1
    JUMPS = 2
    BRIDGE = 3
    LEVEL = 4
    INITIAL = 5
    BRIDGE_AREAS = 6
    TREE = 7
    INSIDE_LEAPS = 8
    VARIATES = 9
    SECOND_BRIDGE = 10
    SECOND_BRIDGE_AREAS = 11
    COUPLED_LEAPS = 12
    SOBOL = 13
    INSIDE_STRATA = 14
    ENDS = 15
    AREAS_OF_ENDS = 16


class Words(NamedTuple):
    """Two 32-bit words: a key, a counter or a random block.

    >>> from simkit_solvers import Words, seed_key
    >>> isinstance(seed_key(1), Words), seed_key(1).a.dtype
    (True, dtype('uint32'))
    """

    a: UInt32[Array, "..."]
    b: UInt32[Array, "..."]


def threefry2x32(key: Words, counter: Words) -> Words:
    """The Threefry-2x32-20 block cipher; agrees with the known-answer vectors of Random123.

    Where all words are of NumPy, so is the result, and nothing is compiled.
    """
    if any(isinstance(word, jax.Array) for word in (*key, *counter)):
        return _traced_rounds(key, counter)
    with np.errstate(over="ignore"):
        return threefry2x32_rounds(key, counter)


def threefry2x32_rounds(key: Words, counter: Words) -> Words:
    """The cipher on arrays of either kind, under the name that programs have for it."""
    keys = (key.a, key.b, key.a ^ key.b ^ np.uint32(_PARITY))
    a, b = counter.a + keys[0], counter.b + keys[1]
    for i in range(5):
        for r in _ROTATIONS[i % 2]:
            a = a + b
            b = ((b << np.uint32(r)) | (b >> np.uint32(32 - r))) ^ a
        a, b = a + keys[(i + 1) % 3], b + keys[(i + 2) % 3] + np.uint32(i + 1)
    return Words(a, b)


# Traced once rather than at every call, which would be most of the time to build a loop.
_traced_rounds = jax.jit(threefry2x32_rounds)


def seed_key(seed: int) -> Words:
    """The key of a seed from 0 to 2**64 - 1; `ValueError` for any other number, never a wrap.

    >>> from simkit_solvers import seed_key
    >>> seed_key(0) != seed_key(1)
    True
    >>> seed_key(-1)
    Traceback (most recent call last):
        ...
    ValueError: seed: must be from 0 to 2**64 - 1, got -1
    """
    return Words(*map(jnp.asarray, seed_words(seed)))


def seed_words(seed: int) -> Words:
    """The key of a seed on the host, for the arguments of a program: `seed_key`, which calls none."""
    if not 0 <= seed < 2**64:
        raise ValueError(f"seed: must be from 0 to 2**64 - 1, got {seed}")
    words: Any = [np.asarray(word, np.uint32) for word in (seed >> 32, seed & 0xFFFFFFFF)]
    return Words(*words)


def stream_key(key: Words, path: UInt32[Array, ""] | int, stream: Stream) -> Words:
    """First hop: the key of one stream of one path; `ValueError` for a path id beyond 32 bits.

    >>> from simkit_solvers import Stream, seed_key, stream_key
    >>> first, second = (stream_key(seed_key(1), path, Stream.INCREMENTS) for path in (0, 1))
    >>> int(first.a) != int(second.a)
    True
    """
    return threefry2x32(key, Words(_word("path id", path, key), _word("stream", int(stream), key)))


def block(key: Words, group: UInt32[ArrayLike, "..."], component_block: UInt32[ArrayLike, "..."]) -> Words:
    """Second hop: two words for a group of steps and a block of components; `ValueError` beyond 32 bits.

    >>> import jax.numpy as jnp
    >>> from simkit_solvers import block, seed_key
    >>> block(seed_key(1), group=jnp.arange(3, dtype=jnp.uint32), component_block=0).a.shape
    (3,)
    """
    counter = Words(_word("step group", group, key), _word("component block", component_block, key))
    return threefry2x32(key, counter)


def _word(what: str, value: Any, key: Words) -> Any:
    """`value` as a 32-bit word of the kind of the key's, refused where a cast would wrap or cut it."""
    if isinstance(value, jax.Array):
        if value.dtype != jnp.uint32:
            raise ValueError(f"{what}: an array must be uint32, got {value.dtype}; check and cast it")
        return value
    given = np.asarray(value)
    if given.dtype.kind not in "iu" or (given < 0).any() or (given >= 2**32).any():
        raise ValueError(f"{what}: must be an integer from 0 to 2**32 - 1, got {value}")
    word = given.astype(np.uint32)
    return jnp.asarray(word) if isinstance(key.a, jax.Array) else word
