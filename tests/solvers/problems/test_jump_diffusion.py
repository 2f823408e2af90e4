"""Jumps of a step: what they are refused for, and what ends a path."""

import jax.numpy as jnp
import numpy as np
import pytest
from jump_examples import Shots, some_words
from simkit_solvers.problems.jump_diffusion import jumps_of_step
from solver_problems import Level


@pytest.mark.parametrize("rate", [-1.0, np.nan, 1e9])
def test_a_bad_intensity_ends_the_path(rate):
    shots = Shots(a=1.0, base=rate, rise=0.0)
    end, _ = jumps_of_step(shots, 0.0, jnp.asarray(0.1), Level(jnp.asarray(1.0)), (some_words(),))
    assert jnp.isnan(end.x)


def test_a_jump_gives_a_state():
    class Wrong(Shots):
        def jump(self, t, y, z):
            return z

    with pytest.raises(ValueError, match=r"^Wrong.jump: must return a Level of numbers in the state's"):
        jumps_of_step(
            Wrong(1.0, 1.0, 0.0),
            0.0,
            jnp.asarray(0.1),
            Level(jnp.asarray(1.0)),
            (some_words(),),
        )
