r"""The standard normals of one step, and how those of its equal parts follow from them and back.

Per step and component there are up to three: $W$ of the increment, $H$ and $K$ of the space-time and
space-time-time Lévy areas. With steps of length $h$,

$$\Delta W = \sqrt{h}\,W,\qquad
H_h = \tfrac1h\int_0^h \bigl(B_r - \tfrac rh B_h\bigr)dr = \sqrt{h/12}\,H,\qquad
K_h = \tfrac1{h^2}\int_0^h \bigl(B_r - \tfrac rh B_h\bigr)\bigl(\tfrac h2 - r\bigr)dr = \sqrt{h/720}\,K.$$

Reference: Foster, Lyons & Oberhauser (2020), An optimal polynomial approximation of Brownian motion,
doi:10.1137/19M1261912.
"""

import functools
import math
from typing import NamedTuple

import numpy as np

H_SCALE = math.sqrt(1 / 12)
K_SCALE = math.sqrt(1 / 720)


class Draw(NamedTuple):
    """Standard normals of one step: a tuple over components each; `H` and `K` are empty unless requested.

    `words` are of a solver that draws other variates: random words, for each equal part of the step. `parts`
    are the draws of these parts, where an observer reads them.

    >>> from simkit_solvers import CounterNoise, Draw, seed_key
    >>> draw = CounterNoise.of(seed_key(1), path=0).draws(components=2, areas=0, first=0, count=1)[0]
    >>> isinstance(draw, Draw), len(draw.W), draw.H
    (True, 2, ())
    """

    W: tuple
    H: tuple = ()
    K: tuple = ()
    words: tuple = ()
    parts: tuple = ()


def merged(parts: list[Draw], components: int, areas: int) -> Draw:
    """The draw of one long step from those of its equal parts.

    With the moments $M_j = \\int_0^1 r^j\\,dB_r$ of the unit step, $B = M_0$, $H = M_0/2 - M_1$ and
    $K = M_0/12 - M_1/2 + M_2/2$ (integration by parts); a part's moments enter shifted and scaled.
    """
    n = len(parts)
    whole: tuple[list, list, list] = ([], [], [])
    for c in range(components):
        moments = [0.0, 0.0, 0.0]
        for j, part in enumerate(parts):
            m0 = part.W[c]
            moments[0] = moments[0] + m0
            if areas:
                m1 = 0.5 * m0 - H_SCALE * part.H[c]
                moments[1] = moments[1] + (j * m0 + m1) / n
                if areas > 1:
                    m2 = 2 * K_SCALE * part.K[c] - m0 / 6 + m1
                    moments[2] = moments[2] + (j * j * m0 + 2 * j * m1 + m2) / n**2
        scale = 1 / math.sqrt(n)
        whole[0].append(scale * moments[0])
        if areas:
            whole[1].append(scale / H_SCALE * (0.5 * moments[0] - moments[1]))
        if areas > 1:
            whole[2].append(scale / K_SCALE * (moments[0] / 12 - moments[1] / 2 + moments[2] / 2))
    return Draw(*(tuple(x) for x in whole))


def split(whole: Draw, fresh: Draw) -> tuple[Draw, Draw]:
    r"""The draws of a step's two halves, given its own and as many fresh standard normals.

    Let $L$ be the matrix that makes the normals of a step of those of its halves (`CoarsenedNoise`); its rows
    are orthonormal. With $N$ an orthonormal basis of what they leave over, the halves are
    $L^T\,\mathrm{whole} + N^T\,\mathrm{fresh}$, independent standard normals that join to the whole. For
    increments alone this is the Brownian bridge, $(W \pm Z)/\sqrt2$.
    Reference: Jelinčič, Foster & Kidger (2024), Single-seed generation of Brownian paths and integrals for
    adaptive and high order SDE solvers, doi:10.48550/arXiv.2405.06464.
    """
    components, areas = len(whole.W), bool(whole.H) + bool(whole.K)
    kinds = [*whole[: areas + 1], *fresh[: areas + 1]]
    weights = _split_weights(areas)

    def part(row):
        terms = [(w, kind) for w, kind in zip(row, kinds, strict=True) if w]
        return tuple(sum(w * kind[c] for w, kind in terms) for c in range(components))

    left, right = (Draw(*(part(row) for row in weights[half : half + areas + 1])) for half in (0, areas + 1))
    return left, right


@functools.cache
def _split_weights(areas: int) -> list[list[float]]:
    """Rows: W, H, K of the left half, then of the right one; columns: those of the whole, then the fresh."""
    size = areas + 1
    columns = []
    for i in range(2 * size):
        units = [Draw(*((float(half * size + kind == i),) for kind in range(size))) for half in (0, 1)]
        columns.append([kind[0] for kind in merged(units, 1, areas)[:size]])
    basis = list(np.array(columns).T)
    for unit in np.eye(2 * size):
        rest = unit
        for _ in range(2):  # twice, for the last digits
            for row in basis:
                rest = rest - (rest @ row) * row
        if np.linalg.norm(rest) > 0.1:
            basis.append(rest / np.linalg.norm(rest))
    return [[0.0 if abs(x) < 1e-12 else float(x) for x in row] for row in np.array(basis).T]
