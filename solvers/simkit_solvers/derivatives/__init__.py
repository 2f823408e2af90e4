"""Derivatives of one path."""
