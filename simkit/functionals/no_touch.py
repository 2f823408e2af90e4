"""`no_touch(x, s)`: the probability that a barrier was not touched between steps."""

import jax.numpy as jnp

from simkit.functionals.functional import AbstractFunctional


class NoTouch(AbstractFunctional):
    r"""The probability that Brownian bridges of volatility s between the monitored values stay above 0.

    The product over the monitored steps of $1 - e^{-2 x_a x_b / s_a^2 (t_b - t_a)}$, with a at the one
    before, or 0 where an x is not above 0. Where x changes at once, the bridge goes up to the one value and
    on from the other. A step with a middle counts as two of the same volatility. Reference: Glasserman
    (2003), Monte Carlo Methods in Financial Engineering, doi:10.1007/978-0-387-21617-1, section 6.4.
    """

    name = "no_touch"
    summary = (
        "no_touch(x, s), probability that x > 0, of volatility s, stayed above 0 between the times "
        "monitored, given its values there, t0 included; in observables"
    )
    takes = 2
    not_on_events = "needs a path driven by continuous noise; use the condition itself, as in hitting_time(…)"
    not_with_jumps = (
        "no_touch needs a path without jumps between the steps, and the model jumps; watch at the "
        "ends of steps, such as min(S) > B"
    )
    order = 1.0  # bridges between exact states keep the volatility of their start
    kink = "barrier"
    keeps_start = False
    bridges = True

    def begin(self, at):
        x = at(self.argument)
        above = jnp.where(x > 0, jnp.ones_like(x), jnp.zeros_like(x))
        return above, x, at(self.arguments[1])

    def add(self, state, at):
        alive, previous, volatility = state
        x, variance = at(self.argument), volatility**2 * at.interval
        if at.middle is None:
            missed = _untouched(previous, x, variance)
        else:
            middle = 0.5 * (previous + x + at.middle * jnp.sqrt(variance))
            missed = _untouched(previous, middle, 0.5 * variance) * _untouched(middle, x, 0.5 * variance)
        return alive * missed, x, at(self.arguments[1])

    def change(self, state, before, after):
        x = after(self.argument)
        return jnp.where(x > 0, state[0], 0.0), x, after(self.arguments[1])

    @staticmethod
    def bounds(*arguments, time):
        return 0.0, 1.0


def _untouched(a, b, variance):
    """The probability that a Brownian bridge from a to b of this variance stays above 0."""
    inside = (a > 0) & (b > 0)
    constant = variance <= 0
    # In place of values that would make NaN of derivatives on paths whose values are finite.
    product = jnp.where(inside, a * b, 1.0)
    missed = -jnp.expm1(-2 * product / jnp.where(constant, 1.0, variance))
    return jnp.where(inside, jnp.where(constant, 1.0, missed), 0.0)
