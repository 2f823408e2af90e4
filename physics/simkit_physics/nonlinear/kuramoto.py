import math
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import AbstractSDE, Parameter, Quantity, Scalar

from simkit_physics.sized import AbstractSized, ModelParts, indexed, with_size


class AbstractKuramoto(AbstractSDE, AbstractSized):
    r"""Phases that pull at each other, as many as `State` has; see `Kuramoto`.

    The fields of `State` and `Noise` are scalars, or arrays of phases, which count one by one. The frequency
    of `theta1` is `omega1`, and so on.
    Reference: Kuramoto (1975), Self-entrainment of a population of coupled non-linear oscillators,
    doi:10.1007/BFb0013365.
    """

    calculus = "any"
    noise_kind = "additive"
    sizes: ClassVar[tuple[int, int]] = (2, 64)

    K: eqx.AbstractVar[Scalar]
    gamma: eqx.AbstractVar[Scalar]
    D: eqx.AbstractVar[Scalar]

    @classmethod
    def parts(cls, size: int) -> ModelParts:
        numbers = range(1, size + 1)
        phases = {
            name: Quantity("rad", f"phase of oscillator {i}")
            for i, name in enumerate(indexed("theta", numbers), 1)
        }
        rates = {
            "K": Parameter("1/time", "coupling", at_least=0),
            "gamma": Parameter("1/time", "half width of a Lorentzian spread of the frequencies", at_least=0),
            "D": Parameter("1/time", "diffusion of the phases", at_least=0),
        }
        for name, i in zip(indexed("omega", numbers), numbers, strict=True):
            rates[name] = Parameter("rad/time", f"natural frequency of oscillator {i}, before the spread")
        return ModelParts(phases, indexed("W", numbers), rates)

    def drift(self, t: Scalar, y: PyTree) -> PyTree:
        x, z = self.mean_field(y)
        pulled = []
        for theta, omega in zip(y, self.frequencies(y), strict=True):
            pull = self.K * (z * jnp.cos(theta) - x * jnp.sin(theta))
            pulled.append(omega + pull)
        return self.State(*pulled)

    def frequencies(self, y: PyTree) -> list[Scalar]:
        r"""$\omega_i$ of every phase, in the layout of the state."""
        given = (getattr(self, name.replace("theta", "omega")) for name in self.State._fields)
        spread = _lorentzian_quantiles(y)
        return [omega + self.gamma * values for omega, values in zip(given, spread, strict=True)]

    def noise(self, t: Scalar, y: PyTree, dW: PyTree) -> PyTree:
        size = jnp.sqrt(2 * self.D)
        return self.State(*(size * w for w in dW))

    def mean_field(self, y: PyTree) -> tuple[Scalar, Scalar]:
        r"""Real and imaginary part of $r e^{i\psi} = \frac1N \sum_j e^{i\theta_j}$."""
        count = sum(jnp.size(theta) for theta in y)
        x = sum(jnp.sum(jnp.cos(theta)) for theta in y) / count
        return x, sum(jnp.sum(jnp.sin(theta)) for theta in y) / count

    def order_parameter(self, y: PyTree) -> Scalar:
        r"""$r$, from 0 for phases all around to 1 for equal ones."""
        return jnp.hypot(*self.mean_field(y))


def _lorentzian_quantiles(y) -> list:
    """Equally probable values of the Cauchy distribution, one for each phase in the state, in its layout."""
    sizes = [jnp.size(theta) for theta in y]
    values = [math.tan(math.pi * ((i + 0.5) / sum(sizes) - 0.5)) for i in range(sum(sizes))]
    parts, first = [], 0
    for theta, size in zip(y, sizes, strict=True):
        own = values[first : first + size]
        parts.append(jnp.asarray(own, theta.dtype).reshape(theta.shape) if jnp.shape(theta) else own[0])
        first += size
    return parts


@with_size(8)
class Kuramoto(AbstractKuramoto):
    r"""Eight oscillators that synchronize, each with a frequency of its own, with or without noise:

    $$d\theta_i = (\omega_i + \gamma q_i)\,dt + \frac KN \sum_{j=1}^N \sin(\theta_j - \theta_i)\,dt
      + \sqrt{2D}\,dW_i.$$

    Additive noise, so Itô = Stratonovich. The natural frequencies $\omega_i$ are given, in YAML as a list or
    one for all: `omega: [0.9, 1.0, 1.3, …], gamma: 0`, or `omega: 1.0, gamma: 0.5` for frequencies that lie
    around 1 as by a Lorentzian distribution of half width $\gamma$, with the quantiles
    $q_i = \tan\pi(\frac{i - 1/2}N - \frac12)$. Of many such oscillators the phases synchronize beyond the
    critical coupling $K_c = 2(\gamma + D)$, which is $2/(\pi g(0))$ for $D = 0$, and then the order parameter
    $r = |\sum_j e^{i\theta_j}|/N$ is $\sqrt{1 - K_c/K}$. In YAML `size` gives another number of oscillators,
    from 2 to 64.
    References: Kuramoto (1975), Self-entrainment of a population of coupled non-linear oscillators,
    doi:10.1007/BFb0013365; Acebrón et al. (2005), The Kuramoto model, doi:10.1103/RevModPhys.77.137.
    """

    example: ClassVar[dict[str, float]] = {"K": 3.0, "gamma": 0.5, "D": 0.1} | dict.fromkeys(
        indexed("omega", range(1, 9)), 0.0
    )
    example_initial: ClassVar[dict[str, float]] = dict(
        zip(indexed("theta", range(1, 9)), (0.0, 0.8, 1.6, 2.4, 3.2, 4.0, 4.8, 5.6), strict=True)
    )
    example_time: ClassVar[dict[str, float]] = {"t1": 20.0, "steps": 1000}
