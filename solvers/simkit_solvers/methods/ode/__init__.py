"""Solvers of ordinary equations that diffrax has not."""
