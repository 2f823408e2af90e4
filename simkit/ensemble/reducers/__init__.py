"""Statistics of ensembles: `STATISTICS` by name, entered by `@statistic`; see `reducer` for what one is."""

from simkit.ensemble.reducers.reducer import (
    STATISTICS,
    AbstractReducer,
    Label,
    Rows,
    as_rows,
    by_name,
    stacked,
    statistic,
)

# One more statistic is one more line here.
from simkit.ensemble.reducers.moments import Moments  # isort: skip  # in the order of a dataset's variables
from simkit.ensemble.reducers.covariance import Covariance
from simkit.ensemble.reducers.group_moments import GroupMoments
from simkit.ensemble.reducers.histogram import Histogram
