"""Separable Hamiltonian systems."""

from typing import NamedTuple

import pytest
from simkit_solvers import AbstractHamiltonian, Scalar


class Odd(AbstractHamiltonian):
    class State(NamedTuple):
        q: Scalar
        p: Scalar
        s: Scalar

    def kinetic(self, p):
        return p[0]

    def potential(self, q):
        return q[0]


def test_odd_state_is_refused():
    with pytest.raises(
        ValueError, match=r"^Odd\.State: needs as many momenta .* got 3 variables \(q, p, s\)"
    ):
        Odd()
