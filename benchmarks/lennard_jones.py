"""A Lennard-Jones melt, LAMMPS's bench/in.lj: 32 000 atoms, 100 steps, list builds included, on one core.

Two comparisons with LAMMPS as packaged (`apt install lammps`), plain and with its OPT pair style. *Kernel*:
skin 0.3 and a new list every 20 steps, unchecked on both sides, as in.lj has it; fast atoms cross half the
skin long before, so that pairs may be missed. *Product*: lists are renewed before an atom has moved half the
skin, each side at its best skin. Both by processor time. What is not installed is left out. Besides: jax-md,
forces alone against `lennard_jones.c` on the same list, the rate of 4000 and of 256 000 atoms, that of 1000
systems of 256 atoms in one program, and that of 128 replicas of such a system by `simkit.run`.
"""

import ctypes
import functools
import os
import shutil
import sys
import tempfile
from pathlib import Path

if hasattr(os, "sched_setaffinity"):  # before jax counts the cores
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from in_c import compiled
from jax_md_melt import melt_in_jax_md
from lammps_melt import lammps
from melt import (
    BATH,
    CUTOFF,
    DENSITY,
    DT,
    EVERY,
    KERNEL_SKIN,
    SKINS,
    TEMPERATURE,
    checked,
    many_systems,
    replicas,
    run_from_start,
    unchecked,
)
from report import Measurement, by_jax, parse_arguments, report
from rounds import Timing, processor_time, timed
from simkit_physics import lattice
from simkit_solvers import Vector

EVALUATIONS = 20


def lists_alone(cells: int, steps: int, skin: float | None):
    """How many lists a checked run makes, and a program for `EVALUATIONS` of them. Lists are the same in all
    precisions."""
    _, run = run_from_start(cells, steps, skin=skin)
    arrange = eqx.filter_jit(lambda forces, particles: forces.arranged(particles))

    def in_xla():
        return jax.block_until_ready(arrange(run.dynamics.forces, run.state.particles))

    return int(run.state.renewals.count), times(in_xla)


def forces_alone(cells: int, library: ctypes.CDLL | None):
    """The forces of a melt of some steps on one list of skin 0.3: simkit's, and those of C where there is a
    compiler. Seconds of processor time of `EVALUATIONS` each."""
    _, run = run_from_start(cells, 50, skin=KERNEL_SKIN)
    forces = run.dynamics.forces
    particles, listed = forces.arranged(run.state.particles)
    evaluate = eqx.filter_jit(lambda forces, particles, listed: forces.forces(particles, listed))

    def by_cluster(vector: Vector) -> np.ndarray:
        """An array (cluster, component, member), aligned to vectors."""
        own = np.stack([np.asarray(c).reshape(-1, 8, 64).swapaxes(1, 2).reshape(-1, 8) for c in vector], 1)
        space = np.empty(own.size + 8)
        start = -space.ctypes.data // 8 % 8
        space[start : start + own.size] = own.ravel()
        return space[start : start + own.size].reshape(own.shape)

    def in_xla():
        return jax.block_until_ready(evaluate(forces, particles, listed))

    if library is None:
        return {"forces, float64": times(in_xla)}
    # Places are (chunk, member, cluster of the chunk); C numbers members of a cluster one after the other.
    members = np.asarray(listed.members).transpose(0, 3, 1, 2).reshape(-1, 8 * listed.members.shape[1])
    there = members < forces.grid.places
    chunk, member, cluster = members // 512, members % 512 // 64, members % 64
    neighbours = ((64 * chunk + cluster) * 8 + member)[there].astype(np.int32)
    first = np.concatenate([[0], np.cumsum(there.sum(1))]).astype(np.int64)
    position = by_cluster(Vector(*(jnp.where(particles.real, c, jnp.nan) for c in particles.position)))
    result, expected = by_cluster(particles.position), by_cluster(in_xla())
    library.forces.argtypes = [ctypes.c_long, *[ctypes.c_void_p] * 4, *[ctypes.c_double] * 2]

    def in_c():
        arrays = (a.ctypes.data for a in (first, neighbours, position, result))
        library.forces(len(position), *arrays, float(forces.box.widths.x), CUTOFF)

    in_c()
    error = np.abs(result - expected)[np.isfinite(position)].max()
    if not error < 1e-10:
        sys.exit(f"lennard_jones.c: a force differs by {error:.2g}")
    return {"forces, float64": times(in_xla), "forces in C": times(in_c)}


def in_jax_md(cells: int, steps: int):
    """Seconds of processor time of jax-md; None where it is not installed."""
    particles, box = lattice("fcc", (cells,) * 3, density=DENSITY)
    side = float(box.widths.x)
    try:
        run = melt_in_jax_md(particles.position.rows(), side, DT, TEMPERATURE, CUTOFF)
    except ImportError:
        print("jax-md is not installed (pip install jax-md): simkit is not compared with it", file=sys.stderr)
        return None
    return on_processor(lambda: run(steps))


def times(evaluate):
    return on_processor(lambda: [evaluate() for _ in range(EVALUATIONS)])


def on_processor(program):
    """The program, which returns the seconds of processor time that it takes."""
    return functools.partial(processor_time, program)


def main():
    arguments = parse_arguments(__doc__)
    cells, steps, rounds = (10, 40, 2) if arguments.small else (20, 100, 5)
    atoms = 4 * cells**3
    program = shutil.which("lmp")
    if program is None:
        print("LAMMPS is not installed (apt install lammps): only simkit is measured", file=sys.stderr)
    with jax.enable_x64(True):
        programs, work = {}, {}
        for precision in ("float64", "mixed"):
            programs[f"kernel, {precision}"] = on_processor(unchecked(cells, steps, precision))
            programs[f"product, {precision}"] = on_processor(checked(cells, steps, precision))
            programs[f"product, {precision}, BAOAB"] = on_processor(checked(cells, steps, precision, BATH))
        lists = {"kernel": steps // EVERY}
        _, programs["lists, kernel"] = lists_alone(cells, steps, KERNEL_SKIN)
        lists["product"], programs["lists, product"] = lists_alone(cells, steps, None)
        for opt in (False, True) if program else ():
            name = "OPT" if opt else "plain"
            of = functools.partial(lammps, program, cells=cells, steps=steps, opt=opt)
            best = min(SKINS, key=lambda skin, of=of: of(way="product", skin=skin))
            programs[f"LAMMPS {name}, kernel"] = functools.partial(of, way="kernel", skin=KERNEL_SKIN)
            programs[f"LAMMPS {name}, product, skin {best}"] = functools.partial(of, way="product", skin=best)
        work |= {name: atoms * (EVALUATIONS if "lists" in name else steps) for name in programs}
        if not arguments.small:
            for n, count in ((10, 200), (40, 10)):
                program = unchecked(n, max(count, 20), "float64")
                programs[f"kernel, float64, {4 * n**3} atoms"] = on_processor(program)
                work[f"kernel, float64, {4 * n**3} atoms"] = 4 * n**3 * max(count, 20)
        half = steps // 2  # in which its list is made anew several times; all of them would take minutes
        jax_md = in_jax_md(cells, half)
        if jax_md is not None:
            programs["jax-md"], work["jax-md"] = jax_md, atoms * half
        systems, count = (64, 20) if arguments.small else (1000, 20)
        programs["systems of 256 atoms, float64"] = on_processor(many_systems(systems, count, "float64"))
        work["systems of 256 atoms, float64"] = systems * 256 * (count + 1)
        paths = 32 if arguments.small else 128
        programs["replicas of 256 atoms, float64"] = replicas(paths, 5 * steps)
        work["replicas of 256 atoms, float64"] = paths * 256 * 5 * steps
        with tempfile.TemporaryDirectory() as folder:
            alone = forces_alone(cells, compiled("lennard_jones", Path(folder)))
        programs |= alone
        work |= dict.fromkeys(alone, atoms * EVALUATIONS)
        result = timed(programs, rounds)
    report("lennard_jones", list(findings(result, work, lists)), result, work, arguments)


def findings(result: dict[str, Timing], work: dict[str, float], lists: dict[str, int]):
    def rate(name: str) -> float:
        return work[name] / result[name].best

    for way in ("kernel", "product"):
        for precision, old, new in (("float64", 1.2, 1.5), ("mixed", 1.8, 2.5)):
            ours = rate(f"{way}, {precision}")
            for name in result:
                if name.startswith("LAMMPS") and way in name:
                    kind = name.split(",")[0]
                    target = by_jax(old, new) if kind == "LAMMPS plain" else None
                    yield Measurement(
                        f"{way}, {precision}, one core, over {kind}", ours / rate(name), target=target
                    )
            spent = lists[way] * result[f"lists, {way}"].best / EVALUATIONS
            yield Measurement(
                f"{way}, {precision}, share of {lists[way]} lists in the time",
                spent / result[f"{way}, {precision}"].best,
                target=0.15 if way == "kernel" else 0.25,
                wanted="at most",
            )
    for precision in ("float64", "mixed"):
        ratio = rate(f"product, {precision}") / rate(f"product, {precision}, BAOAB")
        yield Measurement(f"product, {precision}, time with BAOAB over velocity Verlet", ratio)
    if "jax-md" in result:
        ours = rate("product, float64")
        yield Measurement("product, float64, one core, over jax-md", ours / rate("jax-md"), target=40)
    if "forces in C" in result:
        share = rate("forces, float64") / rate("forces in C")
        yield Measurement("forces alone, float64, over C", share, target=0.6)
    large = rate("kernel, float64")
    for name in result:
        if name.startswith("kernel, float64,"):
            yield Measurement(f"{name}, time an atom-step", large / rate(name), target=1.3, wanted="at most")
    for small in ("systems", "replicas"):
        ratio = rate(f"{small} of 256 atoms, float64") / large
        yield Measurement(f"{small} of 256 atoms, rate over the large system's", ratio, target=0.7)


if __name__ == "__main__":
    main()
