"""From the nodes of a YAML text to plain data, and the place of each part in the text."""

import itertools
import re
from typing import Any

import yaml

from simkit.config.strict_yaml import MAX_DEPTH, MAX_NODES, Mark, RefusedError, StrictLoader, mark_of
from simkit.suggestions import without_commas

NUMBERS = ("int", "float")
KeyPath = tuple[str | int, ...]
Diagnostic = tuple[Mark, KeyPath, str]  # what is wrong at a place; line 0 where there is no text


class Construction:
    """Plain data of nodes, with the places of its values and keys, and what is wrong with them.

    Aliases are written out, so every value has one place of its own.
    """

    def __init__(self, node: Any):
        self.values: dict[KeyPath, Mark] = {}
        self.keys: dict[KeyPath, Mark] = {}
        self.diagnostics: list[Diagnostic] = []
        self.count = 0
        self.data = self._value(node, (), 0)

    def _value(self, node, path: KeyPath, depth: int):
        self.count += 1
        if self.count > MAX_NODES:
            raise RefusedError(node.start_mark, f"aliases stand for more than {MAX_NODES} values")
        if depth > MAX_DEPTH:
            raise RefusedError(
                node.start_mark, f"nested more than {MAX_DEPTH} levels deep, or an alias in itself"
            )
        self.values[path] = mark_of(node.start_mark)
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode):
            return [self._value(item, (*path, i), depth + 1) for i, item in enumerate(node.value)]
        return self._scalar(node, path)

    def _mapping(self, node, path: KeyPath, depth: int) -> dict[str, Any]:
        data: dict[str, Any] = {}
        before: Any = None
        key = apart = ""
        for i, (key_node, value_node) in enumerate(node.value):
            mark = mark_of(key_node.start_mark)
            if key_node.tag != StrictLoader.DEFAULT_SCALAR_TAG:
                if not apart:
                    apart = _taken_apart(before, node.value[i:])
                    if apart:
                        self._add(mark_of(before.start_mark), (*path, key), apart)
                if apart and value_node.tag == "null":
                    continue
                text = key_node.value if isinstance(key_node, yaml.ScalarNode) else "a list or mapping"
                self._add(mark, path, f"a key must be text, got {text or 'nothing'}; put it in quotes")
                continue
            key, before, apart = key_node.value, value_node, ""
            unspaced = re.fullmatch(r"(\w+):(\S+)", key) if value_node.tag == "null" else None
            if unspaced and key_node.style is None:
                key, text = unspaced.groups()
                self._add(mark, (*path, key), f"a space is missing after the colon; write {key}: {text}")
                tag = StrictLoader("").resolve(yaml.ScalarNode, text, (True, False))
                value_node = yaml.ScalarNode(tag, text, key_node.start_mark, key_node.end_mark)
            if key == "<<":
                self._add(mark, path, "merge keys (<<) are not supported; write the keys out")
            elif key in data:
                first = self.keys[(*path, key)]
                self._add(mark, (*path, key), f"duplicate key; it was first given in line {first[0]}")
            else:
                self.keys[(*path, key)] = mark
                data[key] = self._value(value_node, (*path, key), depth + 1)
        return data

    def _scalar(self, node, path: KeyPath):
        text = node.value
        if node.tag == "null":
            return None
        if node.tag == "bool":
            return text.lower() == "true"
        if node.tag == "int":
            if len(text) > 400:
                self._add(mark_of(node.start_mark), path, f"a number of {len(text)} digits")
                return 0
            base = {"0o": 8, "0x": 16}.get(text[:2], 10)
            return int(text, base)
        if node.tag == "float":
            return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
        if any("\ud800" <= letter <= "\udfff" for letter in text):
            self._add(mark_of(node.start_mark), path, "half a surrogate pair is not a character")
            return ""
        return text

    def _add(self, mark: Mark, path: KeyPath, message: str) -> None:
        self.diagnostics.append((mark, path, message))


def _taken_apart(before, following) -> str:
    """What to say of `{a: 0,2}` and `{a: 0, 12}`, which YAML reads as a value and keys; empty for others."""
    alone = itertools.takewhile(lambda pair: pair[1].tag == "null", following)
    numbers = [key for key, _ in alone if key.tag in NUMBERS]
    if not numbers or getattr(before, "tag", "") not in NUMBERS:
        return ""
    texts = [before.value, *(key.value for key in numbers)]
    number = ",".join(texts)
    hint = without_commas(number)
    if hint and numbers[-1].end_mark.index - before.start_mark.index == len(number):
        return f"{number} is not a number{hint}"
    return f"a list is written in brackets: [{', '.join(texts)}]"
