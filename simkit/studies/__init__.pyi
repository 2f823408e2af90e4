from .api import derivative_measures as derivative_measures
from .api import elementary_effects as elementary_effects
from .api import propagate as propagate
from .api import rank_correlations as rank_correlations
from .api import sobol_indices as sobol_indices
from .experiments import uncertainty as uncertainty
from .plan import has_distributions as has_distributions
