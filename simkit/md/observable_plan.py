"""From the section `observe` to compiled observables."""

from collections.abc import Collection

from simkit_physics.particles.units import UnitSystem

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.config.settings.particles import ParticleObservable
from simkit.experiments.constants import Constants
from simkit.expressions import check_spelling
from simkit.md.quantities import IN_A_BOX, QUANTITIES
from simkit.md.simulation import Observable, RadialObservable, ScalarObservable

DEFAULTS = {
    "T": "temperature",
    "P": "pressure",
    "U": "potential_energy/atoms",
    "E": "total_energy/atoms",
}
PER_ATOM = "/atoms"
RESERVED = ("time", "step", "path", "drift", "force", "potential_energy", "pressure", "particle", "axis")


def plan_particle_observables(
    section: dict[str, ParticleObservable] | None,
    widths: tuple[float, float, float] | None,
    units: UnitSystem,
    constants: Constants,
) -> dict[str, Observable]:
    """The observables by name; what is wrong is added to the diagnostics of the constants.

    `widths` of the box are `None` in free space.
    """
    given = dict(section or {})
    if not given and "observe" not in constants.diagnostics.document.data:
        given = {
            name: ParticleObservable(value=text)
            for name, text in DEFAULTS.items()
            if widths is not None or text != "pressure"
        }
    result: dict[str, Observable] = {}
    for name in constants.names:
        if name in QUANTITIES:
            message = f"{name} is a quantity of the system; choose another name"
            constants.diagnostics.add(constants.place(name), message, at_key=True)
    for name, settings in given.items():
        with constants.diagnostics.collecting():
            planned = _planned(name, settings, widths, units, constants)
            if planned is not None:
                result[name] = planned
    return result


def _planned(
    name: str,
    settings: ParticleObservable,
    widths: tuple[float, float, float] | None,
    units: UnitSystem,
    constants: Constants,
) -> Observable | None:
    path: KeyPath = ("observe", name)
    reason = check_spelling(name)
    if reason:
        raise SettingError(path, reason, at_key=True)
    if (settings.value is None) == (settings.rdf is None):
        raise SettingError(path, "give one of value, an expression, and rdf")
    if settings.rdf is not None:
        if name in RESERVED:
            raise SettingError(
                path, f"{name} is another variable of the dataset; choose another name", at_key=True
            )
        return _radial(name, settings, widths, constants)
    place = (*path, "value")
    names = (*constants.names, *QUANTITIES)
    expression = constants.compiled(place, settings.value, names)
    if expression is None:
        return None
    if widths is None:
        _refuse_without_box(place, expression.names)
    return ScalarObservable(name, expression, _unit(expression.text, units))


def _radial(
    name: str,
    settings: ParticleObservable,
    widths: tuple[float, float, float] | None,
    constants: Constants,
) -> RadialObservable | None:
    assert settings.rdf is not None
    place = ("observe", name, "rdf", "max")
    number = constants.number(place, settings.rdf.max)
    if number is None:
        return None
    longest = number[1]
    if longest <= 0:
        raise SettingError(place, f"must be > 0, got {longest:g}")
    if widths is None:
        message = "g(r) compares with a uniform fluid, and free space has no density; give a box"
        raise SettingError(("observe", name, "rdf"), message)
    if longest > min(widths) / 2:
        raise SettingError(
            place,
            f"must be at most {min(widths) / 2:.6g}, half the least width of the box, got {longest:g}",
        )
    return RadialObservable(name, settings.rdf.bins, longest)


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
