"""The report of a debugging run, as plain data and as text for a terminal."""

import dataclasses
import math
from typing import Any

import numpy as np

from simkit.diagnostics.debugging.debug import DebugReport
from simkit.diagnostics.debugging.finding import Finding
from simkit.diagnostics.debugging.trace import Trace
from simkit.progress import counted

LISTED = 10


def as_dict(report: DebugReport) -> dict[str, Any]:
    """Everything as plain data; a number that JSON does not know is its name."""
    return {
        "sound": report.sound,
        "screened": report.screened,
        "paths": report.paths,
        "failed": list(report.failed),
        "findings": [_plain(finding) for finding in report.findings],
        "traces": [
            {
                "path": trace.path,
                "steps": None if trace.steps is None else trace.steps.tolist(),
                "times": trace.times.tolist(),
                "values": {name: [_number(x) for x in array] for name, array in trace.values.items()},
            }
            for trace in report.traces
        ],
        "keys": report.keys and dataclasses.asdict(report.keys),
    }


def _plain(finding: Finding) -> dict[str, Any]:
    groups = ("values", "before", "increments", "terms")
    numbers = {key: {k: _number(x) for k, x in getattr(finding, key).items()} for key in groups}
    head = {"path": finding.path, "step": finding.step, "time": finding.time}
    return head | numbers | {"cause": finding.cause}


def _number(x: Any) -> float | str:
    return float(x) if math.isfinite(x) else str(float(x))


def text(report: DebugReport) -> str:
    """The findings and the rows as lines for a person."""
    blocks = [_trace_text(trace) for trace in report.traces]
    blocks += [_finding_text(finding) for finding in report.findings]
    paths = counted(report.screened, "path")
    if report.failed:
        numbers = ", ".join(map(str, report.failed[:LISTED])) + (", …" if len(report.failed) > LISTED else "")
        blocks.append(f"{len(report.failed):,} of {paths} not finite: {numbers}")
    else:
        if report.screened < report.paths:
            paths = f"{report.screened:,} of {counted(report.paths, 'path')}"
        blocks.append(f"checked {paths}: all saved values are finite")
    if report.keys is not None:
        blocks.append(
            "\n".join(["random words used twice:", *(f"  {each}" for each in report.keys.reused[:LISTED])])
            if report.keys.reused
            else f"{report.keys.values:,} random values of {report.keys.words:,} words: none used twice"
        )
    return "\n\n".join(blocks)


def _finding_text(finding: Finding) -> str:
    lines = [finding.text]
    for title, numbers in (
        ("state before", finding.before),
        ("increments", finding.increments),
        ("terms", finding.terms),
    ):
        if numbers:
            lines.append(f"  {title}: {', '.join(f'{name} = {x:.9g}' for name, x in numbers.items())}")
    return "\n".join([*lines, f"  cause: {finding.cause}"])


def _trace_text(trace: Trace) -> str:
    """A table; enough digits that reading them gives the same bits."""
    columns: dict[str, list[str]] = {}
    if trace.steps is not None:
        columns["step"] = [str(step) for step in trace.steps]
    columns["t"] = [f"{time:g}" for time in trace.times]
    columns |= {name: [_shown(x) for x in array] for name, array in trace.values.items()}
    widths = {name: max(len(name), *map(len, cells)) for name, cells in columns.items()}
    lines = [f"path {trace.path}", "  ".join(f"{name:>{widths[name]}}" for name in columns)]
    for row in zip(*columns.values(), strict=True):
        lines.append("  ".join(f"{x:>{width}}" for x, width in zip(row, widths.values(), strict=True)))
    return "\n".join(lines)


def _shown(x: Any) -> str:
    return str(np.asarray(x)[()])
