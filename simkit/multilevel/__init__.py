"""Multilevel Monte Carlo: means at the end from many paths on long steps, and few on ever shorter ones."""
