"""Whatever is thrown at the loader and the expression compiler, they answer, and execute none of it."""

import sys
import threading
import warnings

import numpy as np
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from simkit import InputError, load
from simkit.config import read_document
from simkit.expressions import compile_expression, function_summaries

settings.register_profile("quick", deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
settings.load_profile("quick")

PIECES = [
    *function_summaries(),
    *"()()()+-*/<>=.,:;[]{}'\"\\#@!%^&|~`$?\n\t 0123456789eE_xSt",
    "**",
    "//",
    "==",
    "!=",
    ":=",
    "->",
    "and",
    "or",
    "not",
    "if",
    "else",
    "lambda",
    "import",
    "__import__",
    "eval",
    "exec",
    "open",
    "__class__",
    "1e9",
    "9**9**9",
    "σ",
    "\0",
    "𝟙",
]
ANY = st.characters(exclude_categories=["Cs"])  # what UTF-8 can say; asking for that by name takes seconds
EXPRESSIONS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join) | st.text(ANY, max_size=60)

YAML_PIECES = [
    *"{}[],:&*!|>'\"%@`#-?~\n\t ",
    "\n  ",
    ": ",
    "- ",
    "<<: ",
    "&a ",
    "*a",
    "!!python/object/apply:os.system",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "model",
    "GBM",
    "type",
    "sde",
    "ode",
    "S",
    "drift",
    "noise",
    "W",
    "time",
    "t1",
    "steps",
    "initial",
    "observe",
    "constants",
    "save",
    "1e-3",
    "12",
    "true",
    "null",
    ".nan",
    '"\\ud800"',
    '"\\U00110000"',
    "\x85",
    "\u2028",
    "\ufeff",
]
TEXTS = st.lists(st.sampled_from(YAML_PIECES), max_size=40).map("".join) | st.text(ANY, max_size=80)

DATA = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from(["S", "GBM", "x", "all", "", "1e-3", "S*2", "EulerMaruyama", "mean(S)", "gbm.nc"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["S", "type", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


DANGEROUS = {"os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect", "ctypes.dlopen"}
WATCHED: list[str] = []
watching = threading.local()


def watch(event, arguments):
    """Notes what code made from text, as opposed to that of a file, and what programs are run."""
    if getattr(watching, "on", False) and (
        event in DANGEROUS or (event == "exec" and arguments[0].co_filename.startswith("<"))
    ):
        WATCHED.append(f"{event} {arguments}")


sys.addaudithook(watch)


def answered(action, watched=False):
    """The result, or `None` after an error with a message that can be printed.

    While it is watched Python executes nothing. (`load` makes classes, and the standard library's named
    tuples and dataclasses are themselves made from text.)
    """
    problems = None
    watching.on = watched
    try:
        return action()
    except InputError as error:
        problems = error.problems
    finally:
        watching.on = False
        assert WATCHED == []
    assert problems
    for problem in problems:
        assert problem.strip().encode()
    return None


def test_the_watch_sees_what_is_executed():
    watching.on = True
    eval("1 + 1")
    watching.on = False
    assert len(WATCHED) == 1
    WATCHED.clear()


@settings(max_examples=500)
@given(EXPRESSIONS)
@example("9**9**9**9")
@example("(" * 200 + "x")
@example("x" + "+x" * 999)
def test_any_text_is_an_expression_or_an_error(text):
    expression = answered(lambda: compile_expression(text, ["x", "S", "t"]), watched=True)
    if expression is not None:
        numbers = {"x": 0.5, "S": 2.0, "t": 1.0}
        assert isinstance(answered(lambda: expression(numbers), watched=True), float)


@settings(max_examples=300)
@given(TEXTS)
@example("a: &a [*a]\n")
@example("? {a: 1}\n: 2\n")
def test_any_text_is_a_document_or_an_error(text):
    text += "\n"
    document = answered(lambda: read_document(text), watched=True)
    if document is not None:
        assert isinstance(document.data, dict)
        answered(lambda: load(text))


@settings(max_examples=200)
@given(st.binary(max_size=60) | TEXTS.map(lambda text: text.encode("utf-16")))
def test_any_bytes_are_a_document_or_an_error(tmp_path, content):
    path = tmp_path / "any.yaml"
    path.write_bytes(content)
    answered(lambda: load(path))


@settings(max_examples=300)
@given(
    st.dictionaries(
        st.sampled_from(
            [
                "constants",
                "model",
                "initial",
                "solver",
                "time",
                "ensemble",
                "precision",
                "save",
                "observe",
                "output",
            ]
        ),
        DATA,
        max_size=3,
    )
)
def test_any_data_in_any_section_is_an_experiment_or_an_error(changes):
    good = {
        "constants": {"K": 1.0},
        "model": {"sde": {"S": {"drift": "-S", "noise": {"W": 1}}}},
        "initial": {"S": 1},
        "time": {"t1": 1, "steps": 4},
        "observe": {"y": "mean(S)"},
    }
    answered(lambda: load(good | changes))


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(["model", "S", "sde", "observe", "x", "0", "save", "", "a b"]), max_size=4), DATA
)
def test_any_override_is_applied_or_refused(path, value):
    good = {
        "model": {"ode": {"S": "-S"}},
        "initial": {"S": 1},
        "time": {"t1": 1, "steps": 4},
        "observe": {"x": "mean(S)"},
    }
    answered(lambda: load(good, [(".".join(path), yaml.safe_dump(value, default_flow_style=True))]))


UNARY = ["exp", "sin", "cos", "tanh", "sqrt", "abs", "floor", "log1p", "sign"]
REFERENCE = {name: getattr(np, name) for name in UNARY}
LEAVES = st.floats(0, 9, allow_subnormal=False).map(lambda x: (repr(x), np.float64(x))) | st.sampled_from(
    [("x", np.float64(0.7)), ("y", np.float64(-1.3))]
)


def combined(inner):
    """Texts with their value by NumPy, built side by side."""

    def binary(operator):
        return lambda a, b: (f"({a[0]} {operator} {b[0]})", OPERATORS[operator](a[1], b[1]))

    pairs = [st.builds(binary(operator), inner, inner) for operator in OPERATORS]
    calls = [
        st.builds(lambda a, name=name: (f"{name}({a[0]})", REFERENCE[name](a[1])), inner) for name in UNARY
    ]
    choice = st.builds(
        lambda a, b, c: (f"where({a[0]} < {b[0]}, {b[0]}, {c[0]})", np.where(a[1] < b[1], b[1], c[1])[()]),
        inner,
        inner,
        inner,
    )
    negative = st.builds(lambda a: (f"-({a[0]})", -a[1]), inner)
    return st.one_of(*pairs, *calls, choice, negative)


OPERATORS = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
VALUED = st.recursive(LEAVES, combined, max_leaves=12)  # once: to look through it takes longer than to draw


@settings(max_examples=100)
@given(st.data())
def test_random_expressions_have_the_value_that_numpy_gives(data):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        text, expected = data.draw(VALUED)
        expression = answered(lambda: compile_expression(text, ["x", "y"]))
        if expression is not None:
            np.testing.assert_array_equal(expression({"x": 0.7, "y": -1.3}), expected)
