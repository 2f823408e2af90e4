"""Every benchmark, each in a process of its own, then one table of all results in Markdown.

`python benchmarks` runs them and prints the table, `python benchmarks --table` prints it from what was
measured before, with one column for each version of jax that there are results of.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from report import RESULTS, Measurement, machine_text

ORDER = (
    "gbm",
    "heston",
    "three_state",
    "sde_solvers",
    "exact_sampling",
    "lorenz",
    "adaptive_ode",
    "adaptive_sde",
    "stiff",
    "reactions",
    "work_precision",
    "sensitivity",
    "gradient",
    "long_gradient",
    "pair_forces",
    "lennard_jones",
    "lennard_jones_cores",
    "greeks",
    "global_sensitivity",
    "run_overhead",
    "sweeps",
    "records",
    "variance_reduction",
    "error_for_less",
    "asian_call",
    "multilevel",
    "threads",
    "compile_time",
    "first_table",
    "numbers_of_steps",
    "cold_start",
    "memory",
    "accelerator",
    "accelerator_melt",
)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--table", action="store_true", help="only print the table of what was measured before"
    )
    parser.add_argument("--small", action="store_true", help="a quick try of every script; writes nothing")
    arguments = parser.parse_args()
    if not arguments.table:
        for name in ORDER:
            script = [sys.executable, str(Path(__file__).with_name(f"{name}.py"))]
            subprocess.run(script + (["--small"] if arguments.small else []), check=True)
    if not arguments.small:
        print(markdown())


def markdown() -> str:
    """The table of all results: a row for each finding, two columns for each version of jax."""
    records = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("*.json"))]
    versions = sorted({record["machine"]["jax"] for record in records}, key=release)
    cells: dict[str, dict[str, Measurement]] = {}
    for record in sorted(records, key=lambda record: ORDER.index(record["benchmark"])):
        for finding in (Measurement(**fields) for fields in record["findings"]):
            cells.setdefault(finding.what, {})[record["machine"]["jax"]] = finding
    header = ["", *(text for version in versions for text in (f"jax {version}", "target"))]
    lines = [header, ["---"] * len(header)]
    for what, result in cells.items():
        row = [what]
        for version in versions:
            finding = result.get(version)
            row += [finding.measured_text, finding.target_text] if finding else ["", ""]
        lines.append(row)
    machines = dict.fromkeys(machine_text(record["machine"]) for record in records)
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return "\n".join([table, "", *(f"Measured on {text}." for text in machines)])


def release(version: str) -> tuple[int, ...]:
    """A version as numbers, so that 0.12 comes after 0.9."""
    return tuple(int(part) for part in version.split(".") if part.isdigit())


if __name__ == "__main__":
    main()
