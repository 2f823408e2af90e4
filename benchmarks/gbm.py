"""Geometric Brownian motion by Euler–Maruyama in float32: simkit, diffrax, a hand-written scan.

A step needs one normal. Threefry-2x32 with 20 rounds is 20 times (add, rotate, xor) and 15 additions: 75
integer operations for two normals; each then costs a logarithm and a quantile by polynomials, about 45; the
step itself 4. Together some 85 operations, against 8 bytes of state read and written once in eight steps:
arithmetic binds, not memory.
"""

import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

import diffrax
import jax
import jax.numpy as jnp
from ours import experiment, moments, whole_run
from report import Measurement, by_jax, parse_arguments, report
from rounds import by_the_clock, timed
from simkit_physics import GBM
from simkit_solvers import EulerMaruyama

MU, SIGMA, S0 = 0.05, 0.2, 100.0


def by_diffrax(paths: int, steps: int):
    """`diffeqsolve` under `vmap` as its documentation advises for speed on a fixed grid."""
    dt = jnp.float32(1 / steps)

    def path(key, mu, sigma):
        brownian = diffrax.UnsafeBrownianPath(shape=(), key=key)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, S, args: mu * S),
            diffrax.ControlTerm(lambda t, S, args: sigma * S, brownian),
        )
        solution = diffrax.diffeqsolve(
            terms,
            diffrax.Euler(),
            jnp.float32(0),
            jnp.float32(1),
            dt,
            jnp.float32(S0),
            saveat=diffrax.SaveAt(t1=True),
            stepsize_controller=diffrax.ConstantStepSize(),
            adjoint=diffrax.DirectAdjoint(),
            max_steps=None,
            throw=False,
        )
        return solution.ys[0]

    def ensemble(key, mu, sigma):
        keys = jax.random.split(key, paths)
        return moments(jax.vmap(path, in_axes=(0, None, None))(keys, mu, sigma))

    compiled = jax.jit(ensemble)
    return lambda: compiled(jax.random.key(1), jnp.float32(MU), jnp.float32(SIGMA))


def by_hand(paths: int, steps: int):
    """A `scan` over steps that draws the normals of all paths at once, with jax's default keys."""

    @jax.jit
    def ensemble(key, mu, sigma):
        dt = jnp.float32(1 / steps)
        root = jnp.sqrt(dt)

        def step(S, key):
            z = jax.random.normal(key, (paths,), jnp.float32)
            return S + mu * S * dt + sigma * S * root * z, None

        S, _ = jax.lax.scan(step, jnp.full(paths, S0, jnp.float32), jax.random.split(key, steps))
        return moments(S)

    return lambda: ensemble(jax.random.key(1), jnp.float32(MU), jnp.float32(SIGMA))


def main():
    arguments = parse_arguments(__doc__)
    paths, steps, rounds = (16_384, 200, 3) if arguments.small else (100_000, 1000, 5)
    model = experiment(GBM(MU, SIGMA), EulerMaruyama(), {"S": S0}, steps, 1.0, paths, "float32")
    peers = {"diffrax": by_diffrax(paths, steps), "hand-written scan": by_hand(paths, steps)}
    programs = {"simkit": whole_run(model), **by_the_clock(peers)}
    timings = timed(programs, rounds)
    against = {name: timing.best / timings["simkit"].best for name, timing in timings.items()}
    findings = [
        Measurement("GBM, float32, against diffrax", against["diffrax"], "x", by_jax(40, 12)),
        Measurement(
            "GBM, float32, against a hand-written scan", against["hand-written scan"], "x", by_jax(5, 3)
        ),
    ]
    report("gbm", findings, timings, dict.fromkeys(programs, paths * steps), arguments)


if __name__ == "__main__":
    main()
