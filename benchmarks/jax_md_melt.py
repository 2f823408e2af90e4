"""The melt of `lennard_jones.py` in jax-md, in the loop of its own examples."""

from collections.abc import Callable

import jax
import jax.numpy as jnp


def melt_in_jax_md(
    position: jax.Array, side: float, dt: float, temperature: float, cutoff: float
) -> Callable[[int], None]:
    """What takes so many steps from `(atoms, 3)` positions; lists are half ones, made anew by jax-md's rule.

    Raises `ImportError` without jax-md, and `ArithmeticError` where a list overflows. Its potential is
    switched off between 0.8 of the cutoff and the cutoff, which costs little.
    """
    from jax_md import energy, partition, simulate, space

    displacement, shift = space.periodic(side)
    neighbours, energy_of = energy.lennard_jones_neighbor_list(
        displacement,
        side,
        r_onset=0.8 * cutoff,
        r_cutoff=cutoff,
        dr_threshold=0.3,
        capacity_multiplier=1.6,
        format=partition.OrderedSparse,
    )
    start, step = simulate.nve(energy_of, shift, dt)
    listed = neighbours.allocate(position)
    state = start(jax.random.PRNGKey(0), position, kT=temperature, neighbor=listed)

    def one(_, carry):
        state, listed = carry
        listed = listed.update(state.position)
        return step(state, neighbor=listed), listed

    run = jax.jit(lambda steps: jax.lax.fori_loop(0, steps, one, (state, listed)))

    def steps(count: int) -> None:
        _, last = jax.block_until_ready(run(jnp.int32(count)))
        if last.did_buffer_overflow:
            raise ArithmeticError("a list of jax-md overflowed")

    return steps
