"""From the section `potential` to a truncated potential with its parameters by pair of species."""

import contextlib
import dataclasses
import itertools
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
from simkit_physics.particles.potentials import POTENTIALS, TRUNCATIONS
from simkit_physics.particles.potentials.function_of_distance import FunctionOfDistance
from simkit_physics.particles.potentials.mixing import mixed_parameters
from simkit_physics.particles.potentials.potential import AbstractPotential
from simkit_physics.particles.potentials.tabulated import Tabulated
from simkit_solvers.problems.problem import Parameter, parameters_of

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.config.number_table import read_table
from simkit.config.settings.potential import Potential
from simkit.config.settings.values import number
from simkit.experiments.constants import Constants
from simkit.expressions import Expression
from simkit.md.method_plan import checked_at
from simkit.suggestions import did_you_mean, of_your_own, shown

DISTANCE, ENERGY = "r", "u"  # in expressions, and the columns of a file
TABULATED = "Tabulated"
EXPLICIT = "explicit"  # mixing: none
Table = np.ndarray  # (species, species), symmetric


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
    pairs = _Pairs(section, species, constants)
    before = len(constants.diagnostics.entries)
    make, parameters = pairs.expression() if section.type is None else pairs.named()
    onsets = pairs.onsets()
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
            ("potential", "cutoff"), "is missing; pairs farther apart do not interact", at_key=True
        )
    return ends


def _plain(table: Table) -> Any:
    """A number, where it is that of all pairs."""
    import jax.numpy as jnp

    first = float(table.flat[0])
    return first if np.all(table == first) else jnp.asarray(table)


class _Pairs:
    """Numbers by pair of species: from one for all, from those of the species, or given for the pair."""

    def __init__(self, section: Potential, species: tuple[str, ...], constants: Constants):
        self.section, self.species, self.constants = section, species, constants
        self.diagnostics = constants.diagnostics
        self.given: dict[str, tuple[int, int]] = {}
        for name in section.pairs:
            with self.diagnostics.collecting():
                self.given[name] = self._pair(name)

    @property
    def have_cutoffs(self) -> bool:
        """Whether pairs have cutoffs of their own."""
        return any(settings.cutoff is not None for settings in self.section.pairs.values())

    def named(self) -> tuple[Callable[..., Any], dict[str, Table]]:
        """A potential by name, and the tables of its parameters."""
        section = self.section
        if section.type == TABULATED:
            return self._tabulated(), {}
        if section.file is not None:
            message = f"is for type: {TABULATED}, and this is {section.type}"
            self.diagnostics.add(("potential", "file"), message, at_key=True)
        cls = POTENTIALS.get(section.type or "")
        if cls is None:
            hint = of_your_own(str(section.type), [*POTENTIALS, TABULATED], "potentials")
            reason = f"unknown potential {shown(section.type)}{hint}"
            raise SettingError(("potential", "type"), reason)
        if section.parameters:
            message = f"they belong to energy; write the parameters of {section.type} next to type"
            self.diagnostics.add(("potential", "parameters"), message, at_key=True)
        specs = parameters_of(cls)
        extra = dict(section.__pydantic_extra__ or {})
        self._refuse_unknown(("potential",), extra, specs, section.type or "")
        tables = {}
        for name, spec in specs.items():
            if name not in extra and not self._for_all_pairs(name):
                message = f"is missing; {section.type} has {name}: {spec.description}"
                self.diagnostics.add_missing(("potential", name), message)
                continue
            table = self.table(("potential", name), extra.get(name), name, spec)
            if table is not None:
                tables[name] = table
        self._refuse_unknown_in_pairs(specs, section.type or "")
        return cls, tables

    def _tabulated(self) -> Callable[..., Any]:
        """The spline through the energies in a file."""
        path: KeyPath = ("potential", "file")
        self._refuse_unknown(("potential",), self.section.__pydantic_extra__ or {}, {}, TABULATED)
        self._refuse_unknown_in_pairs({}, TABULATED)
        name = self.section.file
        if name is None:
            raise SettingError(path, f"is missing; {TABULATED} has its energies in a file", at_key=True)
        try:
            table = read_table(self.diagnostics.document.folder / name, name)
            potential = Tabulated.through(table.column(DISTANCE), table.column(ENERGY))
        except ValueError as error:
            raise SettingError(path, str(error).removeprefix(f"{TABULATED}: ")) from error
        return lambda: potential

    def expression(self) -> tuple[Callable[..., Any], dict[str, Table]]:
        """A potential as an expression of r, and the tables of its parameters."""
        section, constants = self.section, self.constants
        self._refuse_unknown(("potential",), section.__pydantic_extra__ or {}, {}, "energy")
        tables = {}
        for name, value in section.parameters.items():
            table = self.table(("potential", "parameters", name), value, name, None)
            if table is not None:
                tables[name] = table
        self._refuse_unknown_in_pairs(section.parameters, "energy")
        names = dict.fromkeys([DISTANCE, *section.parameters, *constants.names])
        for name in {DISTANCE, *section.parameters} & {*constants.names}:
            message = f"{name} is a constant and also a name in the energy; rename the constant"
            self.diagnostics.add(constants.place(name), message, at_key=True)
        expression = constants.compiled(("potential", "energy"), section.energy or 0.0, names)
        if expression is None:
            return FunctionOfDistance, {}
        if DISTANCE not in expression.names:
            raise SettingError(("potential", "energy"), f"must depend on {DISTANCE}, the distance of a pair")
        for name in sorted(expression.names & constants.values.keys()):
            tables[name] = np.full((len(self.species),) * 2, constants.values[name])
        function = EnergyExpression(expression)
        return lambda **parameters: FunctionOfDistance(function, parameters), tables

    def table(self, path: KeyPath, value: Any, name: str, spec: Parameter | None) -> Table | None:
        """The numbers of all pairs; `value` is one for all, or a mapping by species."""
        table = np.full((len(self.species),) * 2, np.nan)
        if isinstance(value, dict):
            self._from_species(path, name, value, table, spec)
        elif value is not None:
            single = self._number(path, value)
            if single is None:
                return None
            table[:] = single
        for pair, (a, b) in self.given.items():
            own = self.section.pairs[pair]
            given = own.cutoff if name == "cutoff" else (own.__pydantic_extra__ or {}).get(name)
            if given is not None:
                single = self._number(("potential", "pairs", pair, name), given)
                table[a, b] = table[b, a] = np.nan if single is None else single
        if self.diagnostics.at_or_below(path):
            return None
        missing = next(((a, b) for a, b in np.argwhere(np.isnan(table)) if a <= b), None)
        if missing is not None:
            self.diagnostics.add(path, self._about_missing(name, missing, table, spec))
            return None
        if spec is not None and (wrong := [x for x in table.ravel().tolist() if not spec.admits(x)]):
            self.diagnostics.add(path, f"must be {spec.range}, got {wrong[0]:g}")
            return None
        return table

    def onsets(self) -> Table | None:
        """Where switching begins; `None` where the truncation is another."""
        section, path = self.section, ("potential", "switch_from")
        if section.truncation != "switched":
            if section.switch_from is not None:
                message = f"is for truncation: switched, and this is {section.truncation}"
                self.diagnostics.add(path, message, at_key=True)
            return None
        if section.switch_from is None:
            self.diagnostics.add(path, "is missing; with truncation: switched it is where switching begins")
            return None
        single = self._number(path, section.switch_from)
        if single is not None and single <= 0:
            raise SettingError(path, f"must be > 0, got {single:g}")
        return None if single is None else np.full((len(self.species),) * 2, single)

    def _about_missing(self, name: str, pair: tuple[int, int], table: Table, spec: Parameter | None) -> str:
        """Why a pair has no number, and where to give it."""
        a, b = pair
        alone = [name for name, own in zip(self.species, np.diag(table), strict=True) if np.isnan(own)]
        if spec is not None and 0 < len(alone) < len(self.species):
            return f"has no {name} for {' and '.join(alone)}; give it here, or under potential.pairs"
        where = f"the pair {self.species[a]}-{self.species[b]}"
        if spec is None or self.section.mixing == EXPLICIT or np.isnan(table[[a, b], [a, b]]).any():
            return f"has no {name} for {where}; give it under potential.pairs"
        what = "a pure number" if spec.unit == "1" else f"in {spec.unit}"
        return f"no rule mixes {name}, {what}; give it for {where} under potential.pairs"

    def _from_species(self, path: KeyPath, name: str, value: dict[str, Any], table: Table, spec) -> None:
        """Fill in the numbers of like pairs, and of unlike ones those that a rule mixes."""
        own = np.full(len(self.species), np.nan)
        for species, given in value.items():
            place = (*path, species)
            if species not in self.species:
                hint = did_you_mean(species, self.species)
                self.diagnostics.add(place, f"there is no species {shown(species)}{hint}", at_key=True)
                continue
            single = self._number(place, given)
            if single is not None and spec is not None and not spec.admits(single):
                self.diagnostics.add(place, f"must be {spec.range}, got {single:g}")
            elif single is not None:
                own[self.species.index(species)] = single
        if spec is not None and self.section.mixing != EXPLICIT:
            cls, rule = POTENTIALS[self.section.type or ""], self.section.mixing
            with contextlib.suppress(ValueError):  # no rule mixes this: `table` asks for the pairs
                table[:] = mixed_parameters(cls, rule, {name: own.tolist()})[name]
        np.fill_diagonal(table, own)

    def _number(self, path: KeyPath, value: Any) -> float | None:
        result = self.constants.number(path, checked_at(path, lambda: number(value)))
        return None if result is None else result[1]

    def _pair(self, name: str) -> tuple[int, int]:
        """The species of a pair that has not been given before, not the other way round either."""
        path = ("potential", "pairs", name)
        for a, b in itertools.product(range(len(self.species)), repeat=2):
            if f"{self.species[a]}-{self.species[b]}" != name:
                continue
            for earlier, same in self.given.items():
                if sorted(same) == sorted((a, b)):
                    message = f"the pair {earlier} is given already; give it once"
                    raise SettingError(path, message, at_key=True)
            return a, b
        known = [f"{a}-{b}" for a, b in itertools.combinations_with_replacement(self.species, 2)]
        raise SettingError(path, f"must be a pair of species such as {known[-1]}", at_key=True)

    def _for_all_pairs(self, name: str) -> bool:
        """Whether every pair has its own number under `pairs`."""
        count = len(self.species)
        own = {
            tuple(sorted(self.given[pair]))
            for pair, settings in self.section.pairs.items()
            if pair in self.given and name in (settings.__pydantic_extra__ or {})
        }
        return len(own) == count * (count + 1) // 2

    def _refuse_unknown_in_pairs(self, known: Collection[str], owner: str) -> None:
        for pair, settings in self.section.pairs.items():
            extra = settings.__pydantic_extra__ or {}
            self._refuse_unknown(("potential", "pairs", pair), extra, known, owner)

    def _refuse_unknown(
        self, path: KeyPath, given: Collection[str], known: Collection[str], owner: str
    ) -> None:
        for name in given:
            if name not in known:
                hint = did_you_mean(name, [*known, *Potential.model_fields])
                what = "unknown key" if owner == "energy" else f"{owner} has no such parameter"
                self.diagnostics.add((*path, name), f"{what}{hint}", at_key=True)
