"""How a steady state answers to a small push: the eigenvalues of its Jacobian, with their errors."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eig, matrix_balance

from simkit.steady_states.newton import Fixed, Root

CLOSEST, FARTHEST = 1e-12, 1e-6  # distances, in typical sizes, to begin with where slopes are compared
ABOVE_NOISE = 8.0  # of rounding, for rates whose slopes are compared
STEEP_AT = np.asarray([1e0, 1e2, 1e4])  # errors of a root over which slopes are compared
STEEPER = 2.0  # ratio of slopes there: of x^p for all p below 0.85


class Stability(NamedTuple):
    """The eigenvalues at a steady state, none of them of conserved totals, with their errors.

    `continuum` says that there are steady states next to this one, at the same totals. `steep` is not empty
    where a rate of change has an infinite slope, as that of sqrt(x) at 0, so that there is no Jacobian:
    stable, unstable or undecided.
    """

    eigenvalues: NDArray[np.complex128]
    errors: np.ndarray
    continuum: bool = False
    steep: str = ""

    @property
    def stable(self) -> bool:
        """Whether every small push decays, at the same conserved totals."""
        return self.steep == "stable" or bool(np.all(self.eigenvalues.real < -self.errors))

    @property
    def grows(self) -> bool:
        """Whether some small push grows."""
        return bool(np.any(self.eigenvalues.real > self.errors))

    @property
    def zeros(self) -> np.ndarray:
        """Which eigenvalues are zero within their errors."""
        return abs(self.eigenvalues) <= self.errors

    @property
    def kind(self) -> str:
        """What is said of such a state: stable node, saddle, centre."""
        grows, decays = self.eigenvalues.real > self.errors, self.eigenvalues.real < -self.errors
        if self.steep:
            return f"{self.steep}: infinite slope"
        turns = bool((abs(self.eigenvalues.imag) > self.errors).any())
        if self.continuum:
            others = "unstable" if grows.any() else "stable" if (decays | self.zeros).all() else "degenerate"
            return f"{others}, one of a continuum"
        if self.zeros.any():
            return "unstable" if grows.any() else "degenerate"
        if grows.any() and decays.any():
            return "saddle-focus" if turns else "saddle"
        if not (grows | decays).any():
            return "centre"
        if not (grows | decays).all():
            return "unstable" if grows.any() else "undecided: imaginary eigenvalues"
        return f"{'unstable' if grows.any() else 'stable'} {'spiral' if turns else 'node'}"

    @property
    def relaxation_time(self) -> tuple[float, float]:
        r"""The slowest $1 / |\mathrm{Re} \lambda|$ where no push grows, with its error; NaN elsewhere."""
        decaying = self.eigenvalues.real < -self.errors
        undecided = self.zeros.any() and not self.continuum
        if self.grows or undecided or not decaying.any():
            return np.nan, np.nan
        rates, errors = -self.eigenvalues.real[decaying], self.errors[decaying]
        slowest = int(np.argmin(rates))
        return 1 / rates[slowest], errors[slowest] / rates[slowest] ** 2


def stability_of(fixed: Fixed, root: Root) -> Stability:
    """The eigenvalues of the Jacobian where totals stay, with errors from rounding and from that of the root.

    The error of an eigenvalue is that of the matrix over the cosine of its left and right eigenvectors, and
    at most what it could be of the worst matrix of this size. Where one is zero, Newton's method from either
    side shows whether the state is one of a continuum.
    """
    if steep := _steep(fixed, root):
        size = len(fixed.free.T)
        return Stability(np.zeros(size, complex), np.full(size, np.inf), steep=steep)
    jacobian = fixed.rates.jacobian(root.state)
    matrix, scales = matrix_balance(fixed.reduced(jacobian), permute=False, separate=True)
    results: Any = eig(matrix, left=True, right=True)
    values, left, right = results
    size, norm = len(matrix), np.linalg.norm(matrix, 2)
    off = size * np.finfo(float).eps * norm + _jacobian_error(fixed, root, jacobian, scales[0])
    cosines = abs(np.sum(left.conj() * right, axis=0))
    with np.errstate(divide="ignore"):
        first_order = off / cosines
    errors = np.minimum(first_order, (2 * norm + off) ** (1 - 1 / size) * off ** (1 / size))
    order = np.lexsort((values.imag, -values.real))
    stability = Stability(values[order], errors[order])
    return stability._replace(continuum=bool(stability.zeros.any()) and _has_neighbours(fixed, root))


def _steep(fixed: Fixed, root: Root) -> str:
    """Whether a rate of change has an infinite slope at a root, and then what pushes do; empty for none.

    The slope over a distance grows as that shrinks to the error of the root, by a power of it, and rounding
    has no part in it. In one dimension the rates to both sides, or to that where they are finite, show what
    pushes do.
    """
    nearest = max(float(np.max(root.error / fixed.scale)), CLOSEST)
    if nearest > FARTHEST:
        return ""
    distances = nearest * STEEP_AT
    noise = ABOVE_NOISE * np.linalg.norm(
        (fixed.rates.rounding(root.state) + abs(root.residual)) / fixed.scale
    )
    signs, infinite = [], not np.isfinite(fixed.rates.jacobian(root.state)).all()
    for push in (*fixed.free.T, *-fixed.free.T):
        rates = fixed.rates.each(root.state + distances[:, None] * push) / fixed.scale
        sizes = np.linalg.norm(rates, axis=1)
        if not np.isfinite(rates).all():
            continue
        grows = bool(np.all(sizes[:-1] / distances[:-1] > STEEPER * sizes[1:] / distances[1:]))
        infinite |= grows and bool(np.all(sizes > noise))
        growth = rates @ (push / fixed.scale)
        signs.append(1 if np.all(growth > 0) else -1 if np.all(growth < 0) else 0)
    if not infinite:
        return ""
    if len(fixed.free.T) > 1 or 0 in signs or not signs:  # 0 where neighbours are at rest too
        return "undecided"
    return "stable" if max(signs) < 0 else "unstable"


def _has_neighbours(fixed: Fixed, root: Root) -> bool:
    """Whether Newton's method finds other steady states next to a root at which the Jacobian is singular."""
    _, _, rows = np.linalg.svd(fixed.reduced(fixed.rates.jacobian(root.state)))
    push = fixed.free @ rows[-1]
    distance = 1e-3 / fixed.relative(push, root.state)
    return any(_rests_near(fixed, root, sign * distance * push) for sign in (1, -1))


def _rests_near(fixed: Fixed, root: Root, push: np.ndarray) -> bool:
    other = fixed.root_from(root.state + push)
    moved = fixed.relative(other.state - root.state, root.state)
    size = fixed.relative(push, root.state)
    return bool(np.linalg.norm(other.residual) <= np.linalg.norm(root.residual) + 1e-12) and (
        other.converged and size / 2 < moved < 2 * size
    )


def _jacobian_error(fixed: Fixed, root: Root, jacobian: np.ndarray, scales: np.ndarray) -> float:
    """How far the reduced Jacobian, with rows and columns in `scales`, may be off because the root is."""
    total = 0.0
    for moved, step, error in fixed.neighbours(root):
        change = fixed.reduced(fixed.rates.jacobian(moved) - jacobian) / step
        total += float(np.linalg.norm(change * scales / scales[:, None], 2)) * error
    return total
