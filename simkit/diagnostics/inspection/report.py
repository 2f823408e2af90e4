"""An inspection as plain data, as text for a terminal, and as files."""

import dataclasses
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from simkit.diagnostics.inspection.drawing import LARGEST, save_graph
from simkit.diagnostics.inspection.inspection import CompiledProgram, Inspection
from simkit.errors import OutputError
from simkit.progress import counted, short_count
from simkit.results.printing import plain_columns
from simkit.results.storage import check_folder_of

PARTS = ("jaxpr", "stablehlo", "hlo", "cost", "memory", "kernels", "graph")
TEXTS = {"jaxpr": "jaxpr.txt", "stablehlo": "stablehlo.mlir", "hlo": "hlo.txt"}
GRAPHS = {"model": "graph", "operations": "operations"}


def as_dict(inspection: Inspection, parts: Collection[str] = PARTS) -> dict[str, Any]:
    """All figures as plain data; of the texts the number of lines, of the graphs all nodes and edges."""
    result: dict[str, Any] = {
        "paths": inspection.paths,
        "chunks": inspection.chunks,
        "paths_per_chunk": inspection.paths_per_chunk,
        "devices": inspection.devices,
    }
    result["programs"] = {name: _program(program, parts) for name, program in inspection.programs.items()}
    if "kernels" in parts:
        result["loops"] = [dataclasses.asdict(loop) for loop in inspection.loops]
    if {"kernels", "cost"} & set(parts):
        step = inspection.step
        result["step"] = (
            None
            if step is None
            else dataclasses.asdict(step)
            | {
                "kernels_per_step": step.kernels_per_step,
                "operations_per_byte": step.intensity,
            }
        )
    if "graph" in parts:
        result["graph"] = inspection.model.as_dict()
        result["operations"] = inspection.operations.as_dict()
    return result


def _program(program: CompiledProgram, parts: Collection[str]) -> dict[str, Any]:
    result: dict[str, Any] = {
        f"{name}_s": getattr(program, f"{name}_s") for name in ("trace", "lower", "compile")
    }
    result |= {f"{part}_lines": len(getattr(program, part).splitlines()) for part in TEXTS if part in parts}
    if "cost" in parts:
        result["cost"] = program.cost
    if "memory" in parts:
        result["memory"] = dataclasses.asdict(program.memory)
    return result


def text(inspection: Inspection, parts: Collection[str] = PARTS) -> str:
    """The figures as lines for a person."""
    blocks = []
    programs = inspection.programs.values()
    rows = [("", *inspection.programs)]
    for stage in ("trace", "lower", "compile"):
        rows.append((f"{stage}, s", *(f"{getattr(p, f'{stage}_s'):.2f}" for p in programs)))
    for part in TEXTS:
        if part in parts:
            rows.append((f"{part}, lines", *(f"{len(getattr(p, part).splitlines()):,}" for p in programs)))
    if "memory" in parts:
        for name in ("arguments", "outputs", "temporaries"):
            rows.append((f"{name}, bytes", *(short_count(getattr(p.memory, name)) for p in programs)))
    if "cost" in parts:
        for name in ("flops", "transcendentals", "bytes accessed"):
            rows.append((f"XLA: {name}", *(short_count(int(p.cost.get(name, 0))) for p in programs)))
    paths, count = counted(inspection.paths, "path"), counted(inspection.chunks, "chunk")
    chunks = f"{paths} in {count} of {inspection.paths_per_chunk:,}"
    if programs:
        blocks.append(f"{chunks}, devices: {inspection.devices}\n{plain_columns(rows)}")
    if "cost" in parts:
        blocks[-1] += "\nXLA counts the body of a loop once, however often it runs, and integers as flops."
    if {"kernels", "cost"} & set(parts):
        blocks.append(_step_text(inspection))
    if "kernels" in parts:
        blocks.append(_loops_text(inspection))
    if "graph" in parts:
        blocks.append(_graph_text(inspection))
    return "\n\n".join(blocks)


def _step_text(inspection: Inspection) -> str:
    step = inspection.step
    if step is None:
        return "The compiler has left no loop over steps."
    iteration = "one step" if step.steps_per_iteration == 1 else f"{step.steps_per_iteration} steps"
    rows = [
        (
            "kernels",
            f"{step.kernels} ({step.path_kernels} of them over the paths) per iteration of {iteration}",
        ),
        ("", f"{step.kernels_per_step:.3g} per step"),
        (
            "operations",
            f"{step.floating:.4g} floating, {step.integer:.4g} integer, "
            f"{step.transcendental:.4g} transcendental",
        ),
        ("bytes", f"{step.bytes:.4g}"),
    ]
    if step.intensity is not None:
        rows.append(("operations per byte", f"{step.intensity:.3g}"))
    if step.loops_inside:
        rows.append(("loops inside", f"{step.loops_inside}, not counted"))
    lanes = f"in the loop over {step.paths:,} paths" if step.paths > 1 else "which is that of all"
    return f"one step of one path, {lanes}\n{plain_columns(rows)}"


def _loops_text(inspection: Inspection) -> str:
    rows: list[tuple[str, ...]] = [("loop", "iterations", "kernels", "over paths", "copies", "")]
    for loop in inspection.loops:
        trips = "?" if loop.trips is None else f"{loop.trips:,}"
        counts = (loop.kernels, loop.path_kernels, loop.copies)
        mark = "steps" if loop.steps else ""
        rows.append(("  " * loop.depth + loop.name, trips, *map(str, counts), mark))
    return f"loops of the simulation\n{plain_columns(rows)}"


def _graph_text(inspection: Inspection) -> str:
    lines = ["what depends on what"]
    labels = {node.name: node.label for node in inspection.model.nodes}
    for node in inspection.model.nodes:
        before = [labels[name] for name in inspection.model.before(node.name)]
        if before:
            lines.append(f"  {node.label} <- {', '.join(before)}")
    graph = inspection.operations
    lines.append(f"operations of one step: {len(graph.nodes)} nodes, {len(graph.edges)} edges")
    return "\n".join(lines)


def file_names(parts: Collection[str] = PARTS) -> list[str]:
    """The files that `write` makes."""
    names = ["report.json", *(name for part, name in TEXTS.items() if part in parts)]
    if "graph" in parts:
        names += [f"{name}.{ending}" for name in GRAPHS.values() for ending in ("dot", "svg")]
    return names


def check_folder(folder: Path, overwrite: bool, parts: Collection[str] = PARTS) -> None:
    """Raise `OutputError` where a file is there already and may not be replaced, or none can be made."""
    old = [name for name in file_names(parts) if (folder / name).exists()]
    if old and not overwrite:
        raise OutputError(f"{folder / old[0]}: exists already; to replace it use --overwrite")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder}: is a file; name a folder")
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    if not there.is_dir():
        raise OutputError(f"{folder}: {there} is not a directory; choose another output")
    check_folder_of(folder, there)


def write(inspection: Inspection, folder: Path, parts: Collection[str] = PARTS) -> list[Path]:
    """Write the texts, the report and the graphs into a folder; gives what was written.

    A graph of more than 600 nodes is written as a text only. Raises `OutputError`.
    """
    written = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        contents = {
            "report.json": json.dumps(as_dict(inspection, parts), indent=2, ensure_ascii=False) + "\n"
        }
        contents |= {
            name: getattr(inspection.programs["simulation"], part)
            for part, name in TEXTS.items()
            if part in parts
        }
        if "graph" in parts:
            contents |= {f"{file}.dot": getattr(inspection, name).dot() for name, file in GRAPHS.items()}
        for name, content in contents.items():
            (folder / name).write_text(content, encoding="utf-8")
            written.append(folder / name)
    except OSError as error:
        raise OutputError(f"{folder}: {error.strerror or error}") from error
    for name, file in GRAPHS.items() if "graph" in parts else ():
        graph = getattr(inspection, name)
        if len(graph.nodes) <= LARGEST:
            save_graph(graph, folder / f"{file}.svg")
            written.append(folder / f"{file}.svg")
    return written
