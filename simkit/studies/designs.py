"""Designs: base points of Sobol' sequences or random walks, and how runs are assembled from them."""

import dataclasses

import numpy as np
from scipy.stats import qmc

BITS = 52  # of a coordinate, which float64 holds; moved by half of the last it is never 0 or 1


@dataclasses.dataclass(frozen=True, eq=False)
class Design:
    """Rows of base points, and the runs of each row.

    `take` `(members, d)` says which column of the base is each parameter of each member: column c holds
    parameter c modulo d. `streams` `(members,)` says which members of a row meet the same noise, where a
    simulation is random: those of the same number; rows never do.
    """

    columns: int
    take: np.ndarray
    streams: np.ndarray

    @property
    def members(self) -> int:
        """Runs of one row."""
        return len(self.take)


def plain_design(d: int) -> Design:
    """Each row is one point."""
    return Design(d, np.arange(d)[None], np.zeros(1, int))


def saltelli_design(groups: list[list[int]], d: int, second_order: bool) -> Design:
    r"""The members A, B, $A_B^{(g)}$ of each group and, for second order, $B_A^{(g)}$.

    $A_B^{(g)}$ is A with the columns of group g from B. A and B are the two halves of a point of 2d
    coordinates: halves of one sequence would not be independent. Saltelli et al. (2010),
    doi:10.1016/j.cpc.2009.09.018.
    """
    a, b = np.arange(d), np.arange(d, 2 * d)
    swapped = [np.isin(np.arange(d), group) for group in groups]
    take = [a, b, *(np.where(own, b, a) for own in swapped)]
    streams = [0, 1, *(0 for _ in groups)]
    if second_order:
        take += [np.where(own, a, b) for own in swapped]
        streams += [1 for _ in groups]
    return Design(2 * d, np.stack(take), np.asarray(streams))


def walk_design(d: int) -> Design:
    """The d + 1 points of a walk that changes one parameter at a time, all under the same noise."""
    take = np.arange((d + 1) * d).reshape(d + 1, d)
    return Design((d + 1) * d, take, np.zeros(d + 1, int))


def scrambled_sobol(columns: int, first: int, count: int, seed: int, replicate: int) -> np.ndarray:
    """Points `first`, …, `(count, columns)` of one scrambling of the Sobol' sequence, in (0, 1).

    Left matrix scrambling and a digital shift (Matoušek 1998, doi:10.1006/jcom.1998.0489): each point is
    uniform, and each `replicate` an independent scrambling. Later points of a replicate go on with it.
    Raises `ValueError` for more than 21201 columns.
    """
    if columns > qmc.Sobol.MAXDIM:
        raise ValueError(f"a Sobol' sequence has at most {qmc.Sobol.MAXDIM} coordinates, not {columns}")
    engine = qmc.Sobol(columns, bits=BITS, rng=np.random.default_rng([seed, replicate]))
    if first:
        engine.random(first)  # `fast_forward` fails for more than 32 bits
    return engine.random(count) + 0.5 / 2**BITS


def morris_walks(
    d: int, levels: int, first: int, count: int, seed: int, replicate: int
) -> tuple[np.ndarray, np.ndarray]:
    """Random walks on a grid, `(count, (d + 1) d)` in [0, 1], and what each step changes, `(count, d)`.

    The grid has `levels`, an even number p of them; a step is p/2 levels up or down. Morris (1991),
    doi:10.1080/00401706.1991.10484804.
    """
    half = levels // 2
    walks, orders = np.empty((count, d + 1, d)), np.empty((count, d), int)
    for row in range(count):  # each of its own stream: a walk does not depend on how many there are
        rng = np.random.default_rng([seed, replicate, first + row])
        start = rng.integers(half, size=d)
        up = rng.integers(2, size=d).astype(bool)
        orders[row] = rng.permutation(d)
        cells = np.where(up, start, start + half)
        walks[row, 0] = cells
        for number, column in enumerate(orders[row], 1):
            cells[column] += half if up[column] else -half
            walks[row, number] = cells
    return (walks / (levels - 1)).reshape(count, -1), orders
