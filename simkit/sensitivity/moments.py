"""The means of what programs of paths give, with their standard errors, chunk by chunk."""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding

from simkit.chunks import Chunks
from simkit.on_each_device import ROWS
from simkit.paths import as_device_ids
from simkit.reducers import Moments

IN_FLIGHT = 2


@dataclasses.dataclass(frozen=True)
class MomentsReduction:
    """A function of (arrays of one chunk, how many of its paths count): moments, and which paths fail."""

    counts: tuple[int, ...]
    mesh: Mesh

    @property
    def reducer(self) -> Moments:
        """Of the arrays by their position."""
        return Moments({str(place): count for place, count in enumerate(self.counts)})

    def __call__(self, values: tuple[jax.Array, ...], remaining):
        ids = values[0].shape[1:]
        finite = jnp.ones(ids, bool)
        for array in values:
            finite &= jnp.all(jnp.isfinite(array), axis=0)
        present = jnp.arange(math.prod(ids), dtype=jnp.int64).reshape(ids) < remaining
        named = {str(place): array for place, array in enumerate(values)}
        return self.reducer.update(named, present & finite), present & ~finite


def on_mesh(
    counts: Sequence[int], ids: tuple[int, ...], dtype, mesh: Mesh
) -> tuple[jax.ShapeDtypeStruct, ...]:
    """The arrays of so many rows each that a program of paths gives for such ids."""
    sharding = NamedSharding(mesh, ROWS)
    return tuple(jax.ShapeDtypeStruct((count, *ids), jnp.dtype(dtype), sharding=sharding) for count in counts)


@dataclasses.dataclass(frozen=True)
class Found:
    """Means, standard errors and standard deviations per path, an array of rows for each quantity."""

    mean: list[np.ndarray]
    stderr: list[np.ndarray]
    sd: list[np.ndarray]
    failed: np.ndarray  # the ids of paths with a number that is not finite, which are left out


def average(
    simulate: Callable[[Any], Sequence[jax.Array]],
    reduce: Callable,
    reduction: MomentsReduction,
    paths: int,
    plan: Chunks,
    mesh: Mesh,
    progress: Callable[[int], None] | None = None,
    begin: int = 0,
) -> Found:
    """Run chunks of so many paths from the id `begin`.

    `simulate` gives the arrays of a chunk's ids, `reduce` is `reduction`, compiled.
    """
    reducer = reduction.reducer
    state = reducer.init()
    failed: list[np.ndarray] = []
    waiting: list[tuple[int, Any]] = []

    def absorb(number: int, outputs):
        nonlocal state
        partial, broken = outputs
        state = reducer.merge(state, partial)
        failed.append(begin + number * plan.paths + np.flatnonzero(np.asarray(broken).reshape(-1)))
        if progress is not None:
            progress(min((number + 1) * plan.paths, paths))

    for number in range(-(-paths // plan.paths)):
        first = number * plan.paths
        ids = as_device_ids(begin + first, plan.leaves, plan.lanes, mesh)
        waiting.append((number, reduce(tuple(simulate(ids)), np.int64(paths - first))))
        if len(waiting) >= IN_FLIGHT:
            absorb(*waiting.pop(0))
    for item in waiting:
        absorb(*item)
    statistics = reducer.finish(state)
    kinds = [
        [statistics[f"{place}_{kind}"] for place in range(len(reduction.counts))]
        for kind in ("mean", "stderr", "variance")
    ]
    return Found(kinds[0], kinds[1], [np.sqrt(x) for x in kinds[2]], np.concatenate(failed))


def pooled(parts: Sequence[Found], counts: Sequence[int]) -> Found:
    """What several policies of early exercise give, each on so many paths of its own.

    The standard error is that of the paths, or what the means of the policies say by their spread where that
    is more, since it has what finding a policy leaves too.
    """
    shares = np.asarray(counts) / sum(counts)
    mean, stderr, sd = [], [], []
    for place in range(len(parts[0].mean)):
        means, errors, sds = (
            np.stack([x[place] for x in each])
            for each in zip(*((part.mean, part.stderr, part.sd) for part in parts), strict=True)
        )
        middle = np.tensordot(shares, means, 1)
        within = np.sqrt(np.tensordot(shares**2, errors**2, 1))
        apart = np.tensordot(shares, (means - middle) ** 2, 1)
        mean.append(middle)
        stderr.append(np.fmax(within, np.sqrt(apart / (len(parts) - 1))))
        sd.append(np.sqrt(np.tensordot(shares, sds**2, 1) + apart))
    return Found(mean, stderr, sd, np.concatenate([part.failed for part in parts]))
