r"""Derivatives of averages at constant temperature, from fluctuations about them.

Configurations and momenta have the density $e^{-H/k_B T}$. As a parameter $\theta$ moves the energy $U$, the
temperature $T$ and the observable $A$ itself,

$$\frac{d\langle A\rangle}{d\theta} = \Big\langle\frac{\partial A}{\partial\theta}\Big\rangle + \langle A s
\rangle - \langle A\rangle\langle s\rangle,\qquad s = \frac{H}{k_B T^2}\frac{dT}{d\theta} - \frac{1}{k_B T}
\frac{\partial U}{\partial\theta}.$$

Where $A$ depends on positions alone, the kinetic energy in $H$ would add noise and nothing else: it is left
out.

Reference: Allen & Tildesley (2017), Computer Simulation of Liquids, section 2.5,
doi:10.1093/oso/9780198803195.001.0001.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from simkit.derivatives.particles.targets import RunNumbers
from simkit.md.dataset import observed
from simkit.md.quantities import Measured, named_in
from simkit.md.result import ParticleResult
from simkit.time_series import Estimate, blocks_of, jackknife

Rows = Float[np.ndarray, "paths rows"]


def fluctuation_derivative(values: Rows, explicit: Rows, score: Rows) -> Estimate:
    r"""$\langle A'\rangle + \langle A s\rangle - \langle A\rangle\langle s\rangle$ over series of replicas.

    Its standard error is from leaving out one block after another.
    """
    a, s = values - values.mean(), score - score.mean()
    sums = blocks_of(np.stack([explicit + a * s, a, s], axis=-1))
    return jackknife(
        sums,
        lambda sums, n: sums[0] / n - sums[1] / n * (sums[2] / n),
        about=lambda sums, n: sums[1:] / n,
    )


def derivatives_of(
    result: ParticleResult, change: RunNumbers, slopes: Any, quantities: list[str]
) -> dict[str, Estimate]:
    """The derivatives of the means of observables along a change of the numbers of the run.

    `slopes` are the derivatives of energy and virial at every row along the change of the potential, `None`
    where it does not move. Called with 64-bit types (`jax.enable_x64`).
    """
    simulation = result.simulation
    measured = _in_float64(result.measured)
    explicit, values = _explicit(result, measured, change, slopes)
    units, T = simulation.system.units, float(simulation.run.method.temperature)  # pyright: ignore
    of_temperature = change.temperature / (units.boltzmann * T**2)
    score = np.asarray(measured.totals.potential) * of_temperature
    if slopes is not None:
        score = score - np.asarray(slopes.energy, float) / (units.boltzmann * T)
    kinetic = np.asarray(measured.kinetic) * of_temperature
    estimates = {}
    for name in quantities:
        named = named_in(simulation.scalars[name].expression.names, lambda each: each.velocities != "absent")
        own = score + kinetic if simulation.system.freedom and named else score
        estimates[name] = fluctuation_derivative(np.array(values[name]), np.array(explicit[name]), own)
    return estimates


def _explicit(
    result: ParticleResult, measured: Measured, change: RunNumbers, slopes: Any
) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """How fast observables change at fixed positions and momenta, and their values: arrays (paths, rows)."""
    simulation, totals = result.simulation, measured.totals
    rates = jax.tree.map(jnp.zeros_like, totals)
    if slopes is not None:
        rates = rates._replace(potential=slopes.energy, virial=slopes.virial)
    if not simulation.system.freedom:  # the momenta are those of the bath
        relative = change.temperature / simulation.run.method.temperature  # pyright: ignore
        rates = rates._replace(kinetic=jax.tree.map(lambda each: each * relative, totals.kinetic))
    tangents = jax.tree.map(lambda x, dx: jnp.asarray(dx, x.dtype), totals, rates)

    def at(totals, tail, constants):
        energy, pressure = tail
        moved = dataclasses.replace(measured, totals=totals, tail_energy=energy, tail_pressure=pressure)
        return observed(simulation, moved, constants)

    tail, constants = (measured.tail_energy, measured.tail_pressure), dict(simulation.constants.values)
    changes = tangents, change.tail, {name: change.constants[name] for name in constants}
    values, explicit = jax.jvp(at, (totals, *_arrays((tail, constants))), (changes[0], *_arrays(changes[1:])))
    return explicit, values


def _arrays(tree: Any) -> Any:
    return jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), tree)


def _in_float64(measured: Measured) -> Measured:
    """What was measured, without derivatives of the totals, as arrays of JAX."""
    totals = measured.totals._replace(changes=())
    return dataclasses.replace(measured, totals=_arrays(totals))
