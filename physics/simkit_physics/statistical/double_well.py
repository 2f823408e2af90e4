from typing import Annotated, ClassVar, NamedTuple

from simkit_solvers import (
    AbstractOverdampedLangevin,
    AbstractUnderdampedLangevin,
    Quantity,
    Scalar,
    parameter,
)


class DoubleWellState(NamedTuple):
    x: Annotated[Scalar, Quantity("length", "position")]


class DoubleWellLangevinState(NamedTuple):
    x: Annotated[Scalar, Quantity("length", "position")]
    v: Annotated[Scalar, Quantity("length/time", "velocity")]


class DoubleWellNoise(NamedTuple):
    W: Scalar


class DoubleWell(AbstractOverdampedLangevin):
    r"""Brownian particle in a double well, $dx = -\frac{u}{\gamma} f'(x)\,dt + \sqrt{2u/\gamma}\,dW$.

    The potential over $k_B T$ is $f(x) = b\,(x^2/a^2 - 1)^2$, with minima at $\pm a$ and a barrier of height
    $b$ between them; $u = k_B T/m$. Additive noise, so Itô = Stratonovich. The stationary density is
    proportional to $e^{-f(x)}$; `double_well_square` is its $E[x^2]$. This is the limit of
    `DoubleWellLangevin` for strong friction.
    Reference: Kramers (1940), Brownian motion in a field of force and the diffusion model of chemical
    reactions, doi:10.1016/S0031-8914(40)90098-2.
    """

    State = DoubleWellState
    Noise = DoubleWellNoise
    example: ClassVar[dict[str, float]] = {"gamma": 1.0, "u": 1.0, "b": 1.0, "a": 1.0}
    example_initial: ClassVar[dict[str, float]] = {"x": -1.0}

    gamma: Scalar = parameter("1/time", "friction", above=0)
    u: Scalar = parameter("length^2/time^2", "mean square velocity in equilibrium", above=0)
    b: Scalar = parameter("1", "height of the barrier over the thermal energy", at_least=0)
    a: Scalar = parameter("length", "distance of the minima from the barrier", above=0)

    def grad_f(self, q: tuple) -> tuple:
        (x,) = q
        return (slope(x, self.b, self.a),)


class DoubleWellLangevin(AbstractUnderdampedLangevin):
    r"""Particle in a double well, $dx = v\,dt$, $dv = -\gamma v\,dt - u f'(x)\,dt + \sqrt{2\gamma u}\,dW$.

    The potential over $k_B T$ is $f(x) = b\,(x^2/a^2 - 1)^2$, with minima at $\pm a$ and a barrier of height
    $b$ between them; $u = k_B T/m$. Additive noise, so Itô = Stratonovich. The stationary density is
    proportional to $e^{-f(x) - v^2/2u}$: $E[v^2] = u$, and `double_well_square` is $E[x^2]$.
    Reference: Kramers (1940), Brownian motion in a field of force and the diffusion model of chemical
    reactions, doi:10.1016/S0031-8914(40)90098-2.
    """

    State = DoubleWellLangevinState
    Noise = DoubleWellNoise
    example: ClassVar[dict[str, float]] = {"gamma": 1.0, "u": 1.0, "b": 1.0, "a": 1.0}
    example_initial: ClassVar[dict[str, float]] = {"x": -1.0, "v": 0.5}

    gamma: Scalar = parameter("1/time", "friction", above=0)
    u: Scalar = parameter("length^2/time^2", "mean square velocity in equilibrium", above=0)
    b: Scalar = parameter("1", "height of the barrier over the thermal energy", at_least=0)
    a: Scalar = parameter("length", "distance of the minima from the barrier", above=0)

    def grad_f(self, q: tuple) -> tuple:
        (x,) = q
        return (slope(x, self.b, self.a),)


def slope(x: Scalar, b: Scalar, a: Scalar) -> Scalar:
    r"""$f'(x)$ of $f(x) = b\,(x^2/a^2 - 1)^2$."""
    z = x / a
    return 4.0 * b / a * z * (z * z - 1.0)
