"""Runs cases through the command line of the simkit that PYTHONPATH names, a line of JSON for each."""

import json
import os
import re
import sys
import traceback
from pathlib import Path

import numpy as np
import xarray
from typer.testing import CliRunner

from simkit.cli import app

# What no two runs share: times, speeds, versions and the folder.
VARIABLE = re.compile(
    r'"(elapsed_s|compile_s|path_steps_per_s|steps_per_s|wall_s|simkit|version)": [^\n]*'
    r"|.*(compiled in| in [0-9.]+ s\b|per second|already compiled).*"
)


def run(arguments: list[str]) -> tuple[int, str]:
    """A command in this process: its exit code, and what it printed on both streams."""
    result = CliRunner().invoke(app, arguments, prog_name="simkit")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return -1, "".join(traceback.format_exception(result.exception))
    return result.exit_code, result.output


def constant(text: str, folder: Path) -> str:
    """A text without what changes from run to run."""
    return VARIABLE.sub("", text.replace(str(folder), "")).strip()


def result(case: dict, folder: Path) -> dict:
    """Runs a case once, with its dataset, and writes its arrays to a file."""
    place = folder / re.sub(r"\W+", "_", case["name"])
    place.mkdir()
    os.chdir(place)
    for text in case["texts"]:
        Path("case.yaml").write_text(text, encoding="utf-8")
        if len(case["texts"]) == 1 or run(["validate", "case.yaml"])[0] == 0:
            break
    settings = [word for each in case["settings"] for word in ("--set", each)]
    command = [case["command"], "case.yaml", *settings]
    if case["command"] == "validate":
        code, printed = run(command)
        return {"name": case["name"], "exit_code": code, "printed": printed, "json": "", "arrays": None}
    code, printed = run([*command, "--out", "case.zarr", "--no-plot"])
    arrays = str(place / "arrays.npz") if Path("case.zarr").exists() else None
    if arrays:
        with xarray.open_zarr("case.zarr") as dataset:
            values = {str(name): variable.values for name, variable in dataset.variables.items()}
        texts = {name: np.array(x.tolist(), str) for name, x in values.items() if x.dtype.kind in "OT"}
        np.savez(arrays, **values | texts)
    _, as_json = run([*command, "--json"])
    return {
        "name": case["name"],
        "exit_code": code,
        "printed": constant(printed, place),
        "json": constant(as_json, place),
        "arrays": arrays,
    }


if __name__ == "__main__":
    for case in json.loads(sys.stdin.read()):
        print(json.dumps(result(case, Path(sys.argv[1]).resolve())), flush=True)
