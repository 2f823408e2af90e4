"""Solvers of stochastic equations."""
