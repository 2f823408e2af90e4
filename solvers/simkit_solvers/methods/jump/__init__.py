"""Solvers of the jump process of reaction networks."""
