"""The Rosenbrock method of MATLAB's ode23s."""

import math
from typing import ClassVar

from simkit_solvers.methods.ode.rosenbrock import AbstractRosenbrock, RosenbrockTableau
from simkit_solvers.methods.solver_info import SolverInfo
from simkit_solvers.methods.step_types import Terms

_G = 1 / (2 + math.sqrt(2))
_E = 6 + math.sqrt(2)


class Rosenbrock23(AbstractRosenbrock):
    r"""Rosenbrock method of order 2 with an error estimate of order 3, for stiff problems and low accuracy.

    With $W = 1 - h d f_y$ and $d = 1/(2 + \sqrt 2)$,

    $$W k_1 = f(t_n, y_n) + h d f_t, \quad
    W (k_2 - k_1) = f(t_n + \tfrac{h}{2}, y_n + \tfrac{h}{2} k_1) - k_1, \quad y_{n+1} = y_n + h k_2$$

    and a third stage at $t_{n+1}$ for the error. L-stable. It keeps its order with a wrong Jacobian
    (a W-method); the Jacobian comes from automatic differentiation.
    Reference: Shampine & Reichelt (1997), The MATLAB ODE suite, doi:10.1137/S1064827594276424.
    """

    # u1 = d h k1, u2 = d h (k2 - k1) and u3 = d h (k3 - e (k2 - k1) - 2 k1) in the paper's letters.
    tableau: ClassVar[RosenbrockTableau] = RosenbrockTableau(
        gamma=_G,
        a=((), (0.5 / _G,), (1 / _G, 1 / _G)),
        c=((), (-1 / _G,), (-2 / _G, -_E / _G)),
        m=(1 / _G, 1 / _G, 0.0),
        e=(1 / (6 * _G), (_E - 2) / (6 * _G), 1 / (6 * _G)),
        alpha=(0.0, 0.5, 1.0),
        gammas=(_G, 0.0, -_G),
        d=((0.0, -1 / (_G * (1 - 2 * _G)), 0.0),),
    )

    def order(self, terms: Terms) -> int:
        return 2

    def error_order(self, terms: Terms) -> int:
        return 3


ROSENBROCK23 = SolverInfo(
    Rosenbrock23,
    "Rosenbrock method of order 2 for stiff problems and low accuracy, as in MATLAB's ode23s.",
    order=2,
)
