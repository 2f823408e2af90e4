"""Which process of a network a solver simulates, and the times of a run at random events."""

import dataclasses
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
from simkit_solvers.grids.jump_grid import MAX_STEPS, JumpGrid
from simkit_solvers.methods.jump.jump_method import LARGEST_COUNT
from simkit_solvers.methods.registry import SOLVERS
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork, ChemicalLangevin

from simkit.config.diagnostics import Diagnostics
from simkit.config.settings import ObservableSettings, Save, Solver, Time
from simkit.distributions.distribution import AbstractDrawn
from simkit.ensemble.initial import PathValues
from simkit.experiments.constants import Constants
from simkit.experiments.sections.adaptive_plan import MakeGrid, given_keys
from simkit.experiments.sections.initial_plan import InitialValue
from simkit.experiments.sections.model_plan import ModelPlan


def solves_jumps(section: Solver | None) -> bool:
    """Whether a solver is for the jump process of a reaction network."""
    return section is not None and section.type in SOLVERS and "jump" in SOLVERS[section.type].problem


def takes_langevin(section: Solver) -> bool:
    """Whether a solver takes the chemical Langevin equation of a network, rather than its rate equation."""
    info = SOLVERS.get(section.type)
    if info is None or "sde" not in info.problem:
        return False
    return "ode" not in info.problem or info.calculus == "ito"


def seen_by(section: Solver | None, plan: ModelPlan | None) -> ModelPlan | None:
    """The plan of what a solver solves.

    Of a network it is the chemical Langevin equation for a solver of Itô equations, and for one that knows no
    ordinary ones, else the network itself, which is its rate equation to solvers of ordinary equations.
    """
    network = None if plan is None else plan.problem
    if plan is None or section is None or not isinstance(network, AbstractReactionNetwork):
        return plan
    if not takes_langevin(section):
        return plan
    cls, bind = type(network), cast(Any, plan.bind)
    return dataclasses.replace(
        plan,
        problem=ChemicalLangevin(network),
        make=lambda **values: ChemicalLangevin(cls(**values)),
        bind=None if bind is None else lambda constants, grid: ChemicalLangevin(bind(constants, grid)),
    )


def plan_jumps(section: Time | None, save: Save | None, diagnostics: Diagnostics) -> MakeGrid | None:
    """How the saved times follow from t0 and t1; keys about steps are errors."""
    keys = given_keys(section, diagnostics)
    for key in ("steps", "rtol", "atol", "first_step"):
        if key in keys:
            message = (
                "events of a reaction network occur at random times, and TauLeaping chooses its leaps by its "
                "epsilon; remove it and give save.points, or use EulerMaruyama for the chemical Langevin "
                "equation, Tsit5 for the rate equation"
            )
            diagnostics.add(("time", key), message, at_key=True)
    if save is not None and save.every is not None:
        diagnostics.add(("save", "every"), "events occur at random times; use save.points")
    if section is None or save is None:
        return None
    points, max_steps = save.points or 1, section.max_steps or MAX_STEPS

    def make_grid(t0, t1, values: Mapping[str, Any]) -> JumpGrid:
        return JumpGrid(t0, t1, points, max_steps)

    return make_grid


def refuse_jumps(
    section: Solver | None,
    initial: Mapping[str, InitialValue],
    observe: Mapping[str, ObservableSettings] | None,
    constants: Constants,
) -> None:
    """Report settings that counts do not allow: continuous distributions, fractions, early exercise."""
    diagnostics = constants.diagnostics
    if section is not None and section.convert:
        diagnostics.add(("solver", "convert"), "has no effect: the jump process has no calculus", at_key=True)
    for name, value in initial.items():
        bound = value.bound(constants.values)
        path = ("initial", name)
        if isinstance(bound, AbstractDrawn):
            diagnostics.add(
                path, "must be a whole number of molecules, but these distributions are continuous"
            )
            continue
        counts = np.atleast_1d(bound.numbers if isinstance(bound, PathValues) else bound)
        wrong = np.flatnonzero((counts != counts // 1) | (counts < 0) | (counts > LARGEST_COUNT))
        if len(wrong):
            wanted = f"a whole number from 0 to {LARGEST_COUNT}, the number of {name}"
            diagnostics.add(path, f"{value.place(wrong[0])}must be {wanted}, got {counts[wrong[0]]:g}")
    for name, settings in (observe or {}).items():
        if settings.early_exercise is not None:
            message = (
                "events have no common dates; use EulerMaruyama for the chemical Langevin equation, on steps"
            )
            diagnostics.add(("observe", name, "early_exercise"), message)
