"""Statistics of ensembles: see `reducer` for what one is."""

from simkit.ensemble.reducers.covariance import Covariance as Covariance
from simkit.ensemble.reducers.histogram import Histogram as Histogram
from simkit.ensemble.reducers.moments import Moments as Moments
from simkit.ensemble.reducers.reducer import AbstractReducer as AbstractReducer
