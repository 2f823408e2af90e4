"""From a cold start: `simkit run examples/gbm.yaml`, imports and compilation included, and `simkit --help`.

Each command runs in a process of its own and writes its dataset and picture, with no compilation cache unless
that is said.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from simkit import tune_process

if not tune_process():
    print("not asking XLA for 512-bit vectors: see `simkit doctor`", file=sys.stderr)

from report import Measurement, parse_arguments, report
from rounds import timed, waited_for

EXAMPLE = Path(__file__).parent.parent / "examples/gbm.yaml"


def main():
    arguments = parse_arguments(__doc__)
    environment = {
        name: text for name, text in os.environ.items() if not name.startswith("JAX_COMPILATION_CACHE")
    }
    with tempfile.TemporaryDirectory() as folder:

        def command(*words: str, cache: str = "off") -> float:
            whole = [sys.executable, "-m", "simkit", *words]
            return waited_for(
                lambda: subprocess.run(
                    whole,
                    cwd=folder,
                    env=environment | {"SIMKIT_CACHE": cache},
                    check=True,
                    capture_output=True,
                )
            )

        timings = timed(
            {
                "simkit run examples/gbm.yaml": lambda: command("run", str(EXAMPLE), "--overwrite"),
                "the same, compiled before": lambda: command(
                    "run", str(EXAMPLE), "--overwrite", cache=str(Path(folder, "cache"))
                ),
                "simkit --help": lambda: command("--help"),
            },
            1 if arguments.small else 5,
        )
    findings = [
        Measurement(f"{program}, cold start", timings[program].median, "s", target, "at most")
        for program, target in (
            ("simkit run examples/gbm.yaml", 8),
            ("the same, compiled before", None),
            ("simkit --help", 0.5),
        )
    ]
    report("cold_start", findings, timings, {}, arguments)


if __name__ == "__main__":
    main()
