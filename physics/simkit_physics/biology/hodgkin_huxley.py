from typing import Annotated, ClassVar, NamedTuple

import jax.numpy as jnp
from jaxtyping import PyTree
from simkit_solvers import AbstractODE, Quantity, Scalar, mean_decay, parameter


class HodgkinHuxleyState(NamedTuple):
    V: Annotated[Scalar, Quantity("mV", "membrane potential, inside minus outside")]
    m: Annotated[Scalar, Quantity("1", "sodium activation")]
    h: Annotated[Scalar, Quantity("1", "sodium inactivation, 1 where it is not")]
    n: Annotated[Scalar, Quantity("1", "potassium activation")]


class HodgkinHuxley(AbstractODE):
    r"""Spikes of the squid's giant axon:

    $$\begin{aligned}
    C\,\dot V &= I - g_{Na} m^3 h\,(V - E_{Na}) - g_K n^4 (V - E_K) - g_L (V - E_L), \\
    \dot x &= \alpha_x(V)\,(1 - x) - \beta_x(V)\,x \qquad \text{for } x = m, h, n.
    \end{aligned}$$

    With $\phi(u) = (1 - e^{-u})/u$, which is smooth through $\phi(0) = 1$, the rates per millisecond are
    $\alpha_m = 1/\phi(\frac{V + 40}{10})$, $\beta_m = 4 e^{-(V + 65)/18}$, $\alpha_h = 0.07 e^{-(V +
    65)/20}$, $\beta_h = 1/(1 + e^{-(V + 35)/10})$, $\alpha_n = 0.1/\phi(\frac{V + 55}{10})$, $\beta_n = 0.125
    e^{-(V + 65)/80}$: those of 1952 at 6.3 °C, in the sign of today and with the rest at −65 mV. Time in ms,
    V in mV, currents in µA/cm². Without a current the axon rests near −65 mV; from about 6.3 µA/cm² on it
    fires for ever.
    Reference: Hodgkin & Huxley (1952), A quantitative description of membrane current and its application to
    conduction and excitation in nerve, doi:10.1113/jphysiol.1952.sp004764.
    """

    State = HodgkinHuxleyState
    example: ClassVar[dict[str, float]] = {
        "C": 1.0,
        "g_Na": 120.0,
        "g_K": 36.0,
        "g_L": 0.3,
        "E_Na": 50.0,
        "E_K": -77.0,
        "E_L": -54.387,
        "I": 10.0,
    }
    example_initial: ClassVar[dict[str, float]] = {"V": -65.0, "m": 0.053, "h": 0.596, "n": 0.318}
    example_time: ClassVar[dict[str, float]] = {"t1": 100.0, "steps": 5000}

    C: Scalar = parameter("uF/cm^2", "capacitance of the membrane", above=0)
    g_Na: Scalar = parameter("mS/cm^2", "largest conductance for sodium", at_least=0)
    g_K: Scalar = parameter("mS/cm^2", "largest conductance for potassium", at_least=0)
    g_L: Scalar = parameter("mS/cm^2", "conductance of the leak", at_least=0)
    E_Na: Scalar = parameter("mV", "reversal potential of sodium")
    E_K: Scalar = parameter("mV", "reversal potential of potassium")
    E_L: Scalar = parameter("mV", "reversal potential of the leak")
    I: Scalar = parameter("uA/cm^2", "current put in")

    def drift(self, t: Scalar, y: PyTree) -> HodgkinHuxleyState:
        V, m, h, n = y
        sodium = self.g_Na * m * m * m * h * (V - self.E_Na)
        potassium = self.g_K * n * n * n * n * (V - self.E_K)
        leak = self.g_L * (V - self.E_L)
        return HodgkinHuxleyState(
            V=(self.I - sodium - potassium - leak) / self.C,
            m=(1 - m) / mean_decay((V + 40.0) / 10) - m * 4.0 * jnp.exp(-(V + 65.0) / 18),
            h=(1 - h) * 0.07 * jnp.exp(-(V + 65.0) / 20) - h / (1 + jnp.exp(-(V + 35.0) / 10)),
            n=(1 - n) * 0.1 / mean_decay((V + 55.0) / 10) - n * 0.125 * jnp.exp(-(V + 65.0) / 80),
        )
