r"""The price of a call by one Fourier integral over the characteristic function of the log price.

Reference: Lewis (2001), A simple option formula for general jump-diffusion and other exponential Lévy
processes, doi:10.2139/ssrn.282110.
"""

import math
from collections.abc import Callable

from simkit.closed_forms.black_scholes import lognormal_call

NODES = 16
MAX_PANELS = 2**15
TOLERANCE = 1e-13
LARGEST = (
    1e8  # of u; a characteristic function that is not small there belongs to a distribution of jumps alone
)


def call_by_integral(
    asset: float, strike: float, variance: float, log_characteristic: Callable, where: str
) -> float:
    r"""The price of a call with the present values A of asset and B of strike: that of Black and Scholes with
    this variance and $\sqrt{AB}/\pi$ times the integral of `_gap` at $k = \ln(A/B)$.
    """
    plain = lognormal_call(asset, strike, math.sqrt(variance))
    if asset == 0 or strike == 0:
        return plain
    gap = _gap(math.log(asset / strike), variance, log_characteristic, where)
    return max(plain + math.sqrt(asset * strike) / math.pi * gap, 0.0)


def _gap(k: float, variance: float, log_characteristic: Callable, where: str) -> float:
    r"""$\int_0^\infty \Re[e^{iuk} (\phi_{BS} - \phi)(u - i/2)]\,du/(u^2 + 1/4)$.

    $\phi$ is the characteristic function of $\ln S_T - \ln E[S_T]$, $\phi_{BS}$ that of a normal with
    this variance, and `log_characteristic` takes real u, an array, to $\ln \phi(u - i/2)$. With
    $u = \sinh(x)/2$ the weight becomes $2\,dx/\cosh x$, smooth on the scale of 1; panels of Gauss points are
    doubled until two answers agree. Raises `ValueError` naming `where` where none do.
    """
    import numpy as np

    def integrand(x):
        u = np.sinh(x) / 2
        plain = np.exp(-variance / 2 * (u * u + 0.25))
        full = np.exp(log_characteristic(u) + 1j * k * u)
        return (plain * np.cos(k * u) - full.real) * 2 / np.cosh(x)

    def negligible(u):
        size = log_characteristic(np.array([u])).real[0]
        return max(size, -variance / 2 * u * u) - 2 * math.log(u) < -40

    end = 1.0
    while not negligible(end) and end < LARGEST:
        end *= 1.5
    reach = math.asinh(2 * end)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)

    panels, previous = 8, math.inf
    while panels <= MAX_PANELS:
        width = reach / panels
        x = width * (np.arange(panels)[:, None] + (nodes + 1) / 2)
        value = float(np.sum(integrand(x) * weights) * width / 2)
        if abs(value - previous) <= TOLERANCE:
            return value
        panels, previous = 2 * panels, value
    raise ValueError(
        f"{where}: the price integral did not converge at ln(forward/K) = {k:g}; "
        "bring the strike nearer to the forward price or use a larger T"
    )
