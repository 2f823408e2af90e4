"""Truncations: a potential ends at a cutoff, with a step or smoothly."""

import abc
import math
from typing import Any, ClassVar, NamedTuple, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike
from jaxtyping import Array, Float, Int
from simkit_solvers import Scalar, parameter

from simkit_physics.particles.potentials.pair_tables import (
    PairParameter,
    check_tables,
    of_species_pair,
    pair_parameters,
    species_in,
)
from simkit_physics.particles.potentials.potential import AbstractPotential


class TruncatedPair(Protocol):
    """Energy and slope of a pair, both exactly 0 from its cutoff on, as are their derivatives."""

    def energy(self, r2: Any) -> Any: ...

    def slope(self, r2: Any) -> Any: ...


class TailCorrection(NamedTuple):
    """What energy and pressure (energy per volume) of a system lack, in the mean, because of a cutoff.

    Both are scalars.

    >>> from simkit_physics import LennardJones, Plain
    >>> tail = Plain(LennardJones(epsilon=1.0, sigma=1.0), 2.5).tail([100], volume=100.0)
    >>> round(float(tail.energy), 1), round(float(tail.pressure), 2)
    (-53.5, -1.07)
    """

    energy: jax.Array
    pressure: jax.Array


class AbstractTruncation(eqx.Module):
    """A potential that ends at a cutoff, which may be a table over species; what forces take.

    `energy_jumps` and `force_jumps` say whether it makes either of them jump at the cutoff.
    Raises `ValueError` for tables of different sizes and for a cutoff beyond the end of the potential.

    >>> from simkit_physics import AbstractTruncation, LennardJones, Shifted
    >>> isinstance(Shifted(LennardJones(epsilon=1.0, sigma=1.0), 2.5), AbstractTruncation)
    True
    """

    energy_jumps: eqx.AbstractClassVar[bool]
    force_jumps: eqx.AbstractClassVar[bool]
    potential: eqx.AbstractVar[AbstractPotential]
    cutoffs: eqx.AbstractVar[PairParameter]

    @property
    def species(self) -> int:
        tables = [getattr(self, name) for name in pair_parameters(self)]
        return max(self.potential.species, species_in(tables))

    @property
    def cutoff(self) -> Float[Array, ""]:
        """The largest cutoff."""
        return jnp.max(jnp.asarray(self.cutoffs))

    @abc.abstractmethod
    def of_pair(self, a: Array, b: Array) -> TruncatedPair:
        """What acts between the species `a` and `b`, in each lane."""

    @abc.abstractmethod
    def missing_integrals(self) -> tuple[Any, Any]:
        r"""$\int \Delta u\,r^2\,dr$ and $-\frac13 \int \Delta u'\,r^3\,dr$ of what is cut off, $\Delta u$."""

    def tail(self, counts: Int[ArrayLike, " species"], volume: Scalar) -> TailCorrection:
        r"""The correction of the energy of a system and of its pressure, with `counts` particles a species.

        $U = \frac{2\pi}{V} \sum_{ab} N_a N_b \int \Delta u_{ab}\,r^2\,dr$ and
        $P = -\frac{2\pi}{3V^2} \sum_{ab} N_a N_b \int \Delta u_{ab}'\,r^3\,dr$, for particles that are
        spread evenly beyond the cutoff.
        Reference: Allen & Tildesley (2017), Computer Simulation of Liquids, section 2.8,
        doi:10.1093/oso/9780198803195.001.0001.

        Raises `ValueError` for a truncation or a potential that has none, and for counts that do not fit.
        """
        numbers = jnp.atleast_1d(jnp.asarray(counts))
        if self.species not in (1, len(numbers)):
            raise ValueError(f"tail: {len(numbers)} counts for potentials of {self.species} species")
        energy, pressure = (jnp.asarray(each) for each in self.missing_integrals())
        N = numbers.astype(energy.dtype)
        pairs = N[:, None] * N
        return TailCorrection(
            2 * math.pi / volume * jnp.sum(pairs * energy),
            2 * math.pi / volume**2 * jnp.sum(pairs * pressure),
        )

    def __check_init__(self) -> None:
        tables = {name: getattr(self, name) for name in pair_parameters(self)}
        check_tables(type(self).__name__, tables, pair_parameters(self))
        sizes = {self.potential.species, species_in(list(tables.values()))} - {1}
        if len(sizes) > 1:
            raise ValueError(f"{type(self).__name__}: tables for {min(sizes)} and for {max(sizes)} species")
        self._check_end()

    def _check_end(self) -> None:
        end = self.potential.natural_cutoff
        if isinstance(end, Tracer) or isinstance(self.cutoffs, Tracer):
            return
        if np.any(np.asarray(self.cutoffs) > np.asarray(end) * (1 + 1e-6)):
            name, own = type(self.potential).__name__, np.max(np.asarray(self.cutoffs))
            raise ValueError(f"{type(self).__name__}.cutoffs: {name} ends at {np.asarray(end)}, got {own:g}")


class _PlainPair(eqx.Module):
    potential: AbstractPotential
    cutoff2: PairParameter

    def energy(self, r2: Any) -> Any:
        return _inside(self.potential.energy, r2, self.cutoff2)

    def slope(self, r2: Any) -> Any:
        return _inside(self.potential.slope, r2, self.cutoff2)


class Plain(AbstractTruncation):
    r"""$u(r)$ below the cutoff and 0 from there on: energy and force jump, so no dynamics conserves it.

    >>> from simkit_physics import LennardJones, Plain
    >>> tail = Plain(LennardJones(epsilon=1.0, sigma=1.0), 2.5).tail([100], volume=100.0)
    >>> round(float(tail.energy), 1)
    -53.5
    """

    energy_jumps: ClassVar[bool] = True
    force_jumps: ClassVar[bool] = True
    potential: AbstractPotential
    cutoffs: PairParameter = parameter("length", "where the potential ends", above=0)

    def of_pair(self, a: Array, b: Array) -> TruncatedPair:
        return _PlainPair(self.potential.of_pair(a, b), of_species_pair(self.cutoffs, a, b) ** 2)

    def missing_integrals(self) -> tuple[Any, Any]:
        return _beyond(self.potential, self.cutoffs)


class _ShiftedPair(eqx.Module):
    potential: AbstractPotential
    cutoff2: PairParameter
    shift: PairParameter

    def energy(self, r2: Any) -> Any:
        return _inside(lambda r2: self.potential.energy(r2) - self.shift, r2, self.cutoff2)

    def slope(self, r2: Any) -> Any:
        return _inside(self.potential.slope, r2, self.cutoff2)


class Shifted(AbstractTruncation):
    r"""$u(r) - u(r_c)$ below the cutoff $r_c$: the energy is continuous, the force jumps.

    >>> from simkit_physics import LennardJones, Shifted
    >>> Shifted(LennardJones(epsilon=1.0, sigma=1.0), cutoffs=2.5).energy_jumps
    False
    """

    energy_jumps: ClassVar[bool] = False
    force_jumps: ClassVar[bool] = True
    potential: AbstractPotential
    cutoffs: PairParameter = parameter("length", "where the potential ends", above=0)

    def of_pair(self, a: Array, b: Array) -> TruncatedPair:
        shift = self.potential.energy(self.cutoffs**2)
        cutoff2 = of_species_pair(self.cutoffs, a, b) ** 2
        return _ShiftedPair(self.potential.of_pair(a, b), cutoff2, of_species_pair(shift, a, b))

    def missing_integrals(self) -> tuple[Any, Any]:
        raise _no_tail("Shifted")


class _ShiftedForcePair(eqx.Module):
    potential: AbstractPotential
    cutoff: PairParameter
    shift: PairParameter
    half_tilt: PairParameter  # of u'(r_c)

    def energy(self, r2: Any) -> Any:
        def line(r2):
            return self.shift + 2 * self.half_tilt * (jnp.sqrt(r2) - self.cutoff)

        return _inside(lambda r2: self.potential.energy(r2) - line(r2), r2, self.cutoff**2)

    def slope(self, r2: Any) -> Any:
        def difference(r2):
            return self.potential.slope(r2) - self.half_tilt * jax.lax.rsqrt(r2)

        return _inside(difference, r2, self.cutoff**2)


class ShiftedForce(AbstractTruncation):
    r"""$u(r) - u(r_c) - (r - r_c)\,u'(r_c)$ below the cutoff $r_c$: energy and force are continuous.

    Reference: Toxvaerd & Dyre (2011), Shifted forces in molecular dynamics, doi:10.1063/1.3558787.

    >>> from simkit_physics import LennardJones, ShiftedForce
    >>> ShiftedForce(LennardJones(epsilon=1.0, sigma=1.0), cutoffs=2.5).force_jumps
    False
    """

    energy_jumps: ClassVar[bool] = False
    force_jumps: ClassVar[bool] = False
    potential: AbstractPotential
    cutoffs: PairParameter = parameter("length", "where the potential ends", above=0)

    def of_pair(self, a: Array, b: Array) -> TruncatedPair:
        shift = of_species_pair(self.potential.energy(self.cutoffs**2), a, b)
        half_tilt = of_species_pair(self.cutoffs * self.potential.slope(self.cutoffs**2), a, b)
        cutoff = of_species_pair(self.cutoffs, a, b)
        return _ShiftedForcePair(self.potential.of_pair(a, b), cutoff, shift, half_tilt)

    def missing_integrals(self) -> tuple[Any, Any]:
        raise _no_tail("ShiftedForce")


class _SwitchedPair(eqx.Module):
    potential: AbstractPotential
    onset2: PairParameter
    cutoff2: PairParameter
    steepness: PairParameter  # 1 / (cutoff2 - onset2)

    def energy(self, r2: Any) -> Any:
        return _inside(lambda r2: self.potential.energy(r2) * self._switch(r2)[0], r2, self.cutoff2)

    def slope(self, r2: Any) -> Any:
        def product(r2):
            switch, change = self._switch(r2)
            return self.potential.slope(r2) * switch + self.potential.energy(r2) * change

        return _inside(product, r2, self.cutoff2)

    def _switch(self, r2):
        return _switch(r2, self.onset2, self.steepness)


class Switched(AbstractTruncation):
    r"""$u(r)\,S(r)$, where S falls from 1 at the onset $r_s$ to 0 at the cutoff $r_c$.

    $S = 1 - 10x^3 + 15x^4 - 6x^5$ with $x = (r^2 - r_s^2)/(r_c^2 - r_s^2)$ between the two: its first two
    derivatives are 0 at both ends, so that the force has a continuous derivative. Below the onset nothing is
    changed.

    >>> from simkit_physics import LennardJones, Switched
    >>> Switched(LennardJones(epsilon=1.0, sigma=1.0), cutoffs=2.5, onsets=2.0).force_jumps
    False
    """

    energy_jumps: ClassVar[bool] = False
    force_jumps: ClassVar[bool] = False
    potential: AbstractPotential
    cutoffs: PairParameter = parameter("length", "where the potential ends", above=0)
    onsets: PairParameter = parameter("length", "where switching begins, below the cutoff", above=0)

    def of_pair(self, a: Array, b: Array) -> TruncatedPair:
        onset2, cutoff2 = (of_species_pair(each, a, b) ** 2 for each in (self.onsets, self.cutoffs))
        steepness = of_species_pair(1 / (self.cutoffs**2 - self.onsets**2), a, b)
        return _SwitchedPair(self.potential.of_pair(a, b), onset2, cutoff2, steepness)

    def missing_integrals(self) -> tuple[Any, Any]:
        """Both are the same by parts, since nothing is missing at the onset."""
        nodes, weights = np.polynomial.legendre.leggauss(32)
        onset, width = jnp.asarray(self.onsets), jnp.asarray(self.cutoffs - self.onsets)
        missing = self.potential.tail_integral(self.cutoffs)
        for x, w in zip((1 + nodes) / 2, weights / 2, strict=True):
            r2 = (onset + float(x) * width) ** 2
            switch = _switch(r2, onset**2, 1 / (self.cutoffs**2 - onset**2))[0]
            missing = missing + float(w) * width * r2 * self.potential.energy(r2) * (1 - switch)
        return missing, missing

    def __check_init__(self) -> None:
        if isinstance(self.onsets, Tracer) or isinstance(self.cutoffs, Tracer):
            return
        if np.any(np.asarray(self.onsets) >= np.asarray(self.cutoffs)):
            raise ValueError(f"Switched.onsets: must be below the cutoffs {self.cutoffs}, got {self.onsets}")


TRUNCATIONS: dict[str, type[AbstractTruncation]] = {
    "plain": Plain,
    "shifted": Shifted,
    "shifted_force": ShiftedForce,
    "switched": Switched,
}


def _inside(function, r2, cutoff2):
    """The function of r2 below the cutoff, and 0 elsewhere, where it is not evaluated: it might overflow."""
    inside = r2 < cutoff2
    # A minimum, which must pass on what is no number, made forces of all pairs 8 % slower than a selection.
    return jnp.where(inside, function(jnp.where(inside, r2, cutoff2)), 0)


def _switch(r2, onset2, steepness):
    """The switching function and its derivative with respect to r2."""
    x = jnp.clip((r2 - onset2) * steepness, 0, 1)
    rest = x * (1 - x)
    return 1 - x * x * x * (10 - x * (15 - 6 * x)), -30 * steepness * rest * rest


def _beyond(potential: AbstractPotential, cutoff: PairParameter) -> tuple[Any, Any]:
    """The integrals of a potential from a cutoff on, the second one by parts."""
    integral = potential.tail_integral(cutoff)
    return integral, integral + potential.energy(cutoff**2) * cutoff**3 / 3


def _no_tail(name: str) -> ValueError:
    return ValueError(
        f"{name}: has no tail correction, since it changes the potential everywhere; take plain or switched"
    )
