"""The section `observe` of an experiment of molecular dynamics."""

from typing import Annotated, get_args

from pydantic import Field

from simkit.config.settings.values import NumberOrExpression, Section, whole

_SELDOM = "The steps from one measurement to the next; the default is that of `save`, at least about 100."
_OFTEN = "The steps from one measurement to the next; the default is that of `save`."
Every = Annotated[int, *whole(1)] | None


class RadialSettings(Section):
    """The radial distribution function g(r), by pair of species."""

    bins: Annotated[int, *whole(1, 100_000)] = Field(
        200, description="The number of bins from 0 to `max`.", examples=[200]
    )
    max: NumberOrExpression = Field(
        description="The largest distance; at most half the least width of the box.", examples=[3.0]
    )
    every: Every = Field(None, description=_SELDOM, examples=[100])


class DisplacementSettings(Section):
    """The mean-square displacement by species, and the diffusion coefficient."""

    longest: NumberOrExpression | None = Field(
        None, description="The longest time that is needed; by default a tenth of the run.", examples=[10.0]
    )
    every: Every = Field(None, description=_OFTEN, examples=[10])


class VelocitySettings(Section):
    """The velocity autocorrelation by species, and its spectrum."""

    longest: NumberOrExpression | None = Field(
        None, description="The longest time; by default 200 measurements.", examples=[2.0]
    )
    every: Every = Field(None, description=_OFTEN, examples=[2])


class StructureSettings(Section):
    """The static structure factor S(k)."""

    max: NumberOrExpression = Field(description="The largest wave number.", examples=[15.0])
    every: Every = Field(None, description=_SELDOM, examples=[100])


class FluctuationSettings(Section):
    """Heat capacity per particle, and in a box the compressibility, from fluctuations.

    The compressibility needs truncation shifted_force or switched, no tail, and a box two cutoffs wide.
    """

    every: Every = Field(None, description=_OFTEN, examples=[10])


class ParticleObservable(Section):
    """What is measured; exactly one key."""

    value: NumberOrExpression | None = Field(
        None,
        description="An expression of temperature, pressure, potential_energy, kinetic_energy, total_energy, "
        "conserved_energy, volume, density, atoms, pressure_xx, …, pressure_yz, and constants.",
        examples=["potential_energy/atoms"],
    )
    rdf: RadialSettings | None = Field(
        None, description="The radial distribution function.", examples=[{"bins": 200, "max": 3.0}]
    )
    msd: DisplacementSettings | None = Field(
        None,
        description="The mean-square displacement and the diffusion coefficient; {} for the defaults.",
        examples=[{"longest": 10.0}],
    )
    vacf: VelocitySettings | None = Field(
        None,
        description="The velocity autocorrelation and its spectrum; {} for the defaults.",
        examples=[{"longest": 2.0, "every": 2}],
    )
    structure_factor: StructureSettings | None = Field(
        None, description="The static structure factor.", examples=[{"max": 15.0}]
    )
    fluctuations: FluctuationSettings | None = Field(
        None,
        description="Heat capacity, and compressibility where forces are continuous; {} for the defaults.",
        examples=[{"every": 10}],
    )


def section_of(function: str) -> type[Section]:
    """The section of a function such as `rdf`."""
    return get_args(ParticleObservable.model_fields[function].annotation)[0]  # or None
