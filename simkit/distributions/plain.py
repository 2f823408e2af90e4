"""Distributions as plain data, such as `{normal: [mean, sd]}` or `{normal: {mean: …, sd: …}}`."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from simkit.config.settings.values import NUMBER_TEXT
from simkit.distributions.distribution import BY_KEY, KNOWN, AbstractDistribution, AbstractOfNormal
from simkit.expressions import ExpressionError, compile_expression
from simkit.suggestions import did_you_mean, shown

LISTS = ("values", "probabilities")


def distribution_of(
    given: Mapping[str, Any], constants: Mapping[str, float] | None = None
) -> AbstractDistribution:
    """The distribution given by plain data: `{normal: [0.05, 0.01]}` or `{normal: {mean: 0.05, sd: 0.01}}`.

    Numbers may be expressions of `constants`, such as `uniform: [-pi, pi]`.
    Raises `ValueError` with what is wrong and what is expected.
    """
    if len(given) != 1:
        raise ValueError(f"a distribution has one key, one of {', '.join(BY_KEY)}; got {len(given)}")
    ((key, numbers),) = given.items()
    if key not in BY_KEY:
        raise ValueError(f"unknown distribution {shown(key)}{did_you_mean(str(key), BY_KEY)}")
    named = by_name(key, numbers)
    try:
        values = {name: _numbers(name, value, constants or {}) for name, value in named.items()}
    except ValueError as error:
        raise ValueError(f"{key}: {error}; {_usage(key)}") from None
    try:
        result = BY_KEY[key].of_numbers(**values)
        if isinstance(result, AbstractOfNormal) and not result.sd:
            raise ValueError(f"{'cv' if 'cv' in values else 'sd'} must be > 0, got 0; {KNOWN}")
        return result
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error


def by_name(key: str, numbers: Any) -> dict[str, Any]:
    """The numbers of a distribution, a list or a mapping, as a mapping in the order of its fields.

    Raises `ValueError` with what is wrong and what is expected.
    """
    kind, usage = BY_KEY[key], _usage(key)
    fields = dataclasses.fields(kind)
    names, others = [field.name for field in fields], kind.other_keys
    if isinstance(numbers, list) and key == "discrete":
        numbers = {"values": numbers}
    if isinstance(numbers, list):
        if len(numbers) > len(names):
            raise ValueError(f"{key} takes {', '.join(names)}, got {len(numbers)} numbers; {usage}")
        numbers = dict(zip(names, numbers, strict=False))
    if not isinstance(numbers, dict):
        raise ValueError(f"{key}: must be its numbers, got {shown(numbers)}; {usage}")
    for name in numbers:
        if name not in names and name not in others:
            raise ValueError(f"{key} has no {shown(name)}{did_you_mean(str(name), [*names, *others])}")
    if reason := kind.refusal(numbers):
        raise ValueError(f"{key}: {reason}")
    given = {others.get(name, name): name for name in numbers}
    for field in fields:
        if field.name not in given and field.default is dataclasses.MISSING:
            raise ValueError(f"{key}: {field.name} is missing; {usage}")
    return {given[name]: numbers[given[name]] for name in names if name in given}


def _usage(key: str) -> str:
    kind = BY_KEY[key]
    either = [keys_of(kind), *([kind.other_keys] if kind.other_keys else [])]
    written = [f"{{{', '.join(f'{name}: …' for name in names)}}}" for names in either]
    return f"write {key}: {' or '.join(written)}"


def keys_of(kind: type[AbstractDistribution]) -> dict[str, bool]:
    """The keys of a distribution, in order, and whether each is a list."""
    return {field.name: field.name in LISTS for field in dataclasses.fields(kind)}


def plain(distribution: AbstractDistribution) -> dict[str, Any]:
    """The distribution as plain data that `distribution_of` reads."""
    values = {name: x for name, x in vars(distribution).items() if x is not None}
    return {distribution.key: {name: list(x) if isinstance(x, tuple) else x for name, x in values.items()}}


def distribution_text(distribution: AbstractDistribution) -> str:
    """`normal(mean 0.05, sd 0.01)`."""
    ((key, numbers),) = plain(distribution).items()
    texts = (
        f"{name} {', '.join(f'{v:g}' for v in x) if isinstance(x, list) else f'{x:g}'}"
        for name, x in numbers.items()
    )
    return f"{key}({', '.join(texts)})"


def _numbers(name: str, value: Any, constants: Mapping[str, float]) -> Any:
    if name not in LISTS:
        return _number(f"{name} must be a number", value, constants)
    if not isinstance(value, list | tuple):
        raise ValueError(f"{name} must be a list of numbers, got {shown(value)}")
    return tuple(_number(f"{name} must be numbers", x, constants) for x in value)


def _number(wanted: str, value: Any, constants: Mapping[str, float]) -> float:
    if isinstance(value, str) and not NUMBER_TEXT.fullmatch(value.strip()):
        try:
            return float(compile_expression(value, constants.keys())(constants))
        except ExpressionError as error:
            raise ValueError(
                f"{wanted}, or an expression of constants that are not uncertain: {error}"
            ) from None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{wanted}, got {shown(value)}")
    return float(value)
