"""Numbers by pair of species: one for all pairs, those of the species mixed, or given for the pair."""

import contextlib
import itertools
from collections.abc import Collection
from typing import Any

import numpy as np
from simkit_physics.particles.potentials import POTENTIALS
from simkit_physics.particles.potentials.mixing import mixed_parameters
from simkit_solvers.problems.problem import Parameter

from simkit.config.diagnostics import SettingError
from simkit.config.documents import KeyPath
from simkit.config.settings.potential import Potential
from simkit.config.settings.values import number
from simkit.experiments.constants import Constants
from simkit.md.method_plan import checked_at
from simkit.suggestions import did_you_mean, shown

EXPLICIT = "explicit"  # mixing: none
Table = np.ndarray  # (species, species), symmetric


class PairNumbers:
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

    def table(self, path: KeyPath, value: Any, name: str, spec: Parameter | None) -> Table | None:
        """The numbers of all pairs; `value` is one for all, or a mapping by species."""
        table = np.full((len(self.species),) * 2, np.nan)
        if isinstance(value, dict):
            self._from_species(path, name, value, table, spec)
        elif value is not None:
            single = self.number_at(path, value)
            if single is None:
                return None
            table[:] = single
        for pair, (a, b) in self.given.items():
            own = self.section.pairs[pair]
            given = own.cutoff if name == "cutoff" else (own.__pydantic_extra__ or {}).get(name)
            if given is not None:
                single = self.number_at(("potential", "pairs", pair, name), given)
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
            single = self.number_at(place, given)
            if single is not None and spec is not None and not spec.admits(single):
                self.diagnostics.add(place, f"must be {spec.range}, got {single:g}")
            elif single is not None:
                own[self.species.index(species)] = single
        if spec is not None and self.section.mixing != EXPLICIT:
            cls, rule = POTENTIALS[self.section.type or ""], self.section.mixing
            with contextlib.suppress(ValueError):  # no rule mixes this: `table` asks for the pairs
                table[:] = mixed_parameters(cls, rule, {name: own.tolist()})[name]
        np.fill_diagonal(table, own)

    def number_at(self, path: KeyPath, value: Any) -> float | None:
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
        members = name.split("-")
        unknown = [one for one in members if one not in self.species]
        if len(members) == 2 and unknown:
            message = f"there is no species {shown(unknown[0])}{did_you_mean(unknown[0], self.species)}"
            raise SettingError(path, message, at_key=True)
        raise SettingError(path, f"must be a pair of species such as {known[-1]}", at_key=True)

    def for_all_pairs(self, name: str) -> bool:
        """Whether every pair has its own number under `pairs`."""
        count = len(self.species)
        own = {
            tuple(sorted(self.given[pair]))
            for pair, settings in self.section.pairs.items()
            if pair in self.given and name in (settings.__pydantic_extra__ or {})
        }
        return len(own) == count * (count + 1) // 2

    def refuse_unknown_in_pairs(self, known: Collection[str], owner: str) -> None:
        for pair, settings in self.section.pairs.items():
            extra = settings.__pydantic_extra__ or {}
            self.refuse_unknown(("potential", "pairs", pair), extra, known, owner)

    def refuse_unknown(
        self, path: KeyPath, given: Collection[str], known: Collection[str], owner: str
    ) -> None:
        for name in given:
            if name not in known:
                hint = did_you_mean(name, [*known, *Potential.model_fields])
                what = "unknown key" if owner == "energy" else f"{owner} has no such parameter"
                self.diagnostics.add((*path, name), f"{what}{hint}", at_key=True)
