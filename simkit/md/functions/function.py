"""The contract of a function: its section, what it measures along a run, and its variables in the dataset."""

import abc
import dataclasses
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from simkit_solvers import Particles

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.config.settings.values import Section, whole
from simkit.md.observables import AbstractMeasurement
from simkit.md.simulation import ParticleSystem
from simkit.results.variables import Variables, variable, with_stderr
from simkit.time_series import Estimate

SELDOM = 100  # steps: what costs as much as several steps is measured no more often, by default
OFTEN_TEXT = "The steps from one measurement to the next; the default is that of `save`."
SELDOM_TEXT = f"{OFTEN_TEXT.removesuffix('.')}, at least about {SELDOM}."
Every = Annotated[int, *whole(1)] | None


class Labelled(NamedTuple):
    """Variables and coordinates of a dataset, and which of the variables are numbers for the table."""

    variables: Variables
    coordinates: Variables
    numbers: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class AbstractFunction(abc.ABC):
    """An observable: from its section to a measurement, and from its result to variables of a dataset.

    In `observe` its section `settings` stands under `key`. It is measured every `every` steps.
    """

    key: ClassVar[str]
    settings: ClassVar[type[Section]]
    example: ClassVar[dict[str, Any]]

    name: str
    every: int

    @classmethod
    @abc.abstractmethod
    def planned(cls, place: "Place", settings: Any, system: ParticleSystem) -> "AbstractFunction":
        """From the section of a name; raises `SettingError` where something is wrong with it."""

    @abc.abstractmethod
    def measurement(self, system: ParticleSystem, particles: Particles) -> AbstractMeasurement:
        """What is measured along the run."""

    @abc.abstractmethod
    def labelled(self, system: ParticleSystem, result: Any) -> Labelled:
        """The result of the measurement, with names and units."""


class Place(NamedTuple):
    """Where a section stands, for messages, and how its numbers are read."""

    path: KeyPath
    number: Callable[[KeyPath, float | str], float]

    @property
    def name(self) -> str:
        return str(self.path[1])

    def positive(self, key: str, value: float | str) -> float:
        """A number > 0."""
        result = self.number((*self.path, key), value)
        if not result > 0:
            self.fail(f"must be > 0, got {result:g}", key)
        return result

    def fail(self, message: str, *keys: str) -> None:
        raise SettingError((*self.path, *keys), message)

    def every(self, settings: Section, system: ParticleSystem, at_least: int = 1) -> int:
        """The steps between measurements, by default a multiple of those of the other observables."""
        given = getattr(settings, "every", None)
        if given is not None:
            if given > system.run.steps:
                self.fail(f"must be at most the {system.run.steps:,} steps, got {given:,}", "every")
            return given
        wanted = min(at_least, max(system.run.steps // 10, 1))
        return -(-wanted // system.every) * system.every

    def in_a_box(self, system: ParticleSystem) -> tuple[float, float, float]:
        """The widths of the box; raises `SettingError` in free space."""
        if system.widths is None:
            self.fail("needs a periodic box, and this system is in free space")
        assert system.widths is not None
        return system.widths

    def refuse_without_motion(self, system: ParticleSystem) -> None:
        """Raise `SettingError` where momenta mean nothing."""
        if system.ensemble not in ("NVE", "NVT"):
            method = type(system.run.method).__name__
            self.fail(f"needs velocities, and those of {method} mean nothing")


def estimated(key: str, dims: tuple[str, ...], estimate: Estimate, unit: str, long_name: str) -> Variables:
    """An estimate as a variable and its standard error, with the reason where that is unknown."""
    about = {"stderr_unknown": estimate.reason.removeprefix("unknown: ")} if estimate.reason else {}
    value, stderr = np.asarray(estimate.value), np.asarray(estimate.stderr)
    return with_stderr(key, dims, value, stderr, unit, long_name, **about)


def species_axis(system: ParticleSystem) -> tuple[str, tuple]:
    """The coordinate of what there is by species."""
    return "species", variable(("species",), np.array(system.names, object), "1", "species")
