r"""Averages over a double well in equilibrium.

The density is proportional to $e^{-f(x)}$ with $f(x) = b\,(x^2/a^2 - 1)^2$, as in the models `DoubleWell` and
`DoubleWellLangevin`.
"""

from simkit.closed_forms.arguments import nonnegative
from simkit.closed_forms.registry import closed_form


@closed_form(of_numbers=True, example={"a": 1.0, "b": 1.0})
def double_well_square(*, b: float, a: float) -> float:
    r"""$E[x^2] = \frac{a^2}{2} + \frac{a^2}{2}\,\frac{I_{1/4}/b + I_{3/4} + I_{5/4}}{I_{-1/4} + I_{1/4}}$.

    With modified Bessel functions at $b/2$. b is the height of the barrier over the thermal energy, a the
    distance of the minima from it; `ValueError` unless $b > 0$ and $a \ge 0$.
    Reference: Gradshteyn & Ryzhik (2015), Table of Integrals, Series, and Products,
    doi:10.1016/C2010-0-64839-5, 3.323.3 continued to a negative quadratic term.
    """
    from scipy.special import ive

    nonnegative(a=a)
    if b <= 0:
        raise ValueError(f"b: must be > 0, got {b:g}")
    z = b / 2
    ratio = (ive(0.25, z) / b + ive(0.75, z) + ive(1.25, z)) / (ive(-0.25, z) + ive(0.25, z))
    return a * a / 2 * (1 + float(ratio))
