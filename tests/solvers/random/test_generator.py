"""The generator is the published cipher, and no counter of it ever wraps or repeats."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from simkit_solvers import Stream, Words, block, seed_key, stream_key
from simkit_solvers.random.generator import threefry2x32
from user_code import user_jit


def words(a, b):
    return Words(jnp.uint32(a), jnp.uint32(b))


def as_uint64(pair: Words):
    """Both words as one 64-bit integer."""
    return np.asarray(pair.a).astype(np.uint64) << np.uint64(32) | np.asarray(pair.b).astype(np.uint64)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x243F6A88, 0x85A308D3), (0x13198A2E, 0x03707344), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answer_vectors_of_random123(counter, key, expected):
    answer = threefry2x32(words(*key), words(*counter))
    assert (int(answer.a), int(answer.b)) == expected


def test_agrees_with_the_generator_of_jax():
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 2**32, (1000, 2), dtype=np.uint32)
    data = rng.integers(0, 2**32, 1000, dtype=np.uint32)

    def folded(key, number):
        return jax.random.key_data(
            jax.random.fold_in(jax.random.wrap_key_data(key, impl="threefry2x32"), number)
        )

    expected = np.asarray(jax.vmap(folded)(jnp.asarray(keys), jnp.asarray(data)))
    ours = threefry2x32(
        Words(jnp.asarray(keys[:, 0]), jnp.asarray(keys[:, 1])), Words(jnp.uint32(0), jnp.asarray(data))
    )
    np.testing.assert_array_equal(np.stack(ours, 1), expected)


IDS = np.unique(
    np.concatenate(
        [
            np.arange(2**15),
            2**32 - 1 - np.arange(2**15),
            2 ** np.arange(32),
            np.random.default_rng(1).integers(0, 2**32, 2**16),
        ]
    )
).astype(np.uint32)


def test_every_stream_has_the_number_that_it_always_had():
    """Another number would give other bits for the same seed, and a number twice the same words twice."""
    numbers = {name: int(stream) for name, stream in Stream.__members__.items()}
    assert numbers == {
        "INCREMENTS": 0,
        "AREAS": 1,
        "JUMPS": 2,
        "BRIDGE": 3,
        "LEVEL": 4,
        "INITIAL": 5,
        "BRIDGE_AREAS": 6,
        "TREE": 7,
        "INSIDE_LEAPS": 8,
        "VARIATES": 9,
        "SECOND_BRIDGE": 10,
        "SECOND_BRIDGE_AREAS": 11,
        "COUPLED_LEAPS": 12,
        "SOBOL": 13,
        "INSIDE_STRATA": 14,
        "ENDS": 15,
        "AREAS_OF_ENDS": 16,
    }


@pytest.mark.more
def test_every_path_and_stream_has_a_key_of_its_own():
    keys = [as_uint64(stream_key(seed_key(0), jnp.asarray(IDS), stream)) for stream in Stream]
    assert len(np.unique(keys)) == len(Stream) * len(IDS)


@pytest.mark.more
def test_every_step_group_and_component_block_has_words_of_its_own():
    key = stream_key(seed_key(0), 0, Stream.INCREMENTS)
    components = (0, 1, 2, 3, 2**31, 2**32 - 1)
    blocks = [as_uint64(block(key, jnp.asarray(IDS), c)) for c in components]
    assert len(np.unique(blocks)) == len(components) * len(IDS)


def test_path_stream_step_and_component_are_not_interchangeable():
    values = {
        int(as_uint64(block(stream_key(seed_key(0), path, stream), group, component)))
        for path, stream, group, component in itertools.product(range(3), Stream, range(3), range(3))
    }
    assert len(values) == 3 * len(Stream) * 3 * 3


def test_every_bit_of_key_and_counter_reaches_every_bit_of_the_words():
    rng = np.random.default_rng(2)
    inputs = [jnp.asarray(x) for x in rng.integers(0, 2**32, (4, 2000), dtype=np.uint32)]

    def cipher(a, b, c, d):
        return as_uint64(threefry2x32(Words(a, b), Words(c, d)))

    before = cipher(*inputs)
    for which, bit in itertools.product(range(4), range(32)):
        flipped = [x ^ jnp.uint32(1 << bit) if i == which else x for i, x in enumerate(inputs)]
        changed = before ^ cipher(*flipped)
        fraction = np.array([np.mean(changed >> np.uint64(i) & np.uint64(1)) for i in range(64)])
        z = (fraction - 0.5) * 2 * np.sqrt(2000)
        assert np.abs(z).max() < 6.6  # alpha 1e-6 over the 8192 pairs of bits (two-sided, Bonferroni: 6.5)


def test_seed_zero_is_a_seed_like_any_other():
    first = [
        int(as_uint64(stream_key(seed_key(seed), 0, Stream.INCREMENTS))) for seed in (0, 1, 2**32, 2**64 - 1)
    ]
    assert len(set(first)) == 4
    assert 0 not in first


def test_all_64_bits_of_a_seed_count():
    rng = np.random.default_rng(3)
    seeds = [0, *(2**i for i in range(64)), *(int(x) for x in rng.integers(0, 2**64, 1000, dtype=np.uint64))]
    assert [int(as_uint64(seed_key(seed))) for seed in seeds] == seeds


@pytest.mark.parametrize("seed", [-1, 2**64, -(2**64), 10**30])
def test_a_seed_beyond_64_bits_is_refused(seed):
    with pytest.raises(ValueError, match=rf"^seed: must be from 0 to 2\*\*64 - 1, got {seed}$"):
        seed_key(seed)


OUTSIDE = [-1, 2**32, 2**64, np.int64(-1), np.int64(2**32), np.arange(2**32 - 1, 2**32 + 1), 1.0, True]


@pytest.mark.parametrize("number", OUTSIDE)
def test_a_counter_beyond_32_bits_is_refused(number):
    key = seed_key(0)
    with pytest.raises(ValueError, match=r"^path id: must be an integer from 0 to 2\*\*32 - 1, got"):
        stream_key(key, number, Stream.INCREMENTS)
    with pytest.raises(ValueError, match=r"^step group: must be an integer from 0 to 2\*\*32 - 1, got"):
        block(key, number, 0)
    with pytest.raises(ValueError, match=r"^component block: must be an integer from 0 to 2\*\*32 - 1, got"):
        block(key, 0, number)


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.int64, jnp.uint64, jnp.float32])
def test_a_traced_counter_of_another_type_is_refused(dtype):
    key = seed_key(0)
    with pytest.raises(ValueError, match=f"^path id: an array must be uint32, got {dtype.__name__}"):
        user_jit(lambda path: stream_key(key, path, Stream.AREAS))(jnp.zeros((), dtype))
    with pytest.raises(ValueError, match=f"^step group: an array must be uint32, got {dtype.__name__}"):
        user_jit(lambda group: block(key, group, 0))(jnp.zeros((), dtype))


def test_the_last_counters_are_usable_and_a_number_is_the_same_however_it_is_given():
    key, last = seed_key(7), 2**32 - 1
    expected = as_uint64(block(stream_key(key, last, Stream.BRIDGE), last, last))
    for given in (np.int64(last), np.uint32(last), jnp.uint32(last)):
        assert as_uint64(block(stream_key(key, given, Stream.BRIDGE), given, given)) == expected
    mapped = user_jit(jax.vmap(lambda i: block(stream_key(key, i, Stream.BRIDGE), i, i)))
    assert as_uint64(mapped(jnp.asarray([3, last, 5], jnp.uint32)))[1] == expected
