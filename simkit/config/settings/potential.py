"""The section `potential`: the energy of a pair of particles, by name or as an expression of its distance."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from simkit.config.settings.values import ONE_OF, NumberOrExpression, Section, Text, TypeName


class PairSettings(Section):
    """The parameters of one pair of species, where they differ from those of the section."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, NumberOrExpression]

    cutoff: NumberOrExpression | None = Field(
        None, description="The cutoff of this pair; by default that of the section.", examples=[2.2]
    )


class Potential(Section):
    """A pair potential: a type with its parameters, or an energy as an expression of the distance r."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Any]

    type: TypeName | None = Field(
        None,
        description="Name of the potential; `simkit list` shows all. Tabulated is that of a file.",
        examples=["LennardJones"],
    )
    energy: NumberOrExpression | None = Field(
        None,
        description="Instead of a type: the energy of a pair, an expression of the distance r, of the "
        "parameters below it and of constants. Forces follow by differentiation.",
        examples=["4*epsilon*((sigma/r)**12 - (sigma/r)**6)"],
    )
    file: Text | None = Field(
        None,
        description="Of Tabulated: a CSV file with the columns r and u, distances and energies, relative to "
        "the folder of the experiment. A cubic spline goes through them.",
        examples=["energies.csv"],
    )
    parameters: dict[str, NumberOrExpression] = Field(
        default_factory=dict,
        description="With energy: the numbers that it names, by name.",
        examples=[{"epsilon": 1.0, "sigma": 1.0}],
    )
    cutoff: NumberOrExpression | None = Field(
        None,
        description="Pairs farther apart do not interact; required unless the potential ends by itself.",
        examples=[2.5],
    )
    truncation: Annotated[Literal["plain", "shifted", "shifted_force", "switched"], ONE_OF] = Field(
        "shifted",
        description="At the cutoff: `plain` cuts energy and force off, `shifted` makes the energy "
        "continuous, `shifted_force` also the force, `switched` brings both smoothly to zero between "
        "`switch_from` and the cutoff.",
    )
    switch_from: NumberOrExpression | None = Field(
        None,
        description="With truncation `switched`: the distance at which switching begins.",
        examples=[2.0],
    )
    tail: bool = Field(
        False,
        description="Whether the energy and pressure of pairs beyond the cutoff are added, for a uniform "
        "fluid (g = 1 there).",
        examples=[True],
    )
    mixing: Annotated[Literal["lorentz_berthelot", "geometric", "explicit"], ONE_OF] = Field(
        "lorentz_berthelot",
        description="Of several species: how parameters of unlike pairs follow from those of like pairs: "
        "lengths are arithmetic means, or geometric ones with `geometric`, and energies are geometric means. "
        "Others, such as exponents and products of charges, are given under `pairs`; with `explicit` all.",
    )
    pairs: dict[str, PairSettings] = Field(
        default_factory=dict,
        description="Parameters by pair of species, such as A-B, where they differ from those above.",
        examples=[{"A-B": {"epsilon": 1.5, "sigma": 0.8}}],
    )
