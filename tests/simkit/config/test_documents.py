"""Strict YAML: what is read, and what is refused with which message."""

import io
import sys
from pathlib import Path

import numpy as np
import pytest
import simkit_physics
import xarray as xr
from simkit_physics import MODELS, VanDerPol

from simkit import InputError, OutputError
from simkit.config import read_document
from simkit.config.documents import MAX_BYTES, parse_text, parse_value
from simkit.config.overrides import apply_overrides


def scalar(text):
    return parse_value(text, "value").data


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1E3", 1000.0),
        (".5", 0.5),
        ("5.", 5.0),
        ("-1.5e+2", -150.0),
        ("010", 10),
        ("0o10", 8),
        ("0x1F", 31),
        ("-7", -7),
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("1_000", "1_000"),
        ("12:30:45", "12:30:45"),
        ("2026-11-21", "2026-11-21"),
        ("'1e-3'", "1e-3"),
        ('"1e-3"', "1e-3"),
        ("0b11", "0b11"),
        ("=", "="),
        ("1e", "1e"),
    ],
)
def test_scalars_follow_the_core_schema_of_yaml_1_2(text, value):
    result = scalar(text)
    assert result == value
    assert type(result) is type(value)


def test_infinities_and_nan_are_numbers():
    assert [scalar(".inf"), scalar("-.Inf")] == [np.inf, -np.inf]
    assert np.isnan(scalar(".nan"))


def test_a_comma_in_parentheses_does_not_end_a_text_in_braces():
    document = read_document("a: {x: f(S, g(1, 2), z), y: [h(1, 2), 3]}\nb: {u: max(1}\n")
    assert document.data == {"a": {"x": "f(S, g(1, 2), z)", "y": ["h(1, 2)", 3]}, "b": {"u": "max(1"}}


def test_a_parenthesis_left_open_ends_at_the_comma_as_in_any_yaml():
    document = read_document("a: {x: f(S, y: 2}\nb: {x: f(S, 'y': (2)}\n")
    assert document.data == {"a": {"x": "f(S", "y": 2}, "b": {"x": "f(S", "y": "(2)"}}


def test_places_are_those_of_the_values_and_keys():
    document = read_document("a: 1\nb:\n  c: [2, x]\n")
    assert document.values[("b", "c", 1)] == (3, 10)
    assert document.keys[("b", "c")] == (3, 3)
    assert document.values[("a",)] == (1, 4)


def test_aliases_are_written_out():
    document = read_document("a: &x {k: 1}\nb: *x\n")
    assert document.data == {"a": {"k": 1}, "b": {"k": 1}}
    assert document.data["a"] is not document.data["b"]


def test_a_byte_order_mark_and_windows_line_ends_are_no_obstacle(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1\r\nb: 2\r\n")
    assert read_document(path).data == {"a": 1, "b": 2}


def test_python_data_become_plain():
    source = {"a": np.float64(0.5), "b": np.int64(3), "c": (1, 2.0), "d": {"e": None, "f": True}}
    data = read_document(source).data
    assert data == {"a": 0.5, "b": 3, "c": [1, 2.0], "d": {"e": None, "f": True}}
    assert type(data["a"]) is float
    assert type(data["b"]) is int


def test_python_data_are_copied():
    source = {"a": {"b": [1]}}
    document = read_document(source)
    apply_overrides(document, ["a.b.0=2", "a.c=3"])
    assert source == {"a": {"b": [1]}}
    assert document.data == {"a": {"b": [2], "c": 3}}


def test_a_mapping_in_itself_is_refused():
    loop = {}
    loop["a"] = loop
    with pytest.raises(InputError, match="nested more than"):
        read_document(loop)


BOMB = "a: &a [0,0,0,0,0,0,0,0,0,0]\n" + "".join(
    f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)

BLOCK = (
    "`>` and `|` at the beginning announce a text on the lines below; put a condition that begins so, or any "
    "other text, in quotes"
)
INDENT = "this key stands under none of those above it; indent it as far as the keys beside it"
MINUS = "`- ` begins an item of a list, which cannot stand here; write a minus without the space after it"

REFUSED = {
    "a: 1\n\tb: 2\n": "<text>:2:1: a tab stands where YAML allows spaces only; indent with spaces",
    "a:\n\tb: 2\n": "<text>:2:1: a tab stands where YAML allows spaces only; indent with spaces",
    "a: 1\n---\nb: 2\n": "<text>:2:1: a second document starts here; a file holds one experiment",
    "a: !!python/object/apply:os.system [ls]\n": "<text>:1:4: tags such as "
    "'tag:yaml.org,2002:python/object/apply:os.system' are not allowed: a file is data",
    "a: !x 1\n": "<text>:1:4: tags such as '!x' are not allowed: a file is data",
    "a: *b\n": "<text>:1:4: found undefined alias 'b'; a text that begins with * must be in quotes",
    "a: &a [*a]\n": "<text>:1:4: nested more than 20 levels deep, or an alias in itself",
    BOMB: "<text>:1:24: aliases stand for more than 20000 values",
    "a: &x 1\nb: [" + "*x," * 201 + "]\n": "<text>:2:605: more than 200 aliases; write the values out",
    "a: " + "[" * 10_000 + "\n": "<text>:1:23: nested more than 20 levels deep",
    "a: [" + "1," * 20_000 + "]\n": "<text>:1:39999: more than 20000 values; an experiment is smaller",
    "- a\n- b\n": "<text>:1:1: must be keys and values such as `model: …`, got ['a', 'b']",
    "just text\n": "<text>:1:1: must be keys and values such as `model: …`, got 'just text'",
    "# nothing\n": "<text>: is empty; an experiment needs at least model, initial and time",
    "a: b: c\n": "<text>:1:5: a second `: ` in one line; check the indentation, or put the text in quotes",
    "a: {b: - c}\n": f"<text>:1:8: {MINUS}",
    "a: - c\n": f"<text>:1:4: {MINUS}",
    "a: {b: >= 3}\n": "<text>:1:8: found character '>'; put a text that begins so in quotes",
    "a:\n  when: >= 3\n": f"<text>:2:10: {BLOCK}",
    "a:\n  when: > 3\n": f"<text>:2:11: {BLOCK}",
    "a:\n  when: >3\n  then: 4\n": f"<text>:2:9: {BLOCK}",
    "a: |x| > 3\n": f"<text>:1:5: {BLOCK}",
    "a:\n   b: 1\n  c: 2\n": f"<text>:3:3: {INDENT}",
    "a:\n  b: {x: 1}\n   c: 2\n": f"<text>:3:4: {INDENT}",
    "a: @b\n": "<text>:1:4: found character '@'; put a text that begins so in quotes",
    "a: {b: [1, 2}\n": "<text>:1:8: `[` is opened here and not closed before line 1, column 13; add `]`",
    "a: 1\nb: {c: 1, d: 2 # }\ne: {f: 1}\n": "<text>:2:4: `{` is opened here and not closed before line 3, "
    "column 1; add `}`",
    'a: {b: "}"\nc: 1\n': "<text>:1:4: `{` is opened here and not closed before line 2, column 1; add `}`",
    "a: 'b\nc: 1\n": "<text>:1:4: `'` is opened here and not closed before line 3, column 1; add `'`",
    'a: 1\nb:\n  c: "x\n  d: 1\ne: "y"\n': '<text>:3:6: `"` is opened here and not closed before line 5, '
    'column 5; add `"`',
    "a: {b: 1 c: 2}\n": "<text>:1:11: a comma is missing before this, or quotes around the text before it",
    "a: {b: 1}}\n": "<text>:1:10: this `}` closes nothing that is open; remove it",
    'a: "b" c\n': "<text>:1:8: this follows a text in quotes that has ended; put all of the text in quotes",
    'a: "b\\d"\n': "<text>:1:7: a backslash in double quotes begins a special character; use single quotes",
    "a: \x07\n": "<text>:1:4: the character '\\x07' is not allowed in YAML",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_refused_texts(text):
    with pytest.raises(InputError) as caught:
        read_document(text)
    assert str(caught.value) == REFUSED[text]


def diagnostics(text):
    return [(mark, message) for mark, _, message in read_document(text).diagnostics]


def test_errors_that_leave_the_rest_readable_are_collected():
    text = 'a: 1\na: 2\n1: x\nb: {<<: {c: 1}, c: 2, c: 3}\n[x]: 3\nd: "\\ud800"\n'
    assert diagnostics(text) == [
        ((2, 1), "duplicate key; it was first given in line 1"),
        ((3, 1), "a key must be text, got 1; put it in quotes"),
        ((4, 5), "merge keys (<<) are not supported; write the keys out"),
        ((4, 23), "duplicate key; it was first given in line 4"),
        ((5, 1), "a key must be text, got a list or mapping; put it in quotes"),
        ((6, 4), "half a surrogate pair is not a character"),
    ]


def test_lists_without_brackets_and_numbers_with_commas_are_told_how_to_be_written():
    text = "{at: 0, 12, 24.5, set: 3, paths: 1,000,000, sigma: 0,2, 5: {}, x: 1, 7: 3}\n"
    assert [message for _, message in diagnostics(text)] == [
        "a list is written in brackets: [0, 12, 24.5]",
        "1,000,000 is not a number; write 1000000",
        "0,2 is not a number; write a decimal point: 0.2",
        "a key must be text, got 5; put it in quotes",
        "a key must be text, got 7; put it in quotes",
    ]


def test_a_file_that_is_not_utf_8_is_named_with_the_place(tmp_path):
    path = tmp_path / "latin.yaml"
    path.write_bytes("a: 1\n# größe\n".encode("latin-1"))
    with pytest.raises(InputError) as caught:
        read_document(path)
    assert str(caught.value) == (f"{path}:2:5: byte 0xf6 at offset 9 is not UTF-8; save the file as UTF-8")


def test_a_file_of_10_mb_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "big.yaml"
    with path.open("wb") as file:
        file.truncate(10_000_000)
    with pytest.raises(InputError) as caught:
        read_document(path)
    assert str(caught.value) == f"{path}: 10000000 bytes are too many; an experiment may have {MAX_BYTES}"


def test_a_text_of_more_than_a_million_bytes_is_refused():
    with pytest.raises(InputError, match="is empty"):
        parse_text("#" * 1_000_000, "long.yaml")
    with pytest.raises(InputError, match=r"^long\.yaml: 1000001 bytes are too many; .* may have 1000000$"):
        parse_text("#" * 1_000_001, "long.yaml")


def test_a_missing_file_is_named_with_its_neighbour(tmp_path):
    (tmp_path / "gbm.yaml").write_text("a: 1\n")
    with pytest.raises(OutputError) as caught:
        read_document(tmp_path / "gmb.yaml")
    assert str(caught.value) == f"{tmp_path}/gmb.yaml: no such file; did you mean '{tmp_path}/gbm.yaml'?"


def test_a_far_name_is_not_suggested(tmp_path):
    (tmp_path / "gbm.yaml").write_text("model: x")
    with pytest.raises(OutputError) as caught:
        read_document(tmp_path / "heston.yaml")
    assert str(caught.value) == f"{tmp_path}/heston.yaml: no such file; it is looked for in {tmp_path}"


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(OutputError) as caught:
        read_document(tmp_path / "none" / "gbm.yaml")
    assert str(caught.value) == f"{tmp_path}/none/gbm.yaml: no such file; there is no folder {tmp_path}/none"


def test_only_a_path_a_text_or_a_mapping_is_an_experiment():
    with pytest.raises(
        InputError, match=r"is the path of a YAML file, its text or a dictionary, not a value of type int$"
    ):
        read_document(42)
    with pytest.raises(InputError, match=r"^a dataset is no experiment; .*attrs\['configuration'\]\)$"):
        read_document(xr.Dataset())  # a mapping
    levels = read_document({"save": {"quantiles": xr.DataArray([0.1, 0.9])}})
    assert levels.data == {"save": {"quantiles": [0.1, 0.9]}}


@pytest.mark.parametrize("name", ["", "folder"])
def test_a_folder_is_no_file(tmp_path, name):
    (tmp_path / "folder").mkdir()
    with pytest.raises(OutputError, match=r"is a directory; give a file in it, such as .*gbm\.yaml$"):
        read_document(tmp_path / name)


def test_a_name_that_no_file_can_have():
    with pytest.raises(OutputError, match="not a file name"):
        read_document("a\0b")


def overridden(text, *overrides):
    document = read_document(text)
    apply_overrides(document, overrides)
    return document


def test_overrides_replace_and_make_keys():
    document = overridden(
        "model: {sigma: 0.2}\nsolver: Tsit5\nobserve: {x: S}\nq: [1, 2]\ne:\n",
        "model.sigma=1e-3",
        ("model.mu", "2*r"),
        "save.points=12",
        "solver.rtol=1e-6",
        "observe.x.at=each",
        "q.1={a: 5}",
        "e.f=",
    )
    assert document.data == {
        "model": {"sigma": 1e-3, "mu": "2*r"},
        "solver": {"type": "Tsit5", "rtol": 1e-6},
        "observe": {"x": {"value": "S", "at": "each"}},
        "q": [1, {"a": 5}],
        "e": {"f": None},
        "save": {"points": 12},
    }
    assert document.options[("q", 1)] == "override q.1"
    assert ("model", "sigma") not in document.values


def test_overrides_that_lead_nowhere_are_all_listed():
    with pytest.raises(InputError) as caught:
        overridden("a: 1\nq: [1]\n", "a", "a.b=2", "q.1=3", "q.x=3", ".=3", "c=[1", "c=!x 1")
    assert str(caught.value).splitlines() == [
        "override a: expected KEY=VALUE, as in model.sigma=0.3",
        "override a.b: a is a single value, so nothing can be set inside it; replace it as a whole, as in "
        "'a={b: ...}'",
        "override q.1: a list of 1 has no item '1'; count from 0",
        "override q.x: a list of 1 has no item 'x'; count from 0",
        "override .: expected KEY=VALUE, as in model.sigma=0.3",
        "override c:1:1: `[` is opened here and not closed before line 1, column 3; add `]`",
        "override c:1:1: tags such as '!x' are not allowed: a file is data",
    ]


def test_an_array_of_initial_values_is_one_for_each_path():
    data = read_document({"initial": {"S": np.array([1.0, 2.0]), "v": np.float64(3)}}).data
    assert data == {"initial": {"S": {"values": [1.0, 2.0]}, "v": 3.0}}


def test_a_model_of_your_own_is_entered_by_its_name(monkeypatch):
    monkeypatch.setattr("simkit_physics.MODELS", dict(MODELS))

    def decay(rate: float):
        class Decay(VanDerPol):
            pass

        return Decay(mu=rate)

    for rate in (1.0, 2.0):  # as a cell of a notebook that is run again
        model = decay(rate)
        assert read_document({"model": model}).data == {"model": {"type": "Decay", "mu": rate}}
        assert simkit_physics.MODELS["Decay"] is type(model)
    impostor = type("GBM", (VanDerPol,), {})(mu=1.0)
    with pytest.raises(InputError, match=r"^model: GBM is the name of a model of simkit too; rename"):
        read_document({"model": impostor})
    assert simkit_physics.MODELS["GBM"] is MODELS["GBM"]


def test_sections_of_overrides_change_what_they_name():
    document = read_document("model: {type: GBM, mu: 0.1, sigma: 0.2}\ntime: {t1: 1}\n")
    apply_overrides(
        document, {"model": {"sigma": 0.3}, "time.t1": 2, "save": {"points": 4, "quantiles": [0.5]}}
    )
    assert document.data == {
        "model": {"type": "GBM", "mu": 0.1, "sigma": 0.3},
        "time": {"t1": 2},
        "save": {"points": 4, "quantiles": [0.5]},
    }


def test_a_dash_reads_standard_input(monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a: 1\nb: {c: [}\n")))
    with pytest.raises(InputError, match=r"^<stdin>:2:"):
        read_document("-")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("a: é\n".encode())))
    assert read_document(Path("-")).data == {"a": "é"}
