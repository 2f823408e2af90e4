"""The keys of an experiment, with their types, defaults and descriptions: a module for each section."""

from simkit.settings.experiment import Experiment
from simkit.settings.initial import FromFile, Initial, PerPath, RandomValue
from simkit.settings.models import (
    Energies,
    InlineHamiltonian,
    InlineNetwork,
    InlineODE,
    InlineSDE,
    NamedModel,
    ReactionSettings,
    SDEVariable,
)
from simkit.settings.observe import DerivedSettings, EarlyExercise, ObservableSettings
from simkit.settings.plot import Plot
from simkit.settings.run import Ensemble, Save, Solver, Time
from simkit.settings.schedule import CurveSettings, EventSettings
from simkit.settings.sensitivity import Sensitivity
from simkit.settings.tags import TAGS
from simkit.settings.uncertainty import Uncertainty
from simkit.settings.values import DISTRIBUTIONS, MAX_PATHS, MAX_STEPS, Section

__all__ = [
    "DISTRIBUTIONS",
    "MAX_PATHS",
    "MAX_STEPS",
    "TAGS",
    "CurveSettings",
    "DerivedSettings",
    "EarlyExercise",
    "Energies",
    "Ensemble",
    "EventSettings",
    "Experiment",
    "FromFile",
    "Initial",
    "InlineHamiltonian",
    "InlineNetwork",
    "InlineODE",
    "InlineSDE",
    "NamedModel",
    "ObservableSettings",
    "PerPath",
    "Plot",
    "RandomValue",
    "ReactionSettings",
    "SDEVariable",
    "Save",
    "Section",
    "Sensitivity",
    "Solver",
    "Time",
    "Uncertainty",
]
