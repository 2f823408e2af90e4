"""From the section `potential` to a truncated potential with its parameters by pair of species."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from simkit_physics.particles.potentials import POTENTIALS, TRUNCATIONS
from simkit_physics.particles.potentials.function_of_distance import FunctionOfDistance
from simkit_physics.particles.potentials.potential import AbstractPotential
from simkit_physics.particles.potentials.tabulated import Tabulated
from simkit_solvers.problems.problem import parameters_of

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.config.number_table import read_table
from simkit.config.settings.potential import Potential
from simkit.experiments.constants import Constants
from simkit.expressions import Expression
from simkit.md.pair_numbers import PairNumbers, Table
from simkit.suggestions import of_your_own, shown

DISTANCE, ENERGY = "r", "u"  # in expressions, and the columns of a file
TABULATED = "Tabulated"


@dataclasses.dataclass(frozen=True)
class EnergyExpression:
    """The energy of a pair as an expression of its distance and of parameters."""

    expression: Expression

    def __call__(self, r: Any, **parameters: Any) -> Any:
        return self.expression({DISTANCE: r, **parameters})


def plan_potential(section: Potential | None, species: tuple[str, ...], constants: Constants) -> Any:
    """The truncated potential, or `None` where something is wrong, which the diagnostics then have.

    `species` are the names of those in the system, in the order of their numbers.
    """
    if section is None:
        return None
    if (section.type is None) == (section.energy is None):
        message = "give one of type, the name of a potential, and energy, an expression of the distance r"
        raise SettingError(("potential",), message)
    pairs = PairNumbers(section, species, constants)
    before = len(constants.diagnostics.entries)
    make, parameters = _from_expression(pairs) if section.type is None else _named(pairs)
    onsets = _onsets(pairs)
    potential = cutoffs = None
    if len(constants.diagnostics.entries) == before:
        potential = _made(make, parameters)
    if potential is not None and section.cutoff is None and not pairs.have_cutoffs:
        cutoffs = _natural_cutoffs(potential, len(species))
    else:
        cutoffs = pairs.table(("potential", "cutoff"), section.cutoff, "cutoff", None)
    if len(constants.diagnostics.entries) > before or cutoffs is None or potential is None:
        return None
    if np.any(cutoffs <= 0):
        raise SettingError(("potential", "cutoff"), f"must be > 0, got {np.min(cutoffs):g}")
    options = {} if onsets is None else {"onsets": _plain(onsets)}
    if onsets is not None and np.any(onsets >= cutoffs):
        raise SettingError(("potential", "switch_from"), f"must be below the cutoff, got {np.max(onsets):g}")
    try:
        return TRUNCATIONS[section.truncation](potential, _plain(cutoffs), **options)
    except ValueError as error:
        raise SettingError(("potential",), str(error)) from error


def _made(make: Callable[..., Any], parameters: Mapping[str, Table]) -> Any:
    try:
        return make(**{name: _plain(table) for name, table in parameters.items()})
    except ValueError as error:
        raise SettingError(("potential",), str(error)) from error


def _natural_cutoffs(potential: AbstractPotential, species: int) -> Table:
    """Where a potential ends by itself; raises `SettingError` for one that does not."""
    ends = np.broadcast_to(np.asarray(potential.natural_cutoff, float), (species, species))
    if not np.all(np.isfinite(ends)):
        raise SettingError(
            ("potential", "cutoff"),
            "is missing; pairs farther apart do not interact; give one, such as cutoff: 2.5 for sigma: 1",
            at_key=True,
        )
    return ends


def _plain(table: Table) -> Any:
    """A number, where it is that of all pairs."""
    import jax.numpy as jnp

    first = float(table.flat[0])
    return first if np.all(table == first) else jnp.asarray(table)


def _named(pairs: PairNumbers) -> tuple[Callable[..., Any], dict[str, Table]]:
    """A potential by name, and the tables of its parameters."""
    section = pairs.section
    if section.type == TABULATED:
        return _tabulated(pairs), {}
    if section.file is not None:
        message = f"is for type: {TABULATED}, and this is {section.type}"
        pairs.diagnostics.add(("potential", "file"), message, at_key=True)
    cls = POTENTIALS.get(section.type or "")
    if cls is None:
        hint = of_your_own(str(section.type), [*POTENTIALS, TABULATED], "potentials")
        reason = f"unknown potential {shown(section.type)}{hint}"
        raise SettingError(("potential", "type"), reason)
    if section.parameters:
        message = f"they belong to energy; write the parameters of {section.type} next to type"
        pairs.diagnostics.add(("potential", "parameters"), message, at_key=True)
    specs = parameters_of(cls)
    extra = dict(section.__pydantic_extra__ or {})
    pairs.refuse_unknown(("potential",), extra, specs, section.type or "")
    tables = {}
    for name, spec in specs.items():
        if name not in extra and not pairs.for_all_pairs(name):
            message = f"is missing; {section.type} has {name}: {spec.description}"
            pairs.diagnostics.add_missing(("potential", name), message)
            continue
        table = pairs.table(("potential", name), extra.get(name), name, spec)
        if table is not None:
            tables[name] = table
    pairs.refuse_unknown_in_pairs(specs, section.type or "")
    return cls, tables


def _tabulated(pairs: PairNumbers) -> Callable[..., Any]:
    """The spline through the energies in a file."""
    path: KeyPath = ("potential", "file")
    pairs.refuse_unknown(("potential",), pairs.section.__pydantic_extra__ or {}, {}, TABULATED)
    pairs.refuse_unknown_in_pairs({}, TABULATED)
    name = pairs.section.file
    if name is None:
        raise SettingError(path, f"is missing; {TABULATED} has its energies in a file", at_key=True)
    try:
        table = read_table(pairs.diagnostics.document.folder / name, name)
        distances = table.column(DISTANCE)
        if len(back := np.flatnonzero(np.diff(distances) <= 0)):
            row = int(back[0]) + 1
            before, after = distances[row - 1 : row + 1]
            place = table.place(row)
            raise ValueError(
                f"{place}: the distances must increase, got {after:g} after {before:g}; sort them"
            )
        potential = Tabulated.through(distances, table.column(ENERGY))
    except ValueError as error:
        raise SettingError(path, str(error).removeprefix(f"{TABULATED}: ")) from error
    return lambda: potential


def _from_expression(pairs: PairNumbers) -> tuple[Callable[..., Any], dict[str, Table]]:
    """A potential as an expression of r, and the tables of its parameters."""
    section, constants = pairs.section, pairs.constants
    pairs.refuse_unknown(("potential",), section.__pydantic_extra__ or {}, {}, "energy")
    tables = {}
    for name, value in section.parameters.items():
        table = pairs.table(("potential", "parameters", name), value, name, None)
        if table is not None:
            tables[name] = table
    pairs.refuse_unknown_in_pairs(section.parameters, "energy")
    names = dict.fromkeys([DISTANCE, *section.parameters, *constants.names])
    for name in {DISTANCE, *section.parameters} & {*constants.names}:
        message = f"{name} is a constant and also a name in the energy; rename the constant"
        pairs.diagnostics.add(constants.place(name), message, at_key=True)
    expression = constants.compiled(("potential", "energy"), section.energy or 0.0, names)
    if expression is None:
        return FunctionOfDistance, {}
    if DISTANCE not in expression.names:
        raise SettingError(("potential", "energy"), f"must depend on {DISTANCE}, the distance of a pair")
    for name in sorted(expression.names & constants.values.keys()):
        tables[name] = np.full((len(pairs.species),) * 2, constants.values[name])
    function = EnergyExpression(expression)
    return lambda **parameters: FunctionOfDistance(function, parameters), tables


def _onsets(pairs: PairNumbers) -> Table | None:
    """Where switching begins; `None` where the truncation is another."""
    section, path = pairs.section, ("potential", "switch_from")
    if section.truncation != "switched":
        if section.switch_from is not None:
            message = f"is for truncation: switched, and this is {section.truncation}"
            pairs.diagnostics.add(path, message, at_key=True)
        return None
    if section.switch_from is None:
        pairs.diagnostics.add(path, "is missing; with truncation: switched it is where switching begins")
        return None
    single = pairs.number_at(path, section.switch_from)
    if single is not None and single <= 0:
        raise SettingError(path, f"must be > 0, got {single:g}")
    return None if single is None else np.full((len(pairs.species),) * 2, single)
