"""What each method computes in one step, for the solvers whose code says it in another package."""

from fractions import Fraction

import diffrax
from simkit_solvers import SolverInfo
from tables import table

EULER = r"y_1 = y + f(t, y)\,h + g(t, y)\,\Delta W"
EXPLICIT = r"""z_i = y + \sum_{j<i} a_{ij} k_j, \qquad
k_i = f(t + c_i h, z_i)\,h + g(t + c_i h, z_i)\,\Delta W, \qquad
y_1 = y + \sum_i b_i k_i"""
EXPLICIT_ODE = r"""k_i = f\Bigl(t + c_i h,\ y + h \sum_{j<i} a_{ij} k_j\Bigr), \qquad
y_1 = y + h \sum_i b_i k_i"""
IMPLICIT = r"""k_i = f\Bigl(t + c_i h,\ y + h \sum_{j\le i} a_{ij} k_j\Bigr), \qquad
y_1 = y + h \sum_i b_i k_i"""
STOCHASTIC = r"""\begin{aligned}
z_i &= y + \sum_{j<i} a_{ij}\,f_j\,h + \sum_{j<i} g_j\,(a^W_{ij} W + a^H_{ij} H), \\
f_i &= f(t + c_i h, z_i), \qquad g_i = g(t + c_i h, z_i), \\
y_1 &= y + \sum_i b_i f_i\,h + \sum_i g_i\,(b^W_i W + b^H_i H)
\end{aligned}"""
SHIFTED = r"""\begin{aligned}
z_i &= y + \sum_{j<i} a_{ij}\,f_j\,h + g(t)\,(a^W_i W + a^H_i H), \qquad f_i = f(t + c_i h, z_i), \\
y_1 &= y + \sum_i b_i f_i\,h + g(t)\,(b^W W + b^H H)
 + \bigl(g(t + h) - g(t)\bigr)\bigl(\tfrac12 W - H\bigr)
\end{aligned}"""
LANGEVIN = r"dq = p\,dt, \qquad dp = -\gamma p\,dt - u \nabla f(q)\,dt + \sqrt{2\gamma u}\,dW"
MILSTEIN = r"y_1 = y + f\,h + g\,\Delta W + \tfrac12 \sum_{jk} (g_j\cdot\nabla) g_k\,"

OWN = {
    "Euler": EULER,
    "ImplicitEuler": r"y_1 = y + f(t + h, y_1)\,h",
    "SemiImplicitEuler": r"q_1 = q + f_q(t, p)\,h, \qquad p_1 = p + f_p(t, q_1)\,h",
    "ReversibleHeun": r"""\begin{aligned}
\hat y_1 &= 2 y - \hat y + f(t, \hat y)\,h + g(t, \hat y)\,\Delta W, \\
y_1 &= y + \tfrac12 \bigl(f(t, \hat y) + f(t + h, \hat y_1)\bigr) h
 + \tfrac12 \bigl(g(t, \hat y) + g(t + h, \hat y_1)\bigr) \Delta W
\end{aligned}""",
    "EulerHeun": r"""z = y + g(t, y)\,\Delta W, \qquad
y_1 = y + f(t, y)\,h + \tfrac12 \bigl(g(t, y) + g(t, z)\bigr) \Delta W""",
    "ItoMilstein": MILSTEIN + r"(\Delta W_j\,\Delta W_k - \delta_{jk} h)",
    "StratonovichMilstein": MILSTEIN + r"\Delta W_j\,\Delta W_k",
}


def equation(info: SolverInfo) -> str:
    """The section "Method" of a solver's page: a formula, and what its letters mean."""
    if info.name in OWN:
        return f"$$\n{OWN[info.name]}\n$$"
    if info.langevin:
        return (
            f"It solves\n\n$$\n{LANGEVIN}\n$$\n\nwith the friction integrated exactly and the gradient "
            "interpolated between its evaluations; the coefficients are in the reference."
        )
    if issubclass(info.cls, diffrax.AbstractSRK):
        formula = SHIFTED if info.noise_kinds == ("additive",) else STOCHASTIC
        return (
            f"$$\n{formula}\n$$\n\nwith $W$ the Brownian increment and $H$ the space-time Lévy area of the "
            "step ([noise](../../explanation/noise.md#streams)). The coefficients are in the reference."
        )
    if issubclass(info.cls, diffrax.AbstractERK):
        formula = EXPLICIT if "sde" in info.problem else EXPLICIT_ODE
        return f"$$\n{formula}\n$${tableau(info.cls.tableau)}"
    newton = "Each $k_i$ is computed by Newton iterations. The coefficients are in the reference."
    return f"$$\n{IMPLICIT}\n$$\n\n{newton}"


def tableau(coefficients: diffrax.ButcherTableau) -> str:
    """The Butcher tableau of a method with few stages, empty for others."""
    b, a, c = coefficients.b_sol, [(), *coefficients.a_lower], [0.0, *coefficients.c]
    if len(b) > 7:
        return "\n\nThe coefficients are in the reference."
    heads = ["$c_i$", *(f"$a_{{i{j + 1}}}$" for j in range(len(b)))]
    rows = [[c[i], *a[i], *[""] * (len(b) - len(a[i]))] for i in range(len(b))]
    cells = ([f"${number(x)}$" if x != "" else "" for x in row] for row in rows)
    last = ["$b_j$", *(f"${number(x)}$" for x in b)]
    return f"\n\nwith the coefficients\n\n{table(heads, [*cells, last])}"


def number(x: float) -> str:
    """A coefficient as a fraction where it is a simple one."""
    x = float(x)
    fraction = Fraction(x).limit_denominator(100_000)
    if abs(float(fraction) - x) > 1e-15 * max(1.0, abs(x)):
        return f"{x:.6f}"
    if fraction.denominator == 1:
        return str(fraction.numerator)
    sign = "-" if x < 0 else ""
    return rf"{sign}\tfrac{{{abs(fraction.numerator)}}}{{{fraction.denominator}}}"
