"""Where a correlation has no derivative along a path."""

from simkit_solvers import Discontinuity, Scalar


def degenerate_correlation(rho: Scalar) -> tuple[Discontinuity, ...]:
    r"""Where paths driven by $\rho W_1 + \sqrt{1 - \rho^2}\,W_2$ have no slope in $\rho$: at $|\rho| = 1$."""
    return (Discontinuity(frozenset({"rho"})),) if abs(rho) == 1 else ()
