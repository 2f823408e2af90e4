"""The section `model`: by name, or equations written in the file."""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from simkit.config.settings.tags import INLINE_HAMILTONIAN, INLINE_NETWORK, INLINE_ODE, INLINE_SDE, NAMED
from simkit.config.settings.values import (
    ONE_OF,
    NumberOrExpression,
    NumberOrList,
    Section,
    Shorthand,
    Text,
    TypeName,
)


class NamedModel(Section):
    """A registered model by its class name, with its parameters."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, NumberOrList]

    type: TypeName = Field(description="Name of the model; `simkit list` shows all.", examples=["GBM"])


class SDEVariable(Section):
    """One variable of a stochastic equation."""

    drift: NumberOrExpression = Field(0.0, description="Rate of change; an expression.", examples=["mu * S"])
    noise: dict[str, NumberOrExpression] = Field(
        default_factory=dict,
        description="What multiplies each noise, by the name of the noise. The same name in several "
        "equations means the same noise.",
        examples=[{"W1": "sigma * S"}],
    )


class InlineSDE(Section):
    """A stochastic differential equation written in the file."""

    sde: dict[str, Annotated[SDEVariable, Shorthand("drift")]] = Field(
        description="One entry for each variable: {drift: …, noise: {name: …}}, or the drift alone.",
        examples=[{"S": {"drift": "mu * S", "noise": {"W1": "sigma * S"}}}],
    )
    parameters: dict[str, NumberOrExpression] = Field(
        default_factory=dict,
        description="Named numbers in the equations; expressions of constants.",
        examples=[{"mu": 0.05, "sigma": 0.2}],
    )
    correlation: dict[str, NumberOrExpression] = Field(
        default_factory=dict,
        description="Correlation of pairs of noises, each from -1 to 1; 0 for pairs that are not named.",
        examples=[{"W1-W2": -0.7}],
    )
    calculus: Annotated[Literal["ito", "stratonovich"], ONE_OF] = Field(
        "ito", description="The calculus of the stochastic integral."
    )


class InlineODE(Section):
    """An ordinary differential equation written in the file."""

    ode: dict[str, NumberOrExpression] = Field(
        description="The rate of change of each variable; an expression.",
        examples=[{"x": "sigma * (y - x)"}],
    )
    parameters: dict[str, NumberOrExpression] = Field(
        default_factory=dict,
        description="Named numbers in the equations; expressions of constants.",
        examples=[{"sigma": 10.0}],
    )


class Energies(Section):
    """The two parts of a separable energy; the equations follow by differentiation."""

    kinetic: NumberOrExpression = Field(
        description="Kinetic energy; an expression of the momenta.", examples=["p**2 / (2*m)"]
    )
    potential: NumberOrExpression = Field(
        description="Potential energy; an expression of the positions.", examples=["k*q**2 / 2"]
    )


class InlineHamiltonian(Section):
    """A Hamiltonian system written in the file by its energies, for symplectic solvers such as Leapfrog."""

    hamiltonian: Energies = Field(
        description="The kinetic and the potential energy, from which the equations follow.",
        examples=[{"kinetic": "p**2 / (2*m)", "potential": "k*q**2 / 2"}],
    )
    coordinates: dict[str, Text] = Field(
        description="Each position with its momentum.", examples=[{"q": "p"}]
    )
    parameters: dict[str, NumberOrExpression] = Field(
        default_factory=dict,
        description="Named numbers in the energies; expressions of constants.",
        examples=[{"m": 1.0, "k": 4.0}],
    )


class ReactionSettings(Section):
    """One reaction, and how often it happens: rate or propensity."""

    equation: Text = Field(description="Reactants and products; 0 is nothing.", examples=["S + I -> 2 I"])
    rate: NumberOrExpression | None = Field(
        None,
        description="Mass action: the propensity is this expression of parameters, constants and t, times "
        "the ways to choose the reactants: S*I for S + I, X*(X-1)/2 for 2 X. In the rate equation X**2/2.",
        examples=["beta/N"],
    )
    propensity: NumberOrExpression | None = Field(
        None,
        description="Instead of rate: events per unit of time, an expression that may use the species too. "
        "It must be zero if reactants are missing.",
        examples=["alpha/(1 + X**2)"],
    )


class InlineNetwork(Section):
    """A reaction network written in the file. The solver decides whether its jump process, its chemical
    Langevin equation or its rate equation is simulated."""

    reactions: dict[str, ReactionSettings] = Field(
        description="The reactions by name; the species are those in their equations.",
        examples=[{"decay": {"equation": "X -> 0", "rate": "mu"}}],
    )
    parameters: dict[str, NumberOrExpression] = Field(
        default_factory=dict,
        description="Named numbers in the rates; expressions of constants.",
        examples=[{"mu": 0.1}],
    )


def _model_tag(value: Any) -> str:
    tags = {
        "sde": INLINE_SDE,
        "ode": INLINE_ODE,
        "hamiltonian": INLINE_HAMILTONIAN,
        "reactions": INLINE_NETWORK,
    }
    if isinstance(value, InlineSDE | InlineODE | InlineHamiltonian | InlineNetwork):
        return next(tag for key, tag in tags.items() if key in type(value).model_fields)
    if isinstance(value, dict) and "type" not in value:
        return next((tag for key, tag in tags.items() if key in value), NAMED)
    return NAMED


Model = Annotated[
    Annotated[NamedModel, Tag(NAMED)]
    | Annotated[InlineSDE, Tag(INLINE_SDE)]
    | Annotated[InlineODE, Tag(INLINE_ODE)]
    | Annotated[InlineHamiltonian, Tag(INLINE_HAMILTONIAN)]
    | Annotated[InlineNetwork, Tag(INLINE_NETWORK)],
    Discriminator(_model_tag),
]
