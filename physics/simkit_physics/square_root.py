"""The square root of full truncation, and that of a correlation, where models look for them."""

from simkit_solvers.problem import Roughness
from simkit_solvers.scalar import Scalar
from simkit_solvers.square_root import sqrt_positive as sqrt_positive


def rough_correlation(rho: Scalar) -> tuple[Roughness, ...]:
    r"""Where paths driven by $\rho W_1 + \sqrt{1 - \rho^2}\,W_2$ have no slope in $\rho$: at $|\rho| = 1$."""
    return (Roughness(frozenset({"rho"})),) if abs(rho) == 1 else ()
