"""Reaction networks written in the file."""

import dataclasses
from typing import Any

from simkit_solvers.problems.problem import Discontinuity
from simkit_solvers.problems.reaction import Reaction
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork

from simkit.experiments.inline.model_text import AbstractText, discontinuities_of, environment
from simkit.expressions import Expression


@dataclasses.dataclass(frozen=True)
class NetworkText(AbstractText):
    """A network in the file: each reaction's name and equation as written, as a record, and its rate."""

    reactions: tuple[tuple[str, str, Reaction, Expression], ...]
    parameters: tuple[str, ...]

    @property
    def name(self) -> str:
        """What its class is called."""
        return "InlineNetwork"

    @property
    def base(self) -> type[AbstractReactionNetwork]:
        """The kind of problem."""
        return AbstractReactionNetwork

    @property
    def variables(self) -> tuple[str, ...]:
        """Every species in the order in which they first appear."""
        return tuple(dict.fromkeys(name for _, _, each, _ in self.reactions for name in each.species))

    @property
    def discontinuities(self) -> tuple[Discontinuity, ...]:
        """Where the rates jump, or their slopes do."""
        return discontinuities_of(*(rate for *_, rate in self.reactions))

    @property
    def description(self) -> str:
        """The reactions with their rates."""
        lines = [f"{name}: {equation}, {rate.text}" for name, equation, _, rate in self.reactions]
        return "A reaction network written in the file.\n\n" + "\n".join(lines)

    def members(self, state: type) -> dict[str, Any]:
        """The reactions and their rates."""

        def rates(model, t, y):
            values = environment(model, self, t, y)
            return tuple(rate(values) for *_, rate in self.reactions)

        return {"reactions": {name: each for name, _, each, _ in self.reactions}, "rates": rates}
