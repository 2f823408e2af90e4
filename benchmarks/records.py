"""What it costs to record a run while it is at work, for `--resume`: with an output, against one without.

Commands in processes of their own. Their `elapsed_s` is that of the loop over paths, which writes records.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from report import Measurement, parse_arguments, report
from rounds import ratio, timed

STEPS = 50
EXPERIMENT = f"""
model: {{type: GBM, mu: 0.05, sigma: 0.2}}
initial: {{S: 100.0}}
time: {{t1: 1.0, steps: {STEPS}}}
"""


def main():
    arguments = parse_arguments(__doc__)
    paths, rounds = (2_000_000, 1) if arguments.small else (100_000_000, 4)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "gbm.yaml").write_text(EXPERIMENT)

        def run(*options: str) -> float:
            command = [sys.executable, "-m", "simkit", "run", "gbm.yaml", "--json", *options]
            command += ["--set", f"ensemble.paths={paths}"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
            return json.loads(done.stdout)["elapsed_s"]

        programs = {
            "recorded": lambda: run("--out", "gbm.zarr", "--no-plot", "--overwrite"),
            "plain": run,
        }
        timings = timed(programs, rounds)
    cost = ratio(timings["recorded"], timings["plain"])
    what = f"time of a recorded run of {paths:.0e} GBM paths, in one without a record"
    findings = [Measurement(what, cost, "x", 1.01, "at most")]
    report("records", findings, timings, dict.fromkeys(programs, paths * STEPS), arguments)


if __name__ == "__main__":
    main()
