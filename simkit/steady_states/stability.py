"""How a steady state answers to a small push: the eigenvalues of its Jacobian, with their errors."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import eig

from simkit.steady_states.newton import Fixed, Root

STEP = 1e-6  # of differences, relative to a variable


class Stability(NamedTuple):
    """The eigenvalues at a steady state, none of them of conserved totals, and what they say."""

    eigenvalues: np.ndarray
    errors: np.ndarray
    kind: str

    @property
    def stable(self) -> bool:
        """Whether every small push decays, at the same conserved totals."""
        return bool(np.all(self.eigenvalues.real < -self.errors))

    @property
    def grows(self) -> bool:
        """Whether some small push grows."""
        return bool(np.any(self.eigenvalues.real > self.errors))

    @property
    def zeros(self) -> np.ndarray:
        """Which eigenvalues are zero within their errors."""
        return abs(self.eigenvalues) <= self.errors

    @property
    def relaxation_time(self) -> tuple[float, float]:
        """The slowest $1 / |\\mathrm{Re} \\lambda|$ of pushes that decay, with its error; NaN where some grow."""
        decaying = self.eigenvalues.real < -self.errors
        if self.grows or not decaying.any():
            return np.nan, np.nan
        rates, errors = -self.eigenvalues.real[decaying], self.errors[decaying]
        slowest = int(np.argmin(rates))
        return 1 / rates[slowest], errors[slowest] / rates[slowest] ** 2


def stability_of(fixed: Fixed, root: Root, continuum: bool | None = None) -> Stability:
    """The eigenvalues of the Jacobian where totals stay, with errors from rounding and from that of the root.

    The error of an eigenvalue is that of the matrix over the cosine of its left and right eigenvectors, and
    at most what it could be of the worst matrix of this size. `continuum` says whether a zero eigenvalue was
    found to be that of a line of steady states.
    """
    jacobian = fixed.rates.jacobian(root.state)
    matrix = fixed.reduced(jacobian)
    values, left, right = eig(matrix, left=True, right=True)
    size, norm = len(matrix), np.linalg.norm(matrix, 2)
    off = size * np.finfo(float).eps * norm + _jacobian_error(fixed, root, jacobian)
    cosines = abs(np.sum(left.conj() * right, axis=0))
    with np.errstate(divide="ignore"):
        first_order = off / cosines
    errors = np.minimum(first_order, (2 * norm + off) ** (1 - 1 / size) * off ** (1 / size))
    order = np.lexsort((values.imag, -values.real))
    values, errors = values[order], errors[order]
    return Stability(values, errors, _kind(values, errors, continuum))


def is_continuum(fixed: Fixed, root: Root, stability: Stability) -> bool:
    """Whether there are other steady states next to this one, at the same totals: Newton's method finds them."""
    if not stability.zeros.any():
        return False
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


def with_continuum(fixed: Fixed, root: Root) -> tuple[Stability, bool]:
    """The stability of a root, and whether it is one of a continuum."""
    stability = stability_of(fixed, root)
    continuum = is_continuum(fixed, root, stability)
    kind = _kind(stability.eigenvalues, stability.errors, continuum)
    return stability._replace(kind=kind), continuum


def _jacobian_error(fixed: Fixed, root: Root, jacobian: np.ndarray) -> float:
    """How much the reduced Jacobian may be off because the root is."""
    total = 0.0
    for i, error in enumerate(root.error):
        step = STEP * max(abs(root.state[i]), fixed.scale[i])
        moved = root.state.copy()
        moved[i] += step
        change = fixed.reduced(fixed.rates.jacobian(moved) - jacobian) / step
        total += float(np.linalg.norm(change, 2)) * error
    return total


def _kind(values: np.ndarray, errors: np.ndarray, continuum: bool | None) -> str:
    grows, decays = values.real > errors, values.real < -errors
    turns, zero = abs(values.imag) > errors, abs(values) <= errors
    if zero.any():
        which = "unstable" if grows.any() else "stable" if continuum and (decays | zero).all() else "degenerate"
        return f"{which}, one of a continuum" if continuum else which
    if grows.any() and decays.any():
        return "saddle-focus" if turns.any() else "saddle"
    if not grows.any() and not decays.any():
        return "centre"
    if not (grows | decays).all():
        return "unstable" if grows.any() else "undecided: imaginary eigenvalues"
    return f"{'unstable' if grows.any() else 'stable'} {'spiral' if turns.any() else 'node'}"
