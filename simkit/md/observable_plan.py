"""From the section `observe` to expressions of quantities and to functions such as g(r)."""

from collections.abc import Collection, Mapping

from simkit_physics.particles.units import UnitSystem

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.config.settings.particles import ParticleObservable
from simkit.experiments.constants import Constants
from simkit.expressions import check_spelling
from simkit.md.functions import FUNCTIONS, AbstractFunction
from simkit.md.functions.function import Place
from simkit.md.quantities import IN_A_BOX, QUANTITIES
from simkit.md.simulation import ParticleSystem, ScalarObservable

DEFAULTS = {
    "T": "temperature",
    "P": "pressure",
    "U": "potential_energy/atoms",
    "E": "total_energy/atoms",
}
KINDS = ("value", *FUNCTIONS)
PER_ATOM = "/atoms"
RESERVED = ("time", "step", "path", "species", "drift", "force", "pressure", "particle", "axis", "component")


def plan_scalars(
    section: Mapping[str, ParticleObservable] | None, free: bool, units: UnitSystem, constants: Constants
) -> dict[str, ScalarObservable]:
    """The expressions by name; `free` is whether the system has no box. What is wrong is added."""
    diagnostics = constants.diagnostics
    for name in constants.names:
        if name in QUANTITIES:
            message = f"{name} is a quantity of the system; choose another name"
            diagnostics.add(constants.place(name), message, at_key=True)
    result = {}
    for name, settings in given_observables(section, free, constants).items():
        with diagnostics.collecting():
            kinds = [kind for kind in KINDS if getattr(settings, kind) is not None]
            path: KeyPath = ("observe", name)
            if reason := check_spelling(name):
                raise SettingError(path, reason, at_key=True)
            if name in RESERVED:
                message = f"{name} is a variable of every dataset; choose another name"
                raise SettingError(path, message, at_key=True)
            if len(kinds) != 1:
                raise SettingError(
                    path, f"needs one of {', '.join(KINDS)}, got {' and '.join(kinds) or 'none'}"
                )
            if settings.value is not None:
                scalar = _scalar((*path, "value"), settings.value, free, units, constants)
                if scalar is not None:
                    result[name] = scalar
    return result


def given_observables(
    section: Mapping[str, ParticleObservable] | None, free: bool, constants: Constants
) -> dict[str, ParticleObservable]:
    """The observables of the file, or without any the usual ones."""
    if section or "observe" in constants.diagnostics.document.data:
        return dict(section or {})
    usual = {name: text for name, text in DEFAULTS.items() if not (free and text in IN_A_BOX)}
    return {name: ParticleObservable(value=text) for name, text in usual.items()}


def plan_functions(
    section: Mapping[str, ParticleObservable] | None, system: ParticleSystem, constants: Constants
) -> dict[str, AbstractFunction]:
    """Functions such as g(r) by name; what is wrong is added to the diagnostics."""
    result: dict[str, AbstractFunction] = {}

    def number(path: KeyPath, text: float | str) -> float:
        both = constants.number(path, text)
        if both is None:
            raise SettingError(path, "cannot be evaluated")
        return both[1]

    for name, settings in (section or {}).items():
        for kind, function in FUNCTIONS.items():
            own = getattr(settings, kind)
            if own is None:
                continue
            with constants.diagnostics.collecting():
                place = Place(("observe", name, kind), number)
                if not system.run.steps:
                    place.fail("is measured along a run, and this one has no steps")
                result[name] = function.planned(place, own, system)
    return result


def _scalar(
    place: KeyPath, text: float | str, free: bool, units: UnitSystem, constants: Constants
) -> ScalarObservable | None:
    expression = constants.compiled(place, text, (*constants.names, *QUANTITIES))
    if expression is None:
        return None
    if free:
        _refuse_without_box(place, expression.names)
    return ScalarObservable(expression, _unit(expression.text, units))


def _refuse_without_box(place: KeyPath, names: Collection[str]) -> None:
    wrong = sorted(IN_A_BOX & set(names))
    if wrong:
        raise SettingError(place, f"{wrong[0]} needs a periodic box, and this system is in free space")


def _unit(text: str, units: UnitSystem) -> str:
    """The unit of a quantity, also of one divided by the number of particles; of others it is not known."""
    plain = text.replace(" ", "").removesuffix(PER_ATOM)
    if plain not in QUANTITIES:
        return ""
    unit = QUANTITIES[plain].unit
    return unit if unit == "1" else units.label(unit)
