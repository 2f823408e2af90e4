"""Puts known faults into a copy of this checkout, one at a time, and checks that the tests catch each.

    python tests/comparison/mutations.py [--only TEXT] [--jobs 1]

The faults are those of `faults.txt`. Before any of them, the tests that they name must pass. Those marked
`slow` are left out. A line for each fault says KILLED where a test fails, SURVIVED where
none does, BROKEN where no test could run, NOT FOUND or AMBIGUOUS where its snippet is not in the sources
exactly once: adapt it where the code was rewritten. Exits 1 unless all are KILLED.
"""

import argparse
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCES = ("simkit", "solvers", "physics")
LIMIT = 900  # seconds after which the tests of one fault are ended
UP_TO_FIRST_FAILURE = ("-x", "--tb=line")


class Fault(NamedTuple):
    """What to put in place of a snippet of the sources; `tests` are named as for `pytest -k`."""

    name: str
    snippet: str
    replacement: str
    tests: str


FAULTS = [
    Fault(*parts)
    for parts in re.findall(
        r"^\[(.+)\]\n- (.+)\n\+ (.+)\n\? (.+)$",
        Path(__file__).with_name("faults.txt").read_text("utf-8"),
        re.M,
    )
]


def texts(root: Path, folders: tuple[str, ...], pattern: str = "*.py") -> dict[Path, str]:
    """The files of some folders."""
    return {
        file: file.read_text("utf-8") for each in folders for file in sorted((root / each).rglob(pattern))
    }


def places(sources: dict[Path, str], fault: Fault) -> list[tuple[Path, re.Match]]:
    """Where the fault's snippet stands; any white space in it matches any other."""
    pattern = re.compile(r"\s+".join(map(re.escape, fault.snippet.split())))
    return [(file, match) for file, text in sources.items() for match in pattern.finditer(text)]


def named_tests(tests: dict[Path, str], expression: str) -> dict[str, list[Path]]:
    """The files that define each test named in an expression for `pytest -k`."""
    names = re.findall(r"\btest_\w+", expression)
    return {name: [file for file, text in tests.items() if f"def {name}(" in text] for name in names}


def run_tests(
    root: Path, expressions: list[str], *options: str, limit: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs the tests that one of the expressions selects, but for slow ones."""
    tests = texts(root, ("tests",), "test_*.py")
    chosen = {file for each in expressions for files in named_tests(tests, each).values() for file in files}
    selection = " or ".join(f"({each})" for each in expressions)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        *options,
    ]
    return subprocess.run(
        [*command, "-k", selection, *sorted(map(str, chosen))],
        cwd=root,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(str(root / each) for each in ("", *SOURCES[1:]))},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=limit,
    )


def outcome(root: Path, fault: Fault) -> str:
    """What the tests say of a checkout with the fault, which is taken out again."""
    sources = texts(root, SOURCES)
    matches = places(sources, fault)
    if len(matches) != 1:
        return "AMBIGUOUS" if matches else "NOT FOUND"
    ((file, match),) = matches
    text = sources[file]
    file.write_text(text[: match.start()] + fault.replacement + text[match.end() :], "utf-8")
    try:
        run = run_tests(root, [fault.tests], *UP_TO_FIRST_FAILURE, limit=LIMIT)
    except subprocess.TimeoutExpired:
        return "TIMEOUT"
    finally:
        file.write_text(text, "utf-8")
    if run.returncode == 1:
        test = re.search(r"^(?:FAILED|ERROR) \S+::(.+?)(?: - |$)", run.stdout, re.M)
        error = re.search(r"^\S+\.py:\d+: (.+)", run.stdout, re.M)
        return f"KILLED by {test[1] if test else '?'}: {error[1][:100] if error else '?'}"
    return "SURVIVED" if run.returncode == 0 else f"BROKEN\n{run.stdout[-2000:]}"


def copy_of_checkout(folder: Path) -> Path:
    """A copy of the files that git knows or would add."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default="", help="faults whose name contains this")
    parser.add_argument("--jobs", type=int, default=1, help="faults tried at a time, each in a copy")
    given = parser.parse_args()

    faults = [fault for fault in FAULTS if given.only in fault.name]
    if not faults:
        parser.error(f"no fault has {given.only!r} in its name")
    with tempfile.TemporaryDirectory() as temporary:
        copies: queue.Queue[Path] = queue.Queue()
        for i in range(given.jobs):
            copies.put(copy_of_checkout(Path(temporary, str(i))))
        before = run_tests(
            Path(temporary, "0"), sorted({fault.tests for fault in faults}), *UP_TO_FIRST_FAILURE
        )
        if before.returncode != 0:
            print(f"{before.stdout[-4000:]}\nThe tests must pass without faults.")
            return 1
        print(f"without faults: {before.stdout.strip().splitlines()[-1]}", flush=True)

        def tried(fault: Fault) -> bool:
            start, root = time.monotonic(), copies.get()
            try:
                result = outcome(root, fault)
            finally:
                copies.put(root)
            print(f"{fault.name} ({time.monotonic() - start:.0f} s): {result}", flush=True)
            return result.startswith("KILLED")

        with ThreadPoolExecutor(given.jobs) as pool:
            killed = sum(pool.map(tried, faults))
    print(f"{killed} of {len(faults)} faults are caught")
    return 0 if killed == len(faults) else 1


if __name__ == "__main__":
    sys.exit(main())
