"""Robertson's reaction with a rate of its own for each member: Rodas5P against Kvaerno5 under `vmap`.

Both run adaptively by `diffeqsolve` to time 1000, so that the ratio is that of the steps alone. Kvaerno5's
error is far below its tolerance here, so each method is given a tolerance of its own, at which Rodas5P is the
more accurate one, or nothing is reported: the errors are against SciPy's Radau.
"""

import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

from typing import NamedTuple

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
from report import Measurement, parse_arguments, report
from rounds import interleaved
from scipy.integrate import solve_ivp
from simkit_solvers import Rodas5P, Scalar

T1 = 1e3
PROGRAMS = {"Rodas5P": (Rodas5P(), 1e-6), "Kvaerno5": (diffrax.Kvaerno5(), 1e-3)}
CHECKED = 8  # members whose error is taken


class SpeciesState(NamedTuple):
    a: Scalar
    b: Scalar
    c: Scalar


def rates(t, y, slow):
    first, second, third = slow * y.a, 1e4 * y.b * y.c, 3e7 * y.b * y.b
    return SpeciesState(second - first, first - second - third, third)


def slow_rates(members: int):
    """A decade to either side of Robertson's 0.04."""
    return 0.04 * np.logspace(-1, 1, members)


def by_diffeqsolve(solver, rtol: float, members: int):
    """Every member's state at the end; absolute tolerances fit the second variable, which is around 1e-5."""

    def member(slow):
        one, zero = jnp.ones_like(slow), jnp.zeros_like(slow)
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(rates),
            solver,
            zero,
            T1 * one,
            None,
            SpeciesState(one, zero, zero),
            slow,
            saveat=diffrax.SaveAt(t1=True),
            stepsize_controller=diffrax.PIDController(rtol=rtol, atol=1e-6 * rtol),
            max_steps=None,
            adjoint=diffrax.ForwardMode(),
        )
        return jnp.stack(solution.ys)[:, 0]

    ensemble = jax.jit(jax.vmap(member))

    def run():
        with jax.enable_x64(True):
            return ensemble(jnp.asarray(slow_rates(members)))

    return run


def exact(slow: float):
    """The same by SciPy's Radau."""

    def numpy_rates(t, y):
        return np.stack(rates(t, SpeciesState(*y), slow))

    return solve_ivp(numpy_rates, (0, T1), (1, 0, 0), "Radau", rtol=1e-11, atol=1e-16).y[:, -1]


def main():
    arguments = parse_arguments(__doc__)
    members, rounds = (1000, 1) if arguments.small else (10_000, 2)
    programs = {name: by_diffeqsolve(*given, members) for name, given in PROGRAMS.items()}
    timings = interleaved(programs, rounds)
    checked = np.linspace(0, members - 1, CHECKED).astype(int)
    expected = np.stack([exact(slow) for slow in slow_rates(members)[checked]])
    errors = {
        name: float(np.abs(np.asarray(program())[checked] / expected - 1).max())
        for name, program in programs.items()
    }
    for name, error in errors.items():
        print(f"{name}: rtol {PROGRAMS[name][1]:g}, largest relative error {error:.1e}")
    if errors["Rodas5P"] > errors["Kvaerno5"]:
        raise SystemExit("Rodas5P is the less accurate one here: its tolerance must be tighter to compare")
    ratio = timings["Kvaerno5"].best / timings["Rodas5P"].best
    what = f"Robertson, {members} members, Rodas5P against Kvaerno5"
    report("stiff", [Measurement(what, ratio, "x", 3)], timings, {}, arguments, {"relative_errors": errors})


if __name__ == "__main__":
    main()
