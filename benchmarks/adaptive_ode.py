"""Adaptive steps where one member in a thousand needs a hundred times as many: simkit against `vmap`.

An oscillator whose frequency is a hundred times that of the others takes a hundred times their steps. Under
one `vmap` over `diffeqsolve` all members wait for it; in small groups only its own group does. Without any
waiting there would be a ninetieth of the steps; groups of 32 take a quarter of that gain, and an iteration of
so few lanes costs more a lane.
"""

import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
from ours import bare_loop, experiment, moments, whole_run
from report import Measurement, parse_arguments, report
from rounds import by_the_clock, timed
from simkit_solvers import AbstractODE, AdaptiveGrid, Scalar, Tolerances

from simkit.distributions import Uniform

RTOL, ATOL, T1 = 1e-6, 1e-9, 10.0
FAST, SHARE = 100.0, 1e-3


class OscillatorState(NamedTuple):
    x: Scalar
    v: Scalar
    u: Scalar


class Oscillator(AbstractODE):
    r"""$x'' = -\omega^2 x$ with $\omega$ = `FAST` for the members with $u$ < `SHARE`, 1 for all others."""

    State = OscillatorState
    scale: Scalar = 1.0

    def drift(self, t, y):
        omega = self.scale * jnp.where(y.u < SHARE, FAST, 1.0).astype(y.x.dtype)
        return OscillatorState(x=omega * y.v, v=-omega * y.x, u=0.0 * y.u)


def by_diffrax(points):
    """`diffeqsolve` under one `vmap` over all members."""

    def path(u):
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, model: model.drift(t, y)),
            diffrax.Tsit5(),
            0.0,
            T1,
            None,
            OscillatorState(jnp.ones_like(u), jnp.zeros_like(u), u),
            Oscillator(),
            stepsize_controller=diffrax.PIDController(rtol=RTOL, atol=ATOL),
            adjoint=diffrax.ForwardMode(),
            max_steps=None,
            throw=False,
        )
        return solution.ys.x[0]

    with jax.enable_x64(True):
        ensemble = jax.jit(lambda u: moments(jax.vmap(path)(u))).lower(points).compile()
    return lambda: ensemble(points)


def main():
    arguments = parse_arguments(__doc__)
    members, rounds = (2048, 2) if arguments.small else (8192, 3)
    initial = {"x": 1.0, "v": 0.0, "u": Uniform(0.0, 1.0)}
    fixed = experiment(Oscillator(), diffrax.Tsit5(), initial, 1, T1, members, "float64")
    adaptive = fixed.with_run(grid=AdaptiveGrid(0.0, T1, Tolerances(RTOL, ATOL)))
    points = bare_loop(adaptive)()["u"].reshape(-1)
    programs = {
        "simkit, groups": whole_run(adaptive),
        **by_the_clock({"diffrax, one vmap": by_diffrax(points)}),
    }
    timings = timed(programs, rounds)
    ratio = timings["diffrax, one vmap"].best / timings["simkit, groups"].best
    what = f"oscillators, {members} members, one in 1000 with 100 times the steps, against one vmap"
    report("adaptive_ode", [Measurement(what, ratio, "x", 5)], timings, {}, arguments)


if __name__ == "__main__":
    main()
