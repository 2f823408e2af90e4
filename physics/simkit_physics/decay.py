"""The mean of an exponential decay, where models look for it."""

from simkit_solvers.numerics.decay import mean_decay as mean_decay
