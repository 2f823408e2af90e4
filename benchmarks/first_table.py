"""The time to the first table of derivatives, from a cold start and with programs compiled before.

Each command is a process of its own on 2000 paths, so that running is nothing: what is left is imports,
tracing and, without the cache, compiling. Seconds of processor time, of all threads, and next to it the best
of the clock, which is less where XLA compiles one program while the next is traced. Python keeps the bytecode
of all modules, as it does for users.
"""

import functools
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml
from report import Measurement, parse_arguments, report
from rounds import timed

BASKET = Path(__file__).parent.parent / "examples/greeks.yaml"
CALL = {
    "constants": {"r": 0.05, "K": 100.0},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 252},
    "solver": "EulerMaruyama",
    "observe": {"call": "exp(-r*t) * maximum(S - K, 0)"},
    "sensitivity": {"wrt": ["S", "sigma", "r"], "second": ["S"]},
}
HESTON = {
    "constants": {"r": 0.03},
    "model": {"type": "Heston", "mu": "r", "kappa": 2.0, "theta": 0.06, "xi": 0.4, "rho": -0.6},
    "initial": {"S": 100.0, "v": 0.05},
    "time": {"t1": 1.0, "steps": 200},
    "solver": "EulerMaruyama",
    "observe": {"digital": "exp(-r*t) * (S > 105)"},
    "sensitivity": {"wrt": ["S", "v", "kappa", "theta", "xi", "rho", "r"], "second": ["S"]},
}


def processor_seconds(file: Path, cache: str, clocks: list[float]) -> float:
    """What one table of a file takes of all processors; the clock's seconds are added to a list."""
    environment = os.environ | {"SIMKIT_CACHE": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "simkit", "sensitivity", str(file), "--set", "ensemble.paths=2000"],
        cwd=file.parent,
        env=environment,
        check=True,
        capture_output=True,
    )
    clocks.append(time.perf_counter() - start)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main():
    arguments = parse_arguments(__doc__)
    with tempfile.TemporaryDirectory() as folder:
        programs, clocks = {}, {}
        tables = {
            "Heston digital": yaml.safe_dump(HESTON),
            "basket": BASKET.read_text(),
            "call on GBM": yaml.safe_dump(CALL),
        }
        for name, text in tables.items():
            file = Path(folder, f"{name.replace(' ', '_')}.yaml")
            file.write_text(text)
            for state, cache in (("cold", "off"), ("compiled before", str(Path(folder, "cache")))):
                what = f"{name}, {state}"
                clocks[what] = []
                programs[what] = functools.partial(processor_seconds, file, cache, clocks[what])
        timings = timed(programs, 1 if arguments.small else 3)
    findings = [
        Measurement(f"table of derivatives, {name}{where}", seconds, "s")
        for name, timing in timings.items()
        for where, seconds in (("", timing.best), (", by the clock", min(clocks[name])))
    ]
    report("first_table", findings, timings, {}, arguments)


if __name__ == "__main__":
    main()
