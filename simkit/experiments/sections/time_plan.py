"""From the sections `time` and `save` to the ends of a run and its grid of equal steps."""

from simkit_solvers.grids.grid import LONG, Grid
from simkit_solvers.loops.compensated import check_float32
from simkit_solvers.methods.switched import Solver

from simkit.config.diagnostics import Diagnostics, SettingError
from simkit.config.settings import MAX_STEPS, Save, Time
from simkit.experiments.constants import Constants
from simkit.experiments.divisors import does_not_divide
from simkit.experiments.sections.adaptive_plan import MakeGrid
from simkit.expressions import Expression


def plan_span(section: Time | None, constants: Constants) -> tuple[Expression, Expression] | None:
    """The two ends of time, `None` where one is wrong. Raises `SettingError` unless t1 is after t0."""
    if section is None:
        return None
    first = constants.number(("time", "t0"), section.t0)
    last = constants.number(("time", "t1"), section.t1)
    if first is None or last is None:
        return None
    if last[1] <= first[1]:
        raise SettingError(("time", "t1"), f"must be after t0 = {first[1]:g}, got {last[1]:g}")
    return first[0], last[0]


def given_steps(section: Time | None, diagnostics: Diagnostics) -> int | None:
    """The steps, also of a section in which something else is wrong.

    A model that is not known may need none.
    """
    if section is not None:
        unknown = diagnostics.at(("model",)) or diagnostics.at(("model", "type"))
        if section.steps is None and not unknown:
            message = "is missing; steps of equal length between t0 and t1"
            diagnostics.add_missing(("time", "steps"), message)
        return section.steps
    steps = diagnostics.written("time").get("steps")
    if isinstance(steps, bool) or not isinstance(steps, int):
        return None
    return steps if 1 <= steps <= MAX_STEPS else None


def plan_fixed(steps: int | None, save: Save | None) -> MakeGrid | None:
    """How the fixed grid follows from t0 and t1."""
    if steps is None or save is None:
        return None
    if save.points is not None and save.every is not None:
        raise SettingError(("save", "every"), "give points or every, not both")
    key, count = ("every", save.every) if save.every is not None else ("points", save.points or 1)
    if steps % count:
        raise SettingError(("save", key), does_not_divide(key, count, steps))
    every = count if key == "every" else steps // count
    return lambda t0, t1, values: Grid(t0, (t1 - t0) / steps, steps, every)


def refuse_float32(solver: Solver | None, steps: int | None, precision: str | None) -> None:
    """Raise `SettingError` for a solver whose state float32 would lose over this number of steps."""
    if precision == "float32" and solver is not None and steps is not None and steps > LONG:
        try:
            check_float32(solver)
        except ValueError as error:
            raise SettingError(("precision",), str(error)) from error
