"""Derivatives of a pair energy over a list of neighbours: by rules, without them, and of a dense list.

A Lennard-Jones melt of 32 000 atoms at density 0.8442, cutoff 2.5 and skin 0.3, in float64. The reverse pass
of the energy, which is the forces, and that of the forces, which is the Hessian of the energy times a vector.
"""

import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

import jax
import jax.numpy as jnp
import numpy as np
from report import Measurement, parse_arguments, report
from rounds import interleaved
from scipy.spatial import cKDTree
from simkit_physics import PairInputs, PairSum, pair_energy

RULES, PROGRAM, DENSE = "rules", "the program's own", "a dense list"
FORCES, HESSIAN = "forces", "Hessian times vector"
DENSITY, CUTOFF, SKIN = 0.8442, 2.5, 0.3


def lennard_jones(r2, args):
    """The energy of a pair, with well depth and diameter of 1."""
    s6 = 1 / r2**3
    return 4 * (s6**2 - s6)


def melt(cells: int):
    """Positions `(3, 4 cells^3)` near those of a crystal, and the side of their box."""
    side = (4 / DENSITY) ** (1 / 3)
    basis = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
    corners = np.stack(np.meshgrid(*[np.arange(cells)] * 3, indexing="ij"), -1).reshape(-1, 1, 3)
    x = side * (corners + basis).reshape(-1, 3)
    return ((x + 0.05 * np.random.default_rng(0).standard_normal(x.shape)) % (cells * side)).T, cells * side


def full_list(x, side):
    """The neighbours `(most, particles)` of each, filled up with itself."""
    pairs = cKDTree(x.T, boxsize=side).query_pairs(CUTOFF + SKIN, output_type="ndarray")
    i, j = np.concatenate([pairs, pairs[:, ::-1]]).T
    order = np.argsort(i, kind="stable")
    i, j = i[order], j[order]
    count = np.bincount(i, minlength=x.shape[1])
    first = np.cumsum(count) - count
    result = np.tile(np.arange(x.shape[1], dtype=np.int32), (count.max(), 1))
    result[np.arange(len(i)) - first[i], i] = j
    return result


def dense_energy(x, neighbours, side):
    """The energy as most would write it, of an array `(dimensions, most, particles)`."""
    separation = x[:, None, :] - x[:, neighbours]
    separation -= side * jnp.round(separation / side)
    r2 = jnp.sum(separation**2, axis=0)
    near = (r2 > 0) & (r2 < CUTOFF**2)
    return 0.5 * jnp.sum(jnp.where(near, lennard_jones(jnp.where(near, r2, 1.0), None), 0))


def energies(neighbours, side):
    """The energy as a function of positions: with the rules, without them, and of a dense list."""
    box = jnp.full(3, side)
    plain = PairSum(neighbours, lennard_jones, CUTOFF)
    return {
        RULES: lambda x: pair_energy(lennard_jones, x, neighbours, cutoff=CUTOFF, box=box),
        PROGRAM: lambda x: plain.energy(x, PairInputs(None, box)),
        DENSE: lambda x: dense_energy(x, neighbours, side),
    }


def main():
    arguments = parse_arguments(__doc__)
    cells, rounds = (8, 3) if arguments.small else (20, 15)
    with jax.enable_x64(True):
        x, side = melt(cells)
        neighbours = jnp.asarray(full_list(x, side))
        x, v = jnp.asarray(x), jnp.asarray(np.random.default_rng(1).standard_normal(x.shape))
        run, kept = {}, {}
        for name, energy in energies(neighbours, side).items():
            gradient = jax.grad(energy)
            both = {
                FORCES: lambda x, v, g=gradient: g(x),
                HESSIAN: lambda x, v, g=gradient: jax.vjp(g, x)[1](v),
            }
            for what, function in both.items():
                compiled = jax.jit(function).lower(x, v).compile()
                kept[what, name] = compiled.memory_analysis().temp_size_in_bytes / 1e9
                run[f"{what}, {name}"] = lambda f=compiled: f(x, v)
                expected = run[f"{what}, {RULES}"]()
                np.testing.assert_allclose(run[f"{what}, {name}"](), expected, rtol=1e-9, atol=1e-7)
        result = interleaved(run, rounds)
    findings = []
    for what in (FORCES, HESSIAN):
        for name in (PROGRAM, DENSE):
            saved = result[f"{what}, {name}"].best / result[f"{what}, {RULES}"].best
            findings.append(Measurement(f"Lennard-Jones, {what}, time of {name} over rules", saved))
        findings.append(Measurement(f"Lennard-Jones, {what}, temporary memory", kept[what, RULES], "GB"))
        findings.append(
            Measurement(f"Lennard-Jones, {what}, temporary memory of {DENSE}", kept[what, DENSE], "GB")
        )
    report("pair_forces", findings, result, {}, arguments)


if __name__ == "__main__":
    main()
