"""Experiments to start from, the same files as in `examples/`."""
