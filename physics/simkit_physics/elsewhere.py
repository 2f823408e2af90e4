"""Models by the names that others give them."""

import re

ELSEWHERE: dict[str, str] = dict.fromkeys(
    ("blackscholes", "blackscholesmerton", "geometricbrownianmotion"), "GBM"
)
ELSEWHERE |= {"ou": "OrnsteinUhlenbeck", "coxingersollross": "CIR", "constantelasticityofvariance": "CEV"}
ELSEWHERE |= {"jumpdiffusion": "Merton", "vdp": "VanDerPol"}


def model_elsewhere(name: str) -> str | None:
    """The model here that others know by this name, however its words are joined.

    >>> from simkit_physics import model_elsewhere
    >>> model_elsewhere("Black-Scholes")
    'GBM'
    """
    return ELSEWHERE.get(re.sub("[^a-z]", "", name.casefold()))
