"""Markets at which closed forms are computed, and numerical slopes of them."""

from hypothesis import strategies as st

AT_THE_MONEY = {"S": 100.0, "K": 100.0, "r": 0.05, "sigma": 0.2, "T": 1.0}
SKEWED = {"S": 90.0, "K": 105.0, "r": 0.03, "sigma": 0.35, "T": 0.6, "q": 0.07}
price = st.floats(20, 300)
rate = st.floats(-0.1, 0.2)
volatility = st.floats(0.01, 1.0)
duration = st.floats(0.01, 5.0)


def slope(function, arguments, name, step):
    """Central difference of fourth order."""

    def at(shift):
        return function(**{**arguments, name: arguments[name] + shift * step})

    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step)
