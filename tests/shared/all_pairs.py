"""Pairs of a periodic box in plain NumPy: what potentials, forces and configurations are compared with."""

import numpy as np


def pair_vectors(rows: np.ndarray, sides: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """i < j and the nearest image of x_i - x_j, of each pair."""
    i, j = np.triu_indices(len(rows), 1)
    d = rows[i] - rows[j]
    return i, j, d - sides * np.round(d / sides)


def squared_distances(rows: np.ndarray, sides: np.ndarray) -> np.ndarray:
    return np.sum(pair_vectors(rows, sides)[2] ** 2, axis=1)
