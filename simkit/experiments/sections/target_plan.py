"""Whether a run can have the error that `ensemble.target` asks for."""

from collections.abc import Collection, Mapping

from simkit.config.diagnostics import Diagnostics
from simkit.config.settings import Ensemble
from simkit.experiments.sections.initial_plan import InitialValue
from simkit.suggestions import did_you_mean

PLACE = ("ensemble", "target")


def check_target(
    ensemble: Ensemble,
    random: bool,
    initial: Mapping[str, InitialValue],
    names: Collection[str],
    diagnostics: Diagnostics,
) -> None:
    """Add what is wrong with the target; `names` are all that has a mean."""
    target = ensemble.target
    if target is None:
        return
    if "paths" in diagnostics.written("ensemble"):
        message = "a target says how many paths there are; give paths or target"
        diagnostics.add(("ensemble", "paths"), message, at_key=True)
    if (target.stderr is None) == (target.total_error is None):
        message = "give stderr, the standard error of the means, or total_error, with the step bias"
        diagnostics.add(PLACE, message, at_key=True)
    if target.max_paths == 1:
        diagnostics.add((*PLACE, "max_paths"), "one path has no error; use 2 or more")
    if not random:
        message = "all paths of this run are the same, so means have no standard error; leave target out"
        diagnostics.add(PLACE, message, at_key=True)
    rows = [name for name, value in initial.items() if value.rows is not None]
    if rows:
        message = f"the initial values of {rows[0]} say how many paths there are; leave target out"
        diagnostics.add(PLACE, message, at_key=True)
    for i, name in enumerate(target.of or ()):
        if name not in names:
            message = f"there is no {name}{did_you_mean(name, names)}"
            diagnostics.add((*PLACE, "of", i), message)
