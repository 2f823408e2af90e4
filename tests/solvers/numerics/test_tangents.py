"""Tangents of trees of numbers, and derivatives along them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import pytest
from simkit_solvers.numerics.tangents import as_tangent, differentiable, in_precision, jvp, moved


class Spring(NamedTuple):
    """With a name and a number of coils, which have no tangents."""

    stiffness: float | jax.Array | None = 2.0
    length: float | jax.Array | None = None
    coils: int | None = 7
    name: str | None = "steel"


SPRING = Spring(2.0, jnp.asarray([1.0, 3.0]))


def energy(spring: Spring):
    return 0.5 * spring.coils * spring.stiffness * jnp.sum(spring.length**2)


def test_a_direction_has_zeros_where_it_says_nothing():
    tangent = as_tangent(SPRING, Spring(0.5, None, None, None))
    assert float(tangent.stiffness) == 0.5
    assert tangent.length.tolist() == [0.0, 0.0]
    assert (tangent.coils, tangent.name) == (None, None)
    assert as_tangent(SPRING, None, jnp.float32).length.dtype == jnp.float32
    with pytest.raises(ValueError, match="direction: must be a Spring of the same structure"):
        as_tangent(SPRING, (1.0, 2.0))


def test_a_derivative_along_a_tangent_is_that_of_a_step_along_it():
    tangent = as_tangent(SPRING, Spring(0.5, jnp.asarray([1.0, -1.0]), None, None))
    value, slope = jvp(energy, SPRING, tangent)
    up, down = (energy(moved(SPRING, tangent, by)) for by in (1e-5, -1e-5))
    assert float(value) == energy(SPRING) == 70.0
    assert float(slope) == pytest.approx(float(up - down) / 2e-5, rel=1e-9)
    assert moved(SPRING, tangent, 2.0).name == "steel"


def test_only_real_numbers_change_their_precision():
    spring = in_precision(SPRING, jnp.float32)
    assert (spring.stiffness.dtype, spring.length.dtype) == (jnp.float32, jnp.float32)
    assert isinstance(spring.coils, int)
    assert (spring.coils, spring.name) == (7, "steel")


def test_the_derivatives_of_another_program_are_taken_only_where_there_are_derivatives():
    used = []

    def program(kind):
        def cube(x, power):
            used.append(kind)
            return x**power

        return cube

    def cube(x):
        return differentiable(program("values"), program("derivatives"), x, 3)

    assert cube(jnp.asarray(2.0)) == 8
    assert set(used) == {"values"}
    assert jax.grad(cube)(jnp.asarray(2.0)) == 12
    assert jax.jvp(jax.grad(cube), (jnp.asarray(2.0),), (jnp.asarray(1.0),))[1] == 12
    assert "derivatives" in used
