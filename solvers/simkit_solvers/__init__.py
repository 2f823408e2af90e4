"""Numerics of simkit: problems, counter-based noise, the fixed-grid loop and its solvers."""
