"""The square root of full truncation, and that of a correlation, where models look for them."""

from simkit_solvers.numerics.scalar import Scalar
from simkit_solvers.numerics.square_root import sqrt_positive as sqrt_positive
from simkit_solvers.problems.problem import Roughness


def rough_correlation(rho: Scalar) -> tuple[Roughness, ...]:
    r"""Where paths driven by $\rho W_1 + \sqrt{1 - \rho^2}\,W_2$ have no slope in $\rho$: at $|\rho| = 1$."""
    return (Roughness(frozenset({"rho"})),) if abs(rho) == 1 else ()
