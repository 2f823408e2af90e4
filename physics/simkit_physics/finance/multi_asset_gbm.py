import itertools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import PyTree
from simkit_solvers import (
    AbstractExactMoments,
    AbstractExactTransition,
    AbstractSDE,
    Discontinuity,
    Parameter,
    Quantity,
    Scalar,
    StepWords,
    sqrt_positive,
)

from simkit_physics.sized import AbstractSized, ModelParts, indexed, pair_name, with_size

WRITTEN_OUT = 9  # up to this size the root is, which takes XLA minutes at 20
SHOWN = 6  # names of correlations in a message
SMALLEST_EIGENVALUE = -1e-12  # rounding of a correlation matrix that is singular


class AbstractMultiAssetGBM(AbstractSDE, AbstractExactMoments, AbstractExactTransition, AbstractSized):
    r"""Correlated prices, as many as `State` has; see `MultiAssetGBM`.

    Reference: Black & Scholes (1973), doi:10.1086/260062.
    """

    calculus = "ito"
    noise_kind = "commutative"
    sizes: ClassVar[tuple[int, int]] = (1, 40)

    def __check_init__(self):
        rhos = self.correlations()
        if any(isinstance(rho, Tracer) or not -1 <= float(rho) <= 1 for rho in rhos.values()):
            return
        matrix = np.eye(len(self.State._fields))
        for (i, j), rho in rhos.items():
            matrix[i, j] = matrix[j, i] = float(rho)
        least = float(np.linalg.eigvalsh(matrix)[0])
        if least < SMALLEST_EIGENVALUE:
            names = [pair_name("rho", i + 1, j + 1) for i, j in rhos]
            if len(names) > SHOWN:
                names[SHOWN - 1 : -1] = ["…"]
            raise ValueError(
                f"MultiAssetGBM.{', '.join(names)}: no random variables have "
                "these correlations: the least eigenvalue of their matrix must be >= 0, got "
                f"{least:.3g}; bring them nearer to zero"
            )

    @classmethod
    def parts(cls, size: int) -> ModelParts:
        numbers = range(1, size + 1)
        prices = {
            name: Quantity("currency", f"price of asset {i}", at_least=0)
            for i, name in enumerate(indexed("S", numbers), 1)
        }
        given = {f"mu{i}": Parameter("1/time", f"drift rate of price {i}") for i in numbers}
        for i in numbers:
            given[f"sigma{i}"] = Parameter("1/time^0.5", f"volatility of price {i}", at_least=0)
        for i, j in itertools.combinations(numbers, 2):
            given[pair_name("rho", i, j)] = Parameter(
                "1", f"correlation of prices {i} and {j}", at_least=-1, at_most=1
            )
        return ModelParts(prices, indexed("W", numbers), given)

    def discontinuities(self) -> tuple[Discontinuity, ...]:
        if all(float(row[-1]) > 0 for row in self._root()):
            return ()
        names = (pair_name("rho", i + 1, j + 1) for i, j in self.correlations())
        return (Discontinuity(frozenset(names)),)

    def drift(self, t: Scalar, y: PyTree) -> PyTree:
        return self.State(*(mu * S for mu, S in zip(self._numbers("mu"), y, strict=True)))

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> PyTree:
        changes = []
        if len(y) > WRITTEN_OUT:  # or XLA draws each normal anew for each price that it moves
            dW = jax.lax.optimization_barrier(dW)
        for S, sigma, row in zip(y, self._numbers("sigma"), self._root(), strict=True):
            shock = sum((part * w for part, w in zip(row[1:], dW[1:], strict=False)), row[0] * dW[0])
            changes.append(sigma * S * shock)
        return self.State(*changes)

    def transition(self, t: Scalar, h: Scalar, y: PyTree, dW: PyTree, words: StepWords) -> PyTree:
        shocks = self.noise(t, self.State(*(jnp.ones_like(S) for S in y)), dW)
        rates = self._numbers("mu"), self._numbers("sigma")
        return self.State(
            *(
                S * jnp.exp((mu - 0.5 * sigma**2) * h + shock)
                for S, mu, sigma, shock in zip(y, *rates, shocks, strict=True)
            )
        )

    def exact_mean(self, t: Scalar, y0: PyTree) -> PyTree:
        return self.State(*(S * jnp.exp(mu * t) for S, mu in zip(y0, self._numbers("mu"), strict=True)))

    def exact_variance(self, t: Scalar, y0: PyTree) -> PyTree:
        means, sigmas = self.exact_mean(t, y0), self._numbers("sigma")
        return self.State(*(m**2 * jnp.expm1(sigma**2 * t) for m, sigma in zip(means, sigmas, strict=True)))

    def _numbers(self, name: str) -> list:
        return [getattr(self, each) for each in indexed(name, range(1, len(self.State._fields) + 1))]

    def correlations(self) -> dict[tuple[int, int], Scalar]:
        pairs = itertools.combinations(range(len(self.State._fields)), 2)
        return {(i, j): getattr(self, pair_name("rho", i + 1, j + 1)) for i, j in pairs}

    def _root(self) -> list[list]:
        """The rows of L, without the zeros. What depends on the prices before it has nothing of its own."""
        rhos = self.correlations()
        if len(self.State._fields) > WRITTEN_OUT:
            return _root_by_columns(rhos, len(self.State._fields))
        rows: list[list] = [[1.0]]
        for i in range(1, len(self.State._fields)):
            row: list = [rhos[0, i]]
            for j in range(1, i):
                own, above = rows[j][j], rows[j]
                rest = rhos[j, i] - sum(a * b for a, b in zip(row, above, strict=False))
                independent = own > 0
                row.append(jnp.where(independent, rest / jnp.where(independent, own, 1.0), 0.0))
            left = 1 - row[0] * row[0]
            for part in row[1:]:
                left = left - part * part
            rows.append([*row, sqrt_positive(left)])
        return rows


def _root_by_columns(rhos: dict[tuple[int, int], Scalar], size: int) -> list[list]:
    """The root of the correlation matrix by a loop, of which the compiler sees one iteration."""
    numbers = jnp.stack([jnp.asarray(rho) for rho in rhos.values()])
    i, j = np.array(list(rhos)).T
    matrix = jnp.eye(size, dtype=numbers.dtype).at[i, j].set(numbers).at[j, i].set(numbers)

    def with_column(k, L):
        rest = matrix[:, k] - L @ L[k]
        own = sqrt_positive(rest[k])
        column = jnp.where(own > 0, rest / jnp.where(own > 0, own, 1.0), 0.0)
        return L.at[:, k].set(jnp.where(jnp.arange(size) > k, column, 0.0).at[k].set(own))

    L = jax.lax.fori_loop(0, size, with_column, jnp.zeros_like(matrix))
    return [[L[a, b] for b in range(a + 1)] for a in range(size)]


@with_size(3)
class MultiAssetGBM(AbstractMultiAssetGBM):
    r"""Three correlated geometric Brownian motions, $dS_i = \mu_i S_i\,dt + \sigma_i S_i\,dB_i$.

    Itô, with $dB_i\,dB_j = \rho_{ij}\,dt$; in the independent $W$ of the noise, $B = LW$ with the lower
    triangular $L$ of $L L^T = \rho$. Each price has the mean and variance of `GBM`. In YAML `size` gives
    another number of assets, and `rho` is the correlation of all pairs or the whole matrix. Raises
    `ValueError` when no random variables have these correlations: where their matrix has a negative
    eigenvalue. Where it is singular, derivatives of a path in the correlations are wrong, and all others are
    right: then `simkit sensitivity` takes finite differences.
    References: Black & Scholes (1973), doi:10.1086/260062; Margrabe (1978), The value of an option to
    exchange one asset for another, doi:10.1111/j.1540-6261.1978.tb03397.x.
    """

    example: ClassVar[dict[str, float]] = {
        "mu1": 0.05,
        "mu2": 0.03,
        "mu3": 0.08,
        "sigma1": 0.2,
        "sigma2": 0.15,
        "sigma3": 0.3,
        "rho12": 0.5,
        "rho13": 0.3,
        "rho23": -0.2,
    }
    example_initial: ClassVar[dict[str, float]] = {"S1": 100.0, "S2": 80.0, "S3": 120.0}
