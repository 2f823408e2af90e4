"""The melt of `lennard_jones.py` in LAMMPS."""

import os
import re
import subprocess
import tempfile
from pathlib import Path

INPUT = """
units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 {cells} 0 {cells} 0 {cells}
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 1.44 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor {skin} bin
neigh_modify {modify}
fix 1 all nve
thermo {steps}
run {steps}
"""
MODIFY = {"kernel": "delay 0 every 20 check no", "product": "delay 0 every 1 check yes"}


def lammps(
    program: str, way: str, skin: float, cells: int, steps: int, opt: bool = False, ranks: int | None = None
) -> float:
    """Seconds of LAMMPS's loop: of processor time, or by the clock on so many ranks of MPI."""
    with tempfile.TemporaryDirectory() as folder:
        text = INPUT.format(cells=cells, skin=skin, modify=MODIFY[way], steps=steps)
        Path(folder, "in.lj").write_text(text)
        command = [program, "-in", "in.lj", "-log", "none", *(["-sf", "opt"] if opt else [])]
        if ranks is not None:
            command = ["mpirun", "--allow-run-as-root", "-np", str(ranks), *command]
        single = {**os.environ, "OMP_NUM_THREADS": "1"}
        run = subprocess.run(command, cwd=folder, env=single, capture_output=True, text=True, check=True)
    loop = re.search(rf"Loop time of ([\d.]+) on {ranks or 1} procs", run.stdout)
    share = re.search(r"([\d.]+)% CPU use", run.stdout)
    assert loop
    assert share
    return float(loop[1]) if ranks is not None else float(loop[1]) * float(share[1]) / 100
