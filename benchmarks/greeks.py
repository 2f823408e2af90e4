"""Greeks of a call on geometric Brownian motion with standard errors, against back-propagation by the peers.

Delta, vega, rho and gamma by Euler–Maruyama steps in float64. simkit is one call of `simkit.sensitivity`
from the second on: what it compiled is reused, and its time is all of the call's. The peers take the gradient
of each path's payoff by initial price, volatility and rate through the solver, which gives the first three
with errors; and gamma as the central difference of the deltas of each path at S0 ± 1 under the same noise,
which is two gradients more. They run as many paths as take seconds, and rates are per path and step.
diffrax goes in reverse, for which it takes `VirtualBrownianTree`, and forward, where it has a cheaper path.
torchsde takes part where it can be imported, on the CPU.
"""

import sys

from simkit import CLOSED_FORMS, tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

import functools
import os

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from report import Measurement, parse_arguments, report
from rounds import interleaved

import simkit

try:
    import torch
    import torchsde
except ImportError:
    torch = torchsde = None

R, SIGMA, S0, STRIKE, SHIFT = 0.05, 0.2, 100.0, 100.0, 1.0
GREEKS = ("delta", "vega", "rho", "gamma")
BACKWARDS, FORWARD, TORCH = "diffrax in reverse", "diffrax forward", "torchsde in reverse"
FEWER = {BACKWARDS: 2000, FORWARD: 20_000, TORCH: 20_000}  # paths that take seconds
EXPERIMENT = {
    "constants": {"r": R, "K": STRIKE},
    "model": {"type": "GBM", "mu": "r", "sigma": SIGMA},
    "initial": {"S": S0},
    "solver": "EulerMaruyama",
    "observe": {"call": "exp(-r*t) * maximum(S - K, 0)"},
    "sensitivity": {"wrt": ["S", "sigma", "r"], "second": ["S"]},
}


def by_simkit(paths: int, steps: int):
    """Means and standard errors of the Greeks, in their order."""
    experiment = EXPERIMENT | {"time": {"t1": 1.0, "steps": steps}, "ensemble": {"paths": paths, "seed": 1}}

    def run():
        result = simkit.sensitivity(experiment)
        means = [*result["call_derivative"].values, *result["call_second"].values]
        errors = [*result["call_derivative_stderr"].values, *result["call_second_stderr"].values]
        return np.asarray(means), np.asarray(errors)

    return run


def by_diffrax(paths: int, steps: int, backwards: bool):
    """`diffeqsolve` under `vmap`: in reverse on `VirtualBrownianTree`, or forward on a cheaper path."""

    def payoff(point, key):
        start, sigma, r = point
        if backwards:
            brownian = diffrax.VirtualBrownianTree(0.0, 1.0, tol=0.5 / steps, shape=(), key=key)
        else:
            brownian = diffrax.UnsafeBrownianPath(shape=(), key=key)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, S, args: args[1] * S),
            diffrax.ControlTerm(lambda t, S, args: args[0] * S, brownian),
        )
        solution = diffrax.diffeqsolve(
            terms,
            diffrax.Euler(),
            0.0,
            1.0,
            1 / steps,
            start,
            args=(sigma, r),
            saveat=diffrax.SaveAt(t1=True),
            stepsize_controller=diffrax.ConstantStepSize(),
            adjoint=diffrax.RecursiveCheckpointAdjoint() if backwards else diffrax.ForwardMode(),
            max_steps=steps,
            throw=False,
        )
        return jnp.exp(-r) * jnp.maximum(solution.ys[0] - STRIKE, 0)

    differentiate = jax.grad if backwards else jax.jacfwd
    gradients = jax.vmap(differentiate(payoff), in_axes=(None, 0))

    @jax.jit
    def greeks(point, keys):
        start, sigma, r = point
        first = gradients(point, keys)
        up, down = (gradients((start + h, sigma, r), keys)[0] for h in (SHIFT, -SHIFT))
        each = jnp.stack([*first, (up - down) / (2 * SHIFT)])
        return jnp.mean(each, 1), jnp.std(each, 1) / paths**0.5

    point = tuple(jnp.asarray(x) for x in (S0, SIGMA, R))
    keys = jax.random.split(jax.random.key(1), paths)
    return functools.partial(greeks, point, keys)


def by_torchsde(paths: int, steps: int):
    """`sdeint` of all paths as one batch, back-propagated through its steps."""
    torch.set_num_threads(os.cpu_count())

    class Model(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self, sigma, r):
            super().__init__()
            self.sigma, self.r = sigma, r

        def f(self, t, y):
            return self.r * y

        def g(self, t, y):
            return self.sigma * y

    times = torch.tensor([0.0, 1.0], dtype=torch.float64)

    def gradients(start):
        """Of each path by its own start, volatility and rate."""
        numbers = (torch.full((paths, 1), x, dtype=torch.float64) for x in (start, SIGMA, R))
        y0, sigma, r = (x.requires_grad_() for x in numbers)
        noise = torchsde.BrownianInterval(0.0, 1.0, (paths, 1), torch.float64, entropy=1, dt=1 / steps)
        S = torchsde.sdeint(Model(sigma, r), y0, times, bm=noise, method="euler", dt=1 / steps)[-1]
        payoff = torch.exp(-r) * torch.clamp(S - STRIKE, min=0)
        return torch.autograd.grad(payoff.sum(), (y0, sigma, r))

    def run():
        first = gradients(S0)
        up, down = (gradients(S0 + h)[0] for h in (SHIFT, -SHIFT))
        each = torch.cat([*first, (up - down) / (2 * SHIFT)], 1)
        return each.mean(0).numpy(), (each.std(0) / paths**0.5).numpy()

    return run


def check(name: str, result, exact: np.ndarray, paths: int) -> np.ndarray:
    """The standard deviation per path, of Greeks that are right."""
    mean, error = map(np.asarray, result)
    if np.any(np.abs(mean - exact) > 5 * error + 2e-3 * np.abs(exact)):
        sys.exit(f"{name} is wrong: {mean} ± {error}, and the Greeks are {exact}")
    return error * paths**0.5


def main():
    arguments = parse_arguments(__doc__)
    steps, rounds = (50, 2) if arguments.small else (252, 3)
    sizes = {"simkit": 2**14 if arguments.small else 1_000_000}
    sizes |= {peer: size // (16 if arguments.small else 1) for peer, size in FEWER.items()}
    contract = {"S": S0, "K": STRIKE, "r": R, "sigma": SIGMA, "T": 1.0}
    exact = np.asarray([CLOSED_FORMS[f"black_scholes_{name}"](**contract) for name in GREEKS])
    with jax.enable_x64(True):
        programs = {
            "simkit": by_simkit(sizes["simkit"], steps),
            BACKWARDS: by_diffrax(sizes[BACKWARDS], steps, backwards=True),
            FORWARD: by_diffrax(sizes[FORWARD], steps, backwards=False),
        }
        if torchsde is not None:
            programs[TORCH] = by_torchsde(sizes[TORCH], steps)
        deviations = {name: check(name, run(), exact, sizes[name]) for name, run in programs.items()}
        timings = interleaved(programs, rounds)
    work = {name: sizes[name] * steps for name in programs}
    rate = {name: work[name] / timing.best for name, timing in timings.items()}
    findings = [
        Measurement(f"Greeks of GBM with errors, {steps} steps of 10⁶ paths", timings["simkit"].best, "s")
    ]
    for peer in list(programs)[1:]:
        findings.append(
            Measurement(f"the same, paths in a second, against {peer}", rate["simkit"] / rate[peer], "x")
        )
        gamma = deviations[peer][-1] / deviations["simkit"][-1]
        findings.append(Measurement(f"deviation of gamma per path, {peer}, over simkit's", gamma, "x"))
    report("greeks", findings, timings, work, arguments)


if __name__ == "__main__":
    main()
