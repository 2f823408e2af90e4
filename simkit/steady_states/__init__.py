"""Steady states of models: where they are, how stable they are, and how they move with parameters."""
