"""Solvers of ordinary equations that diffrax does not have."""
