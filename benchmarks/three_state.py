"""Three shares, a Wiener process each: 8.4 million paths × 256 steps in float32, statistics included.

The size is that of DiffEqGPU's published run, 0.72 s on a V100, which is 9·10⁹ normals in a second; here the
peer in the same process is a hand-written scan. A step needs three normals, 1.5 blocks of Threefry: some 113
integer operations, 135 for the three quantiles, 12 for the step, so that about a third of GBM's rate with one
normal a step is expected.
"""

import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

from typing import NamedTuple

import jax
import jax.numpy as jnp
from ours import experiment, moments
from report import Measurement, parse_arguments, report
from rounds import timed, waited_for
from simkit_solvers import AbstractSDE, EulerMaruyama, Scalar, parameter

from simkit.ensemble import run_ensemble

PUBLISHED = 9e9  # normals in a second
S0 = 100.0


class Three(NamedTuple):
    a: Scalar
    b: Scalar
    c: Scalar


class Shares(AbstractSDE):
    """dS = mu S dt + sigma S dW, three times."""

    State = Three
    Noise = Three
    calculus = "ito"
    noise_kind = "diagonal"

    mu: Scalar = parameter("1/time", "drift rate")
    sigma: Scalar = parameter("1/sqrt(time)", "volatility")

    def drift(self, t, y):
        return Three(*(self.mu * S for S in y))

    def noise(self, t, y, dW):
        return Three(*(self.sigma * S * w for S, w in zip(y, dW, strict=True)))


def by_hand(paths: int, steps: int):
    """A `scan` that draws the normals of all paths at once, with jax's default keys."""

    @jax.jit
    def ensemble(key):
        dt = jnp.float32(1 / steps)

        def step(y, key):
            dW = jnp.sqrt(dt) * jax.random.normal(key, (3, paths), jnp.float32)
            return y + jnp.float32(0.05) * y * dt + jnp.float32(0.2) * y * dW, None

        y, _ = jax.lax.scan(step, jnp.full((3, paths), S0, jnp.float32), jax.random.split(key, steps))
        return [moments(S) for S in y]

    return lambda: ensemble(jax.random.key(1))


def main():
    arguments = parse_arguments(__doc__)
    paths, steps, rounds = (2**17, 64, 2) if arguments.small else (2**23, 256, 3)
    fewer = paths // 8  # of the peer, whose time is in proportion to the paths
    start = dict.fromkeys(Three._fields, S0)
    model = experiment(Shares(0.05, 0.2), EulerMaruyama(), start, steps, 1.0, paths, "float32")
    hand = by_hand(fewer, steps)
    timings = timed(
        {
            "simkit, with statistics": lambda: run_ensemble(model).elapsed_s,
            "hand-written scan": lambda: waited_for(hand),
        },
        rounds,
    )
    work = {"simkit, with statistics": paths * steps, "hand-written scan": fewer * steps}
    rate = {name: work[name] / timing.best for name, timing in timings.items()}
    ours = rate["simkit, with statistics"]
    size = f"three-state GBM, float32, {paths / 1e6:.1f} M paths × {steps}"
    findings = [
        Measurement(f"{size}, against a hand-written scan", ours / rate["hand-written scan"]),
        Measurement(f"{size}, time", timings["simkit, with statistics"].best, "s"),
        Measurement(f"{size}, normals in a second against a V100's published 9e9", 3 * ours / PUBLISHED),
    ]
    print(f"{ours / steps / 1e6:.2f} M paths in a second")
    report("three_state", findings, timings, work, arguments)


if __name__ == "__main__":
    main()
