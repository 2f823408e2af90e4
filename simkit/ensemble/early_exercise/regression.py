"""The continuation value at a date, by least squares over the paths in the money."""

from typing import NamedTuple

import numpy as np

from simkit.observe.exercise import PATHS_PER_TERM, Exercise, polynomials

RANK = 1e-10  # singular values below this part of the largest are rounding, of basis functions that coincide
NEAR, LEAST_NEAR = 2.0, 0.05  # of the noise of a regression, and of the difference of the two values


class Regression(NamedTuple):
    """Coefficients of polynomials in the basis, scaled as in `Policy`, and which paths exercise."""

    coefficients: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    low: np.ndarray
    high: np.ndarray
    exercised: np.ndarray


def regressed(
    exercise: Exercise, value: np.ndarray, basis: np.ndarray, future: np.ndarray
) -> Regression | None:
    """The regression at one date of what paths are worth from the next on, `(paths,)`.

    Twice: first over all paths on which exercising pays, `(functions, paths)` of `basis`, then with weights
    for those where the two values are closer than the noise, since only there does the decision hang on the
    estimate. The second stands where what is decided by it is worth no less on these paths. None where too
    few of them are in the money.
    """
    paid = np.flatnonzero(value > 0)
    if len(paid) < PATHS_PER_TERM * exercise.terms:
        return None
    x, wanted, now = basis[:, paid], future[paid], value[paid]
    centre, spread = x.mean(axis=1), x.std(axis=1)
    scale = np.where(spread > 0, spread, 1.0)
    normal = (x - centre[:, None]) / scale[:, None]
    terms = polynomials(list(normal), exercise.degree)
    design = np.stack([np.broadcast_to(p, paid.shape) for p in terms], axis=1)
    coefficients = least_squares(design, wanted)
    worth = design @ coefficients
    near = max(NEAR * _size(wanted - worth), LEAST_NEAR * _size(now - worth))
    if near > 0:
        weights = 1 / (1 + ((now - worth) / near) ** 2)
        closer = least_squares(design * weights[:, None], wanted * weights)
        one, other = (np.where(now >= w, now, wanted).mean() for w in (worth, design @ closer))
        if other >= one:
            coefficients, worth = closer, design @ closer
    exercised = paid[now >= worth]
    return Regression(coefficients, centre, scale, x.min(axis=1), x.max(axis=1), exercised)


def _size(x: np.ndarray) -> float:
    return float(np.sqrt(np.mean(x**2)))


def least_squares(design: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """The shortest least squares solution. QR makes the problem small, singular values show its rank."""
    size = design.shape[1]
    triangle = np.asarray(np.linalg.qr(np.column_stack([design, wanted]), mode="r"))
    return np.linalg.lstsq(triangle[:, :size], triangle[:, size], rcond=RANK)[0]
