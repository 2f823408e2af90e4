"""The gallery, and the pictures of examples and models, which are drawn when the pages are built."""

import re
from pathlib import Path

from simkit_physics import MODELS

from simkit.cli import model_snippet
from simkit.config import read_document

EXAMPLES = Path(__file__).parent.parent / "examples"
PATHS = 10_000  # enough for a picture
ROWS = 400  # saved times of a model's picture

INTRODUCTION = """\
# Gallery

Each picture is drawn by `simkit run`, with at most 10 000 paths, from the file below it
(by `simkit uncertainty` if it has distributions). The files are in `examples/`: try
`simkit run examples/gallery/kepler.yaml --out kepler.zarr`."""


def example_files() -> dict[str, Path]:
    """The examples in YAML by name."""
    folders = ("", "gallery/", "particles/")
    paths = sorted(path for folder in folders for path in EXAMPLES.glob(f"{folder}*.yaml"))
    return {path.stem: path for path in paths}


def picture_of(model: str) -> str:
    """The name of a model's picture: that of an example with it, or one of its own."""
    for name, path in example_files().items():
        if re.search(rf"^ *(model: {{)?type: {model}\b", path.read_text(encoding="utf-8"), re.MULTILINE):
            return name
    return f"model_{model}"


def gallery_page() -> str:
    """Every example with its picture."""
    parts = [INTRODUCTION]
    for name, path in example_files().items():
        text = path.read_text(encoding="utf-8")
        title = text.splitlines()[0].lstrip("# ").partition(":")[0].partition(",")[0].rstrip(".")
        parts += [f"## {title}", f"![{title}](pictures/{name}.png)", f"```yaml\n{text}```"]
    return "\n\n".join(parts) + "\n"


def draw_pictures(folder: Path) -> None:
    """Draw what is not there or older than its experiment."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in example_files().items():
        picture = folder / f"{name}.png"
        if not picture.exists() or picture.stat().st_mtime < path.stat().st_mtime:
            _draw(read_document(path).data, picture)
    for model in MODELS:
        picture = folder / f"{picture_of(model)}.png"
        if not picture.exists():
            _draw(_with_rows(read_document(model_snippet(model, MODELS[model])).data), picture)


def _draw(experiment: dict, picture: Path) -> None:
    import simkit
    from simkit import save_picture
    from simkit.studies import has_distributions

    if has_distributions(experiment):
        save_picture(simkit.uncertainty(experiment), picture)
        return

    ensemble = experiment.get("ensemble", {})
    if ensemble.get("paths", 0) > PATHS:
        experiment = experiment | {"ensemble": ensemble | {"paths": PATHS}}
    save_picture(simkit.run(experiment, overrides={"output": None}), picture)


def _with_rows(experiment: dict) -> dict:
    """The experiment with enough saved times for a curve."""
    steps = experiment["time"].get("steps", ROWS)
    points = next(points for points in range(min(steps, ROWS), 0, -1) if steps % points == 0)
    return experiment | {"save": {"points": points}}
