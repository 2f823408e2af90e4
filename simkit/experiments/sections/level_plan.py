"""Whether a run can have the multilevel method that `ensemble.method` asks for."""

import dataclasses

from simkit_solvers.methods.registry import info_of, samples_exactly
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import model_of, schedule_of

from simkit.config.diagnostics import Diagnostics
from simkit.ensemble.simulation import LevelPlan, Simulation, experiment_of

PLACE = ("ensemble", "method")
LEAVE = "leave method out"


def check_levels(simulation: Simulation, diagnostics: Diagnostics) -> None:
    """Add why a run cannot be one of several levels."""
    if simulation.levels is None:
        return
    for reason in _reasons(simulation):
        diagnostics.add(PLACE, f"multilevel: {reason}")


def possible_levels(simulation: Simulation) -> Simulation | None:
    """The simulation as one of several levels, without variance reduction; `None` where that cannot be."""
    levels = dataclasses.replace(simulation, reduction=None, levels=LevelPlan())
    return None if _reasons(levels) else levels


def _reasons(simulation: Simulation) -> list[str]:
    experiment, target = experiment_of(simulation), simulation.target
    schedule, ensemble = schedule_of(simulation.problem), experiment.ensemble
    network = isinstance(model_of(simulation.problem), AbstractReactionNetwork)
    fixed, leaps = simulation.stepping.has_increments, info_of(simulation.solver).leaps
    total = target is not None and target.total_error is not None
    limits = [] if target is None else [x for x in ("max_paths", "max_time") if getattr(target, x)]
    exercised = [each.name for each in simulation.observed if each.exercise is not None]
    waiting = [each.name for each in simulation.observed if each.first_time is not None]
    each = [name for name, info in simulation.observables.items() if info.at == "each"]
    save, usual = experiment.save, type(experiment.save)()
    saved = simulation.grid.rows > 2 or save.paths or save.quantiles != usual.quantiles
    reasons = {
        "takes steps as short as an error needs; give ensemble.target: {total_error: 0.01}": not total,
        f"target.{''.join(limits[:1])} limits paths on one grid; leave it out": limits,
        f"has every event exact and no error to take out; use solver: TauLeaping, or {LEAVE}": network
        and not (fixed or leaps),
        f"couples Brownian paths on steps of one length; give time.steps, or {LEAVE}": not (fixed or network),
        f"the solver samples exactly and makes no step error; {LEAVE}": fixed
        and samples_exactly(simulation.solver, simulation.problem),
        "reduces variances by its levels; leave variance_reduction and driver out": simulation.reduction,
        "couples its own levels; leave couple or method out": ensemble.couple,
        f"{''.join(exercised[:1])} is exercised early, by a policy of one grid; {LEAVE}": exercised,
        f"{''.join(waiting[:1])} waits for a condition that paths may not meet; {LEAVE}": waiting,
        f"{''.join(each[:1])} is observed at each saved time, and only ends are; leave its at out": each,
        "has means at the end only; leave save out": (fixed or leaps) and saved,
        f"is not built for quantities derived from means; leave derived out, or {LEAVE}": simulation.derived,
        f"events with a condition come at other times on each grid; {LEAVE}": schedule is not None
        and schedule.triggered,
        "runs on this machine; leave cluster out": experiment.cluster,
    }
    return [reason for reason, applies in reasons.items() if applies]
