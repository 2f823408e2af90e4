"""Path functionals by name, in `FUNCTIONALS`: what expressions in `observe` may measure along a path."""

# isort: off
from simkit.functionals.functional import AbstractFunctional

# The classes of `FUNCTIONALS`, in its order.
from simkit.functionals.sums import Mean
from simkit.functionals.extremes import Max, Min
from simkit.functionals.sums import Integral
from simkit.functionals.no_touch import NoTouch
from simkit.functionals.first_times import First, HittingTime
from simkit.functionals.one_time import At

# isort: on

# Of all that is imported above.
FUNCTIONALS: dict[str, type[AbstractFunctional]] = {
    each.name: each for each in list(globals().values()) if isinstance(each, type) and hasattr(each, "name")
}
