"""Strict YAML: plain data, and where in the file each piece of it stands.

Numbers follow the core schema of YAML 1.2, so `1e-3` is a number and `no` is text. Duplicate keys, tags,
merge keys, several documents, alias bombs, deep nesting and large files are refused before they cost much.
"""

import dataclasses
import difflib
import os
import re
import sys
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import yaml

from simkit.errors import InputError, MissingFileError, OutputError
from simkit.suggestions import shown, without_commas

MAX_BYTES = 1_000_000
MAX_NODES = 20_000  # with aliases written out
MAX_ALIASES = 200
MAX_DEPTH = 20
MAX_LINE = 2000  # how far a parenthesis may be from the one that closes it

_PLAIN = (Mapping, list, tuple, os.PathLike, type(None), bool, str, np.bool_, Real)

KeyPath = tuple[str | int, ...]
Mark = tuple[int, int]  # line and column, from 1

_CORE_SCHEMA = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
)


@dataclasses.dataclass
class Document:
    """Plain data with the places it came from; `diagnostics` are what was wrong with the text, by key path.

    `folder` is where the files that it names are looked for. `options` are the places of values from outside,
    as `--set model.sigma`.
    """

    data: dict[str, Any]
    name: str | None = None
    folder: Path = Path()
    values: dict[KeyPath, Mark] = dataclasses.field(default_factory=dict)
    keys: dict[KeyPath, Mark] = dataclasses.field(default_factory=dict)
    options: dict[KeyPath, str] = dataclasses.field(default_factory=dict)
    diagnostics: list[tuple[Mark, KeyPath, str]] = dataclasses.field(default_factory=list)


class _RefusedError(Exception):
    """What the YAML library would accept and we do not."""

    def __init__(self, mark, message: str):
        super().__init__(message)
        self.mark = mark


class _StrictLoader(yaml.SafeLoader):
    """PyYAML's safe loader with the resolver of the core schema; composes nodes, constructs nothing."""

    yaml_implicit_resolvers: ClassVar[dict] = {}
    nodes = aliases = depth = 0

    def compose_node(self, parent, index):
        event = self.peek_event()
        self.nodes += 1
        self.depth += 1
        if self.nodes > MAX_NODES:
            raise _RefusedError(event.start_mark, f"more than {MAX_NODES} values; an experiment is smaller")
        if self.depth > MAX_DEPTH:
            raise _RefusedError(event.start_mark, f"nested more than {MAX_DEPTH} levels deep")
        if isinstance(event, yaml.AliasEvent):
            self.aliases += 1
            if self.aliases > MAX_ALIASES:
                raise _RefusedError(
                    event.start_mark, f"more than {MAX_ALIASES} aliases; write the values out"
                )
        elif event.tag is not None:
            raise _RefusedError(
                event.start_mark, f"tags such as {shown(event.tag)} are not allowed: a file is data"
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def scan_plain(self):
        """A plain text; inside `{}` and `[]` it goes on past commas that stand in parentheses.

        YAML would end `maximum(S, K)` at the comma there, and no reader of an experiment means that.
        """
        token = super().scan_plain()
        while self.flow_level and self.peek() == "," and self._closes_later(token.value):
            length = 1
            while self.peek(length) == " ":
                length += 1
            between = self.prefix(length)
            self.forward(length)
            rest = super().scan_plain()
            token = yaml.ScalarToken(
                token.value + between + rest.value, True, token.start_mark, rest.end_mark
            )
        return token

    def _closes_later(self, text: str) -> bool:
        """Whether parentheses left open in a text are closed further on in the line."""
        depth = text.count("(") - text.count(")")
        length = 0
        while depth > 0:
            letter = self.peek(length)
            if letter in "\0\r\n\x85\u2028\u2029[]{}#\"'" or length > MAX_LINE:
                return False
            depth += (letter == "(") - (letter == ")")
            length += 1
        return text.count("(") > text.count(")")


for _tag, _pattern, _first in _CORE_SCHEMA:
    _StrictLoader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), _first)


def read_document(source: str | os.PathLike | Mapping[str, Any]) -> Document:
    """The document in a file, in a text of more than one line, or in a mapping.

    Raises `InputError` where the content is wrong, `OutputError` where the file cannot be read.
    """
    if isinstance(source, Mapping):
        document = Document({})
        document.data.update(_plain_mapping(document, source, ()))
        return document
    if isinstance(source, str) and "\n" in source:
        return parse_text(source, "<text>")
    if not isinstance(source, str | os.PathLike):
        kind = type(source).__name__
        raise InputError(
            f"an experiment is the path of a YAML file, its text or a dictionary, not a value of type {kind}"
        )
    path = Path(source)
    document = parse_text(_decoded(_content(path), str(path)), str(path))
    document.folder = path.parent
    return document


def parse_text(text: str, name: str) -> Document:
    """The document in a text; `name` stands before each place in the messages."""
    if len(text) > MAX_BYTES:
        raise InputError(_too_large(name, len(text)))
    node = _composed(text, name)
    document = Document({}, name)
    if node is None:
        raise InputError(f"{name}: is empty; an experiment needs at least model, initial and time")
    data = _guarded(lambda: _Construction(document).value(node, (), 0), text, name)
    if not isinstance(data, dict):
        line, column = _mark(node.start_mark)
        raise InputError(
            f"{name}:{line}:{column}: must be keys and values such as `model: …`, got {shown(data)}"
        )
    document.data = data
    return document


def parse_value(text: str, name: str) -> tuple[Any, Document]:
    """A single value such as the one of `--set key=value`, with the mistakes inside it."""
    document = Document({}, name)
    node = _composed(text, name)
    if node is None:
        return None, document
    return _guarded(lambda: _Construction(document).value(node, (), 0), text, name), document


def _composed(text: str, name: str):
    def compose():
        loader = _StrictLoader(text)
        try:
            return loader.get_single_node()
        finally:
            loader.dispose()

    return _guarded(compose, text, name)


def _guarded(action, text: str, name: str):
    """The result of `action`; whatever the YAML library raises leaves as an `InputError` with a place."""
    try:
        return action()
    except _RefusedError as error:
        line, column = _mark(error.mark)
        message = str(error)
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, error.position - (before.rfind("\n") + 1) + 1
        message = f"the character {chr(error.character)!a} is not allowed in YAML"
    except yaml.MarkedYAMLError as error:
        line, column = _mark(error.problem_mark or error.context_mark)
        message = _explained(error)
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        line, column = 1, 1
        message = f"not valid YAML: {error}"
    raise InputError(f"{name}:{line}:{column}: {message}")


def _explained(error: yaml.MarkedYAMLError) -> str:
    """The library's complaint in words that say what to do."""
    problem = error.problem or "not valid YAML"
    if "'\\t'" in problem:
        return "a tab stands where YAML allows spaces only; indent with spaces"
    if "but found another document" in problem:
        return "a second document starts here; a file holds one experiment"
    if "undefined alias" in problem:
        return f"{problem}; a text that begins with * must be in quotes"
    if "mapping values are not allowed" in problem:
        return "a second `: ` in one line; check the indentation, or put the text in quotes"
    context = f" ({error.context})" if error.context else ""
    return f"not valid YAML: {problem}{context}"


class _Construction:
    """From nodes to plain data. Aliases are written out, so every value has one place of its own."""

    def __init__(self, document: Document):
        self.document = document
        self.count = 0

    def value(self, node, path: KeyPath, depth: int):
        self.count += 1
        if self.count > MAX_NODES:
            raise _RefusedError(node.start_mark, f"aliases stand for more than {MAX_NODES} values")
        if depth > MAX_DEPTH:
            raise _RefusedError(
                node.start_mark, f"nested more than {MAX_DEPTH} levels deep, or an alias in itself"
            )
        self.document.values[path] = _mark(node.start_mark)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, (*path, i), depth + 1) for i, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node, path: KeyPath, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        before: Any = None
        key = ""
        for key_node, value_node in node.value:
            mark = _mark(key_node.start_mark)
            if key_node.tag != _StrictLoader.DEFAULT_SCALAR_TAG:
                number = _with_comma(before, key_node)
                if number:
                    message = f"{number} is not a number{without_commas(number)}"
                    self._mistake(_mark(before.start_mark), (*path, key), message)
                    continue
                text = key_node.value if isinstance(key_node, yaml.ScalarNode) else "a list or mapping"
                self._mistake(mark, path, f"a key must be text, got {text or 'nothing'}; put it in quotes")
                continue
            key, before = key_node.value, value_node
            joined = re.fullmatch(r"(\w+):(\S+)", key) if value_node.tag == "null" else None
            if joined and key_node.style is None:
                key, text = joined.groups()
                self._mistake(mark, (*path, key), f"a space is missing after the colon; write {key}: {text}")
                tag = _StrictLoader("").resolve(yaml.ScalarNode, text, (True, False))
                value_node = yaml.ScalarNode(tag, text, key_node.start_mark, key_node.end_mark)
            if key == "<<":
                self._mistake(mark, path, "merge keys (<<) are not supported; write the keys out")
            elif key in found:
                first = self.document.keys[(*path, key)]
                self._mistake(mark, (*path, key), f"duplicate key; it was first given in line {first[0]}")
            else:
                self.document.keys[(*path, key)] = mark
                found[key] = self.value(value_node, (*path, key), depth + 1)
        return found

    def _scalar(self, node, path: KeyPath):
        text = node.value
        if node.tag == "null":
            return None
        if node.tag == "bool":
            return text.lower() == "true"
        if node.tag == "int":
            if len(text) > 400:
                self._mistake(_mark(node.start_mark), path, f"a number of {len(text)} digits")
                return 0
            base = {"0o": 8, "0x": 16}.get(text[:2], 10)
            return int(text, base)
        if node.tag == "float":
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            self._mistake(_mark(node.start_mark), path, "half a surrogate pair is not a character")
            return ""
        return text

    def _mistake(self, mark: Mark, path: KeyPath, message: str) -> None:
        self.document.diagnostics.append((mark, path, message))


def _with_comma(before, key) -> str:
    """The number such as 0,2 that in `{a: 0,2}` YAML reads as a value and a key; empty if it is none."""
    if not isinstance(before, yaml.ScalarNode) or not isinstance(key, yaml.ScalarNode):
        return ""
    touch = (key.start_mark.line, key.start_mark.index) == (before.end_mark.line, before.end_mark.index + 1)
    text = f"{before.value},{key.value}"
    return text if touch and before.tag == "int" and without_commas(text) else ""


def _plain(document: Document, value, path: KeyPath):
    """Data from Python as YAML would have given it: dict, list, str, bool, int, float, None."""
    if len(path) > MAX_DEPTH:
        raise InputError(f"nested more than {MAX_DEPTH} levels deep, or a mapping in itself")
    if isinstance(value, Mapping):
        return _plain_mapping(document, value, path)
    if isinstance(value, list | tuple):
        return [_plain(document, item, (*path, i)) for i, item in enumerate(value)]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, Integral):
        return int(value)
    if _is_single(value):
        return _plain(document, value.item(), path)
    return float(value) if isinstance(value, Real) else None


def _is_single(value: Any) -> bool:
    """Whether it is one number in an array of numpy or jax, which need not be imported to ask."""
    jax = sys.modules.get("jax")
    arrays = np.ndarray if jax is None else (np.ndarray, jax.Array)
    traced = jax is not None and isinstance(value, jax.core.Tracer)
    return isinstance(value, arrays) and value.shape == () and not traced


def _plain_mapping(document: Document, mapping: Mapping, path: KeyPath) -> dict[str, Any]:
    found = {}
    for key, item in mapping.items():
        if not isinstance(key, str):
            document.diagnostics.append(((0, 0), path, f"a key must be a string, got {shown(key)}"))
        elif isinstance(item, _PLAIN) or _is_single(item):
            found[key] = _plain(document, item, (*path, key))
        else:
            kind = type(item).__name__
            message = f"must be a number, text, list or dict, got a value of type {kind}"
            if (*path, key) in (("model",), ("solver",)):
                message += f"; give it by name: {{type: {kind}, ...}}"
            document.diagnostics.append(((0, 0), (*path, key), message))
    return found


def _content(path: Path) -> bytes:
    """The bytes of a file; a large one is refused unread."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = b"" if size > MAX_BYTES else file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise MissingFileError(f"{path}: no such file{_neighbour(path)}") from None
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


def _neighbour(path: Path) -> str:
    """A YAML file of a similar name in the same folder."""
    try:
        names = [entry.name for entry in path.parent.iterdir() if entry.suffix in (".yaml", ".yml")]
    except OSError:
        return ""
    close = difflib.get_close_matches(path.name, names, n=1, cutoff=0.75)
    return f"; did you mean {str(path.with_name(close[0]))!r}?" if close else ""


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


def _mark(mark) -> Mark:
    return (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
