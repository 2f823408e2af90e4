"""A Lennard-Jones melt on a GPU: 100 steps of `melt.py`'s start, lists included, no pair missed.

The list of a cluster has some 170 particles, each of which is a pair of some 30 instructions with each of its
eight members: by arithmetic alone an H100 could do 6.6e9 atom-steps in a second in float32, half in float64.
"""

import functools

import jax
from melt import checked, many_systems
from report import Measurement, needs_accelerator, parse_arguments, report
from rounds import timed, waited_for

STEPS = 100
LIMIT = {"mixed": 6.6e9, "float64": 3.3e9}


def main():
    arguments = parse_arguments(__doc__)
    needs_accelerator()
    clocks, work = {}, {}
    with jax.enable_x64(True):
        for cells in (10,) if arguments.small else (20, 64):
            for precision in ("float64", "mixed"):
                name = f"{4 * cells**3} atoms, {precision}"
                program = checked(cells, STEPS, precision)
                clocks[name], work[name] = functools.partial(waited_for, program), 4 * cells**3 * STEPS
        systems = 64 if arguments.small else 4000
        name = f"{systems} systems of 256 atoms, float64"
        program = many_systems(systems, STEPS, "float64")
        clocks[name], work[name] = functools.partial(waited_for, program), 256 * systems * (STEPS + 1)
        timings = timed(clocks, 2)
    findings = [
        Measurement(
            f"GPU: melt of {name}, of the limit on an H100",
            work[name] / timing.best / LIMIT[name.split()[-1]],
        )
        for name, timing in timings.items()
        if "systems" not in name  # over all pairs
    ]
    report("accelerator_melt", findings, timings, work, arguments)


if __name__ == "__main__":
    main()
