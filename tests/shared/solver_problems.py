"""Problems that distinguish solvers: nothing autonomous, nothing linear, nothing with one noise only."""

from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from simkit_solvers import (
    AbstractExactTransition,
    AbstractNoise,
    AbstractODE,
    AbstractReactionNetwork,
    AbstractSDE,
    AbstractSquareRootVariance,
    AbstractUnderdampedLangevin,
    Draw,
    Scalar,
    SquareRootCoefficients,
    exponential,
    parameter,
    reaction,
)


class Level(NamedTuple):
    x: Scalar


class PairState(NamedTuple):
    x: Scalar
    v: Scalar


class PairNoise(NamedTuple):
    W1: Scalar
    W2: Scalar


class QuadState(NamedTuple):
    q1: Scalar
    q2: Scalar
    p1: Scalar
    p2: Scalar


class Driven(AbstractODE):
    """A pendulum pushed in position and velocity; separable."""

    State = PairState

    a: Scalar = 1.3

    def drift(self, t, y):
        return PairState(x=y.v + 0.4 * jnp.sin(2.0 * t), v=-self.a * jnp.sin(y.x) + 0.5 * jnp.cos(3.0 * t))


class Damped(AbstractODE):
    """A pendulum with friction: not separable."""

    State = PairState

    def drift(self, t, y):
        return PairState(x=y.v, v=-jnp.sin(y.x) - 0.1 * y.v)


class Relaxing(AbstractODE):
    """Van der Pol's oscillator, `unit` being a second in the unit of time."""

    State = PairState

    unit: Scalar

    def drift(self, t, y):
        return PairState(y.v / self.unit, (5 * (1 - y.x**2) * y.v - y.x) / self.unit)


class AbstractPairSDE(AbstractSDE):
    """The drift that the stochastic problems share."""

    a: eqx.AbstractVar[Scalar]

    def drift(self, t, y):
        return PairState(x=jnp.sin(y.v) - self.a * y.x + jnp.cos(2.0 * t), v=y.x - 0.5 * y.v * jnp.cos(y.v))


class Additive(AbstractPairSDE):
    """Noise that depends on time alone."""

    State = PairState
    Noise = PairNoise
    noise_kind = "additive"

    a: Scalar = 0.8
    loud: Scalar = 1.0
    calculus: str = eqx.field(static=True, default="any")

    def noise(self, t, y, dW):
        W1, W2 = self.loud * dW.W1, self.loud * dW.W2
        return PairState(x=self.a * (0.5 + 0.3 * t) * W1 - 0.2 * W2, v=0.4 * jnp.cos(t) * W2)


class Commutative(AbstractPairSDE):
    """Each variable its own function times its own mixture of the noises: the columns commute."""

    State = PairState
    Noise = PairNoise
    noise_kind = "commutative"

    a: Scalar = 0.8
    loud: Scalar = 1.0
    calculus: str = eqx.field(static=True, default="ito")

    def noise(self, t, y, dW):
        W1, W2 = self.loud * dW.W1, self.loud * dW.W2
        return PairState(
            x=0.5 * self.a * jnp.sqrt(1.0 + y.x * y.x) * (W1 + 0.3 * W2) * (1.0 + 0.2 * t),
            v=(0.5 + 0.3 * jnp.sin(y.v)) * (0.4 * W1 - W2),
        )


class Diagonal(AbstractPairSDE):
    """Each variable its own noise."""

    State = PairState
    Noise = PairNoise
    noise_kind = "diagonal"

    a: Scalar = 0.8
    loud: Scalar = 1.0
    calculus: str = eqx.field(static=True, default="ito")

    def noise(self, t, y, dW):
        return PairState(
            x=0.5 * self.a * self.loud * jnp.sqrt(1.0 + y.x * y.x) * (1.0 + 0.2 * t) * dW.W1,
            v=self.loud * (0.5 + 0.3 * jnp.sin(y.v)) * dW.W2,
        )


class OneNoise(NamedTuple):
    W: Scalar


class ScalarNoise(AbstractPairSDE):
    """One noise in both variables, mixed."""

    State = PairState
    Noise = OneNoise
    noise_kind = "scalar"

    a: Scalar = 0.8
    loud: Scalar = 1.0
    calculus: str = eqx.field(static=True, default="ito")

    def noise(self, t, y, dW):
        W = self.loud * dW.W
        return PairState(x=0.5 * self.a * jnp.cos(y.v + t) * W, v=(0.4 * y.x + 0.2 * jnp.sin(y.v)) * W)


class General(AbstractPairSDE):
    """Columns that do not commute."""

    State = PairState
    Noise = PairNoise
    noise_kind = "general"

    a: Scalar = 0.8
    loud: Scalar = 1.0
    calculus: str = eqx.field(static=True, default="ito")

    def noise(self, t, y, dW):
        W1, W2 = self.loud * dW.W1, self.loud * dW.W2
        return PairState(
            x=0.5 * self.a * jnp.cos(y.v) * W1 + 0.3 * jnp.sin(y.x) * W2,
            v=0.4 * y.x * (1.0 + 0.2 * t) * W1 + 0.3 * jnp.cos(y.x * y.v) * W2,
        )


class Walks(AbstractSDE, AbstractExactTransition):
    """A walk that is pulled back, and one with a lucky drift that only its transition knows."""

    State = PairState
    Noise = PairNoise
    calculus = "any"
    noise_kind = "additive"

    a: Scalar = 0.8

    def drift(self, t, y):
        return PairState(x=-self.a * y.x, v=jnp.ones_like(y.v))

    def noise(self, t, y, dW):
        return PairState(x=self.a * dW.W1, v=dW.W2)

    def transition(self, t, h, y, dW, words):
        kept = jnp.exp(-self.a * h)
        spread = self.a * jnp.sqrt((1 - kept * kept) / (2 * self.a * h))
        luck = exponential(words.block(0).a).astype(y.v.dtype)
        return PairState(x=y.x * kept + spread * dW.W1, v=y.v + self.a * h * luck + dW.W2)


class Volatile(AbstractSDE, AbstractSquareRootVariance):
    """A price x with the variance v."""

    State = PairState
    Noise = PairNoise
    calculus = "ito"
    noise_kind = "general"
    smooth = False

    a: Scalar = 0.8
    xi: Scalar = 0.5

    def square_root(self, t):
        return SquareRootCoefficients(self.a, 0.3, self.xi, -0.6, 0.1)

    def drift(self, t, y):
        return PairState(x=0.1 * y.x, v=self.a * (0.3 - y.v))

    def noise(self, t, y, dW):
        root = jnp.sqrt(jnp.maximum(y.v, 1e-9))
        return PairState(x=root * y.x * dW.W1, v=self.xi * root * (-0.6 * dW.W1 + 0.8 * dW.W2))


MODEL_PROBLEMS = {"ExactSampling": Walks(), "AndersenQE": Volatile()}


class Wells(AbstractUnderdampedLangevin):
    """Two coupled particles in double wells."""

    State = QuadState
    Noise = PairNoise

    gamma: Scalar = 0.7
    u: Scalar = 1.2

    def grad_f(self, q):
        a, b = q
        return a * a * a - a + 0.5 * (a - b), b * b * b - b - 0.5 * (a - b)


class Dimers(AbstractReactionNetwork):
    """Pairs that form and part: nothing linear, and x + 2 v does not change."""

    State = PairState
    reactions: ClassVar = {"pair": reaction("2 x -> v"), "part": reaction("v -> 2 x")}

    a: Scalar = 0.03

    def rates(self, t, y):
        return self.a, 0.5


class Given(AbstractNoise):
    """These normals, (kind, step, component), the kinds being W, H and K; they cost no compilation."""

    normals: jax.Array
    capacity = 2**20
    refinement = 1

    def group(self, components):
        return 1

    def draws(self, components, areas, first, count):
        kinds = self.normals[: areas + 1]
        return [
            Draw(*(tuple(kind[first + jnp.uint32(i), :components]) for kind in kinds)) for i in range(count)
        ]

    def words(self, purpose, first, count):
        raise ValueError("only normals were given")


class TangledState(NamedTuple):
    A: Scalar
    B: Scalar
    C: Scalar


class Tangled(AbstractReactionNetwork):
    """Pairs that vanish, bind and part, autocatalysis, arrivals at a rate of their own, and leaving."""

    State = TangledState
    reactions: ClassVar = {
        "pair": reaction("2 A -> B"),
        "bind": reaction("A + B -> C"),
        "part": reaction("C -> 2 A + B"),
        "grow": reaction("B -> 2B"),
        "three": reaction("3 B -> 0"),
        "arrive": reaction("0 -> A", mass_action=False),
        "leave": reaction("C -> 0"),
    }
    example_initial: ClassVar[dict[str, float]] = {"A": 9.0, "B": 5.0, "C": 0.0}

    k1: Scalar = parameter("1/time", "rate")
    k2: Scalar = parameter("1/time", "rate")
    k3: Scalar = parameter("1/time", "rate")
    k4: Scalar = parameter("1/time", "rate")

    def rates(self, t, y):
        k1, k2, k3, k4 = self.k1, self.k2, self.k3, self.k4
        return k1, k2, k3, k4, k2, 20.0 * k3 / (1.0 + y.A), k4
