"""Lorenz's equations by Tsit5 at a fixed step: simkit against diffrax under `vmap`.

A step has six stages of 9 operations, and the tableau's 20 products and sums for each of three variables:
some 170 operations, no noise, against 24 bytes of state read and written once in eight steps. Each variable
depends on all stages of the others: a compiler that makes a kernel of each computes everything three times.
"""

import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from ours import experiment, moments, whole_run
from report import Measurement, parse_arguments, report
from rounds import timed, waited_for
from simkit_solvers import AbstractODE, Scalar, parameter

from simkit.distributions import Normal

SIGMA, RHO, BETA = 10.0, 28.0, 8 / 3
DT = 0.005


class LorenzState(NamedTuple):
    x: Scalar
    y: Scalar
    z: Scalar


class Lorenz(AbstractODE):
    r"""$x' = \sigma(y - x)$, $y' = x(\rho - z) - y$, $z' = xy - \beta z$ (Lorenz 1963)."""

    State = LorenzState
    sigma: Scalar = parameter("1/time", "Prandtl number")
    rho: Scalar = parameter("1/time", "Rayleigh number over its critical value")
    beta: Scalar = parameter("1/time", "shape of the cell")

    def drift(self, t, y):
        return LorenzState(
            x=self.sigma * (y.y - y.x), y=y.x * (self.rho - y.z) - y.y, z=y.x * y.y - self.beta * y.z
        )


def by_diffrax(members: int, steps: int, precision: str):
    """`diffeqsolve` under `vmap` over initial values, all numbers in one precision."""
    dtype = {"float32": jnp.float32, "float64": jnp.float64}[precision]

    def path(y0, model):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, model: model.drift(t, y)),
            diffrax.Tsit5(),
            dtype(0),
            dtype(steps * DT),
            dtype(DT),
            y0,
            model,
            saveat=diffrax.SaveAt(t1=True),
            stepsize_controller=diffrax.ConstantStepSize(),
            adjoint=diffrax.DirectAdjoint(),
            max_steps=None,
            throw=False,
        )
        return solution.ys.x[0]

    @jax.jit
    def ensemble(key, model):
        normals = jax.random.normal(key, (3, members), dtype)
        y0 = LorenzState(*(mean + 0.5 * z for mean, z in zip((1.0, 1.0, 20.0), normals, strict=True)))
        return moments(jax.vmap(path, in_axes=(0, None))(y0, model))

    def run():
        with jax.enable_x64(precision == "float64"):
            model = Lorenz(dtype(SIGMA), dtype(RHO), dtype(BETA))
            return ensemble(jax.random.key(1), model)

    return run


def by_simkit(members: int, steps: int, precision: str):
    """simkit's ensemble from the same distribution of initial values."""
    initial = {name: Normal(mean, 0.5) for name, mean in (("x", 1.0), ("y", 1.0), ("z", 20.0))}
    model = Lorenz(SIGMA, RHO, BETA)
    return whole_run(experiment(model, diffrax.Tsit5(), initial, steps, steps * DT, members, precision))


def main():
    arguments = parse_arguments(__doc__)
    sizes, rounds = ({1000: 1000, 20_000: 50}, 3) if arguments.small else ({1000: 10_000, 100_000: 100}, 5)
    findings, timings, work = [], {}, {}
    for members, steps in sizes.items():
        programs = {}
        for precision in ("float32", "float64"):
            programs[f"simkit, {members} members, {precision}"] = by_simkit(members, steps, precision)
            peer = by_diffrax(members, steps, precision)
            programs[f"diffrax, {members} members, {precision}"] = lambda peer=peer: waited_for(peer)
        result = timed(programs, rounds)
        timings |= result
        work |= dict.fromkeys(programs, members * steps)
        for precision in ("float32", "float64"):
            ours = result[f"simkit, {members} members, {precision}"].best
            theirs = result[f"diffrax, {members} members, {precision}"].best
            findings.append(
                Measurement(f"Lorenz, {members} members, {precision}, against diffrax", theirs / ours, "x", 6)
            )
    report("lorenz", findings, timings, work, arguments)


if __name__ == "__main__":
    main()
