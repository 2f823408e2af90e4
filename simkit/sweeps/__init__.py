"""Experiments run at many values of some of their keys."""
