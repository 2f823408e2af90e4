"""The radial distribution function by pairs of species, with the error of each bin."""

import dataclasses
from collections.abc import Sequence
from typing import Annotated, ClassVar, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int
from pydantic import Field
from simkit_physics import (
    AbstractBox,
    ClusterGrid,
    block_grid,
    box_volume,
    check_radial_range,
    pair_counts,
    pair_normalisation,
    species_pairs,
)
from simkit_solvers import Particles, ParticleTotals

from simkit.config.settings.values import NumberOrExpression, Section, whole
from simkit.md.functions.function import (
    SELDOM,
    SELDOM_TEXT,
    AbstractFunction,
    Every,
    Labelled,
    Place,
    estimated,
)
from simkit.md.observables.measurement import AbstractMeasurement
from simkit.md.simulation import ParticleSystem
from simkit.results.variables import variable
from simkit.time_series import Blocks, Estimate, block_sums, no_blocks, of_blocks, with_block_sample


class RadialSettings(Section):
    """The radial distribution function g(r), by pair of species."""

    bins: Annotated[int, *whole(1, 100_000)] = Field(
        200, description="The number of bins from 0 to `max`.", examples=[200]
    )
    max: NumberOrExpression = Field(
        description="The largest distance; at most half the least width of the box.", examples=[3.0]
    )
    every: Every = Field(None, description=SELDOM_TEXT, examples=[100])


class RadialResult(NamedTuple):
    """g at the middle r of each bin and its running integral at the upper edges, arrays `(pairs, bins)`.

    `pairs` are pairs of species a <= b, and `coordination` is the mean number of b around an a. `counts` are
    the exact numbers of pairs, over all samples.
    """

    pairs: list[tuple[int, int]]
    r: Float[np.ndarray, " bins"]
    edges: Float[np.ndarray, " edges"]
    g: Estimate
    coordination: Estimate
    counts: Int[np.ndarray, "pairs bins"]


class RadialDistribution(AbstractMeasurement):
    r"""g(r) in equal bins from 0 to `largest`, at most half the least width of a periodic box.

    Its range is its own: no list of neighbours is used. Of an ideal gas it is 1 for unlike pairs and
    $1 - 1/N$ for like ones in every bin. Needs 64-bit types (`jax.enable_x64`).
    """

    box: AbstractBox
    grid: ClusterGrid = eqx.field(static=True)
    of_species: tuple[int, ...] = eqx.field(static=True)
    bins: int = eqx.field(static=True)
    largest: float = eqx.field(static=True)
    every: int = eqx.field(static=True)

    @classmethod
    def of(
        cls, box: AbstractBox, particles: Particles, *, largest: float, bins: int = 200, every: int = 100
    ) -> "RadialDistribution":
        """For the species of these particles; `ValueError` for a free box or a range that is too large."""
        check_radial_range(box, largest)
        return cls(
            box=box,
            grid=block_grid(box, particles),
            of_species=species_counts(particles),
            bins=bins,
            largest=float(largest),
            every=every,
        )

    def init(self, particles: Particles) -> Blocks:
        shape = len(species_pairs(len(self.of_species))), self.bins
        return no_blocks(jnp.zeros(shape, jnp.int64))

    def update(
        self, accumulator: Blocks, particles: Particles, totals: ParticleTotals, step: Int[Array, ""]
    ) -> Blocks:
        counts = pair_counts(self.grid, self.box, particles, self.largest, self.bins, len(self.of_species))
        return with_block_sample(accumulator, counts.astype(jnp.int64))

    def result(self, accumulators: Sequence[Blocks]) -> RadialResult:
        sums = block_sums(accumulators)
        edges = np.linspace(0, self.largest, self.bins + 1)
        factor = pair_normalisation(box_volume(self.box), self.of_species, self.largest, self.bins)
        pairs = species_pairs(len(self.of_species))
        with np.errstate(divide="ignore", invalid="ignore"):
            around = np.array([(2 if a == b else 1) / np.float64(self.of_species[a]) for a, b in pairs])[
                :, None
            ]

        def mean(of, factor) -> Estimate:
            series = of(sums.complete) / sums.length * factor
            return of_blocks(of(sums.everything) / sums.samples * factor, series, sums.length, sums.samples)

        return RadialResult(
            pairs,
            0.5 * (edges[1:] + edges[:-1]),
            edges,
            mean(lambda counts: counts, factor),
            mean(lambda counts: np.cumsum(counts, axis=-1), around),
            sums.everything,
        )


def species_counts(particles: Particles) -> tuple[int, ...]:
    """How many particles there are of each species."""
    species = np.asarray(particles.species)[np.asarray(particles.real)]
    return tuple(int(n) for n in np.bincount(species))


@dataclasses.dataclass(frozen=True)
class RadialFunction(AbstractFunction):
    """g(r) by pairs of species, in `bins` bins up to `longest`."""

    key = "rdf"
    settings = RadialSettings
    example: ClassVar = {"bins": 200, "max": 3.0}

    bins: int
    longest: float

    @classmethod
    def planned(cls, place: Place, settings: RadialSettings, system: ParticleSystem) -> "RadialFunction":
        longest, widths = place.positive("max", settings.max), place.in_a_box(system)
        if longest > min(widths) / 2:
            half = f"{min(widths) / 2:.6g}, half the least width of the box"
            place.fail(f"must be at most {half}, got {longest:g}", "max")
        return cls(place.name, place.every(settings, system, SELDOM), settings.bins, longest)

    def measurement(self, system: ParticleSystem, particles: Particles) -> RadialDistribution:
        return RadialDistribution.of(
            system.box, particles, largest=self.longest, bins=self.bins, every=self.every
        )

    def labelled(self, system: ParticleSystem, result: RadialResult) -> Labelled:
        names, name = system.names, self.name
        pairs = np.array([f"{names[a]}-{names[b]}" for a, b in result.pairs], object)
        pair, middle, edge = f"{name}_pair", f"{name}_r", f"{name}_edge"
        length = system.units.label("length")
        coordinates = {
            pair: variable((pair,), pairs, "1", "pair of species"),
            middle: variable((middle,), result.r, length, "distance in the middle of a bin"),
            edge: variable((edge,), result.edges[1:], length, "distance at the outer end of a bin"),
        }
        variables = estimated(name, (pair, middle), result.g, "1", "radial distribution function")
        text = "mean number of the second species within that distance of one of the first"
        variables |= estimated(f"{name}_coordination", (pair, edge), result.coordination, "1", text)
        return Labelled(variables, coordinates)
