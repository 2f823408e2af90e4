"""The melt of `lennard_jones.py` on all cores, by the clock, with LAMMPS on as many ranks of MPI.

*Kernel* and *product* are as there. Both sides are also run on one core each, for the gain of the others.
"""

import functools
import os
import shutil
import sys

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

import jax
from lammps_melt import lammps
from melt import KERNEL_SKIN, SKINS, checked, unchecked
from report import Measurement, by_jax, parse_arguments, report
from rounds import Timing, by_the_clock, timed

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
jax.config.update("jax_num_cpu_devices", CORES)


def main():
    arguments = parse_arguments(__doc__)
    cells, steps, rounds = (10, 40, 2) if arguments.small else (20, 100, 5)
    if CORES == 1:
        sys.exit("this process may use one core only: there is nothing to compare")
    program = shutil.which("lmp") if shutil.which("mpirun") else None
    if program is None:
        print(
            "LAMMPS or mpirun is not installed (apt install lammps): only simkit is measured", file=sys.stderr
        )
    ways = {"kernel": unchecked, "product": checked}
    programs = {}
    with jax.enable_x64(True):
        for way, made in ways.items():
            for precision in ("float64", "mixed"):
                for count in (1, CORES):
                    devices = tuple(jax.devices()[:count]) if count > 1 else ()
                    run = made(cells, steps, precision, devices=devices)
                    programs |= by_the_clock({f"{way}, {precision}, {cores(count)}": run})
        for count in (1, CORES) if program else ():
            of = functools.partial(lammps, program, cells=cells, steps=steps, ranks=count)
            best = min(SKINS, key=lambda skin, of=of: of(way="product", skin=skin))
            for way, skin in (("kernel", KERNEL_SKIN), ("product", best)):
                programs[f"LAMMPS, {way}, {cores(count)}"] = functools.partial(of, way=way, skin=skin)
        result = timed(programs, rounds)
    work = dict.fromkeys(result, 4.0 * cells**3 * steps)
    report("lennard_jones_cores", list(findings(result)), result, work, arguments)


def cores(count: int) -> str:
    return "1 core" if count == 1 else f"{count} cores"


def findings(result: dict[str, Timing]):
    every = cores(CORES)
    for way in ("kernel", "product"):
        peer = result.get(f"LAMMPS, {way}, {every}")
        for precision, target in (("float64", 1.5), ("mixed", 2.2)):
            ours = result[f"{way}, {precision}, {every}"]
            if peer is not None:
                wanted = by_jax(None, target)
                over = peer.best / ours.best
                yield Measurement(f"{way}, {precision}, {every}, over LAMMPS plain", over, target=wanted)
            gain = result[f"{way}, {precision}, 1 core"].best / ours.best
            yield Measurement(f"{way}, {precision}, rate on {every} over that on one", gain)
        if peer is not None:
            gain = result[f"LAMMPS, {way}, 1 core"].best / peer.best
            yield Measurement(f"LAMMPS plain, {way}, rate on {every} over that on one", gain)


if __name__ == "__main__":
    main()
