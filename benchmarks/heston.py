"""Heston's model by Euler–Maruyama in float32 under full truncation: simkit, diffrax, a hand-written scan.

A step needs two normals, one whole block of Threefry: 75 integer operations, 90 for the two quantiles, some
20 with one square root for the step. Together some 185 operations, against 16 bytes of state read and
written once in four steps. The two variables share their noise: a compiler that makes a kernel of each
draws it twice.
"""

import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

import diffrax
import jax
import jax.numpy as jnp
import lineax as lx
from ours import experiment, moments, whole_run
from report import Measurement, by_jax, parse_arguments, report
from rounds import by_the_clock, timed
from simkit_physics import Heston
from simkit_solvers import EulerMaruyama

PARAMETERS = {"mu": 0.05, "kappa": 2.0, "theta": 0.04, "xi": 0.3, "rho": -0.7}
S0, V0 = 100.0, 0.04


def by_diffrax(paths: int, steps: int):
    """`diffeqsolve` under `vmap`; scalars and a linear operator, no slower than arrays and a matrix."""
    scalar = jax.ShapeDtypeStruct((), jnp.float32)

    def path(key, p):
        across = jnp.sqrt(1 - p["rho"] ** 2)

        def drift(t, y, args):
            S, v = y
            return p["mu"] * S, p["kappa"] * (p["theta"] - jnp.maximum(v, 0))

        def noise(t, y, args):
            S, v = y
            root = jnp.sqrt(jnp.maximum(v, 0))

            def product(dW):
                return root * S * dW[0], p["xi"] * root * (p["rho"] * dW[0] + across * dW[1])

            return lx.FunctionLinearOperator(product, (scalar, scalar))

        brownian = diffrax.UnsafeBrownianPath(shape=(scalar, scalar), key=key)
        solution = diffrax.diffeqsolve(
            diffrax.MultiTerm(diffrax.ODETerm(drift), diffrax.ControlTerm(noise, brownian)),
            diffrax.Euler(),
            jnp.float32(0),
            jnp.float32(1),
            jnp.float32(1 / steps),
            (jnp.float32(S0), jnp.float32(V0)),
            saveat=diffrax.SaveAt(t1=True),
            stepsize_controller=diffrax.ConstantStepSize(),
            adjoint=diffrax.DirectAdjoint(),
            max_steps=None,
            throw=False,
        )
        return solution.ys[0][0]

    @jax.jit
    def ensemble(key, p):
        return moments(jax.vmap(path, in_axes=(0, None))(jax.random.split(key, paths), p))

    return lambda: ensemble(jax.random.key(1), PARAMETERS)


def by_hand(paths: int, steps: int):
    """A `scan` over steps that draws the normals of all paths at once, with jax's default keys."""

    @jax.jit
    def ensemble(key, p):
        dt = jnp.float32(1 / steps)
        across = jnp.sqrt(1 - p["rho"] ** 2)

        def step(y, key):
            S, v = y
            dW1, dW2 = jnp.sqrt(dt) * jax.random.normal(key, (2, paths), jnp.float32)
            positive = jnp.maximum(v, 0)
            root = jnp.sqrt(positive)
            S = S + p["mu"] * S * dt + root * S * dW1
            v = v + p["kappa"] * (p["theta"] - positive) * dt
            return (S, v + p["xi"] * root * (p["rho"] * dW1 + across * dW2)), None

        start = jnp.full(paths, S0, jnp.float32), jnp.full(paths, V0, jnp.float32)
        (S, _), _ = jax.lax.scan(step, start, jax.random.split(key, steps))
        return moments(S)

    return lambda: ensemble(jax.random.key(1), PARAMETERS)


def main():
    arguments = parse_arguments(__doc__)
    paths, steps, rounds = (16_384, 200, 3) if arguments.small else (100_000, 1000, 5)
    model = experiment(
        Heston(**PARAMETERS), EulerMaruyama(), {"S": S0, "v": V0}, steps, 1.0, paths, "float32"
    )
    peers = {"diffrax": by_diffrax(paths, steps), "hand-written scan": by_hand(paths, steps)}
    programs = {"simkit": whole_run(model), **by_the_clock(peers)}
    timings = timed(programs, rounds)
    against = {name: timing.best / timings["simkit"].best for name, timing in timings.items()}
    findings = [
        Measurement("Heston, float32, against diffrax", against["diffrax"], "x", by_jax(14, None)),
        Measurement(
            "Heston, float32, against a hand-written scan",
            against["hand-written scan"],
            "x",
            by_jax(2.5, None),
        ),
    ]
    report("heston", findings, timings, dict.fromkeys(programs, paths * steps), arguments)


if __name__ == "__main__":
    main()
