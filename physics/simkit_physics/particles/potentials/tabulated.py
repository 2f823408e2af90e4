from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from numpy.typing import ArrayLike
from simkit_solvers import parameter

from simkit_physics.particles.potentials.pair_tables import PairParameter
from simkit_physics.particles.potentials.potential import AbstractPotential

MOST_CELLS = 2**20  # of the grid that finds the interval of a distance


class Tabulated(AbstractPotential):
    """A cubic spline through energies at given distances; made by `Tabulated.through`.

    Below the first distance it goes on as a straight line, and it ends at the last one, which no cutoff may
    exceed. Several curves may be tabulated at the same distances; `curve` says which one each pair of species
    has. There is no tail correction. Reference: de Boor (1978), A practical guide to splines,
    doi:10.1007/978-1-4612-6333-3.

    >>> import numpy as np
    >>> from simkit_physics import Tabulated
    >>> r = np.linspace(0.8, 3.0, 200)
    >>> potential = Tabulated.through(r, 4.0 * (r**-12 - r**-6))
    >>> round(float(potential.energy(1.1**2)), 3)  # at r = 1.1
    -0.983
    """

    distances: Float[Array, " points"]
    coefficients: Float[
        Array, "4 pieces"
    ]  # of 1, x, x^2, x^3 from the start of each interval, curve by curve
    interval: Int[Array, " cells"]  # in which each cell of an even grid begins
    curve: int | Int[Array, "species species"] = parameter("1", "number of the curve, from 0", at_least=0)

    @staticmethod
    def through(
        r: ArrayLike, u: ArrayLike, slopes: Sequence[float] | ArrayLike | None = None, curve: Any = 0
    ) -> "Tabulated":
        """The spline through the energies `u`, `(points)` or `(curves, points)`, at the distances `r`.

        It is clamped with `slopes`, those of u at its two ends, `(2)` or `(curves, 2)`; without, it is
        natural: its second derivative is 0 at both ends. Cells of an even grid, as wide as the shortest
        interval, find the interval of a distance.

        Raises `ValueError` for distances that do not increase, and for energies that do not fit them.
        """
        r, u = np.asarray(r, float), np.atleast_2d(np.asarray(u, float))
        _check(r, u, curve)
        cells = int(np.ceil((r[-1] - r[0]) / np.min(np.diff(r)) - 1e-9))
        if cells > MOST_CELLS:
            raise ValueError(
                f"Tabulated: the shortest interval, {np.min(np.diff(r)):g}, is too short for {r[-1]:g}"
            )
        starts = r[0] + (r[-1] - r[0]) / cells * np.arange(cells)
        interval = np.clip(np.searchsorted(r, starts, side="right") - 1, 0, len(r) - 2)
        pieces = _splines(r, u, slopes)
        return Tabulated(
            jnp.asarray(r),
            jnp.asarray(pieces),
            jnp.asarray(interval, jnp.int32),
            curve if np.ndim(curve) == 0 else jnp.asarray(curve, jnp.int32),
        )

    @property
    def natural_cutoff(self) -> PairParameter:
        return self.distances[-1]

    def energy(self, r2: Any) -> Any:
        x, c = self._place(r2)
        inside = jnp.maximum(x, 0)
        return c[0] + x * (c[1] + inside * (c[2] + inside * c[3]))

    def slope(self, r2: Any) -> Any:
        x, c = self._place(r2)
        inside = jnp.maximum(x, 0)
        return 0.5 * jax.lax.rsqrt(r2) * (c[1] + inside * (2 * c[2] + 3 * inside * c[3]))

    def tail_integral(self, cutoff: PairParameter) -> Any:
        raise ValueError(
            "Tabulated: has no tail correction, since it ends at its last distance; leave it out"
        )

    def _place(self, r2):
        """The distance from the start of its interval, and the coefficients there."""
        r = jnp.sqrt(r2)
        cells, points = len(self.interval), len(self.distances)
        first, last = self.distances[0], self.distances[-1]
        cell = jnp.clip((r - first) * (cells / (last - first)), 0, cells - 1).astype(jnp.int32)
        k = self.interval[cell]
        # A cell holds one point at most; rounding may put the distance into the cell before or after its own.
        k = jnp.minimum(k + (r >= self.distances[k + 1]).astype(jnp.int32), points - 2)
        k = jnp.maximum(k - (r < self.distances[k]).astype(jnp.int32), 0)
        piece = self.curve * (points - 1) + k
        return r - self.distances[k], [row[piece] for row in self.coefficients]


def _check(r: np.ndarray, u: np.ndarray, curve: Any) -> None:
    if r.ndim != 1 or len(r) < 4 or not np.all(np.diff(r) > 0) or not r[0] >= 0:
        raise ValueError("Tabulated: distances must be at least four numbers >= 0 that increase")
    if u.shape[1:] != r.shape or not np.all(np.isfinite(u)):
        raise ValueError(
            f"Tabulated: energies must be finite numbers, one a distance, {len(r)}, got {u.shape}"
        )
    if np.max(curve) >= len(u):
        raise ValueError(f"Tabulated: curve {np.max(curve)} does not exist; there are {len(u)}, from 0")


def _splines(r: np.ndarray, u: np.ndarray, slopes: Any) -> np.ndarray:
    from scipy.interpolate import CubicSpline

    ends: list[Any] = ["natural"] * len(u)
    if slopes is not None:
        values = np.atleast_2d(np.asarray(slopes, float))
        if values.shape != (len(u), 2):
            raise ValueError(f"Tabulated: slopes must be two a curve, {(len(u), 2)}, got {values.shape}")
        ends = [((1, left), (1, right)) for left, right in values]
    pieces = [CubicSpline(r, row, bc_type=end).c[::-1] for row, end in zip(u, ends, strict=True)]
    return np.concatenate(pieces, axis=1)
