"""Expressions: values, types, derivatives, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from simkit import InputError
from simkit.expressions import ExpressionError, check_name, compile_expression
from simkit.expressions.functions import NUMERIC


def value(text, **names):
    return compile_expression(text, names)(names)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2*3", 7.0),
        ("2**3**2", 512.0),
        ("-2**2", -4.0),
        ("2**-1", 0.5),
        ("7 - 2 - 1", 4.0),
        ("8 / 4 / 2", 1.0),
        ("8 - 6/3*2 + 1", 5.0),
        ("+x", 3.0),
        ("pi", np.pi),
        ("e", np.e),
        ("where(x > 2, 1, 0)", 1.0),
        ("1 < x < 3", 0.0),
        ("1 < x <= 3", 1.0),
        ("(x > 1) + (x > 2)", 2.0),
        ("not x == 3 or x != 4", 1.0),
        ("x > 5 and x > 1", 0.0),
        ("clip(x, 0, 1) + clip(-x, 0, 1)", 1.0),
        ("atan2(1, -1)", 0.75 * np.pi),
        ("maximum(x, 5) - minimum(x, 5)", 2.0),
        ("sqrt(0)", 0.0),
        ("normal_cdf(0) + erf(0)", 0.5),
        ("1e308 * 10 / 10", np.inf),
        ("9**9**9**9", np.inf),
        ("(0 - 1)**0.5", np.nan),
        ("1/0", np.inf),
        ("exp(1000)", np.inf),
        (" \n x\n  + 1 ", 4.0),
        ("1e-3", 1e-3),
        (".5", 0.5),
    ],
)
def test_the_same_number_from_plain_numbers_and_from_arrays(text, expected):
    number = value(text, x=3.0)
    assert isinstance(number, float)
    np.testing.assert_allclose(number, expected, rtol=1e-15)
    names = {"x": jnp.asarray(3.0)}
    array = jax.jit(lambda x: jnp.asarray(compile_expression(text, ["x"])({"x": x})))(names["x"])
    np.testing.assert_allclose(array, expected, rtol=1e-12)


@pytest.mark.parametrize("name", NUMERIC)
def test_every_function_is_the_same_on_numbers_and_arrays(name):
    function = NUMERIC[name]
    arguments = [0.3, 0.7, 0.9][: function.arguments]
    text = f"{name}({', '.join(map(repr, arguments))})"
    array = function.array(*(jnp.asarray(x) for x in arguments))
    np.testing.assert_allclose(value(text), array, rtol=1e-13)


@pytest.mark.parametrize(
    "text",
    ["exp(-0.5*t)*maximum(x - 1, 0)", "x**2 + 2**x", "where(x > 0, 1, 0)*x", "(x > 1)*x", "x**0.3", "x/3"]
    + [f"x + {name}({', '.join(['x', '0.5', '0.7'][: f.arguments])})" for name, f in NUMERIC.items()],
)
def test_numbers_never_promote_a_float32_state(text):
    names = {"x": jnp.float32(0.5), "t": jnp.float32(1.0)}
    assert compile_expression(text, names)(names).dtype == jnp.float32


def test_whole_powers_have_values_and_slopes_at_zero_and_below():
    cube = jax.value_and_grad(lambda x: compile_expression("x**3", ["x"])({"x": x}))
    assert cube(-2.0) == (-8.0, 12.0)
    assert cube(0.0) == (0.0, 0.0)
    assert jax.grad(lambda x: compile_expression("x**1", ["x"])({"x": x}))(0.0) == 1.0
    assert compile_expression("x**-2", ["x"])({"x": jnp.asarray(-2.0)}) == 0.25
    x = jnp.asarray(np.random.default_rng(0).normal(size=1000))
    np.testing.assert_array_equal(compile_expression("x**3", ["x"])({"x": x}), x * x * x)


@pytest.mark.parametrize(("power", "primitive"), [(1000, "integer_pow"), (1001, "pow")])
def test_only_small_whole_powers_are_multiplied_out(power, primitive):
    traced = jax.make_jaxpr(lambda x: compile_expression(f"x**{power}", ["x"])({"x": x}))(0.5)
    assert primitive in {str(equation.primitive) for equation in traced.eqns}


def test_the_slope_of_a_truncated_square_root_is_finite():
    root = jax.grad(lambda x: compile_expression("sqrt(maximum(x, 0))", ["x"])({"x": x}))
    assert [float(root(x)) for x in (-1.0, 0.0, 4.0)] == [0.0, 0.0, 0.25]


def test_long_sums_are_not_deep():
    assert value("+".join(["x"] * 900), x=1.0) == 900.0


def test_what_it_remembers():
    expression = compile_expression(
        "a*mean(S  - a) + max(t) + mean(S - a)", ["a", "S", "t"], functionals=True
    )
    assert expression.names == {"a", "S", "t"}
    assert [(f.name, f.argument.text) for f in expression.functionals] == [("mean", "S - a"), ("max", "t")]
    assert expression.text == "a*mean(S - a) + max(t) + mean(S - a)"
    twin = compile_expression("a*mean(S - a) + max(t) + mean(S - a)", ["a", "S", "t"], functionals=True)
    assert expression == twin
    assert hash(expression) == hash(twin)


def test_closed_forms_take_named_numbers():
    def form(*, S: float, K: float = 2.0) -> float:
        if S < 0:
            raise ValueError("S: must be >= 0")
        return S / K

    forms = {"form": form}
    assert compile_expression("1 + form(S=a+1)", ["a"], closed_forms=forms)({"a": 3.0}) == 3.0
    for text, message in {
        "form(3)": "form takes its arguments by name, write form(S=…, K=…) (column 6 of the expression)",
        "form(K=3)": "form needs S too, write form(S=…, K=…) (column 1 of the expression)",
        "form(S=1, k=3)": "form has no argument 'k' (column 11); did you mean 'K'?",
        "form(S=-1)": "form: S: must be >= 0",
        "form(S=1, K=0)": "form: float division by zero",
        "form(**S)": "** before an argument is not allowed (column 6 of the expression)",
        "S=1": "= is not allowed here; equality is == (column 2 of the expression)",
        "form(S=1, S=1)": "form is given S twice (column 11 of the expression)",
    }.items():
        with pytest.raises(ExpressionError) as caught:
            compile_expression(text, ["S"], closed_forms=forms)({"S": 1.0})
        assert str(caught.value) == message


COMMA = "a comma outside the arguments of a function; a list is written in brackets"
REFUSED = {
    "S.real": "attributes (a.b) are not allowed; a function is called as max(S) (column 2 of the expression)",
    "S.__class__.__mro__": "attributes (a.b) are not allowed; a function is called as max(S)"
    " (column 2 of the expression)",
    "__import__('os').system('ls')": "text in quotes is not allowed (column 12 of the expression)",
    "import os": "'import' is a reserved word and not allowed (column 1 of the expression)",
    "lambda: 1": "'lambda' is a reserved word and not allowed (column 1 of the expression)",
    "[S for S in S]": "indexing and lists ([) are not allowed (column 1 of the expression)",
    "S[0]": "indexing and lists ([) are not allowed (column 2 of the expression)",
    "{S}": "braces are not allowed (column 1 of the expression)",
    "f'{S}'": "text in quotes is not allowed (column 2 of the expression)",
    '"S"': "text in quotes is not allowed (column 1 of the expression)",
    "(S := 1)": "assignment (:=) is not allowed (column 4 of the expression)",
    "S = 1": "= is not allowed here; equality is == (column 3 of the expression)",
    "1 + (S = 1)": "not an expression: = is not allowed here; equality is == (column 6 of the expression)",
    "exp(x=S)": "the arguments of exp are given without names, not as here; equality is =="
    " (column 5 of the expression)",
    "1 if S else 2": "'if' is a reserved word and not allowed; a choice is written where(condition, a, b)"
    " (column 3 of the expression)",
    "await S": "'await' is a reserved word and not allowed (column 1 of the expression)",
    "True": "'True' is a reserved word and not allowed; write a comparison (column 1 of the expression)",
    "S ^ 2": "a power is written ** and not ^ (column 3 of the expression)",
    "S % 2": "% is not available; write 5 % as 0.05, and a remainder as a - b*floor(a/b)"
    " (column 3 of the expression)",
    "S // 2": "// is not available; use floor(a/b) (column 3 of the expression)",
    "S & 1": "& is not available; use `and` (column 3 of the expression)",
    "S @ S": "the character '@' is not allowed (column 3 of the expression)",
    "S; S": "a semicolon is not allowed (column 2 of the expression)",
    "σ": "names are in plain letters: spell σ out as sigma (column 1 of the expression)",
    "ｅxp(1)": "the character '\\uff45' is not allowed (column 1 of the expression)",
    "S\0": "the character '\\x00' is not allowed (column 2 of the expression)",
    "# S": "the character '#' is not allowed (column 1 of the expression)",
    "2S": "'S' follows a number directly; write * between them, and a number without its unit"
    " (column 2 of the expression)",
    "1_000": "'_000' follows a number directly; a number is written without underscores"
    " (column 2 of the expression)",
    "0x10": "'x10' follows a number directly; write * between them, and a number without its unit"
    " (column 2 of the expression)",
    "2j": "'j' follows a number directly; write * between them, and a number without its unit"
    " (column 2 of the expression)",
    "5 mg": "'mg' follows '5' without an operator; a product is written *, and a number without its "
    "unit (column 3 of the expression)",
    "S + 1 year": "'1 year' has a unit, and times are plain numbers, all in the same unit: write 1 if year "
    "is that unit, which time.unit may name (column 5 of the expression)",
    ".5h": "'.5h' has a unit, and times are plain numbers, all in the same unit: write .5 if h is that unit, "
    "which time.unit may name (column 1 of the expression)",
    "probability(S > 1)": "unknown function 'probability' (column 1 of the expression); the mean of a "
    "condition is its probability; observe S > 1 alone",
    "2*Lognormal(mean=S, sd=1)": "unknown function 'Lognormal' (column 3 of the expression); a distribution "
    "is not a function; for a constant, a parameter or an initial value write "
    "{lognormal: {mean: S, sd: 1}}, without quotes (mean and sd of the logarithm; or median and cv)",
    "log10(S + 1)": "unknown function 'log10' (column 1 of the expression); write log(S + 1)/log(10)",
    "1.2.3": "a number with two points (column 4 of the expression)",
    "maximum(S-0100,0)": "a number has no leading zeros; write 0100 as 100 (column 11 of the expression)",
    "1e999": "a number too large for float64 (column 1 of the expression)",
    "9" * 400: "a number too large for float64 (column 1 of the expression)",
    "foo(S)": "unknown function 'foo' (column 1 of the expression); did you mean 'floor'?",
    "maxium(S, 1)": "unknown function 'maxium' (column 1 of the expression); did you mean 'maximum'?",
    "ln(S)": "unknown function 'ln' (column 1 of the expression); did you mean 'log'?",
    "eval(S)": "unknown function 'eval' (column 1 of the expression); `simkit list functions` shows all; "
    "`simkit --import MODULE run ...` enters your own",
    "X": "unknown name 'X' (column 1 of the expression); known: S, sigma, pi, e",
    "1 + sigm*2": "unknown name 'sigm' (column 5 of the expression); did you mean 'sigma'?",
    "__builtins__": "unknown name '__builtins__' (column 1 of the expression); known: S, sigma, pi, e",
    "exp": "exp is a function; write exp(…) (column 1 of the expression)",
    "S(2)": "S is not a function (column 1 of the expression); write S*(…) for a product",
    "(S)(2)": "S is not a function (column 1 of the expression); write S*(…) for a product",
    "2(S)": "only a function can be called; write * for a product (column 1 of the expression)",
    "exp(S, 1)": "exp takes 1 argument, got 2 (column 1 of the expression)",
    "maximum(S)": "maximum takes 2 arguments, got 1 (column 1 of the expression)",
    "where(S, 1, 2)": "'S' is a number where a condition is needed; compare it with another, as in S > 1"
    " (column 7 of the expression)",
    "S > 1 or 2": "'2' is a number where a condition is needed; compare it with another, as in S > 1"
    " (column 10 of the expression)",
    "exp(*S)": "* before an argument is not allowed (column 5 of the expression)",
    "S, S": f"{COMMA} (column 1 of the expression)",
    "()": f"{COMMA} (column 1 of the expression)",
    "": "an empty expression",
    " \n": "an empty expression",
    "S +": "not an expression: it ends too early, after column 3 of the expression",
    "S S": "'S' follows 'S' without an operator; a product is written *, and a number without its unit "
    "(column 3 of the expression)",
    "(S": "not an expression: '(' was never closed (column 1 of the expression)",
    "S)": "not an expression: unmatched ')' (column 2 of the expression)",
    "mean(S)": "mean(…) runs along a path and is for observables only (column 1 of the expression)",
    "max(S, 1)": "max takes one argument, along the path; of two numbers use maximum(a, b) "
    "(column 1 of the expression)",
    "(" * 10_000 + "S" + ")" * 10_000: "an expression of 20001 characters; at most 2000 are allowed",
    "(" * 900 + "S" + ")" * 900: "nested more than 50 levels deep (column 51 of the expression)",
    "-" * 1990 + "S": "nested more than 50 levels deep (column 52 of the expression)",
    "S" + "**S" * 600: "nested more than 50 levels deep (column 151 of the expression)",
    "not " * 400 + "S": "nested more than 50 levels deep (column 205 of the expression)",
    "2026-12-31": "'2026-12-31' looks like a date; times are numbers, such as years since t0, and arithmetic "
    "has spaces around its operators (column 1 of the expression)",
    " 31/12/2026": "'31/12/2026' looks like a date; times are numbers, such as years since t0, and "
    "arithmetic has spaces around its operators (column 2 of the expression)",
    "2026-12-31 - 2026-01-01": "'2026-12-31' looks like a date; times are numbers, such as years since t0, "
    "and arithmetic has spaces around its operators (column 1 of the expression)",
    "sin(" * 60 + "S" + ")" * 60: "nested more than 50 levels deep (column 204 of the expression)",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_refused_expressions(text):
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text, ["S", "sigma"])
    assert str(caught.value) == REFUSED[text]
    assert isinstance(caught.value, InputError)


@pytest.mark.parametrize(
    ("text", "value"),
    [("2026 - 12 - 31", 1983), ("2026-1", 2025), ("1/24/3600", 1 / 86400), ("12000-10-15.5", 11974.5)],
)
def test_arithmetic_that_is_no_date_is_computed(text, value):
    assert compile_expression(text)({}) == pytest.approx(value, rel=1e-15)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "mean(max(S))",
            "max(…) inside mean(…): path functionals cannot be nested (column 6 of the expression)",
        ),
        (
            "first(S > 2, S)",
            "first(x, c) takes the condition last, as in first(S, S > 120) (column 1 of the expression)",
        ),
        ("first(S)", "first takes 2 arguments, got 1 (column 1 of the expression)"),
        ("mean()", "mean takes 1 argument, got 0 (column 1 of the expression)"),
        ("meen(S)", "unknown function 'meen' (column 1 of the expression); did you mean 'mean'?"),
    ],
)
def test_refused_functionals(text, message):
    with pytest.raises(ExpressionError) as caught:
        compile_expression(text, ["S"], functionals=True)
    assert str(caught.value) == message


def test_names_that_cannot_be_given():
    assert [name for name in ("S", "v_1", "W1", "mu", "x2") if check_name(name)] == []
    refused = ["t", "e", "pi", "exp", "mean", "where", "lambda", "_x", "1x", "a b", "", "σ", "a-b", "None"]
    assert [name for name in refused if not check_name(name)] == []


def test_the_known_names_of_a_message_are_each_there_once():
    """Names of several sections may be the same; so many are shown in part."""
    names = [
        *(f"rate{i}" for i in range(6)),
        *(f"other{i}" for i in range(9)),
        *(f"rate{i}" for i in range(6)),
    ]
    with pytest.raises(ExpressionError, match="unknown name 'Q'") as caught:
        compile_expression("Q", [*names[:6], *names])
    known = str(caught.value).partition("known: ")[2].removesuffix(", …").split(", ")
    assert known == names[:12]
