"""Separable Hamiltonian systems, for the symplectic solvers."""

import abc

import jax
from jaxtyping import PyTree

from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.problems.problem import AbstractODE, halves


class AbstractHamiltonian(AbstractODE):
    r"""A separable, autonomous Hamiltonian system, $H(q, p) = T(p) + U(q)$,

    $$\dot q = \nabla T(p),\qquad \dot p = -\nabla U(q).$$

    `State` names the positions first, then the momenta in the same order, scalars or arrays (the positions
    of N bodies, say). `kinetic` and `potential` take a tuple of momenta or positions and return a scalar of
    one unit of energy; drift, `velocity` and `force` follow by differentiation. A model that knows its force
    or its velocity in closed form overrides these two; the energy must stay their potential, which nothing
    checks. Raises `ValueError` when `State` has not as many momenta as positions.
    Reference: Hairer, Lubich & Wanner (2006), Geometric Numerical Integration, doi:10.1007/3-540-30666-8.

    >>> from simkit_physics import HarmonicOscillator
    >>> model = HarmonicOscillator(m=1.0, k=4.0)
    >>> model.energy(model.State(q=1.0, p=2.0))
    4.0
    """

    def __check_init__(self):
        names = self.State._fields
        if not names or len(names) % 2:
            raise ValueError(
                f"{type(self).__name__}.State: needs as many momenta as positions, got {len(names)} "
                f"variables ({', '.join(names)}); name the positions first, then the momenta in the "
                "same order"
            )

    @abc.abstractmethod
    def kinetic(self, p: tuple) -> Scalar:
        """$T(p)$, a scalar."""

    @abc.abstractmethod
    def potential(self, q: tuple) -> Scalar:
        """$U(q)$, a scalar."""

    def velocity(self, p: tuple) -> tuple:
        r"""$\nabla T(p)$, in the shape of the positions."""
        return jax.grad(self.kinetic)(p)

    def force(self, q: tuple) -> tuple:
        r"""$-\nabla U(q)$, in the shape of the momenta."""
        return tuple(-slope for slope in jax.grad(self.potential)(q))

    def energy(self, y: PyTree) -> Scalar:
        """$H(q, p) = T(p) + U(q)$ of a `State`, a scalar."""
        q, p = halves(y)
        return self.kinetic(p) + self.potential(q)

    def drift(self, t: Scalar, y: PyTree) -> PyTree:
        r"""$(\nabla T(p), -\nabla U(q))$."""
        q, p = halves(y)
        return self.State(*self.velocity(p), *self.force(q))
