"""The first checks of an expression, and Python's syntax tree of it.

It must be made of numbers, names and operators, and not be nested too deeply. What passes holds no text in
quotes, no brackets, no attributes and no words of Python, and its parentheses are few enough for any parser.
"""

import ast
import keyword
import re
import unicodedata
import warnings
from typing import NoReturn

from simkit.errors import InputError
from simkit.expressions.elsewhere import TIME_UNITS
from simkit.suggestions import shown

MAX_LENGTH = 2000
MAX_DEPTH = 50

_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n]+)|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
    r"|(?P<name>[A-Za-z_][A-Za-z0-9_]*)|(?P<operator>[-+*/]=|\*\*|//|<=|>=|==|!=|:=|[-+*/(),<>=])"
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?![0-9.])")
_WHOLE_DATE = re.compile(
    r"(?:19|20)[0-9]{2}([-/.])[01]?[0-9]\1[0-3]?[0-9]|[0-3]?[0-9]([-/.])[0-3]?[0-9]\2(?:19|20)[0-9]{2}"
)
_REFUSED = {
    ".": "attributes (a.b) are not allowed; a function is called as max(S)",
    "[": "indexing and lists ([) are not allowed",
    "]": "indexing and lists (]) are not allowed",
    "{": "braces are not allowed",
    "}": "braces are not allowed",
    "'": "text in quotes is not allowed",
    '"': "text in quotes is not allowed",
    "^": "a power is written ** and not ^",
    "%": "% is not available; write 5 % as 0.05, and a remainder as a - b*floor(a/b)",
    "//": "// is not available; use floor(a/b)",
    "&": "& is not available; use `and`",
    "|": "| is not available; use `or`",
    "~": "~ is not available; use `not`",
    "!": "! is not available; use `not`",
    **dict.fromkeys(
        ("+=", "-=", "*=", "/="), "write the new value as a whole, as in A + 100 in place of += 100"
    ),
    ":=": "assignment (:=) is not allowed",
    ":": "a colon is not allowed",
    ";": "a semicolon is not allowed",
}
_WORDS = {
    "if": "; a choice is written where(condition, a, b)",
    "else": "; a choice is written where(condition, a, b)",
    "True": "; write a comparison",
    "False": "; write a comparison",
}


class ExpressionError(InputError):
    """An expression that cannot be compiled; the message says at which of its columns, counted from 1."""


def check_tokens(text: str) -> None:
    """Refuse everything but numbers, names and operators; `=` only in parentheses."""
    if len(text) > MAX_LENGTH:
        raise ExpressionError(f"an expression of {len(text)} characters; at most {MAX_LENGTH} are allowed")
    if _WHOLE_DATE.fullmatch(text.strip()):
        _fail_as_date(text, len(text) - len(text.lstrip()))
    at = depth = start = 0
    previous = operand = ""
    while at < len(text):
        match = _TOKEN.match(text, at)
        token = match[0] if match else text[at]
        if match is None or token in _REFUSED:
            fail(at, _REFUSED.get(token) or _unknown(token))
        if match["number"] and _DATE.match(text, at):
            _fail_as_date(text, at)
        unit = match["name"] and token in TIME_UNITS and text[match.end() : match.end() + 1] != "("
        if unit and operand and not operand[0].isalpha():
            _fail_as_time(operand, text[start:at] + token, token, start)
        if match["name"] and previous == "number":
            product = "write * between them, and a number without its unit"
            number = "a number is written without underscores" if token[0] == "_" else product
            fail(at, f"{shown(token)} follows a number directly; {number}")
        if match["number"] and previous == "number":
            fail(at, "a number with two points")
        if operand and (match["number"] or (match["name"] and not keyword.iskeyword(token))):
            after = f"{shown(token)} follows {shown(operand)} without an operator"
            fail(at, f"{after}; a product is written *, and a number without its unit")
        if re.fullmatch(r"0+[1-9][0-9]*", token):
            fail(at, f"a number has no leading zeros; write {token} as {token.lstrip('0')}")
        if match["name"] and keyword.iskeyword(token) and token not in ("and", "or", "not"):
            fail(at, f"{token!r} is a reserved word and not allowed{_WORDS.get(token, '')}")
        if token == "=" and not depth:
            fail(at, "= is not allowed here; equality is ==")
        depth += (token == "(") - (token == ")")
        if depth > MAX_DEPTH:
            fail(at, f"nested more than {MAX_DEPTH} levels deep")
        previous = match.lastgroup or ""
        if not match["space"]:
            operand = token if match["number"] or (match["name"] and not keyword.iskeyword(token)) else ""
            start = at
        at = match.end()


def _fail_as_time(number: str, written: str, unit: str, at: int) -> NoReturn:
    """Times have one unit, which numbers do not carry."""
    message = f"{shown(written)} has a unit, and times are plain numbers, all in the same unit"
    fail(at, f"{message}: write {number} if {unit} is that unit, which time.unit may name")


def python_tree(text: str) -> ast.expr:
    """The syntax tree, its columns those of the text. Raises `ExpressionError`."""
    flat = re.sub(r"\s", " ", text)
    lead = len(flat) - len(flat.lstrip())
    if not flat.strip():
        raise ExpressionError("an empty expression")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            body = ast.parse(flat.strip(), mode="eval").body
    except SyntaxError as error:
        raise ExpressionError(f"not an expression: {_reason(error, flat, lead)}") from None
    except (RecursionError, MemoryError, ValueError, Warning):
        raise ExpressionError("an expression that cannot be read; write it in smaller parts") from None
    for node in ast.walk(body):
        if isinstance(node, ast.expr | ast.keyword):
            node.col_offset += lead
    return body


def _reason(error: SyntaxError, text: str, lead: int) -> str:
    """The parser's complaint, whose column is of no use where the text ends too early."""
    if re.search(r"(?:[-+*/(,<>=]|\b(?:and|or|not))\s*\Z", text):
        return f"it ends too early, after column {len(text.rstrip())} of the expression"
    message = error.msg or ""
    known = message if "never closed" in message or "unmatched" in message else "it cannot be read"
    if "'=='" in message:
        known = "= is not allowed here; equality is =="
    return f"{known} {place(lead + (error.offset or 1) - 1)}"


def _fail_as_date(text: str, at: int) -> NoReturn:
    """What is meant for a date would be a difference or a quotient of its numbers."""
    date = text[at:].split()[0]
    message = (
        f"{shown(date)} looks like a date; times are numbers, such as years since t0, and arithmetic has"
    )
    fail(at, f"{message} spaces around its operators")


def _unknown(letter: str) -> str:
    """What is said of a character that no expression has; one that is Greek is spelt."""
    spelt = re.fullmatch(r"GREEK (?:SMALL|CAPITAL) LETTER ([A-Z]+)", unicodedata.name(letter, ""))
    if spelt:
        return f"names are in plain letters: spell {letter} out as {spelt[1].lower()}"
    return f"the character {letter!a} is not allowed"


def place(offset: int) -> str:
    """Where in an expression an offset is; its column is not that of the file."""
    return f"(column {offset + 1} of the expression)"


def fail(offset: int, message: str) -> NoReturn:
    """Raise at an offset, which messages count from 1."""
    raise ExpressionError(f"{message} {place(offset)}")
