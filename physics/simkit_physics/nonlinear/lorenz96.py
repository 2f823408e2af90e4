from typing import ClassVar

import equinox as eqx
from jaxtyping import PyTree
from simkit_solvers import AbstractODE, Parameter, Quantity, Scalar

from simkit_physics.sized import AbstractSized, ModelParts, indexed, with_size


class AbstractLorenz96(AbstractODE, AbstractSized):
    r"""$\dot x_i = (x_{i+1} - x_{i-2})\,x_{i-1} - x_i + F$ on a ring; `State` names the sites.

    Reference: Lorenz (2006), Predictability: a problem partly solved, doi:10.1017/CBO9780511617652.004.
    """

    sizes: ClassVar[tuple[int, int]] = (4, 64)

    F: eqx.AbstractVar[Scalar]

    @classmethod
    def parts(cls, size: int) -> ModelParts:
        sites = {
            name: Quantity("1", f"weather at site {name[1:]}") for name in indexed("x", range(1, size + 1))
        }
        return ModelParts(sites, (), {"F": Parameter("1", "forcing")})

    def drift(self, t: Scalar, y: PyTree) -> PyTree:
        sites = tuple(y)
        after, before, before_that = (sites[n:] + sites[:n] for n in (1, -1, -2))
        around = zip(sites, after, before, before_that, strict=True)
        return self.State(*((a - c) * b - x + self.F for x, a, b, c in around))


@with_size(8)
class Lorenz96(AbstractLorenz96):
    r"""Weather at eight sites on a circle, $\dot x_i = (x_{i+1} - x_{i-2})\,x_{i-1} - x_i + F$.

    Chaotic at $F = 8$. The quadratic terms keep the energy $\sum_i x_i^2/2$, and all motion stays bounded.
    In YAML `size` gives another number of sites, from 4 to 64: `model: {type: Lorenz96, size: 40, F: 8}`.
    Dimensionless, a unit of time being about five days.
    Reference: Lorenz (2006), Predictability: a problem partly solved, doi:10.1017/CBO9780511617652.004.
    """

    example: ClassVar[dict[str, float]] = {"F": 8.0}
    example_initial: ClassVar[dict[str, float]] = dict.fromkeys(indexed("x", range(1, 9)), 8.0) | {"x1": 8.01}
    example_time: ClassVar[dict[str, float]] = {"t1": 10.0, "steps": 1000}
