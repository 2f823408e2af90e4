"""Path functionals by name, in `FUNCTIONALS`: what expressions in `observe` may measure along a path."""

from simkit.functionals.extremes import Max, Min
from simkit.functionals.first_times import First, HittingTime
from simkit.functionals.functional import AbstractFunctional
from simkit.functionals.no_touch import NoTouch
from simkit.functionals.one_time import At
from simkit.functionals.sums import Integral, Mean

FUNCTIONALS: dict[str, type[AbstractFunctional]] = {
    each.name: each for each in (Mean, Max, Min, Integral, NoTouch, First, HittingTime, At)
}
