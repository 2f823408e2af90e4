"""Compares the results of two checkouts on this machine: saved arrays bit by bit, tables, JSON and messages.

    python tests/comparison/compare.py BEFORE AFTER [--only TEXT] [--tolerance 1e-12] [--jobs 2]
    python tests/comparison/compare.py CHECKOUT --save FOLDER

BEFORE and AFTER are folders with a checkout each, or BEFORE is one in which results were saved. The cases
are the examples and the gallery, each model at its documented example, each solver on the first problem that
it accepts, sensitivities, studies, and files with errors, all in float64 and float32. Cases are told to
both checkouts by their command line only, so that modules may move in between. Exits 1 where results differ,
and prints where.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from cases import Case, all_cases

WORKER = Path(__file__).with_name("worker.py")
SAVED = "results.json"


def results(checkout: Path, cases: list[Case], folder: Path, jobs: int) -> dict[str, dict]:
    """What a checkout makes of each case: exit code, printed lines, JSON, arrays by name."""
    folder.mkdir(parents=True)
    portions = [cases[i::jobs] for i in range(jobs)]

    def run(i: int) -> list[dict]:
        paths = [str(checkout), str(checkout / "solvers"), str(checkout / "physics")]
        process = subprocess.run(
            [sys.executable, str(WORKER), str(folder)],
            input=json.dumps([case._asdict() for case in portions[i]]),
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "160", "SIMKIT_CACHE": "off"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return [json.loads(line) for line in process.stdout.splitlines()]

    with ThreadPoolExecutor(jobs) as pool:
        return {result["name"]: result for portion in pool.map(run, range(jobs)) for result in portion}


def save(checkout: Path, cases: list[Case], folder: Path, jobs: int) -> None:
    """The results of a checkout in a new folder, to be compared with later."""
    by_case = results(checkout, cases, folder, jobs)
    if empty := without_arrays(cases, by_case):
        print(f"These cases have no arrays to compare: {', '.join(empty)}")
    record = [{"case": case._asdict(), "result": by_case[case.name]} for case in cases]
    (folder / SAVED).write_text(json.dumps(record), "utf-8")


def saved(folder: Path) -> tuple[list[Case], dict[str, dict]]:
    """The cases and the results in a folder."""
    record = json.loads((folder / SAVED).read_text("utf-8"))
    cases = [Case(**each["case"]) for each in record]
    return cases, {each["result"]["name"]: each["result"] for each in record}


def differences(before: dict, after: dict, tolerance: float) -> list[str]:
    """How two results of one case differ, one line each."""
    lines = []
    if before["exit_code"] != after["exit_code"]:
        lines.append(f"exit_code: {before['exit_code']} and {after['exit_code']}")
    for part in ("printed", "json"):
        if before[part] != after[part] and not tolerance:  # which may change last digits
            lines.append(f"{part}: {_first_difference(before[part], after[part])}")
    old, new = (dict(np.load(result["arrays"])) if result["arrays"] else {} for result in (before, after))
    for name in sorted(old.keys() | new.keys()):
        if name not in old or name not in new:
            lines.append(f"{name}: only {'before' if name in old else 'after'}")
        elif old[name].shape != new[name].shape or old[name].dtype != new[name].dtype:
            lines.append(f"{name}: {_kind(old[name])} before, {_kind(new[name])} after")
        elif not _equal(old[name], new[name], tolerance):
            lines.append(f"{name}: differs by {_distance(old[name], new[name]):.3g} relative")
    return lines


def without_arrays(cases: list[Case], results: dict[str, dict]) -> list[str]:
    """The cases that compare nothing but a message, which only those with errors may."""
    return [case.name for case in cases if case.command != "validate" and not results[case.name]["arrays"]]


def _kind(array: np.ndarray) -> str:
    return f"{array.dtype}{list(array.shape)}"


def _equal(old: np.ndarray, new: np.ndarray, tolerance: float) -> bool:
    if old.tobytes() == new.tobytes():
        return True
    return tolerance > 0 and old.dtype.kind == "f" and _distance(old, new) <= tolerance


def _distance(old: np.ndarray, new: np.ndarray) -> float:
    """The largest difference, relative to the largest number of the array; infinite unless numbers."""
    if old.dtype.kind not in "fiub" or not np.array_equal(np.isnan(old), np.isnan(new)):
        return np.inf
    change = np.abs(old.astype(float) - new.astype(float))
    return float(np.nanmax(change, initial=0.0) / max(float(np.nanmax(np.abs(old), initial=0.0)), 1e-300))


def _first_difference(old: str, new: str) -> str:
    for one, other in zip(old.splitlines(), new.splitlines(), strict=False):
        if one != other:
            return f"\n      before: {one}\n      after:  {other}"
    return f"{len(old.splitlines())} lines before, {len(new.splitlines())} after"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("before", type=Path)
    parser.add_argument("after", type=Path, nargs="?")
    parser.add_argument("--save", type=Path, metavar="FOLDER", help="only save the results of one checkout")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--tolerance", type=float, default=0.0, help="relative; 0 means the same bits")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    given = parser.parse_args()

    before = given.before.resolve()
    cases, old = saved(before) if (before / SAVED).exists() else (all_cases(before), None)
    cases = [case for case in cases if given.only in case.name]
    if given.save:
        save(before, cases, given.save.resolve(), given.jobs)
        return 0
    if given.after is None:
        parser.error("name a second checkout, or --save FOLDER")
    after = given.after.resolve()
    with tempfile.TemporaryDirectory() as folder:
        if old is None:
            old = results(before, cases, Path(folder, "before"), given.jobs)
        new = results(after, cases, Path(folder, "after"), given.jobs)
        different = 0
        for case in cases:
            lines = differences(old[case.name], new[case.name], given.tolerance)
            different += bool(lines)
            for line in lines:
                print(f"{case.name}: {line}")
        arrays = sum(len(np.load(result["arrays"]).files) for result in new.values() if result["arrays"])
    empty = without_arrays(cases, new)
    for name in empty:
        print(f"{name}: has no arrays: {new[name]['printed'].splitlines()[-1:]}")
    print(f"{len(cases)} cases, {arrays} arrays; {different} cases differ")
    return 1 if different or empty else 0


if __name__ == "__main__":
    sys.exit(main())
