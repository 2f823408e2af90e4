"""Sensitivities of a call on geometric Brownian motion through the whole loop, against a plain run.

Derivatives of the mean discounted payoff with respect to drift, volatility and initial price: in reverse
mode at once, in forward mode one or three directions at a time.
"""

import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

import jax
import jax.numpy as jnp
from ours import experiment
from report import Measurement, parse_arguments, report
from rounds import interleaved
from simkit_physics import GBM
from simkit_solvers import EulerMaruyama

from simkit.ensemble import LEAF, path_ids, path_program

MU, SIGMA, S0, STRIKE = 0.05, 0.2, 100.0, 100.0


def call_price(paths: int, steps: int, precision: str):
    """The mean discounted payoff as a function of (mu, sigma, S0), and a point to take it at."""
    model = experiment(GBM(MU, SIGMA), EulerMaruyama(), {"S": S0}, steps, 1.0, paths, precision)
    program, inputs = path_program(model, model.grid)
    ids = path_ids(0, -(-paths // LEAF), LEAF)

    def price(theta):
        mu, sigma, start = theta
        S = program(inputs._replace(problem=GBM(mu, sigma), initial={"S": start}), ids)["S"][-1]
        return jnp.exp(-mu) * jnp.mean(jnp.maximum(S - STRIKE, 0).reshape(-1))

    return price, tuple(jnp.asarray(x, precision) for x in (MU, SIGMA, S0))


def main():
    arguments = parse_arguments(__doc__)
    paths, steps, rounds = (8192, 200, 3) if arguments.small else (20_000, 1000, 9)
    findings, timings, work = [], {}, {}
    with jax.enable_x64(True):
        for precision in ("float32", "float64"):
            price, theta = call_price(paths, steps, precision)
            one = (jnp.ones_like(theta[0]), jnp.zeros_like(theta[1]), jnp.zeros_like(theta[2]))
            kinds = {
                "plain run": price,
                "reverse mode, 3 derivatives": jax.value_and_grad(price),
                "forward mode, 1 derivative": lambda x, f=price, v=one: jax.jvp(f, (x,), (v,)),
                "forward mode, 3 derivatives": jax.jacfwd(price),
            }
            programs = {}
            for name, function in kinds.items():
                compiled = jax.jit(function).lower(theta).compile()
                programs[f"{name}, {precision}"] = lambda f=compiled, x=theta: f(x)
            result = interleaved(programs, rounds)
            timings |= result
            work |= dict.fromkeys(programs, paths * steps)
            plain = result[f"plain run, {precision}"].best
            for name in list(kinds)[1:]:
                cost = result[f"{name}, {precision}"].best / plain
                target = 6 if name.startswith("reverse") else 1 + 1.2 * int(name.split()[2])
                findings.append(
                    Measurement(f"GBM, {precision}, {name}, in plain runs", cost, "x", target, "at most")
                )
    report("gradient", findings, timings, work, arguments)


if __name__ == "__main__":
    main()
