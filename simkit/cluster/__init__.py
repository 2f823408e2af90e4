"""Paths that other processes simulate: workers of a cluster, or the parts of a job array."""
