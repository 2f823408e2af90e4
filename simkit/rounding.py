"""What rounding makes of a number that was reached in steps: a floor of every error."""

import numpy as np


def rounding_error(size, precision: str, steps):
    """Of numbers of this size after so many steps in this precision, whose roundings add up at random."""
    return np.finfo(precision).eps * np.abs(size) * np.sqrt(steps)
