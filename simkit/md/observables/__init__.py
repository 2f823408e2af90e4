"""What is measured in the compiled loop of molecular dynamics, and what functions such as g(r) share."""

from simkit.md.observables.measurement import AbstractMeasurement as AbstractMeasurement
from simkit.md.observables.measurement import Measurements as Measurements
from simkit.md.observables.measurement import one_by_one as one_by_one
from simkit.md.observables.scalars import ScalarResult as ScalarResult
from simkit.md.observables.scalars import ScalarSeries as ScalarSeries
