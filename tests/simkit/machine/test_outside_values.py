"""Values that functions read from outside are told apart by what they are, whatever kind they have."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit.machine.outside_values import outside_values


def reader_of(value):
    def read():
        return value

    return read


KINDS = {
    "numbers": (1.0, 2.0),
    "numbers and truth": (1, True),
    "not a number": (float("nan"), 1.0),
    "texts": ("a", "b"),
    "lists": ([1, [2]], [1, [3]]),
    "tables": ({"a": {"b": 1}}, {"a": {"b": 2}}),
    "arrays": (np.zeros(3), np.array([0.0, 0.0, 1.0])),
    "arrays of other types": (np.zeros(2), np.zeros(2, np.float32)),
    "arrays of jax": (jnp.zeros(2), jnp.ones(2)),
    "functions": (reader_of(1), reader_of(2)),
    "parts": (functools.partial(max, 1), functools.partial(max, 2)),
    "keys": (jax.random.key(1), jax.random.key(2)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_other_values_differ_and_the_same_do_not(kind):
    one, other = KINDS[kind]
    assert outside_values(reader_of(one)) == outside_values(reader_of(one))
    assert outside_values(reader_of(one)) != outside_values(reader_of(other))
    hash(outside_values(reader_of(one)))


def test_a_list_that_contains_itself_has_an_end():
    own: list = [1]
    own.append(own)
    assert outside_values(reader_of(own)) == outside_values(reader_of(own))


def test_a_class_reads_what_its_methods_read_and_its_own_numbers():
    def made(number, inside):
        class Own:
            factor = number

            def method(self):
                return inside

            @property
            def other(self):
                return inside

        return Own

    assert outside_values(made(1, 2)) == outside_values(made(1, 2))
    assert outside_values(made(1, 2)) != outside_values(made(1, 3))
    assert outside_values(made(1, 2)) != outside_values(made(2, 2))
