"""What events do to the counts of a path: those that its own events trigger, and the check of all."""

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.loops.jump_watch import in_real_numbers
from simkit_solvers.methods.jump.jump_method import LARGEST_COUNT, Jumps
from simkit_solvers.problems.schedule import schedule_of


def as_counts(real: PyTree) -> tuple[PyTree, jax.Array]:
    """Real numbers that an event has set as counts, and whether they are sound; 0 where they are not."""
    sound = jnp.bool_(True)
    for x in jax.tree.leaves(real):
        most = min(LARGEST_COUNT, 2 ** (jnp.finfo(x.dtype).nmant + 1))
        sound = sound & (jnp.round(x) == x) & (x >= 0) & (x <= most)
    return jax.tree.map(lambda x: jnp.where(sound, x, 0.0).astype(jnp.int32), real), sound


def after_triggered(
    jumps: Jumps, time: jax.Array, before: PyTree, y: PyTree
) -> tuple[PyTree, jax.Array, tuple[jax.Array, ...]]:
    """The counts once a reaction has taken `before` to `y`, whether they are sound, and what has happened.

    They are `y` itself where no event of the schedule is triggered.
    """
    network = jumps.seen
    schedule = None if network is None else schedule_of(network)
    if network is None or schedule is None or not schedule.triggered:
        happened = () if schedule is None else schedule.none_happened.counts
        return y, jnp.bool_(True), happened
    t, real = jumps.t0 + time, in_real_numbers(y, time.dtype)
    held = schedule.conditions(network, t, in_real_numbers(before, time.dtype))
    none = [jnp.bool_(False)] * len(schedule.events)
    new, happened = schedule.after_events(none, held, network, t, real)
    counts, sound = as_counts(new)
    # Where nothing happened the counts stay as they are: a real number may not hold them.
    counts = jax.tree.map(lambda a, b: jnp.where(happened.any & sound, a, b), counts, y)
    return counts, sound | ~happened.any, happened.counts
