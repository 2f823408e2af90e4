"""Andersen's quadratic-exponential step for square-root variances and the prices that they drive."""

import abc
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.core import Tracer
from jaxtyping import PyTree

from simkit_solvers.methods.model_solver import AbstractModelSolver
from simkit_solvers.methods.solver_info import Orders, SolverInfo
from simkit_solvers.methods.step_types import Terms, Time
from simkit_solvers.numerics.decay import mean_decay
from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.square_root import sqrt_positive
from simkit_solvers.problems.problem import AbstractODE

PSI_C = (
    1.5  # between 1 and 2 both families of distributions can have the mean and variance; Andersen's choice
)


class SquareRootCoefficients(NamedTuple):
    """What `AndersenQE` reads of a model; `rho` and `mu` matter only where there is a price.

    >>> from simkit_physics import CIR
    >>> CIR(kappa=1.0, theta=0.04, sigma=0.2).square_root(0.0)
    SquareRootCoefficients(kappa=1.0, theta=0.04, xi=0.2, rho=0.0, mu=0.0)
    """

    kappa: Scalar
    theta: Scalar
    xi: Scalar
    rho: Scalar = 0.0
    mu: Scalar = 0.0


class AbstractSquareRootVariance(eqx.Module):
    r"""Mix-in for models with $dv = \kappa(\theta - v)\,dt + \xi\sqrt v\,dB$ and maybe a price,
    $dS = \mu S\,dt + \sqrt v S\,dW_1$.

    `State` is (v), with one noise, which is B, or (S, v) with two, and
    $B = \rho W_1 + \sqrt{1 - \rho^2}\,W_2$.

    >>> from simkit_physics import CIR
    >>> from simkit_solvers import AbstractSquareRootVariance
    >>> issubclass(CIR, AbstractSquareRootVariance)
    True
    """

    @abc.abstractmethod
    def square_root(self, t: Scalar) -> SquareRootCoefficients:
        """The coefficients at a time."""


class AndersenQE(AbstractModelSolver):
    r"""Andersen's quadratic-exponential step for Heston's model, Bates's between jumps, and CIR.

    With m and $s^2$ the exact mean and variance of $v_{n+1}$ given $v_n$ and $\psi = s^2/m^2$, the variance
    is $v_{n+1} = a(b + Z_v)^2$ for $\psi \le 1.5$, and above it zero with probability p and exponential with
    rate $\beta$ otherwise, by inversion of $\Phi(Z_v)$; a, b, p and $\beta$ match m and $s^2$. It never
    becomes negative. The price follows with the integrals of v by the trapezoidal rule,

    $$S_{n+1} = S_n \exp\bigl(\mu h + K_0 + K_1 v_n + K_2 v_{n+1} + \sqrt{K_3 v_n + K_4 v_{n+1}}\,Z\bigr),$$

    and $K_0$ makes the mean of $S_{n+1}$ given $S_n$ and $v_n$ exactly $S_n e^{\mu h}$ wherever that is
    possible. Sixteen steps to expiry do for what takes full truncation hundreds. The normals are those of the
    Brownian increments, $Z_v$ of that which drives v. Weak order 1 is what was measured with a variance that
    is often at zero; elsewhere it comes near 2. Raises `ValueError` for other models, and for $\xi = 0$.
    Reference: Andersen (2008), Simple and efficient simulation of the Heston stochastic volatility model,
    doi:10.21314/JCF.2008.189.
    """

    def check(self, problem: AbstractODE) -> None:
        if not isinstance(problem, AbstractSquareRootVariance):
            raise ValueError(
                f"solver AndersenQE is for variances with a square root, and {type(problem).__name__} has "
                "none (AbstractSquareRootVariance)"
            )
        xi = problem.square_root(0.0).xi
        if not isinstance(xi, Tracer) and not float(xi) > 0:
            raise ValueError(
                f"solver AndersenQE divides by the volatility of the variance, and that of "
                f"{type(problem).__name__} is {float(xi):g}"
            )

    def advance(self, terms: Terms, t0: Time, t1: Time, y0: PyTree, args: PyTree) -> PyTree:
        _, noise = terms.terms
        h = jnp.asarray(t1 - t0)
        coefficients = noise.problem.square_root(noise.start + t0)
        z = [w / jnp.sqrt(h) for w in noise.contr(t0, t1)]
        if len(y0) == 1:
            return type(y0)(_matched(coefficients, h, jnp.maximum(y0[0], 0.0)).drawn(z[0]))
        rho = jnp.asarray(coefficients.rho, h.dtype)
        across = sqrt_positive(1 - rho * rho)
        S, v = y0[0], jnp.maximum(y0[1], 0.0)
        matched = _matched(coefficients, h, v)
        v1 = matched.drawn(rho * z[0] + across * z[1])
        independent = across * z[0] - rho * z[1]

        # Andersen's K, with the trapezoidal rule for the integral of v: gamma_1 = gamma_2 = 1/2.
        ratio = rho / coefficients.xi
        drift = 0.5 * h * (coefficients.kappa * ratio - 0.5)
        k1, k2, k3 = drift - ratio, drift + ratio, 0.5 * h * (1 - rho * rho)
        mean, exists = matched.log_exponential_mean(k2 + 0.5 * k3)
        plain = -ratio * coefficients.kappa * coefficients.theta * h
        k0 = jnp.where(exists, -mean - (k1 + 0.5 * k3) * v, plain)
        spread = sqrt_positive(k3 * (v + v1))
        S1 = S * jnp.exp(coefficients.mu * h + k0 + k1 * v + k2 * v1 + spread * independent)
        return type(y0)(S1, v1)


class _Matched(NamedTuple):
    """The distribution of the variance after a step; `quadratic` says which of the two it is."""

    quadratic: jax.Array
    alive: jax.Array  # not at zero for ever
    a: jax.Array
    b: jax.Array
    p: jax.Array
    beta: jax.Array

    def drawn(self, z):
        upper = jax.scipy.special.ndtr(-z)
        above = upper < 1 - self.p
        exponential = jnp.where(above, jnp.log((1 - self.p) / jnp.where(above, upper, 1.0)) / self.beta, 0.0)
        return jnp.where(self.alive, jnp.where(self.quadratic, self.a * (self.b + z) ** 2, exponential), 0.0)

    def log_exponential_mean(self, A):
        """The logarithm of the mean of exp(A v), and whether there is one."""
        room = 1 - 2 * A * self.a
        fits = self.quadratic & (room > 0)
        room = jnp.where(fits, room, 1.0)
        quadratic = A * self.a * self.b**2 / room - 0.5 * jnp.log(room)
        fits_too = ~self.quadratic & (self.beta > A)
        gap = jnp.where(fits_too, self.beta - A, 1.0)
        exponential = jnp.log(jnp.where(fits_too, self.p + (1 - self.p) * self.beta / gap, 1.0))
        log_mean = jnp.where(self.quadratic, quadratic, exponential)
        return jnp.where(self.alive, log_mean, 0.0), ~self.alive | fits | fits_too


def _matched(coefficients: SquareRootCoefficients, h, v) -> _Matched:
    """The distribution with the mean and the variance of the square-root process after h from v >= 0."""
    kappa, theta, xi = coefficients[:3]
    span = h * mean_decay(kappa * h)
    decayed = v * jnp.exp(-kappa * h)
    m = decayed + kappa * theta * span
    alive = m > 0
    m = jnp.where(alive, m, 1.0)
    s2 = jnp.where(alive, xi * xi * span * (decayed + 0.5 * kappa * theta * span), 1.0)
    psi = s2 / (m * m)
    quadratic = psi <= PSI_C
    x = 2 / jnp.where(quadratic, psi, 1.0)
    b = jnp.sqrt(x - 1 + jnp.sqrt(x * (x - 1)))
    far = jnp.where(quadratic, PSI_C, psi)
    return _Matched(quadratic, alive, m / (1 + b * b), b, (far - 1) / (far + 1), 2 / (m * (far + 1)))


ANDERSEN_QE = SolverInfo(
    AndersenQE,
    "Andersen's quadratic-exponential step for Heston, Bates and CIR, accurate with few steps.",
    weak=Orders(1.0, 1.0, 1.0),
    switches="switches from one distribution to another",
)
