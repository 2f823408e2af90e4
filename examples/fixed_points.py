"""Five ways to one fixed point, and a picture of their convergence: `python examples/fixed_points.py`.

The ground state of a Bose–Einstein condensate in a trap (Gross & Pitaevskii 1961): particles that repel each
other spread out in the potential x^2/2 + x^3/20 + g n, to which their own density n adds, and whose lowest
state has that density. Picard's iteration from the empty trap swings between two densities for ever.
"""

import jax
import jax.numpy as jnp
import numpy as np
import optimistix as optx
from matplotlib.figure import Figure
from simkit_solvers import Anderson, NewtonKrylov, Picard, fixed_point

POINTS, EDGE, G, STEPS = 64, 6.0, 5.0, 25
x = np.linspace(-EDGE, EDGE, POINTS)
h = x[1] - x[0]
laplacian = (np.eye(POINTS, k=1) + np.eye(POINTS, k=-1) - 2 * np.eye(POINTS)) / h**2
# Not a symmetric trap: its highest levels come in equal pairs, whose states have no derivative.
one_particle = -laplacian / 2 + np.diag(x**2 / 2 + x**3 / 20)

ways = {
    "Picard": Picard(1e-12, 1e-12),
    "Picard, mixing 0.2": Picard(1e-12, 1e-12, mixing=0.2),
    "Anderson, depth 5": Anderson(1e-12, 1e-12, mixing=0.5),
    "Newton": optx.Newton(1e-12, 1e-12),
    "Newton–Krylov": NewtonKrylov(1e-12, 1e-12),
}
# Okabe and Ito's colours; Newton's circles show behind the dashes that cover its line.
styles = dict(zip(ways, (".-", ".-", ".-", "o-", ".--"), strict=True))
colours = dict(zip(ways, ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000"), strict=True))


def density_of(density, g):
    """The density of the lowest state in the potential of a density."""
    states = jnp.linalg.eigh(jnp.asarray(one_particle) + jnp.diag(g * density))[1]
    return states[:, 0] ** 2 / h


def main():
    axes = (figure := Figure(figsize=(7, 4.5), layout="constrained")).add_subplot()
    start = density_of(jnp.zeros(POINTS), G)
    for name, solver in ways.items():
        solution = fixed_point(density_of, solver, start, G, steps=STEPS)
        residuals = np.maximum(np.asarray(solution.stats["residuals"]), 1e-16)
        axes.semilogy(np.arange(1, STEPS + 1), residuals, styles[name], color=colours[name], label=name)
        print(f"{name:<19} residual {residuals[-1]:.0e}, highest density {solution.value.max():.6f}")
    axes.set(xlabel="iterations", ylabel="largest |g(n) - n|")
    axes.legend()
    figure.savefig("fixed_points.png", dpi=150)
    print("wrote fixed_points.png")
    # How the highest density answers to stronger repulsion: a property of the solution, not of the way there.
    anderson = Anderson(1e-10, 1e-10, mixing=0.5)
    slope = jax.grad(lambda g: fixed_point(density_of, anderson, start, g).value.max())(G)
    print(f"d highest density / d g = {slope:.6f}")


if __name__ == "__main__":
    with jax.enable_x64(True):
        main()
