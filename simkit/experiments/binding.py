"""The parts of a run, rebuilt for other numbers in the file."""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from simkit.ensemble.simulation import Run
from simkit.experiments.constants import Constants
from simkit.experiments.sections.adaptive_plan import MakeGrid
from simkit.experiments.sections.event_plan import Span
from simkit.experiments.sections.exercise_plan import dates_of
from simkit.experiments.sections.initial_plan import InitialValue
from simkit.experiments.sections.model_plan import ModelPlan
from simkit.observe.observable import Observable
from simkit.observe.observer import Observer


@dataclasses.dataclass(frozen=True)
class Binding:
    """Gives problem, observer, initial values and grid for other constants, traced ones too.

    Constants defined by others follow them. Besides constants, all that `targets` names can be given: a
    parameter as `model.sigma`, an initial value as `initial.S`, an end of time as `time.t1`. A second mapping
    is added to what the constants give.
    """

    constants: Constants
    plan: ModelPlan
    initial: Mapping[str, InitialValue]
    span: Span
    make_grid: MakeGrid
    observables: tuple[Observable, ...]
    fractions: tuple[float, ...]
    solver: Any

    @functools.cached_property
    def places(self) -> dict[str, Callable[[Mapping[str, Any]], Any]]:
        """The single places that can be given, as functions of the constants."""
        plan, starts = self.plan, self.initial.items()
        return {
            **{f"model.{n}": text for n, text in plan.expressions.items() if n not in plan.changing},
            **{
                f"initial.{n}": value.bound
                for n, value in starts
                if value.kind is None and value.rows is None
            },
            "time.t0": self.span[0],
            "time.t1": self.span[1],
        }

    @functools.cached_property
    def targets(self) -> dict[str, float]:
        """The values of all that can be given."""
        values = self.constants.values
        return values | {name: float(of(values)) for name, of in self.places.items()}

    def __call__(self, given: Mapping[str, Any], added: Mapping[str, Any] = MappingProxyType({})) -> Run:
        dotted = {name: value for name, value in given.items() if "." in name}
        unknown = (dotted.keys() - self.targets.keys()) | (added.keys() - self.places.keys())
        if unknown:
            raise KeyError(f"nothing is called {min(unknown)!r}; there are: {', '.join(self.targets)}")
        values = self.constants.bound({n: x for n, x in given.items() if n not in dotted})
        values = values | {name: self.places[name](values) + x for name, x in added.items()} | dotted
        t0, t1 = (values.get(f"time.t{i}", end(values)) for i, end in enumerate(self.span))
        grid = self.make_grid(t0, t1, values)
        return Run(
            problem=self.plan.bound(values, grid),
            observer=Observer(
                {name: values[name] for name in self._observed},
                self.observables,
                dates=dates_of(self.observables, self.span, values),
                fractions=self.fractions,
            ),
            initial={n: values.get(f"initial.{n}", value.bound(values)) for n, value in self.initial.items()},
            grid=grid,
            solver=self.solver,
        )

    @functools.cached_property
    def _observed(self) -> list[str]:
        """The constants in observables that are no parameters of the model."""
        used = {name for observable in self.observables for name in observable.names}
        return [name for name in self.constants.values if name in used and name not in self.plan.parameters]
