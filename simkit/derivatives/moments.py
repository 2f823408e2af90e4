"""The means of what programs of paths give, with their standard errors, chunk by chunk."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from simkit.ensemble.chunks import Chunk, Chunks
from simkit.ensemble.over_chunks import Progress, over_chunks
from simkit.ensemble.programs import Request
from simkit.ensemble.reducers import GroupMoments, Moments
from simkit.ensemble.reducers.moments import MomentNodes
from simkit.machine.on_each_device import Devices

SAMPLE = 2**16  # paths whose values are stored, to compare them with others and to measure their tails


def moments_of(rows: Mapping[str, int], scramblings: int) -> Moments | GroupMoments:
    """The moments of quantities with these numbers of rows, with means of scramblings if there are any."""
    return GroupMoments(rows, scramblings) if scramblings else Moments(rows)


@dataclasses.dataclass(frozen=True)
class FinitePaths:
    """A function of (two arrays, which paths count): those of these paths where both arrays are finite."""

    def __call__(self, pair: tuple[jax.Array, jax.Array], valid):
        for array in pair:
            valid &= jnp.all(jnp.isfinite(array), axis=0, keepdims=True)
        return valid


@dataclasses.dataclass(frozen=True)
class PairMoments:
    """A function of (two arrays, which paths count): the nodes of `moments_of`, `(rows, leaves, …)`."""

    scramblings: int = 0

    def __call__(self, pair: tuple[jax.Array, jax.Array], valid):
        named = {str(place): array for place, array in enumerate(pair)}
        rows = {name: array.shape[0] for name, array in named.items()}
        count, *others = moments_of(rows, self.scramblings).update(named, valid[0])
        return count[None], *(jnp.moveaxis(each, -1, 0) for each in others)


@dataclasses.dataclass(frozen=True)
class MomentsReduction:
    """A function of (arrays of one chunk, which of its paths count): moments, and which paths are finite.

    It takes two arrays at a time, so that parts of a study with any number of arrays share its programs.
    """

    counts: tuple[int, ...]
    scramblings: int = 0
    finite: Callable = FinitePaths()
    moments: Callable = PairMoments()

    @property
    def reducer(self) -> Moments | GroupMoments:
        """The reducer of the arrays, by their position."""
        return moments_of({str(place): count for place, count in enumerate(self.counts)}, self.scramblings)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """The positions of two arrays with the same number of rows each; an odd one is paired with itself."""
        pairs = []
        for count in dict.fromkeys(self.counts):
            places = [place for place, each in enumerate(self.counts) if each == count]
            pairs += zip(places[::2], [*places[1::2], *places[len(places) - len(places) % 2 :]], strict=True)
        return pairs

    def requests(self, ids: tuple[int, ...], dtype, devices: Devices) -> list[Request]:
        """For each number of rows the two programs, for paths with ids of this shape."""
        valid = jax.ShapeDtypeStruct((1, *ids), jnp.dtype(bool))
        result = []
        for count in dict.fromkeys(self.counts):
            arguments = shapes_of((count, count), ids, dtype), valid
            programs = FinitePaths(), PairMoments(self.scramblings)
            result += [Request(each, arguments, devices) for each in programs]
        return result

    def compiled(self, programs: Sequence[Callable]) -> "MomentsReduction":
        """This reduction by the compiled programs of `requests`."""
        counts = list(dict.fromkeys(self.counts))

        def of(which: int):
            return lambda pair, valid: programs[2 * counts.index(pair[0].shape[0]) + which](pair, valid)

        return dataclasses.replace(self, finite=of(0), moments=of(1))

    def __call__(self, values: Sequence[jax.Array], present):
        valid = present[None]
        pairs = [(values[a], values[b]) for a, b in self.pairs]
        for pair in pairs:
            valid = self.finite(pair, valid)
        return [self.moments(pair, valid) for pair in pairs], valid

    def nodes(self, result: Sequence[tuple]) -> MomentNodes:
        """The nodes of all rows, of those by pair."""
        places: dict[int, tuple] = {}
        for pair, (_, *arrays) in zip(self.pairs, result, strict=True):
            halves = zip(*(np.split(np.asarray(array), 2) for array in arrays), strict=True)
            places |= dict(zip(pair, halves, strict=True))
        ordered = zip(*(places[i] for i in range(len(self.counts))), strict=True)
        rows = (np.moveaxis(np.concatenate(each), 0, -1) for each in ordered)
        return MomentNodes(np.asarray(result[0][0])[0], *rows)


def shapes_of(
    counts: Sequence[int], ids: tuple[int, ...], dtype: DTypeLike
) -> tuple[jax.ShapeDtypeStruct, ...]:
    """The shapes of the arrays, of `counts` rows each, that a program of paths gives for such ids."""
    return tuple(jax.ShapeDtypeStruct((count, *ids), jnp.dtype(dtype)) for count in counts)


def by_path(arrays: Sequence) -> list[np.ndarray]:
    """A chunk's arrays as `(rows, paths)`."""
    return [np.asarray(x).reshape(len(x), -1) for x in arrays]


@dataclasses.dataclass(frozen=True)
class Averages:
    """Means, standard errors and standard deviations per path, an array of rows for each quantity."""

    mean: list[np.ndarray]
    stderr: list[np.ndarray]
    sd: list[np.ndarray]
    failed: np.ndarray  # the ids of paths with a number that is not finite, which are left out
    sample: list[np.ndarray]  # the values of the first paths at the last row
    statistics: dict[str, np.ndarray]  # of `Moments`, by position

    def largest_part(self, place: int) -> float:
        """What part of the variance at the last row one path makes."""
        mean, variance, low, high = (
            float(self.statistics[f"{place}_{kind}"][-1]) for kind in ("mean", "variance", "min", "max")
        )
        total = variance * (int(self.statistics["n"]) - 1)
        return max(high - mean, mean - low) ** 2 / total if 0 < total < math.inf else 0.0

    def moments_of(self, name: str, place: int) -> dict[str, np.ndarray]:
        """The statistics of a quantity, as those of an ensemble."""
        kinds = ("mean", "variance", "stderr", "min", "max")
        return {f"{name}_{kind}": self.statistics[f"{place}_{kind}"] for kind in kinds}


def average(
    simulate: Callable[[Any], Sequence[jax.Array]],
    reduction: MomentsReduction,
    plan: Chunks,
    workers: Devices,
    progress: Progress | None = None,
) -> Averages:
    """The averages over the paths of a plan. `simulate` gives the arrays of a chunk's ids."""
    averaging = _Averaging(reduction, plan.first, min(plan.total, SAMPLE))

    def work(chunk: Chunk) -> tuple:
        arrays = tuple(simulate(chunk.ids))
        present = np.arange(plan.paths).reshape(plan.leaves, plan.lanes) < chunk.count
        return arrays, present, *reduction(arrays, present)

    over_chunks(plan, work, averaging.add, workers, progress, kept=averaging)
    return averaging.averages()


class _Averaging:
    """The averages of the paths so far, from the id `first` on, and the values of the first `sampled`."""

    def __init__(self, reduction: MomentsReduction, first: int, sampled: int):
        self._reduction, self._first, self._sampled = reduction, first, sampled
        self._moments = reduction.reducer.init()
        self._sample: list[list[np.ndarray]] = [[] for _ in reduction.counts]
        self._failed: list[np.ndarray] = []

    def add(self, chunk: Chunk, outputs: tuple) -> None:
        """Add what the programs give of a chunk."""
        arrays, present, partial, valid = outputs
        if chunk.first - self._first < self._sampled:
            for values, array in zip(self._sample, arrays, strict=True):
                values.append(np.array(array[-1]).reshape(-1))
        self._moments = self._reduction.reducer.merge(self._moments, self._reduction.nodes(partial))
        self._failed.append(chunk.first + np.flatnonzero(present & ~np.asarray(valid)[0]))

    def state(self) -> tuple:
        return self._moments, [[*values] for values in self._sample], [*self._failed]

    def restore(self, state: tuple) -> None:
        self._moments, self._sample, self._failed = state

    def averages(self) -> Averages:
        """The averages of all paths."""
        statistics = self._reduction.reducer.finish(self._moments)
        mean, stderr, variance = (
            [statistics[f"{place}_{kind}"] for place in range(len(self._reduction.counts))]
            for kind in ("mean", "stderr", "variance")
        )
        firsts = [np.concatenate(values)[: self._sampled] for values in self._sample]
        sd, failed = [np.sqrt(x) for x in variance], np.concatenate(self._failed)
        return Averages(mean, stderr, sd, failed, firsts, statistics)


def pooled(parts: Sequence[Averages], counts: Sequence[int]) -> Averages:
    """What several policies of early exercise give together, each on paths of its own, `counts` of them.

    The standard error is that of the paths, or what the means of the policies say by their spread where that
    is more, since it has what finding a policy leaves too. The sample is that of the first policy.
    """
    parts_of_all = np.asarray(counts) / sum(counts)
    mean, stderr, sd = [], [], []
    statistics = {"n": np.sum([part.statistics["n"] for part in parts], axis=0)}
    for place in range(len(parts[0].mean)):
        means, errors, sds = (
            np.stack([x[place] for x in each])
            for each in zip(*((part.mean, part.stderr, part.sd) for part in parts), strict=True)
        )
        middle = np.tensordot(parts_of_all, means, 1)
        within = np.sqrt(np.tensordot(parts_of_all**2, errors**2, 1))
        between = np.tensordot(parts_of_all, (means - middle) ** 2, 1)
        mean.append(middle)
        stderr.append(np.fmax(within, np.sqrt(between / (len(parts) - 1))))
        sd.append(np.sqrt(np.tensordot(parts_of_all, sds**2, 1) + between))
        kinds = {"mean": mean[-1], "stderr": stderr[-1], "variance": sd[-1] ** 2}
        for kind, choose in (("min", np.minimum), ("max", np.maximum)):
            kinds[kind] = choose.reduce([part.statistics[f"{place}_{kind}"] for part in parts])
        statistics |= {f"{place}_{kind}": value for kind, value in kinds.items()}
    failed = np.concatenate([part.failed for part in parts])
    return Averages(mean, stderr, sd, failed, parts[0].sample, statistics)
