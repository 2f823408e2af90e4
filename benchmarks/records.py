"""What it costs to record a run while it is at work, for `--resume`: against a run without a record."""

import sys
import tempfile
from pathlib import Path

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

from report import Measurement, parse_arguments, report
from rounds import interleaved, ratio

import simkit
from simkit.records.record_file import record_of
from simkit.records.recording import Recording, recording

STEPS = 50


def main():
    arguments = parse_arguments(__doc__)
    paths, rounds = (2_000_000, 1) if arguments.small else (100_000_000, 4)
    gbm = {
        "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "solver": "EulerMaruyama",
        "time": {"t1": 1.0, "steps": STEPS},
        "ensemble": {"paths": paths, "seed": 1},
    }

    def recorded():
        with tempfile.TemporaryDirectory() as folder:
            record = Recording(record_of(Path(folder, "gbm.zarr")), {})
            with recording(record):
                simkit.run(gbm)
            record.remove()

    programs = {"recorded": recorded, "plain": lambda: simkit.run(gbm)}
    timings = interleaved(programs, rounds)
    cost = ratio(timings["recorded"], timings["plain"])
    what = f"time of a recorded run of {paths:.0e} GBM paths, in one without a record"
    findings = [Measurement(what, cost, "x", 1.01, "at most")]
    report("records", findings, timings, dict.fromkeys(programs, paths * STEPS), arguments)


if __name__ == "__main__":
    main()
