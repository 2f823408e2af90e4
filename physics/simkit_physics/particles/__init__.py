"""Molecular dynamics: boxes, pair potentials, neighbour lists and the forces of many particles."""
