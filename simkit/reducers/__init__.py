"""Statistics of ensembles: see `reducer` for what one is."""

from simkit.reducers.covariance import Covariance as Covariance
from simkit.reducers.histogram import Histogram as Histogram
from simkit.reducers.moments import Moments as Moments
from simkit.reducers.reducer import AbstractReducer as AbstractReducer
