"""Attributes that are those of a part."""

from simkit_solvers.numerics.delegated import delegated


class Finder:
    def __init__(self, rtol: float):
        self.rtol = rtol


class Solver:
    rtol = delegated("finder")

    def __init__(self, finder: Finder):
        self.finder = finder


def test_an_attribute_is_that_of_the_part_whatever_the_part_is_now():
    solver = Solver(Finder(1e-3))
    assert solver.rtol == 1e-3
    solver.finder = Finder(1e-6)
    assert solver.rtol == 1e-6
    assert Solver.rtol is vars(Solver)["rtol"]
