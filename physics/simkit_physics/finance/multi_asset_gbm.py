from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from jax.core import Tracer
from simkit_solvers.exact_sampling import AbstractExactTransition
from simkit_solvers.problem import AbstractExactMoments, AbstractSDE, Quantity, Scalar, parameter

from simkit_physics.square_root import sqrt_positive

SMALLEST_DETERMINANT = -1e-12  # rounding of a correlation matrix that is singular


class MultiAssetGBMState(NamedTuple):
    S1: Annotated[Scalar, Quantity("currency", "price of the first asset")]
    S2: Annotated[Scalar, Quantity("currency", "price of the second asset")]
    S3: Annotated[Scalar, Quantity("currency", "price of the third asset")]


class MultiAssetGBMNoise(NamedTuple):
    W1: Scalar
    W2: Scalar
    W3: Scalar


class MultiAssetGBM(AbstractSDE, AbstractExactMoments, AbstractExactTransition):
    r"""Three correlated geometric Brownian motions, $dS_i = \mu_i S_i\,dt + \sigma_i S_i\,dB_i$.

    Itô, with $dB_i\,dB_j = \rho_{ij}\,dt$; in the independent $W$ of the noise, $B = LW$ with the lower
    triangular $L$ of $L L^T = \rho$. Each price has the mean and variance of `GBM`. Raises `ValueError` when
    no random variables have these correlations, which means that the determinant $1 +
    2\rho_{12}\rho_{13}\rho_{23} - \rho_{12}^2 - \rho_{13}^2 - \rho_{23}^2$ is negative. Where the matrix is
    singular, derivatives in the correlations are wrong; all others are right.
    References: Black & Scholes (1973), doi:10.1086/260062; Margrabe (1978), The value of an option to
    exchange one asset for another, doi:10.1111/j.1540-6261.1978.tb03397.x.
    """

    State = MultiAssetGBMState
    Noise = MultiAssetGBMNoise
    calculus = "ito"
    noise_kind = "commutative"
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

    mu1: Scalar = parameter("1/time", "drift rate of the first price")
    mu2: Scalar = parameter("1/time", "drift rate of the second price")
    mu3: Scalar = parameter("1/time", "drift rate of the third price")
    sigma1: Scalar = parameter("1/time^0.5", "volatility of the first price", at_least=0)
    sigma2: Scalar = parameter("1/time^0.5", "volatility of the second price", at_least=0)
    sigma3: Scalar = parameter("1/time^0.5", "volatility of the third price", at_least=0)
    rho12: Scalar = parameter("1", "correlation of the first and second", at_least=-1, at_most=1)
    rho13: Scalar = parameter("1", "correlation of the first and third", at_least=-1, at_most=1)
    rho23: Scalar = parameter("1", "correlation of the second and third", at_least=-1, at_most=1)

    def __check_init__(self):
        a, b, c = rhos = (self.rho12, self.rho13, self.rho23)
        if any(isinstance(rho, Tracer) or not -1 <= float(rho) <= 1 for rho in rhos):
            return
        determinant = float(1 + 2 * a * b * c - a * a - b * b - c * c)
        if determinant < SMALLEST_DETERMINANT:
            raise ValueError(
                "MultiAssetGBM.rho12, rho13, rho23: no random variables have these correlations: the "
                f"determinant of their matrix must be >= 0, got {determinant:.3g}; make them smaller"
            )

    def drift(self, t, y):
        return MultiAssetGBMState(S1=self.mu1 * y.S1, S2=self.mu2 * y.S2, S3=self.mu3 * y.S3)

    def noise(self, t, y, dW):
        # The rows of L. Where the first two are one and the same, the third has nothing of its own in W2.
        a, b = self.rho12, self.rho13
        across = sqrt_positive(1 - a * a)
        apart = across > 0
        c = jnp.where(apart, (self.rho23 - a * b) / jnp.where(apart, across, 1.0), 0.0)
        d = sqrt_positive(1 - b * b - c * c)
        return MultiAssetGBMState(
            S1=self.sigma1 * y.S1 * dW.W1,
            S2=self.sigma2 * y.S2 * (a * dW.W1 + across * dW.W2),
            S3=self.sigma3 * y.S3 * (b * dW.W1 + c * dW.W2 + d * dW.W3),
        )

    def transition(self, t, h, y, dW, words):
        shocks = self.noise(t, MultiAssetGBMState(*(jnp.ones_like(S) for S in y)), dW)
        rates = (self.mu1, self.mu2, self.mu3), (self.sigma1, self.sigma2, self.sigma3)
        return MultiAssetGBMState(
            *(
                S * jnp.exp((mu - 0.5 * sigma**2) * h + shock)
                for S, mu, sigma, shock in zip(y, *rates, shocks, strict=True)
            )
        )

    def exact_mean(self, t, y0):
        rates = self.mu1, self.mu2, self.mu3
        return MultiAssetGBMState(*(S * jnp.exp(mu * t) for S, mu in zip(y0, rates, strict=True)))

    def exact_variance(self, t, y0):
        means, sigmas = self.exact_mean(t, y0), (self.sigma1, self.sigma2, self.sigma3)
        return MultiAssetGBMState(
            *(m**2 * jnp.expm1(sigma**2 * t) for m, sigma in zip(means, sigmas, strict=True))
        )
