"""Derivatives of means with respect to parameters: which estimator, its program, its error."""
