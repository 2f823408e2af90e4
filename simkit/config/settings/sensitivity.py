"""The section `sensitivity`."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from simkit.config.settings.values import NAMES_SCHEMA, ONE_OF, Names, Section, checked, wrong
from simkit.suggestions import shown

SensitivityMethod = Literal[
    "auto",
    "pathwise",
    "reverse",
    "smoothing",
    "score",
    "weak_derivative",
    "coupled_differences",
    "finite_differences",
]
SENSITIVITY_METHODS: tuple[str, ...] = get_args(SensitivityMethod)


def _second(value: Any) -> list[str | list[str]]:
    if not isinstance(value, list) or not value:
        raise wrong(f"must be a list of names and pairs such as [S, [S, sigma]], got {shown(value)}")
    for number, each in enumerate(value):
        pair = each if isinstance(each, list) else [each, each]
        if len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise wrong(f"[{number}] must be a name or a pair such as [S, sigma], got {shown(each)}")
    return value


class Sensitivity(Section):
    """What `simkit sensitivity` differentiates."""

    wrt: Names = Field(
        description="The parameters of the derivatives: constants, parameters of the model, state "
        "variables for their initial values, t0 and t1. Full names, such as model.sigma, "
        "initial.S and time.t1, are unambiguous.",
        examples=[["sigma", "r", "S"]],
    )
    of: Names | None = Field(
        None,
        description="The observables and state variables whose means are differentiated. The default is "
        "all observables, or all state variables if there are none.",
        examples=[["call"]],
    )
    second: (
        Annotated[
            list[str | list[str]],
            *checked(_second, {"type": "array", "items": {"anyOf": [{"type": "string"}, NAMES_SCHEMA]}}),
        ]
        | None
    ) = Field(
        None,
        description="Second derivatives: names of wrt, and pairs of them.",
        examples=[["S", ["S", "sigma"]]],
    )
    method: Annotated[SensitivityMethod, ONE_OF] = Field(
        "auto",
        description="The estimator of the first derivatives. By default it depends on the observable: "
        "pathwise if its value is continuous, smoothing or score if it jumps, "
        "finite_differences otherwise; for networks coupled_differences, score if the value "
        "jumps, weak_derivative for a rate of 0.",
    )
    check: bool = Field(
        False,
        description="Whether to show finite differences with common random numbers, and the difference "
        "from them in standard errors.",
    )


class ParticleSensitivity(Section):
    """What `simkit sensitivity` differentiates in molecular dynamics, by fluctuations."""

    wrt: Names = Field(
        description="The parameters of the derivatives: constants, numbers of the potential and the "
        "temperature of the solver. Full names, such as potential.epsilon, potential.sigma.A and "
        "solver.temperature, are unambiguous.",
        examples=[["epsilon", "temperature"]],
    )
    of: Names | None = Field(
        None,
        description="The observables whose means are differentiated, expressions alone. The default is all "
        "of them.",
        examples=[["P"]],
    )
