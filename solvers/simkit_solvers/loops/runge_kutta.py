"""Steps of explicit Runge–Kutta and stochastic Runge–Kutta methods, which consist of their tableau.

Their stages are unrolled here, which XLA fuses into the loop, where diffrax's own `step` scans them through
buffers (8 to 12 times slower).
"""

from typing import Any

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from simkit_solvers.loops.stepper import AbstractStepper
from simkit_solvers.problems.terms import brownian_increment
from simkit_solvers.random.draws import Draw


class AbstractStages(AbstractStepper):
    """A method that is nothing but its stages: it reads increments and areas, and carries nothing."""

    unrolled = True
    variates = False

    def init(self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree) -> PyTree:
        return None


class ExplicitRungeKutta(AbstractStages):
    r"""$z_i = y + \sum_{j<i} a_{ij} k_j$, $k_i = f(t + c_i h, z_i)\,h + g(t + c_i h, z_i)\,\Delta W$,
    $y_1 = y + \sum_i b_i k_i$."""

    tableau: diffrax.ButcherTableau = eqx.field(static=True)
    areas = 0

    def step(
        self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree, draw: Draw, state: PyTree
    ) -> tuple[PyTree, PyTree]:
        tableau = self.tableau
        a = [(), *tableau.a_lower]
        c = [0.0, *tableau.c]
        needed = _needed_stages(a, tableau.b_sol)
        W = brownian_increment(problem, dt, draw).W if problem.stochastic else None
        k: list[Any] = []
        for i in range(len(tableau.b_sol)):
            if not needed[i]:
                k.append(None)
                continue
            z, s = _add(y, zip(a[i], k, strict=False)), t + float(c[i]) * dt
            stage = jax.tree.map(lambda f: f * dt, problem.drift(s, z))
            if W is not None:
                stage = jax.tree.map(jnp.add, stage, problem.noise(s, z, W))
            k.append(stage)
        return _add(y, zip(tableau.b_sol, k, strict=True)), None


class StochasticRungeKutta(AbstractStages):
    r"""diffrax's stochastic Runge–Kutta form (its `AbstractSRK` page gives the equations):
    $z_i = y + h \sum a_{ij} f_j + \sum_j g_j\,(a^W_{ij} W + a^H_{ij} H + a^K_{ij} K)$. With additive noise
    the sums over $g_j$ are replaced by $g(t)$, and $g(t + h) - g(t)$ enters through $W/2 - H$.
    """

    tableau: diffrax.StochasticButcherTableau = eqx.field(static=True)
    areas: int = eqx.field(static=True)

    def step(
        self, problem: Any, t: jax.Array, dt: jax.Array, y: PyTree, draw: Draw, state: PyTree
    ) -> tuple[PyTree, PyTree]:
        increment = brownian_increment(problem, dt, draw)
        if self.tableau.is_additive_noise():
            return self._additive(problem, t, dt, y, increment), None
        return self._general(problem, t, dt, y, increment), None

    def _drivers(self, increment):
        """The pairs (Brownian increment or area, its coefficients) that the method uses."""
        pairs = [(increment.W, self.tableau.coeffs_w)]
        if self.areas > 0:
            pairs.append((increment.H, self.tableau.coeffs_hh))
        if self.areas > 1:
            pairs.append((increment.K, self.tableau.coeffs_kk))
        return pairs

    def _additive(self, problem, t, dt, y, increment):
        tableau, drivers = self.tableau, self._drivers(increment)
        a, c = [(), *tableau.a], [0.0, *tableau.c]

        def diffusion(s, weights):
            terms = [(w, driver) for w, (driver, _) in zip(weights, drivers, strict=True) if w != 0]
            return problem.noise(s, y, _combine(terms)) if terms else None

        f: list[Any] = []
        for i in range(len(tableau.b_sol)):
            z = _add(y, zip(a[i], f, strict=False))
            shift = diffusion(t, [float(coeffs.a[i]) for _, coeffs in drivers])
            z = z if shift is None else jax.tree.map(jnp.add, z, shift)
            f.append(jax.tree.map(lambda x: x * dt, problem.drift(t + float(c[i]) * dt, z)))
        y1 = _add(y, zip(tableau.b_sol, f, strict=True))
        last = diffusion(t, [float(coeffs.b_sol) for _, coeffs in drivers])
        spread = increment.W if self.areas == 0 else _combine([(1.0, increment.W), (-2.0, increment.H)])
        late, early = problem.noise(t + dt, y, spread), problem.noise(t, y, spread)
        return jax.tree.map(lambda p, q, u, v: p + q + 0.5 * (u - v), y1, last, late, early)

    def _general(self, problem, t, dt, y, increment):
        tableau, drivers = self.tableau, self._drivers(increment)
        a, c = [(), *tableau.a], [0.0, *tableau.c]
        a_noise = [[(), *coeffs.a] for _, coeffs in drivers]
        stages = len(tableau.b_sol)
        skip_f = tableau.ignore_stage_f if tableau.ignore_stage_f is not None else [False] * stages
        skip_g = tableau.ignore_stage_g if tableau.ignore_stage_g is not None else [False] * stages
        f: list[Any] = []
        g: list[list[Any]] = [[] for _ in drivers]
        for i in range(stages):
            z, s = _add(y, zip(a[i], f, strict=False)), t + float(c[i]) * dt
            for weights, columns in zip(a_noise, g, strict=True):
                z = _add(z, zip(weights[i], columns, strict=False))
            f.append(None if skip_f[i] else jax.tree.map(lambda x: x * dt, problem.drift(s, z)))
            for (driver, _), column in zip(drivers, g, strict=True):
                column.append(None if skip_g[i] else problem.noise(s, z, driver))
        y1 = _add(y, zip(tableau.b_sol, f, strict=True))
        for (_, coeffs), column in zip(drivers, g, strict=True):
            y1 = _add(y1, zip(coeffs.b_sol, column, strict=True))
        return y1


def _needed_stages(a, b) -> list[bool]:
    """Which stages the solution depends on; the last one of a first-same-as-last method is not among them."""
    needed = [float(x) != 0 for x in b]
    for i in reversed(range(len(needed))):
        if needed[i]:
            for j, weight in enumerate(a[i]):
                needed[j] = needed[j] or float(weight) != 0
    return needed


def _add(y, weighted):
    """y + the sum of weight * stage over the pairs whose weight is not zero."""
    for weight, stage in weighted:
        if stage is not None and float(weight) != 0:
            y = jax.tree.map(lambda u, v, w=float(weight): u + w * v, y, stage)
    return y


def _combine(pairs):
    """The sum of weight * tree over the pairs."""
    total = jax.tree.map(lambda x: pairs[0][0] * x, pairs[0][1])
    for weight, tree in pairs[1:]:
        total = jax.tree.map(lambda u, v, w=weight: u + w * v, total, tree)
    return total
