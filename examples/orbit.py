"""Planets on different orbits, each with an integrator that suits its energy: `python examples/orbit.py`.

They start at one place at different speeds. The slow ones fall close to the sun and take Yoshida's method of
order 6, the fast ones the leapfrog: one compiled program, the choice made inside it. Draws orbit.png.
"""

from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from simkit_solvers import (
    AbstractHamiltonian,
    Grid,
    Quantity,
    Scalar,
    States,
    SwitchedSolver,
    integrate,
    make_solver,
    parameter,
)

NAMES = ("Leapfrog", "Yoshida6")
SPEEDS = np.linspace(0.5, 1.2, 8)
GRID = Grid(t0=0.0, dt=0.01, steps=10_000, every=5)
DEEP = -0.75  # energies below it belong to orbits that come close to the sun


class PlanetState(NamedTuple):
    x: Annotated[Scalar, Quantity("length", "position")]
    y: Annotated[Scalar, Quantity("length", "position")]
    px: Annotated[Scalar, Quantity("length/time", "momentum over the mass")]
    py: Annotated[Scalar, Quantity("length/time", "momentum over the mass")]


class Planet(AbstractHamiltonian):
    r"""Kepler's problem over the planet's mass, $H = |p|^2/2 - \mu/|q|$."""

    State = PlanetState

    mu: Scalar = parameter("length^3/time^2", "strength of the sun's attraction", above=0)

    def kinetic(self, p):
        return (p[0] ** 2 + p[1] ** 2) / 2

    def potential(self, q):
        return -self.mu / jnp.hypot(q[0], q[1])


def orbit(speed):
    """The orbit of a planet, the position of its solver in `NAMES`, and its energy along the orbit."""
    problem = Planet(mu=1.0)
    zero = jnp.zeros_like(speed)
    start = PlanetState(x=zero + 1.0, y=zero, px=zero, py=speed)
    which = problem.energy(start) < DEEP
    solver = SwitchedSolver(tuple(make_solver(name) for name in NAMES), which)
    states = PlanetState(**integrate(problem, solver, start, GRID, None, States()))
    return states, which, jax.vmap(problem.energy)(states)


def picture(orbits, chosen, error) -> Figure:
    figure = Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for i, speed in enumerate(SPEEDS):
        colour = ("#0072B2", "#D55E00")[chosen[i]]
        left.plot(orbits.x[i], orbits.y[i], color=colour, linewidth=0.6)
        largest = np.maximum.accumulate(np.maximum(error[i], 1e-16))
        right.loglog(GRID.times[1:], largest[1:], color=colour, linewidth=1)
        end = np.argmax((-1) ** i * orbits.y[i])  # the top or the bottom in turn, for room between the speeds
        place = {"ha": "center", "va": "center", "fontsize": 8, "color": colour}
        box = {"boxstyle": "round,pad=0.1", "facecolor": "white", "edgecolor": "none"}
        left.text(orbits.x[i][end], orbits.y[i][end], f"{speed:g}", bbox=box, **place)
    left.plot(0, 0, "o", color="#E69F00")
    left.set(aspect="equal", title="orbits and initial speeds", xlabel="x", ylabel="y")
    right.set(title="relative error of the energy, largest so far", xlabel="time")
    for name, colour in zip(NAMES, ("#0072B2", "#D55E00"), strict=True):
        right.plot([], [], color=colour, label=name)
    right.legend()
    return figure


if __name__ == "__main__":
    with jax.enable_x64(True):
        orbits, chosen, energy = jax.tree.map(np.asarray, jax.jit(jax.vmap(orbit))(jnp.asarray(SPEEDS)))
    error = np.abs(energy / energy[:, :1] - 1)
    print("speed   energy  integrator  largest error of the energy")
    for i, speed in enumerate(SPEEDS):
        print(f"{speed:5.2f} {energy[i, 0]:8.3f}  {NAMES[int(chosen[i])]:<10} {error[i].max():9.1e}")
    picture(orbits, chosen.astype(int), error).savefig("orbit.png", dpi=150)
    print("drawn: orbit.png")
