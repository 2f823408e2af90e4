"""Derivatives of the averages of molecular dynamics by fluctuations."""
