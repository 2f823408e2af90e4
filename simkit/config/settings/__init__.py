"""The keys of an experiment, with their types, defaults and descriptions: a module for each section."""

from simkit.config.settings.experiment import Experiment
from simkit.config.settings.initial import FromFile, Initial, PerPath, RandomValue
from simkit.config.settings.models import (
    Energies,
    InlineHamiltonian,
    InlineNetwork,
    InlineODE,
    InlineSDE,
    Model,
    NamedModel,
    ReactionSettings,
    SDEVariable,
)
from simkit.config.settings.observe import DerivedSettings, EarlyExercise, ObservableSettings
from simkit.config.settings.plot import Plot
from simkit.config.settings.run import Ensemble, Save, Solver, Time
from simkit.config.settings.schedule import CurveSettings, EventSettings
from simkit.config.settings.sensitivity import Sensitivity
from simkit.config.settings.tags import TAGS
from simkit.config.settings.uncertainty import Uncertainty
from simkit.config.settings.values import DISTRIBUTIONS, MAX_PATHS, MAX_STEPS, Section

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
    "Model",
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
