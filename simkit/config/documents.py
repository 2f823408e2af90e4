"""Documents: the data of an experiment, and the place of each part in its file."""

import dataclasses
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from simkit.config.python_data import PythonData
from simkit.config.strict_yaml import Mark, composed, guarded
from simkit.config.yaml_values import Construction, Diagnostic, KeyPath
from simkit.errors import InputError, MissingFileError, OutputError
from simkit.suggestions import missing_file, shown

MAX_BYTES = 1_000_000
DATASETS = (".zarr", ".nc")
STANDARD_INPUT = "-"


@dataclasses.dataclass
class Document:
    """Plain data with the places it came from; `diagnostics` are what was wrong with the text, by key path.

    `folder` is where the files that it names are looked for. `options` are the places of values from outside,
    as `--set model.sigma`. `functions` are those of Python in place of expressions, by what stands for them.
    `remarks` are what should be said of an experiment that can run.
    """

    data: Any
    name: str | None = None
    folder: Path = Path()
    values: dict[KeyPath, Mark] = dataclasses.field(default_factory=dict)
    keys: dict[KeyPath, Mark] = dataclasses.field(default_factory=dict)
    options: dict[KeyPath, str] = dataclasses.field(default_factory=dict)
    diagnostics: list[Diagnostic] = dataclasses.field(default_factory=list)
    remarks: list[str] = dataclasses.field(default_factory=list)
    functions: dict[str, Callable] = dataclasses.field(default_factory=dict)


def read_document(source: str | os.PathLike | Mapping[str, Any]) -> Document:
    """The document in a file, on standard input for `-`, in a text of more than one line, or in a mapping.

    Raises `InputError` where the content is wrong, `OutputError` where the file cannot be read.
    """
    if hasattr(source, "data_vars"):  # of xarray, and a mapping
        raise InputError(
            "a dataset is no experiment; that of a run is in its attribute: simkit.run(result.attrs"
            "['configuration'])"
        )
    if isinstance(source, Mapping):
        python = PythonData()
        return Document(python.mapping(source), diagnostics=python.diagnostics, functions=python.functions)
    if isinstance(source, str) and "\n" in source:
        return parse_text(source, "<text>")
    if not isinstance(source, str | os.PathLike):
        kind = type(source).__name__
        raise InputError(
            f"an experiment is the path of a YAML file, its text or a dictionary, not a value of type {kind}"
        )
    path = Path(source)
    if str(path) == STANDARD_INPUT:
        return parse_text(_decoded(sys.stdin.buffer.read(MAX_BYTES + 1), "<stdin>"), "<stdin>")
    if path.suffix in DATASETS and path.exists():
        raise InputError(f"{path}: is a dataset, not an experiment; `simkit plot {path}` draws it")
    document = parse_text(_decoded(_content(path), str(path)), str(path))
    document.folder = path.parent
    return document


def parse_text(text: str, name: str) -> Document:
    """The document in a text; `name` stands before each place in the messages."""
    if len(text) > MAX_BYTES:
        raise InputError(_too_large(name, len(text)))
    document = parse_value(text, name)
    if () not in document.values:
        raise InputError(f"{name}: is empty; an experiment needs at least model, initial and time")
    if not isinstance(document.data, dict):
        line, column = document.values[()]
        raise InputError(
            f"{name}:{line}:{column}: must be keys and values such as `model: …`, got {shown(document.data)}"
        )
    return document


def parse_value(text: str, name: str) -> Document:
    """Whatever a text holds, such as the value in an override."""

    def construct() -> Construction | None:
        node = composed(text)
        return None if node is None else Construction(node)

    made = guarded(construct, text, name)
    if made is None:
        return Document(None, name)
    return Document(made.data, name, values=made.values, keys=made.keys, diagnostics=made.diagnostics)


def _content(path: Path) -> bytes:
    """The bytes of a file; a large one is refused unread."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = b"" if size > MAX_BYTES else file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise MissingFileError(missing_file(path)) from None
    except IsADirectoryError:
        raise OutputError(f"{path}: is a directory; give a file in it, such as {path / 'gbm.yaml'}") from None
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from error
    except ValueError:
        raise OutputError(f"{str(path)!a}: not a file name") from None
    if max(size, len(content)) > MAX_BYTES:
        raise InputError(_too_large(str(path), max(size, len(content))))
    return content


def _too_large(name: str, size: int) -> str:
    return f"{name}: {size} bytes are too many; an experiment may have {MAX_BYTES}"


def _decoded(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = content[: error.start]
        line, column = before.count(b"\n") + 1, error.start - (before.rfind(b"\n") + 1) + 1
        raise InputError(
            f"{name}:{line}:{column}: byte {content[error.start]:#04x} at offset {error.start} is not UTF-8; "
            "save the file as UTF-8"
        ) from None
