"""The message for a number of dates that does not divide the number of steps."""

from simkit.config.settings import MAX_STEPS
from simkit.progress import counted


def does_not_divide(key: str, count: int, steps: int) -> str:
    """A message with the next numbers that would do."""
    numbers = sorted({_divisor(steps, count, -1), _divisor(steps, count, 1)})
    multiples = [n for n in (steps // count * count, (steps // count + 1) * count) if 0 < n <= MAX_STEPS]
    remedies = [f"{key}: {' or '.join(map(str, numbers))}", f"steps: {' or '.join(map(str, multiples))}"]
    return f"{count} does not divide the {counted(steps, 'step')}; use {', or '.join(remedies)}"


def _divisor(steps: int, near: int, direction: int) -> int:
    """The divisor of `steps` next to a number on one side, or `steps` itself."""
    small = [n for n in range(1, int(steps**0.5) + 1) if steps % n == 0]
    divisors = sorted({*small, *(steps // n for n in small)})
    if direction < 0:
        return max(n for n in divisors if n <= near)
    return min((n for n in divisors if n >= near), default=steps)
