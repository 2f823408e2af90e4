"""Errors in models written in the file, in adaptive steps, and solvers that do not fit: place and remedy."""

import importlib
import sys

import pytest
from simkit_physics import BirthDeath

from simkit import InputError, load

INLINE = [
    (
        "sde: {S: {drift: 2*S}}",
        "1:9: model.sde: has no noise; write the equations under ode, or give a variable one: "
        "{drift: -x, noise: {W: 0.1}}",
    ),
    ("ode: {}", "1:14: model.ode: needs at least one variable"),
    ("ode: {S: '1'}", "1:18: model.ode.S: '1' is text, not a number; remove the quotes"),
    (
        "sde: {S: {noise: {W: sqrt(-2*a)}}}, parameters: {a: 1}",
        "1:30: model.sde.S.noise.W: must be finite, but sqrt(-2*a) is nan",
    ),
    ("ode: {S: log(-1)}", "1:18: model.ode.S: must be finite, but log(-1) is nan"),
    ("ode: {S: x}", "1:18: model.ode.S: unknown name 'x' (column 1 of the expression); known: S, t, pi, e"),
    ("ode: {S: S, exp: S}", "1:21: model.ode.exp: 'exp' is a function; choose another name"),
    (
        "ode: {S: S}, parameters: {S: 1}",
        "1:35: model.parameters.S: S is a state variable; choose another name",
    ),
    (
        "ode: {S: S}, parameters: {drift: 1}",
        "1:35: model.parameters.drift: 'drift' is the name of a part of a model; choose another",
    ),
    (
        "sde: {S: {noise: {W: 1}}}, parameters: {smooth: 1}",
        "1:49: model.parameters.smooth: 'smooth' is the name of a part of a model; choose another",
    ),
    (
        "ode: {S: max(S)}",
        "1:18: model.ode.S: max(…) runs along a path and is for observables only; "
        "of two numbers use maximum(a, b) (column 1 of the expression)",
    ),
    ("ode: {S: S}, calculus: ito", "1:22: model.calculus: unknown key; known: ode, parameters"),
    ("sde: {S: {drft: 1, noise: {W: 1}}}", "1:19: model.sde.S.drft: unknown key; did you mean 'drift'?"),
    (
        "sde: {S: {noise: {W: 1, V: 1}}}, correlation: {W-V: 1.5}",
        "1:61: model.correlation.W-V: must be from -1 to 1, got 1.5",
    ),
    (
        "sde: {S: {noise: {W: 1, V: 1}}}, correlation: {W-X: 0.5}",
        "1:56: model.correlation.W-X: unknown noise 'X'; known: W, V",
    ),
    (
        "sde: {S: {noise: {W: 1, V: 1}}}, correlation: {W: 0.5}",
        "1:56: model.correlation.W: 'W' is not a pair of noises such as W1-W2",
    ),
    (
        "sde: {S: {noise: {W: 1, V: 1}}}, correlation: {W-V: 0.5, V-W: 0.5}",
        "1:66: model.correlation.V-W: the correlation of V and W is given twice",
    ),
    (
        "sde: {S: {noise: {W: 1, V: 1}}}, correlation: {W-V: S/2}",
        "1:61: model.correlation.W-V: unknown name 'S' (column 1 of the expression); known: pi, e",
    ),
    (
        "sde: {S: {noise: {A: 1, B: 1, C: 1}}}, correlation: {A-B: 0.9, B-C: 0.9, A-C: -0.9}",
        "1:61: model.correlation: no random variables have these correlations: the matrix must be positive "
        "semi-definite, and its smallest eigenvalue is -0.8; make the entries smaller",
    ),
    (
        "sde: {S: {noise: {W: S}}}, calculus: itoh",
        "1:46: model.calculus: must be ito or stratonovich, got 'itoh'; did you mean 'ito'?",
    ),
]


@pytest.mark.parametrize(("model", "message"), INLINE)
def test_bad_input_in_models_written_in_the_file(messages, model, message):
    names = ["S"] if "{}" not in model else []
    names += ["exp"] if "exp" in model else []
    initial = ", ".join(f"{name}: 1" for name in names)
    text = f"model: {{{model}}}\ninitial: {{{initial}}}\ntime: {{t1: 1, steps: 2}}\n"
    assert messages(text) == [f"gbm.yaml:{message}"]


ADAPTIVE = [
    (
        "time: {t1: 1, steps: 9, rtol: 1e-6, atol: 1e-9}",
        [
            "3:25: time.rtol: steps are given, and are of equal length; give steps, or rtol and atol",
            "3:37: time.atol: steps are given, and are of equal length; give steps, or rtol and atol",
        ],
    ),
    ("time: {t1: 1, rtol: -1e-6, atol: 1e-9}", ["3:21: time.rtol: must be positive, got -1e-06"]),
    ("time: {t1: 1, rtol: 1e-6, atol: 0}", ["3:33: time.atol: must be positive, got 0"]),
    (
        "time: {t1: 1, rtol: 2, atol: 1}",
        ["3:21: time.rtol: must be below 1, got 2: nothing would be refused"],
    ),
    ("time: {t1: 1, rtol: 1e-6}", ["3:1: time.atol: is missing; the error allowed where it is near zero"]),
    (
        "time: {t1: 1, rtoll: 1e-6, rtol: 1e-6, atol: 1e-9}",
        ["3:15: time.rtoll: unknown key; did you mean 'rtol'?"],
    ),
    (
        "time: {t1: 1, steps: 2, max_steps: 9}",
        ["3:25: time.max_steps: steps are given, and are of equal length; give steps, or rtol and atol"],
    ),
    (
        "time: {t1: 1, rtol: 1e-6, atol: 1e-9}\nsolver: Euler",
        [
            "4:9: solver: solver Euler has no error estimate to choose steps by; use Tsit5, or Rodas5P if "
            "the problem is stiff"
        ],
    ),
    (
        "time: {t1: 1, rtol: 1e-9, atol: 1e-9}\nprecision: float32",
        [
            "3:21: time.rtol: 1e-09 is finer than float32 resolves; use at least 1e-06, or precision: "
            "float64",
        ],
    ),
    (
        "time: {t1: 1, rtol: 1e-6, atol: 1e-9}\nsave: {every: 2}",
        ["4:15: save.every: adaptive steps differ from path to path; give points"],
    ),
    (
        "time: {t1: 1, rtol: 1e-6, atol: 1e-9}\nobserve: {top: max(S)}",
        [
            "4:16: observe.top: max(…) monitors the path step by step, and adaptive steps have no common "
            "times; give time.steps in place of rtol and atol"
        ],
    ),
]


@pytest.mark.parametrize(("lines", "expected"), ADAPTIVE)
def test_bad_input_about_adaptive_steps(messages, lines, expected):
    text = f"model: {{ode: {{S: -S}}}}\ninitial: {{S: 1}}\n{lines}\n"
    assert messages(text) == [f"gbm.yaml:{message}" for message in expected]


def test_a_solver_for_separable_problems_on_one_with_friction(messages):
    text = "model: {ode: {x: v, v: -x - 0.1*v}}\ninitial: {x: 1, v: 0}\nsolver: Leapfrog\n"
    assert messages(text + "time: {t1: 1, steps: 2}\n") == [
        "gbm.yaml:3:9: solver: solver Leapfrog needs a separable problem: the first half of the variables "
        "(x) must change by the second half (v) alone and the other way round, which InlineODE does not; "
        "use Tsit5"
    ]


def test_positions_and_momenta_come_in_pairs(messages):
    text = "model: {ode: {x: -x}}\ninitial: {x: 1}\nsolver: Leapfrog\ntime: {t1: 1, steps: 2}\n"
    assert messages(text) == [
        "gbm.yaml:3:9: solver: solver Leapfrog needs as many momenta as positions, and InlineODE has 1 "
        "variable (x); use Tsit5"
    ]


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        (
            "SRIW1",
            r"InlineSDE has commutative noise; use Milstein \(strong order 1\) or PlatenWeak2 \(weak or",
        ),
        (
            "ShARK",
            r"InlineSDE is an Itô model; use Milstein \(strong order 1\) or PlatenWeak2 \(weak order 2\)$",
        ),
        (
            "{type: ShARK, convert: true}",
            r"is for additive noise, InlineSDE has commutative noise; use SPaRK or",
        ),
    ],
)
def test_a_solver_that_is_recommended_runs(solver, message):
    """Two correlated prices."""
    sde = "{A: {drift: 0.1*A, noise: {W1: 0.2*A}}, B: {drift: 0.1*B, noise: {W2: 0.2*B}}}"
    text = (
        f"model: {{sde: {sde}, correlation: {{W1-W2: 0.5}}}}\ninitial: {{A: 1, B: 1}}\n"
        "solver: %s\ntime: {t1: 1, steps: 2}\n"
    )
    with pytest.raises(InputError, match=message):
        load(text % solver)
    for other in ("Milstein", "PlatenWeak2"):
        load(text % other)


def test_a_rate_in_time_leads_to_the_direct_method_or_a_curve():
    reactions = "{make: {equation: 0 -> X, rate: 10*(1 + sin(t))}}"
    text = f"model: {{reactions: {reactions}}}\ninitial: {{X: 0}}\nsolver: %s\ntime: {{t1: 1}}\n"
    with pytest.raises(InputError, match=r"use DirectMethod, .* a curve with interpolation: previous"):
        load(text % "NextReaction")
    load(text % "DirectMethod")


def test_a_class_that_its_module_does_not_enter_is_told_how(tmp_path, monkeypatch):
    (tmp_path / "not_entered.py").write_text("class Chemostat: pass\nclass MySolver: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "not_entered", raising=False)
    importlib.import_module("not_entered")
    wrong = {"model": {"type": "Chemostat"}, "initial": {"X": 5}, "time": {"t1": 20.0, "steps": 2}}
    lines = {
        'model.type: .*simkit_physics import MODELS` and `MODELS\\["Chemostat"\\] = Chemostat` to it': {},
        'solver: .* `SOLVERS\\["MySolver"\\] = SolverInfo\\(MySolver, …\\)` to it': {"solver": "MySolver"},
    }
    for line, more in lines.items():
        with pytest.raises(InputError, match=line):
            load(wrong | more)
    sys.modules.pop("not_entered")


@pytest.mark.parametrize("model", [{"type": "BirthDeth", "birth_rate": 0.9, "death_rate": 1.0}, BirthDeath])
def test_a_model_that_is_not_known_may_need_no_steps(model):
    """A reaction network refuses them, so only the model is complained about."""
    experiment = {"model": model, "initial": {"X": 5}, "time": {"t1": 20.0}, "ensemble": {"paths": 200}}
    with pytest.raises(InputError) as caught:
        load(experiment)
    assert len(caught.value.problems) == 1
    assert "BirthDeath" in str(caught.value)
