"""Peak memory of `simkit run` on 10⁸ GBM paths: moments and quantiles, nothing stored.

The command runs in a process of its own, and the system says how much memory that held at most.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

from report import Measurement, parse_arguments, report
from rounds import Timing

EXPERIMENT = """
model: {type: GBM, mu: 0.05, sigma: 0.2}
initial: {S: 100.0}
time: {t1: 1.0, steps: 50}
save: {quantiles: [0.05, 0.25, 0.5, 0.75, 0.95]}
"""
STEPS = 50
BYTES = 1 if sys.platform == "darwin" else 1024  # the unit in which the system counts


def main():
    arguments = parse_arguments(__doc__)
    paths = 2_000_000 if arguments.small else 100_000_000
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "gbm.yaml")
        file.write_text(EXPERIMENT)
        command = [
            sys.executable,
            "-m",
            "simkit",
            "run",
            str(file),
            "--set",
            f"ensemble.paths={paths}",
            "--json",
        ]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
            output = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"simkit run failed with exit code {process.returncode}")
    seconds = json.loads(output)["elapsed_s"]
    what = f"peak memory of {paths:.0e} GBM paths, {STEPS} steps"
    findings = [
        Measurement(what, usage.ru_maxrss * BYTES / 1e9, "GB", 1.5, "at most"),
        Measurement(what.replace("peak memory", "time"), seconds, "s"),
    ]
    report("memory", findings, {"simkit run": Timing((seconds,))}, {"simkit run": paths * STEPS}, arguments)


if __name__ == "__main__":
    main()
