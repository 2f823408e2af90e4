"""Molecular dynamics from a file: systems of particles, their observables and trajectories."""
