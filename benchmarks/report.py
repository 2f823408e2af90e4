"""What a benchmark says: machine, times, ratios and their targets, as a table and as JSON."""

import argparse
import dataclasses
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, NamedTuple

import jax
from rich.console import Console
from rich.table import Table

RESULTS = Path(__file__).parent / "results"
JAX = importlib.metadata.version("jax")


@dataclasses.dataclass(frozen=True)
class Measurement:
    """One measured number and its target: a ratio (`x`), seconds (`s`) or gigabytes (`GB`)."""

    what: str
    value: float
    unit: Literal["x", "s", "GB"] = "x"
    target: float | None = None
    wanted: Literal["at least", "at most"] = "at least"

    @property
    def met(self) -> bool | None:
        """Whether the target is reached, `None` where there is none."""
        if self.target is None:
            return None
        return self.value >= self.target if self.wanted == "at least" else self.value <= self.target

    @property
    def measured_text(self) -> str:
        return amount(self.value, self.unit)

    @property
    def target_text(self) -> str:
        return "" if self.target is None else f"{self.wanted} {amount(self.target, self.unit)}"


class Arguments(NamedTuple):
    """`--small` for a quick try, `--json` for another place to write to."""

    small: bool
    json: Path | None


def parse_arguments(about: str) -> Arguments:
    """The command line of every script here."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--small", action="store_true", help="a quick try; writes nothing unless --json is given"
    )
    parser.add_argument(
        "--json", type=Path, help=f"where to write (default: {RESULTS.name}/NAME-jaxVERSION.json)"
    )
    parsed = parser.parse_args()
    return Arguments(parsed.small, parsed.json)


def by_jax(old: float | None, new: float | None) -> float | None:
    """The target for the jax at hand: that of the 0.10 line or that of 0.12."""
    return old if JAX.startswith("0.10.") else new


def report(
    name: str,
    findings: Iterable[Measurement],
    timings: Mapping,
    work: Mapping[str, float],
    arguments: Arguments,
    more: Mapping | None = None,
) -> None:
    """Print the tables and write the JSON.

    `timings` are `Timing`s by program, `work` the path-steps of one round of each, where that says something.
    `more` goes into the JSON as it is.
    """
    findings = list(findings)
    console = Console(width=max(110, Console().width))
    console.print(f"{name}: {machine_text(machine())}", highlight=False, soft_wrap=True)
    if timings:
        table = Table("program", "rounds", "best", "median", "M steps/s")
        for program, timing in timings.items():
            rate = f"{work[program] / timing.best / 1e6:.3g}" if program in work else ""
            table.add_row(
                program, str(len(timing.seconds)), f"{timing.best:.3g} s", f"{timing.median:.3g} s", rate
            )
        console.print(table)
    table = Table(name, "measured", "target", "")
    for finding in findings:
        verdict = {True: "met", False: "missed", None: ""}[finding.met]
        table.add_row(finding.what, finding.measured_text, finding.target_text, verdict)
    console.print(table)
    path = arguments.json or (None if arguments.small else RESULTS / f"{name}-jax{JAX}.json")
    if path is None:
        return
    measured = commit()
    if arguments.json is None and measured is not None and measured.endswith("-dirty"):
        print(
            f"not kept: files differ from {measured.split('-')[0]}; commit them, or name a file with --json"
        )
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "benchmark": name,
        "small": arguments.small,
        "machine": machine(),
        "commit": measured,
        "findings": [dataclasses.asdict(finding) for finding in findings],
        "programs": {
            program: {"seconds": timing.seconds, "path_steps": work.get(program)}
            for program, timing in timings.items()
        },
        **(more or {}),
    }
    path.write_text(json.dumps(record, indent=1) + "\n")


def commit() -> str | None:
    """The commit measured, and whether files but results differ from it; `None` outside a repository.

    The picture of `work_precision.py` is a result too.
    """
    git = ["git", "-C", str(RESULTS)]
    try:
        name = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    results = [":(top,exclude)benchmarks/results", ":(top,exclude)docs/images/work_precision.png"]
    elsewhere = [*git, "diff", "--quiet", "HEAD", "--", ":/", *results]
    return name.stdout.strip() + ("-dirty" if subprocess.run(elsewhere).returncode else "")


def needs_accelerator() -> None:
    """Without an accelerator a message, and the end of the script."""
    if jax.devices()[0].platform == "cpu":
        print("not measured: this benchmark needs an accelerator, and jax sees none")
        sys.exit(0)


def machine() -> dict[str, str | int | None]:
    """Processor or accelerator, and the versions and flags that a number was measured with."""
    device = jax.devices()[0]
    return {
        "accelerator": None if device.platform == "cpu" else device.device_kind,
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "jax": JAX,
        "jaxlib": importlib.metadata.version("jaxlib"),
        "diffrax": importlib.metadata.version("diffrax"),
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
    }


def machine_text(machine: Mapping) -> str:
    """The machine in one line."""
    versions = ", ".join(f"{name} {machine[name]}" for name in ("python", "jax", "diffrax"))
    flags = machine["XLA_FLAGS"] or "no XLA_FLAGS"
    device = machine.get("accelerator") or f"{machine['processor']}, {machine['cores']} cores"
    return f"{device}, {versions}, {flags}"


def processor() -> str:
    """The processor's name, and whether it has AVX-512, which no name shows."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    fields = {key.strip(): text.strip() for key, _, text in (line.partition(":") for line in lines)}
    name = fields.get("model name", platform.machine())
    return f"{name} with AVX-512" if "avx512f" in fields.get("flags", "").split() else name


def amount(value: float, unit: str) -> str:
    """A number with two or three digits and its unit: 43x, 0.91x, 5.2 s."""
    digits = f"{value:.0f}" if value >= 20 else f"{value:.1f}" if value >= 2 else f"{value:.2f}"
    digits = digits.removesuffix(".0")
    return f"{digits}x" if unit == "x" else f"{digits} {unit}"
