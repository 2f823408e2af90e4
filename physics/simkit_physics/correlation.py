"""Where a correlation has no derivative along a path."""

from simkit_solvers import Roughness, Scalar


def rough_correlation(rho: Scalar) -> tuple[Roughness, ...]:
    r"""Where paths driven by $\rho W_1 + \sqrt{1 - \rho^2}\,W_2$ have no slope in $\rho$: at $|\rho| = 1$."""
    return (Roughness(frozenset({"rho"})),) if abs(rho) == 1 else ()
