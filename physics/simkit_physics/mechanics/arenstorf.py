from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import AbstractODE, Quantity, Scalar, parameter


class ArenstorfState(NamedTuple):
    x: Annotated[Scalar, Quantity("1", "position on the line of Earth and Moon")]
    y: Annotated[Scalar, Quantity("1", "position across")]
    vx: Annotated[Scalar, Quantity("1", "velocity along the line")]
    vy: Annotated[Scalar, Quantity("1", "velocity across")]


class Arenstorf(AbstractODE):
    r"""Satellite between Earth and Moon, in the frame that turns with the Moon; with $\mu' = 1 - \mu$,

    $$\begin{aligned}
    \ddot x &= x + 2\dot y - \mu'\,\frac{x + \mu}{D_1} - \mu\,\frac{x - \mu'}{D_2}, &
    D_1 &= \bigl((x + \mu)^2 + y^2\bigr)^{3/2}, \\
    \ddot y &= y - 2\dot x - \mu'\,\frac{y}{D_1} - \mu\,\frac{y}{D_2}, &
    D_2 &= \bigl((x - \mu')^2 + y^2\bigr)^{3/2}.
    \end{aligned}$$

    The restricted three-body problem: lengths in distances of the Moon, masses in those of both, a month is
    $2\pi$. Earth stands at $-\mu$ and the Moon at $\mu'$, where the force is infinite. Jacobi's integral is
    conserved. The example is a periodic orbit, which passes close to the Moon and needs adaptive steps.
    References: Arenstorf (1963), Periodic solutions of the restricted three body problem representing
    analytic continuations of Keplerian elliptic motions, doi:10.2307/2373181; Hairer, Nørsett & Wanner
    (1993), Solving Ordinary Differential Equations I, doi:10.1007/978-3-540-78862-1.
    """

    State = ArenstorfState
    example: ClassVar[dict[str, float]] = {"mu": 0.012277471}
    example_initial: ClassVar[dict[str, float]] = {
        "x": 0.994,
        "y": 0.0,
        "vx": 0.0,
        "vy": -2.00158510637908252240537862224,
    }
    example_time: ClassVar[dict[str, float]] = {
        "t1": 17.0652165601579625588917206249,
        "rtol": 1e-10,
        "atol": 1e-10,
    }
    example_solver: ClassVar[str] = "Dopri8"

    mu: Scalar = parameter("1", "fraction of the total mass that is the Moon", at_least=0, at_most=1)

    def drift(self, t: Scalar, y: PyTree) -> ArenstorfState:
        rest = 1 - self.mu
        from_earth, from_moon = y.x + self.mu, y.x - rest
        earth, moon = rest / _cubed(from_earth, y.y), self.mu / _cubed(from_moon, y.y)
        return ArenstorfState(
            x=y.vx,
            y=y.vy,
            vx=y.x + 2 * y.vy - earth * from_earth - moon * from_moon,
            vy=y.y - 2 * y.vx - (earth + moon) * y.y,
        )

    def jacobi_integral(self, y: ArenstorfState) -> Scalar:
        r"""$x^2 + y^2 + 2(1 - \mu)/r_1 + 2\mu/r_2 - |v|^2$, which an orbit keeps."""
        r1, r2 = jnp.hypot(y.x + self.mu, y.y), jnp.hypot(y.x - (1 - self.mu), y.y)
        return y.x**2 + y.y**2 + 2 * (1 - self.mu) / r1 + 2 * self.mu / r2 - y.vx**2 - y.vy**2


def _cubed(x, y):
    square = x * x + y * y
    return square * jnp.sqrt(square)
