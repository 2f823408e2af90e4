"""From a file with distributions to an experiment, its uncertain parameters and its study."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from simkit.config.diagnostics import Diagnostics, placed
from simkit.config.documents import Document, KeyPath
from simkit.config.overrides import Overrides, opened
from simkit.config.settings import DISTRIBUTIONS as KINDS
from simkit.config.settings import Uncertainty
from simkit.distributions.distribution import AbstractDistribution
from simkit.distributions.plain import distribution_of, plain
from simkit.engines.finished import contents
from simkit.engines.loaded import Loaded
from simkit.engines.paths import PathEngine, refuse_of_means
from simkit.ensemble.simulation import Simulation, experiment_of
from simkit.errors import InputError
from simkit.experiments.constants import Constants, remark_unused
from simkit.experiments.experiment import VARIANTS, refuse_particles, simulation_of
from simkit.results.provenance import as_yaml
from simkit.studies.checks import DISTRIBUTIONS, misfits
from simkit.studies.limits import beyond_a_study
from simkit.studies.methods import METHODS, OWNERS


@dataclasses.dataclass(frozen=True)
class UncertainExperiment:
    """The simulation at the centre of the uncertain constants, their distributions, and the settings."""

    simulation: Simulation
    distributions: dict[str, AbstractDistribution]
    settings: Uncertainty

    @property
    def centre(self) -> Loaded:
        """The experiment without its uncertainty."""
        return Loaded(PathEngine(), {"": self.simulation})

    @property
    def identity(self) -> dict[str, str] | None:
        """What a record of the study must agree in."""
        centre = self.centre.identity("uncertainty")
        return centre and centre | {"study": as_yaml(self.resolved())}

    def contents(self) -> dict[str, str]:
        """What a finished output of the study must agree in."""
        return contents("uncertainty", self.resolved(), self.centre.inputs)

    def resolved(self) -> dict[str, Any]:
        """The experiment as plain data, with the distributions. Loading it gives the same study."""
        result = experiment_of(self.simulation).resolved()
        constants = {
            name: plain(self.distributions[name]) if name in self.distributions else value
            for name, value in result["constants"].items()
        }
        exclude = {key for key, method in OWNERS.items() if method != self.settings.method}
        exclude |= {"budget"} if self.settings.width is None else set()
        settings = self.settings.model_dump(mode="json", exclude_none=True, exclude=exclude)
        return result | {"constants": constants, "uncertainty": settings}


def has_distributions(source: Any, overrides: Overrides = ()) -> bool:
    """Whether an experiment has uncertain parameters. Raises what reading it raises.

    >>> from simkit.studies import has_distributions
    >>> has_distributions({"constants": {"k": {"uniform": [0.9, 1.1]}}})
    True
    >>> has_distributions({"constants": {"k": 1.0}})
    False
    """
    document = opened(source, overrides)
    return bool(list(_places(document.data)))


def load_uncertain(source: Any, overrides: Overrides = ()) -> UncertainExperiment:
    """Read, check and build an experiment with distributions in place of numbers.

    They may stand under `constants` and for parameters of the model, which become constants of their own
    name. Raises one `InputError` that lists the errors.
    """
    document = opened(source, overrides)
    diagnostics = Diagnostics(document, with_text=False)
    refuse_particles(diagnostics)
    if VARIANTS in document.data:
        message = "a study takes one experiment; remove variants, or make files of them"
        diagnostics.add((VARIANTS,), message, at_key=True)
        diagnostics.raise_if_any()
    distributions = _replaced(diagnostics)
    diagnostics.raise_if_any()
    if not distributions:
        place = f"{document.name}: " if document.name else ""
        raise InputError(
            f"{place}nothing is uncertain: give a constant or a parameter of the model a distribution, such "
            "as sigma: {uniform: [0.1, 0.3]}, or use `simkit run`"
        )
    remark_unused(document)
    simulation = simulation_of(document)
    refuse_of_means(simulation)
    if simulation.reduction is not None:
        raise InputError(
            f"ensemble: {simulation.reduction.description}: a study takes independent paths; leave them out: "
            "--set ensemble.driver=random --set ensemble.variance_reduction=null"
        )
    settings = experiment_of(simulation).uncertainty or Uncertainty()
    if settings.points is None:
        settings = settings.model_copy(update={"points": METHODS[settings.method].points})
    _refuse(settings, distributions, diagnostics)
    diagnostics.raise_if_any()
    problems = beyond_a_study(simulation, settings, distributions)
    if problems:
        with placed(document):
            raise InputError(problems)
    return UncertainExperiment(simulation, distributions, settings)


def _places(data: Mapping[str, Any]) -> list[KeyPath]:
    """Where distributions stand."""
    model = data.get("model")
    model = model if isinstance(model, dict) else {}
    sections: dict[KeyPath, Any] = {
        ("constants",): data.get("constants"),
        ("model",): model if "type" in model else None,
        ("model", "parameters"): None if "type" in model else model.get("parameters"),
    }
    return [
        (*path, name)
        for path, section in sections.items()
        if isinstance(section, dict)
        for name, value in section.items()
        if isinstance(value, dict) and (path == ("constants",) or any(k in KINDS for k in value))
    ]


def _replaced(diagnostics: Diagnostics) -> dict[str, AbstractDistribution]:
    """The distributions by name; the document gets their medians, and names for the model's parameters."""
    distributions: dict[str, AbstractDistribution] = {}
    document = diagnostics.document
    known = _known_constants(document.data)
    for path in _places(document.data):
        section: Any = document.data
        for part in path[:-1]:
            section = section[part]
        name = str(path[-1])
        try:
            distribution = distribution_of(section[name], known)
        except ValueError as error:
            diagnostics.add(path, str(error))
            continue
        distributions[name] = distribution
        if path[0] == "constants":
            section[name] = distribution.median
            continue
        constants = document.data.setdefault("constants", {})
        if name in constants:
            message = (
                f"{name} is a constant too; give the constant the distribution, and write {name}: {name}"
            )
            diagnostics.add(path, message)
            continue
        constants[name] = distribution.median
        section[name] = name
        for marks in (document.values, document.keys):
            if path in marks:
                marks[("constants", name)] = marks[path]
    return distributions


def _known_constants(data: Mapping[str, Any]) -> dict[str, float]:
    """The constants that depend on nothing uncertain; what is wrong with others is said elsewhere."""
    constants = data.get("constants")
    given = constants if isinstance(constants, dict) else {}
    known = {name: value for name, value in given.items() if isinstance(value, int | float | str)}
    return Constants(known, list(known), Diagnostics(Document({}))).values


def _refuse(
    settings: Uncertainty, distributions: dict[str, AbstractDistribution], diagnostics: Diagnostics
) -> None:
    """Add what of the section does not go together with the method or the parameters."""
    given = settings.model_fields_set
    for key, method in OWNERS.items():
        if key in given and settings.method != method:
            message = f"is for method {method}, not for {settings.method}; remove it"
            diagnostics.add(("uncertainty", key), message, at_key=True)
    kind, values = METHODS[settings.method], {key: getattr(settings, key) for key in given | {"points"}}
    for place, message, at_key in misfits(kind, distributions, values):
        path = ("constants", *place[1:]) if place[0] == DISTRIBUTIONS else ("uncertainty", *place)
        diagnostics.add(path, message, at_key=at_key)
