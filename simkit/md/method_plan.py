"""From the sections `solver`, `time` and `stages` to methods with their options and steps."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic_core import PydanticCustomError
from simkit_solvers import AbstractParticleMethod, Curve
from simkit_solvers.methods.particles.particle_methods import PARTICLE_METHODS, method_elsewhere
from simkit_solvers.problems.problem import Parameter, parameters_of

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.config.settings.particles import Integrator, ParticleExperiment
from simkit.config.settings.schedule import CurveSettings
from simkit.config.settings.values import number, whole_number
from simkit.experiments.constants import Constants
from simkit.experiments.sections.curve_plan import CurvePlan
from simkit.expressions.functions import NUMBERS
from simkit.md.simulation import PlannedStage
from simkit.suggestions import did_you_mean, of_your_own, shown

T = TypeVar("T")
ROUNDING = 1e-9
EVERY = 10  # steps between measurements, at most, unless given


def plan_stages(
    experiment: ParticleExperiment, curves: Mapping[str, CurvePlan], constants: Constants
) -> tuple[PlannedStage, ...] | None:
    """All stages, the run itself last; `None` where something is wrong. `curves` are for temperatures."""
    time, diagnostics = experiment.time, constants.diagnostics
    dt = None if time is None else _step(("time", "dt"), time.dt, constants)
    methods = _Methods(curves, experiment.curves or {}, constants)
    duration = 0.0 if time is None else time.steps * (dt or 0.0)
    own = experiment.solver and methods.planned(("solver",), experiment.solver, duration)
    if time is None or experiment.stages is None:
        return None
    stages = []
    for name, stage in experiment.stages.items():
        path = ("stages", name)
        length = dt if stage.dt is None else _step((*path, "dt"), stage.dt, constants)
        method = own
        if stage.solver is not None:
            method = methods.planned((*path, "solver"), stage.solver, stage.steps * (length or 0.0))
        elif own is not None:
            methods.check_curves(path, experiment.solver, stage.steps * (length or 0.0))
        if method is None:
            continue
        if length is None and stage.dt is None and not diagnostics.at_or_below(("time", "dt")):
            diagnostics.add(path, "has no dt; give it here or under time")
        stages.append(PlannedStage(name, method, length or 0.0, stage.steps))
    if own is None:
        return None
    if own.ensemble == "none":
        message = f"{type(own).__name__} samples no ensemble; it is for a stage, and the run needs another"
        diagnostics.add(("solver", "type"), message)
    if dt is None and time.steps and not diagnostics.at_or_below(("time", "dt")):
        diagnostics.add_missing(("time", "dt"), "is missing; the length of a step")
    return (*stages, PlannedStage("run", own, dt or 0.0, time.steps))


def measured_every(experiment: ParticleExperiment) -> int:
    """The steps from one measurement to the next. Raises `SettingError` unless they divide the steps."""
    steps, every = experiment.time.steps, experiment.save.every
    if every is None:
        return max(n for n in range(1, EVERY + 1) if steps % n == 0)
    if steps % every:
        near = max(n for n in range(1, every + 1) if steps % n == 0)
        raise SettingError(
            ("save", "every"), f"must divide the {steps:,} steps, got {every}; {near} would do"
        )
    return every


def _step(path: KeyPath, value: float | str | None, constants: Constants) -> float | None:
    if value is None:
        return None
    result = constants.number(path, value)
    if result is not None and result[1] <= 0:
        constants.diagnostics.add(path, f"must be > 0, got {result[1]:g}")
        return None
    return None if result is None else result[1]


class _Methods:
    """Methods with their options, of which temperatures may be curves."""

    def __init__(
        self, curves: Mapping[str, CurvePlan], settings: Mapping[str, CurveSettings], constants: Constants
    ):
        self.curves, self.settings, self.constants = curves, settings, constants
        self.diagnostics = constants.diagnostics

    def planned(self, path: KeyPath, section: Integrator, duration: float) -> AbstractParticleMethod | None:
        """The method of a stage that lasts so long; `None` where something is wrong."""
        name, diagnostics = section.type, self.diagnostics
        cls = PARTICLE_METHODS.get(name)
        if cls is None:
            other = method_elsewhere(name)
            hint = f"; use {other}" if other else of_your_own(name, PARTICLE_METHODS, "methods")
            diagnostics.add((*path, "type"), f"unknown method {shown(name)} of molecular dynamics{hint}")
            return None
        specs, before = parameters_of(cls), len(diagnostics.entries)
        options: dict[str, Any] = {}
        for key, given in (section.__pydantic_extra__ or {}).items():
            if key not in specs:
                hint = did_you_mean(key, specs)
                diagnostics.add((*path, key), f"{name} has no such option{hint}", at_key=True)
                continue
            with diagnostics.collecting():
                options[key] = self._option(
                    (*path, key), given, getattr(cls, key, None), specs[key], duration
                )
        needed = [key for key in specs if not hasattr(cls, key)]
        missing = [key for key in needed if key not in (section.__pydantic_extra__ or {})]
        if missing:
            example = ", ".join(f"{key}: …" for key in needed)
            message = f"{name} needs {' and '.join(missing)}; write {{type: {name}, {example}}}"
            diagnostics.add(path, message)
        return cls(**options) if len(diagnostics.entries) == before else None

    def _option(self, path: KeyPath, given: Any, default: Any, spec: Parameter, duration: float) -> Any:
        """The value of an option, of the kind of its default; `None` where something was wrong with it."""
        if isinstance(default, bool):
            if not isinstance(given, bool):
                raise SettingError(path, f"must be true or false, got {shown(given)}")
            return given
        if isinstance(given, str) and given in self.settings:
            return self._curve(path, given, spec, duration)
        known = [*self.settings, *self.constants.names]
        if spec.unit == "temperature" and str(given).isidentifier() and given not in {*known, *NUMBERS}:
            hint = did_you_mean(given, known)
            if "mean" not in hint:
                hint += "; define it under curves: or constants:"
            raise SettingError(path, f"unknown name {shown(given)}{hint}")
        if isinstance(default, int):
            value = checked_at(path, lambda: whole_number(given, 0))
        else:
            result = self.constants.number(path, checked_at(path, lambda: number(given)))
            value = None if result is None else result[1]
        if value is not None and not spec.admits(value):
            raise SettingError(path, f"must be {spec.range}, got {value:g}")
        return value

    def _curve(self, path: KeyPath, name: str, spec: Parameter, duration: float) -> Curve | None:
        if spec.unit != "temperature":
            raise SettingError(path, "cannot change with time; only a temperature can")
        curve = self.curves.get(name)
        if curve is None:  # which has been complained about
            return None
        times, values = curve.numbers
        wrong = next((value for value in values if not spec.admits(value)), None)
        if wrong is not None:
            raise SettingError(path, f"must be {spec.range}, but {name} is {wrong:g}")
        if self._ends_early(name, duration):
            raise SettingError(
                path,
                f"{name} is known from {times[0]:g} to {times[-1]:g}, and this stage lasts from 0 to "
                f"{duration:g}; add points, or write outside: hold",
            )
        return curve.bound(self.constants.values)

    def check_curves(self, path: KeyPath, section: Integrator, duration: float) -> None:
        """Complain about curves that end before a stage that has the method of the run."""
        for key, name in (section.__pydantic_extra__ or {}).items():
            if isinstance(name, str) and name in self.curves and self._ends_early(name, duration):
                times, _ = self.curves[name].numbers
                message = (
                    f"{name}, the solver's {key}, is known from {times[0]:g} to {times[-1]:g}, and this "
                    f"stage lasts from 0 to {duration:g}; add points, write outside: hold, or give the "
                    "stage a solver of its own"
                )
                self.diagnostics.add(path, message, at_key=True)

    def _ends_early(self, name: str, duration: float) -> bool:
        """Whether a stage would need the curve where it is not known."""
        times, _ = self.curves[name].numbers
        beyond = duration > times[-1] * (1 + ROUNDING) or times[0] > 0
        return beyond and self.settings[name].outside == "refuse"


def checked_at(path: KeyPath, check: Callable[[], T]) -> T:
    """What a check of a value gives; its complaint becomes one at a place."""
    try:
        return check()
    except PydanticCustomError as error:
        raise SettingError(path, error.message()) from error
