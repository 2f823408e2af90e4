"""Solvers of Langevin equations with inertia or without."""
