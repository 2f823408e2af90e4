"""`at(x, s)`: the value at one time."""

from simkit.functionals.functional import AbstractFunctional


class At(AbstractFunctional):
    """x at the end of the step at the time s, after what changes at once there, and the present x before."""

    name = "at"
    summary = (
        "at(x, s), x at the time s, a number or an expression of constants, and the present x before; in "
        "observables"
    )
    takes = 2
    clocks = ("steps", "events", "ordinary", "stochastic")
    sees_both = False
    kink = None
    keeps_start = False
    keeps_unit = True

    @property
    def time(self):
        return self.arguments[1]

    def begin(self, at):
        return (at(self.argument),)

    def add(self, state, at):
        return (at(self.argument),)

    @staticmethod
    def bounds(*arguments, time):
        return arguments[0]
