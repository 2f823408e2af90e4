from .cores import usable_cores as usable_cores
