"""From `ensemble.variance_reduction.importance` to the drift of a run, and whether the run can have one."""

import dataclasses
from typing import Any, cast

import jax
import jax.numpy as jnp
from simkit_solvers.grids.grid import Grid
from simkit_solvers.methods.sde.exact_sampling import AbstractExactTransition, ExactSampling
from simkit_solvers.numerics.tangents import in_precision
from simkit_solvers.problems.schedule import model_of, schedule_of
from simkit_solvers.random.generator import seed_key
from simkit_solvers.random.noise import Purpose, StepWords

from simkit.config.diagnostics import Diagnostics
from simkit.config.settings import ImportanceSettings, Save, VarianceReductionSettings
from simkit.ensemble.initial import fixed_value
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.replicates import VarianceReduction
from simkit.ensemble.simulation import Simulation, experiment_of
from simkit.experiments.sections.reduction_plan import PLACE
from simkit.observe.time_functions import counted_events
from simkit.suggestions import did_you_mean

KEY = (*PLACE, "importance")


def with_importance(simulation: Simulation, diagnostics: Diagnostics) -> Simulation:
    """The simulation with its drift, or with what a pilot has to make least, where there is to be one.

    What is wrong goes to `diagnostics`.
    """
    if simulation.reduction is None or not simulation.reduction.importance:
        return simulation
    reductions = cast(VarianceReductionSettings, experiment_of(simulation).ensemble.variance_reduction)
    section, reasons = cast(ImportanceSettings, reductions.importance), _refused(simulation)
    if reductions.antithetic or reductions.control:
        reasons.append("antithetic and control are for paths without weights; leave them out")
    for reason in reasons:
        diagnostics.add(KEY, reason, at_key=True)
    if reasons:
        return simulation
    reduction = simulation.reduction
    if section.drift is None:
        reduction = dataclasses.replace(reduction, aim=_aim(section.of, simulation, diagnostics))
    else:
        if section.of is not None:
            diagnostics.add((*KEY, "of"), "a drift that is given needs none; leave drift or of out")
        drift = _given(section.drift, list(simulation.problem.Noise._fields), diagnostics)
        reduction = dataclasses.replace(reduction, drift=drift)
    return dataclasses.replace(simulation, reduction=reduction, stored_paths=0)


def _aim(of: str | None, simulation: Simulation, diagnostics: Diagnostics) -> str:
    """The quantity whose variance a pilot makes least."""
    observables = [*simulation.observables]
    known = [*observables, *simulation.problem.State._fields]
    if of is not None and of not in known:
        diagnostics.add((*KEY, "of"), f"there is no {of}{did_you_mean(of, known)}")
    elif of is None and len(observables) != 1:
        there = f"there are {len(observables)} observables" if observables else "there is no observable"
        message = f"{there}: say whose variance to make least, as in {{of: {known[0]}}}, or give a drift"
        diagnostics.add(KEY, message, at_key=True)
    return of or known[0]


def _given(
    drift: float | list[float] | dict[str, float], names: list[str], diagnostics: Diagnostics
) -> tuple[float, ...] | None:
    """The drift of each noise; None where it does not fit them."""
    place, noises = (*KEY, "drift"), ", ".join(names)
    if isinstance(drift, dict):
        unknown = [name for name in drift if name not in names]
        for name in unknown:
            diagnostics.add(
                (*place, name), f"there is no noise {name}{did_you_mean(name, names)}", at_key=True
            )
        return None if unknown else tuple(drift.get(name, 0.0) for name in names)
    each = drift if isinstance(drift, list) else [drift]
    if len(each) != len(names):
        message = f"there are {len(names)} noises, {noises}, and {len(each)} numbers; give one for each"
        diagnostics.add(place, message if len(names) > 1 else message.replace("are 1 noises", "is 1 noise"))
        return None
    return tuple(each)


def possible_importance(simulation: Simulation) -> dict[str, VarianceReduction]:
    """Importance sampling as `ensemble` has it, where a run can have it and one observable is wanted."""
    wanted = simulation.target_names
    if len(wanted) != 1 or wanted[0] not in simulation.observables or _refused(simulation):
        return {}
    name = "importance" if len(simulation.observables) == 1 else f"{{importance: {{of: {wanted[0]}}}}}"
    return {name: VarianceReduction(importance=True, aim=wanted[0])}


def _refused(simulation: Simulation) -> list[str]:
    """Why there is no importance sampling."""
    if not simulation.problem.stochastic:
        return ["gives Brownian noise a drift, and this model has none; leave it out"]
    if simulation.grid.steps is None:
        return ["needs steps of one length; give time.steps"]
    if not _reads_noise(simulation):
        model, solver = type(model_of(simulation.problem)).__name__, type(simulation.solver).__name__
        return [
            f"{solver} draws the {model} process here without its Brownian noise, so no drift moves it; use "
            "another solver, such as EulerMaruyama, or leave it out"
        ]
    first = [each.name for each in simulation.observed if each.first_time is not None]
    events = counted_events(schedule_of(simulation.problem))
    save = experiment_of(simulation).save
    reasons = {
        f"{', '.join(first)}: first times are counted on paths without weights; observe whether, as in "
        "max(S) > 120, or leave it out": first,
        f"events with a condition are counted on paths without weights ({', '.join(events)}); leave it "
        "out": events,
        "stored paths would be those with the drift; leave save.paths out": save.paths,
        "quantiles would be those of paths with the drift; leave save.quantiles out": save.quantiles
        != Save().quantiles,
    }
    return [text for text, applies in reasons.items() if applies]


def _reads_noise(simulation: Simulation) -> bool:
    """Whether the increments of the noise change a path: of exact transitions some draw other variates."""
    problem, grid = model_of(simulation.problem), simulation.grid
    exact = isinstance(simulation.solver, ExactSampling)
    if not exact or not isinstance(problem, AbstractExactTransition):
        return True
    with jax.enable_x64(True):
        t, h = (jnp.asarray(x, jnp.float64) for x in (grid.t0, cast(Grid, grid).dt))
        y = problem.State(*(jnp.float64(fixed_value(x)) for x in simulation.initial.values()))
        words = StepWords(seed_key(0), jnp.uint32(0), jnp.uint32(int(Purpose.TRANSITION)))
        request = Request(_moves, (in_precision(problem, jnp.float64), t, h, y, words), quick=True)
        (moves,), _ = compiled(request)
        return bool(moves(*request.arguments))


def _moves(problem: Any, t: jax.Array, h: jax.Array, y: Any, words: StepWords) -> jax.Array:
    """Whether a transition ends elsewhere with other noise: a program."""
    noises = len(problem.Noise._fields)
    one, other = (
        problem.transition(t, h, y, problem.Noise(*[jnp.asarray(x, h.dtype)] * noises), words)
        for x in (0.0, 1.0)
    )
    return jnp.any(jnp.stack(jax.tree.leaves(jax.tree.map(jnp.not_equal, one, other))))
