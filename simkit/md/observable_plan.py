"""From the section `observe` to expressions of quantities and to functions such as g(r)."""

from collections.abc import Collection, Mapping

from simkit_physics.particles.units import UnitSystem
from simkit_solvers import AbstractParticleMethod

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.config.settings.particles import ParticleObservable
from simkit.experiments.constants import Constants
from simkit.expressions import check_spelling
from simkit.md.functions import FUNCTIONS, AbstractFunction
from simkit.md.functions.function import Place
from simkit.md.quantities import QUANTITIES, MeasuredQuantity, named_in
from simkit.md.simulation import ParticleSystem, ScalarObservable, conserves

DEFAULTS = {
    "T": "temperature",
    "P": "pressure",
    "U": "potential_energy/atoms",
    "E": "total_energy/atoms",
}
PER_ATOM = "/atoms"
RESERVED = (
    *("time", "step", "path", "species", "drift", "force", "pressure", "particle", "axis", "component"),
    *("state", "byte", "vector", "state_bytes", "particle_species", "particle_mass", "box_vectors"),
    *("end_position", "end_velocity", "end_image", "diameter"),
)


def plan_scalars(
    section: Mapping[str, ParticleObservable] | None,
    free: bool,
    method: AbstractParticleMethod | None,
    units: UnitSystem,
    constants: Constants,
) -> dict[str, ScalarObservable]:
    """The expressions by name; `free` is whether the system has no box. What is wrong is added.

    `method` is that of the run, and `None` where something is wrong with it.
    """
    diagnostics = constants.diagnostics
    for name in constants.names:
        if name in QUANTITIES:
            message = f"{name} is a quantity of the system; choose another name"
            diagnostics.add(constants.place(name), message, at_key=True)
    result = {}
    for name, settings in given_observables(section, free, method, constants).items():
        with diagnostics.collecting():
            kinds = [kind for kind in ("value", *FUNCTIONS) if getattr(settings, kind, None) is not None]
            path: KeyPath = ("observe", name)
            if reason := check_spelling(name):
                raise SettingError(path, reason, at_key=True)
            if name in RESERVED:
                message = f"{name} is a variable of every dataset; choose another name"
                raise SettingError(path, message, at_key=True)
            if not kinds and name in FUNCTIONS:
                message = f"needs a name of its own above it; write my_{name}: {{{name}: …}}"
                raise SettingError(path, message, at_key=True)
            if not kinds and diagnostics.at_or_below(path):
                continue
            if len(kinds) != 1:
                known, given = ", ".join(["value", *FUNCTIONS]), " and ".join(kinds) or "none"
                raise SettingError(path, f"needs one of {known}, got {given}")
            if settings.value is not None:
                place: KeyPath = (*path, "value")
                if str(settings.value) in FUNCTIONS:
                    fields = FUNCTIONS[str(settings.value)].settings.model_fields
                    needed = ", ".join(f"{key}: …" for key, field in fields.items() if field.is_required())
                    raise SettingError(
                        path, f"{settings.value} has options; write {{{settings.value}: {{{needed}}}}}"
                    )
                expression = constants.compiled(place, settings.value, (*constants.names, *QUANTITIES))
                if expression is None:
                    continue
                if free:
                    _refuse_without_box(place, expression.names)
                if method is not None:
                    _refuse_by_method(place, expression.names, method)
                result[name] = ScalarObservable(expression, _unit(expression.text, units))
    return result


def given_observables(
    section: Mapping[str, ParticleObservable] | None,
    free: bool,
    method: AbstractParticleMethod | None,
    constants: Constants,
) -> dict[str, ParticleObservable]:
    """The observables of the file, or without any the usual ones that mean something."""
    if section or "observe" in constants.diagnostics.document.data:
        return dict(section or {})
    without_velocities = method is not None and method.ensemble == "configurations"

    def has_meaning(quantity: MeasuredQuantity) -> bool:
        unmoved = without_velocities and quantity.velocities == "needed"
        return not unmoved and not (free and quantity.needs_box)

    usual = {
        name: text for name, text in DEFAULTS.items() if has_meaning(QUANTITIES[text.removesuffix(PER_ATOM)])
    }
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
            own = getattr(settings, kind, None)
            if own is None:
                continue
            with constants.diagnostics.collecting():
                place = Place(("observe", name, kind), number)
                if not system.run.steps:
                    place.fail("is measured along a run, and this one has no steps")
                result[name] = function.planned(place, own, system)
    return result


def _refuse_without_box(place: KeyPath, names: Collection[str]) -> None:
    wrong = named_in(names, lambda quantity: quantity.needs_box)
    if wrong:
        raise SettingError(place, f"{wrong[0]} needs a periodic box, and this system is in free space")


def _refuse_by_method(place: KeyPath, names: Collection[str], method: AbstractParticleMethod) -> None:
    """Raise `SettingError` for a quantity that means nothing in a run with this method."""
    own = type(method).__name__
    wrong = named_in(names, lambda quantity: quantity.velocities == "needed")
    if wrong and method.ensemble == "configurations":
        raise SettingError(
            place,
            f"{wrong[0]} needs velocities, and those of {own} mean nothing; take potential_energy or "
            "pressure, or another method, such as BAOAB",
        )
    if "conserved_energy" in names and not conserves(method):
        raise SettingError(
            place,
            f"conserved_energy is not conserved by {own} while its temperature changes; take "
            "StochasticVelocityRescaling or BAOAB, or a constant temperature",
        )


def _unit(text: str, units: UnitSystem) -> str:
    """The unit of a quantity, also of one divided by the number of particles; of others it is not known."""
    plain = text.replace(" ", "").removesuffix(PER_ATOM)
    if plain not in QUANTITIES:
        return ""
    unit = QUANTITIES[plain].unit
    return unit if unit == "1" else units.label(unit)
