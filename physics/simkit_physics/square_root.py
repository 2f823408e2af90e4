"""The square root of full truncation, where models look for it."""

from simkit_solvers.square_root import sqrt_positive as sqrt_positive
