"""Strict YAML: from text to nodes.

Numbers follow the core schema of YAML 1.2, so `1e-3` is a number and `no` is text. Tags, several documents,
alias bombs, deep nesting and large files are refused before they cost much.
"""

import re
from collections.abc import Callable
from typing import Any, ClassVar

import yaml

from simkit.errors import InputError
from simkit.suggestions import shown

MAX_NODES = 20_000  # with aliases written out
MAX_ALIASES = 200
MAX_DEPTH = 20
MAX_LINE = 2000  # how far a parenthesis may be from the one that closes it

BLOCK = (
    "`>` and `|` at the beginning announce a text on the lines below; put a condition that begins so, or any "
    "other text, in quotes"
)

FLOW = ("while parsing a flow mapping", "while parsing a flow sequence")
CLOSING, QUOTES = {"{": "}", "[": "]"}, ('"', "'")
QUOTED_OR_REMARK = re.compile(r"""(?<=[\s,:[{(])("(\\.|[^"\\])*"|'[^']*'|#[^\n]*)""")

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


class RefusedError(Exception):
    """What the YAML library would accept and we do not."""

    def __init__(self, mark, message: str):
        super().__init__(message)
        self.mark = mark


class StrictLoader(yaml.SafeLoader):
    """PyYAML's safe loader with the resolver of the core schema; composes nodes, constructs nothing."""

    yaml_implicit_resolvers: ClassVar[dict] = {}
    nodes = aliases = depth = 0

    def compose_node(self, parent, index):
        event = self.peek_event()
        self.nodes += 1
        self.depth += 1
        if self.nodes > MAX_NODES:
            raise RefusedError(event.start_mark, f"more than {MAX_NODES} values; an experiment is smaller")
        if self.depth > MAX_DEPTH:
            raise RefusedError(event.start_mark, f"nested more than {MAX_DEPTH} levels deep")
        if isinstance(event, yaml.AliasEvent):
            self.aliases += 1
            if self.aliases > MAX_ALIASES:
                raise RefusedError(event.start_mark, f"more than {MAX_ALIASES} aliases; write the values out")
        elif event.tag is not None:
            raise RefusedError(
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

    def scan_block_scalar(self, style):
        """A text on the lines below `>` or `|`; a number and no such text was a comparison: `>3`."""
        mark, has_number = self.get_mark(), any(letter.isdigit() for letter in self.prefix(3)[1:])
        token = super().scan_block_scalar(style)
        if has_number and not token.value:
            raise RefusedError(mark, BLOCK)
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
    StrictLoader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z"), _first)


def composed(text: str) -> Any:
    """The root node of a text, `None` of an empty one."""
    loader = StrictLoader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def guarded(action: Callable[[], Any], text: str, name: str) -> Any:
    """The result of `action`; whatever the YAML library raises leaves as an `InputError` with a place."""
    try:
        return action()
    except RefusedError as error:
        line, column = mark_of(error.mark)
        message = str(error)
    except yaml.reader.ReaderError as error:
        before = text[: error.position]
        line, column = before.count("\n") + 1, error.position - (before.rfind("\n") + 1) + 1
        message = f"the character {chr(error.character)!a} is not allowed in YAML"
    except yaml.MarkedYAMLError as error:
        line, column = mark_of(error.problem_mark or error.context_mark)
        message = _explained(error)
        if opened := _left_open(error):
            (line, column), message = opened
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        line, column = 1, 1
        message = f"not valid YAML: {error}"
    raise InputError(f"{name}:{line}:{column}: {message}")


def _left_open(error: yaml.MarkedYAMLError) -> tuple[Mark, str] | None:
    """Where a brace, a bracket or a quote is opened that nothing closes, and what to say of it."""
    opening, problem, context = error.context_mark, error.problem_mark, error.context or ""
    if problem is None or problem.buffer is None:
        return None
    text, at = problem.buffer, problem.pointer
    if opening is not None and context in FLOW:
        start = None if _closed(text[opening.pointer :]) else opening.pointer
    elif (
        opening is not None and "end of stream" in (error.problem or "") and "quoted" in (error.context or "")
    ):
        start = opening.pointer
    elif "found '<scalar>'" in (error.problem or "") and text[at - 1] in QUOTES:  # which closed one above
        start = text.rfind(text[at - 1], 0, at - 1)
        start = start if "\n" in text[start:at] else None
    else:
        return None
    if start is None or start < 0:
        return None
    mark = (text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start))
    sign, (line, column) = text[start], mark_of(problem)
    closing = CLOSING.get(sign, sign)
    return (
        mark,
        f"`{sign}` is opened here and not closed before line {line}, column {column}; add `{closing}`",
    )


def _closed(text: str) -> bool:
    """Whether the brace or bracket that a text begins with is closed in it."""
    open_ = []
    for sign in re.findall(r"[][{}]", QUOTED_OR_REMARK.sub("", text)):
        if sign in CLOSING:
            open_.append(CLOSING[sign])
        elif open_.pop() != sign:
            return False
        if not open_:
            return True
    return False


def _explained(error: yaml.MarkedYAMLError) -> str:
    """A message for the library's complaint that says what to do."""
    problem = error.problem or "not valid YAML"
    if "'\\t'" in problem:
        return "a tab stands where YAML allows spaces only; indent with spaces"
    if "but found another document" in problem:
        return "a second document starts here; a file holds one experiment"
    if "undefined alias" in problem:
        return f"{problem}; a text that begins with * must be in quotes"
    if "mapping values are not allowed" in problem:
        return "a second `: ` in one line; check the indentation, or put the text in quotes"
    if "but found '-'" in problem or "sequence entries are not allowed" in problem:
        return (
            "`- ` begins an item of a list, which cannot stand here; write a minus without the space after it"
        )
    if "expected <block end>, but found '<block mapping start>'" in problem:
        return "this key stands under none of those above it; indent it as far as the keys beside it"
    if "block scalar" in (error.context or ""):
        return BLOCK
    if "cannot start any token" in problem:
        return f"{problem.removesuffix(' that cannot start any token')}; put a text that begins so in quotes"
    if "expected ',' or" in problem:
        return "a comma is missing before this, or quotes around the text before it"
    if "<block end>, but found '<scalar>'" in problem:
        return "this follows a text in quotes that has ended; put all of the text in quotes"
    if "<block end>, but found" in problem and problem[-2] in CLOSING.values():
        return f"this `{problem[-2]}` closes nothing that is open; remove it"
    if "unknown escape character" in problem:
        return "a backslash in double quotes begins a special character; use single quotes"
    context = f" ({error.context})" if error.context else ""
    return f"not valid YAML: {problem}{context}"


def mark_of(mark: Any) -> Mark:
    """The line and the column of a mark of the YAML library."""
    return (1, 1) if mark is None else (mark.line + 1, mark.column + 1)
