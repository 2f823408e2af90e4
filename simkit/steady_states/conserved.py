"""Conserved totals: weighted sums of variables that the rates of change leave alone, such as S + I + R."""

from fractions import Fraction

import numpy as np
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import model_of

from simkit.steady_states.rates import Rates
from simkit.steady_states.sizes import HUGE

SMALL = 1e-9  # of singular values, against the largest: what rounding leaves of a zero
KEPT = 1e-10  # of a total that is conserved: its rate of change, against the terms in it
LARGEST = 1000  # denominator of a weight


def conserved_totals(rates: Rates) -> np.ndarray:
    """The weights of independent conserved totals, an array `(totals, variables)`.

    Of a reaction network they follow from the equations of its reactions, exactly. Of any other model they
    are those sums whose rate of change vanishes at random states far and near; a weight is a fraction where
    one is as near as rounding.
    """
    model = model_of(rates.problem)
    if isinstance(model, AbstractReactionNetwork):
        changes = [each.change for each in model.reactions.values()]
        matrix = [[Fraction(change.get(name, 0)) for name in rates.names] for change in changes]
        return _without_minus(np.asarray(_null_space(matrix), float).reshape(-1, len(rates.names)))
    return sampled_totals(rates)


def total_text(weights: np.ndarray, names: tuple[str, ...]) -> str:
    """`S + I + R`, or `2 A + B`."""
    text = ""
    for weight, name in zip(weights, names, strict=True):
        if weight:
            sign = ("- " if weight < 0 else "") if not text else " - " if weight < 0 else " + "
            text += sign + ("" if abs(weight) == 1 else f"{abs(weight):.6g} ") + name
    return text


def _null_space(rows: list[list[Fraction]]) -> list[list[Fraction]]:
    """A basis of the vectors that are orthogonal to all rows, exactly."""
    rows, size, pivots = [list(row) for row in rows], len(rows[0]), []
    for column in reversed(range(size)):  # so that the first variables stand alone in a total
        done = len(pivots)
        pivot = next((row for row in rows[done:] if row[column]), None)
        if pivot is None:
            continue
        rows.remove(pivot)
        pivot = [x / pivot[column] for x in pivot]
        rows.insert(done, pivot)
        for i, row in enumerate(rows):
            if i != done and row[column]:
                rows[i] = [a - row[column] * b for a, b in zip(row, pivot, strict=True)]
        pivots.append(column)
    basis = []
    for free in (column for column in range(size) if column not in pivots):
        vector = [Fraction(int(i == free)) for i in range(size)]
        for row, column in zip(rows, pivots, strict=False):
            vector[column] = -row[free]
        basis.append(vector)
    return basis


def sampled_totals(rates: Rates) -> np.ndarray:
    """Conserved totals from rates of change at random states; those that fail at fresh ones are left out."""
    generator, size = np.random.default_rng(0), len(rates.names)
    columns = _directions(rates, generator, 4 * size + 8)
    if columns.shape[1] < 2 * size + 2:
        return np.zeros((0, size))
    moving = columns.any(axis=1)
    typical = np.ones(size)
    typical[moving] = [np.median(abs(row[row != 0])) for row in columns[moving]]
    scaled = columns / typical[:, None]
    lengths = np.linalg.norm(scaled, axis=0)
    if not lengths.any():
        return np.eye(size)
    left, values, _ = np.linalg.svd(scaled[:, lengths > 0] / lengths[lengths > 0])
    rank = int(np.sum(values > SMALL * values[0]))
    weights = np.asarray([_as_fractions(row, typical) for row in _reduced(left[:, rank:].T / typical)])
    fresh = _directions(rates, generator, 4 * size + 8)
    kept = [row for row in weights if _is_kept(row, fresh)]
    return _without_minus(np.asarray(kept).reshape(-1, size))


def _directions(rates: Rates, generator: np.random.Generator, count: int) -> np.ndarray:
    """Rates of change, none of them huge, at random states near and far, a column each."""
    start, scale = rates.start, rates.scale
    columns = []
    for i in range(3 * count):
        far = scale * np.exp(2 * generator.standard_normal(len(start)))
        near = start + 0.3 * scale * generator.standard_normal(len(start))
        signs = generator.choice((-1.0, 1.0), len(start))
        rate = rates((far, far * signs, near)[i % 3])
        if np.all(abs(rate) < HUGE):  # which NaN is not
            columns.append(rate)
    return np.stack(columns, axis=1) if columns else np.zeros((len(start), 0))


def _is_kept(weights: np.ndarray, columns: np.ndarray) -> bool:
    terms = weights[:, None] * columns
    return bool(np.all(abs(terms.sum(axis=0)) <= KEPT * abs(terms).sum(axis=0)))


def _reduced(rows: np.ndarray) -> np.ndarray:
    """The reduced echelon form: each row has a one where all others have zeros."""
    rows = rows.copy()
    for done in range(len(rows)):
        rest = abs(rows[done:]) / abs(rows[done:]).max(axis=1, keepdims=True)
        i, column = np.unravel_index(np.argmax(rest), rest.shape)
        rows[[done, done + i]] = rows[[done + i, done]]
        rows[done] /= rows[done, column]
        for j in range(len(rows)):
            if j != done:
                rows[j] -= rows[j, column] * rows[done]
    return rows


def _as_fractions(row: np.ndarray, typical: np.ndarray) -> np.ndarray:
    """A row with fractions for what rounding has made of them; weights of sizes that differ stay."""
    terms = abs(row) * typical
    row = np.where(terms <= SMALL * terms.max(), 0.0, row)
    near = np.asarray([float(Fraction(x).limit_denominator(LARGEST)) for x in row])
    return np.where(abs(row - near) <= SMALL * abs(row), near, row)


def _without_minus(weights: np.ndarray) -> np.ndarray:
    """The same totals with positive weights, where adding one total to another gives these."""
    rows = [row / (row[row != 0][0]) for row in weights]
    for _ in rows:
        for i, row in enumerate(rows):
            candidates = (sign * row + other * k for other in rows for k in (0, 1, 2) for sign in (1, -1))
            if (row < 0).any():
                rows[i] = next((new for new in candidates if _is_positive(new) and not _same(new, rows)), row)
    return np.asarray(rows).reshape(weights.shape)


def _is_positive(row: np.ndarray) -> bool:
    return bool((row >= 0).all() and row.any())


def _same(new: np.ndarray, rows: list[np.ndarray]) -> bool:
    return any(np.array_equal(new, row) for row in rows)
