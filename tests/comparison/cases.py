"""The cases that `compare.py` runs, as texts of experiments, listed by the command line of a checkout."""

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import yaml

PATHS = 512  # enough for every bit to count
PRECISIONS = ("float64", "float32")
FINEST = {"rtol": 1e-6, "atol": 1e-7}  # tolerances that float32 resolves


class Case(NamedTuple):
    """A file and how to run it. Of several texts, the first that `simkit validate` accepts is run."""

    name: str
    command: str  # run, sensitivity or uncertainty
    texts: tuple[str, ...]
    settings: tuple[str, ...] = ()


SAVE = "save: {points: 4, paths: 2}\n"
STEPS = "time: {t1: 1, steps: 16}\n"
TERMS = {
    "general": "{X: {drift: -X + sin(t), noise: {W: 0.2*X + 0.1*Y, V: 0.1*sin(X)}}, "
    "Y: {drift: X - Y**3, noise: {W: 0.1*X, V: 0.2}}}",
    "diagonal": "{X: {drift: -X**3 + sin(t), noise: {W: 0.2*X}}, Y: {drift: X - Y, noise: {V: 0.1*sin(Y)}}}",
    "additive": "{X: {drift: -X**3 + sin(t), noise: {W: 0.2}}, Y: {drift: X - Y, noise: {W: 0.1, V: 0.1}}}",
}
# Problems for solvers, from general noise to none; nothing autonomous, nothing linear.
PROBLEMS = (
    *(
        f"model: {{calculus: {calculus}, sde: {terms}}}\ninitial: {{X: 1.0, Y: 0.5}}\n{STEPS}"
        for terms in TERMS.values()
        for calculus in ("ito", "stratonovich")
    ),
    "model: {type: DoubleWellLangevin, gamma: 1, u: 1.5, b: 2, a: 1}\n"
    f"initial: {{x: {{normal: [-1, 0.1]}}, v: 0}}\n{STEPS}",
    f"model: {{type: DoubleWell, gamma: 1, u: 1.5, b: 2, a: 1}}\ninitial: {{x: -1}}\n{STEPS}",
    "model: {type: Heston, mu: 0.03, kappa: 2, theta: 0.06, xi: 0.4, rho: -0.6}\n"
    f"initial: {{S: 100, v: 0.05}}\n{STEPS}",
    f"model: {{type: CIR, kappa: 1, theta: 0.04, sigma: 0.3}}\ninitial: {{r: 0.03}}\n{STEPS}",
    f"model: {{type: HenonHeiles, lam: 1}}\ninitial: {{x: 0.1, y: 0.2, px: 0.3, py: 0.1}}\n{STEPS}",
    "model: {ode: {x: v, v: -sin(x) + 0.5*cos(3*t)}}\ninitial: {x: {uniform: [0.5, 1.5]}, v: 0}\n"
    "time: {t1: 2, steps: 64}\n",
    "model: {reactions: {infection: {equation: S + I -> 2 I, rate: 0.003}, recovery: {equation: I -> R, "
    "rate: 0.1}}}\ninitial: {S: 95, I: 5, R: 0}\ntime: {t1: 10}\n",
)
DERIVATIVES = {
    "pathwise and score": """
constants: {r: 0.05, K: 100}
model: {type: GBM, mu: r, sigma: 0.2}
initial: {S: 100}
solver: EulerMaruyama
time: {t1: 1, steps: 12}
observe: {call: exp(-r*t)*maximum(S - K, 0), digital: S > K, barrier: maximum(S - K, 0)*(min(S) > 90)}
sensitivity: {wrt: [S, sigma, r], second: [S]}
""",
    "network": """
model:
  reactions: {birth: {equation: 0 -> X, rate: birth}, death: {equation: X -> 0, rate: death}}
  parameters: {birth: 10, death: 1}
initial: {X: 5}
solver: DirectMethod
time: {t1: 2}
sensitivity: {wrt: [birth, death]}
""",
    "adaptive steps": """
model: {ode: {x: -a*x + sin(t)}, parameters: {a: 1.5}}
initial: {x: 1}
solver: Tsit5
time: {t1: 3, rtol: 1.0e-5, atol: 1.0e-8}
sensitivity: {wrt: [a]}
""",
}


def json_of(checkout: Path, *arguments: str) -> dict:
    """What the command line of a checkout says as JSON."""
    paths = [str(checkout), str(checkout / "solvers"), str(checkout / "physics")]
    answer = subprocess.run(
        [sys.executable, "-m", "simkit", *arguments, "--json"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
        cwd=checkout,  # which comes first where Python looks for packages
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(answer.stdout)


def all_cases(checkout: Path) -> list[Case]:
    """The cases, with the examples, models and solvers of a checkout."""
    return [
        case._replace(name=f"{case.name}, {precision}", settings=(*case.settings, f"precision={precision}"))
        for case in [*_examples(checkout), *_models_and_solvers(checkout), *_derivatives()]
        for precision in PRECISIONS
    ] + _with_errors(checkout)


def _examples(checkout: Path) -> list[Case]:
    cases = []
    for file in sorted((checkout / "examples").glob("**/*.yaml")):
        text = file.read_text(encoding="utf-8")
        sections = yaml.safe_load(text)
        settings = _coarser(sections)
        studied = "uncertainty" in sections
        cases.append(Case(f"example {file.stem}", "uncertainty" if studied else "run", (text,), settings))
        if "sensitivity" in sections:
            cases.append(Case(f"derivatives of example {file.stem}", "sensitivity", (text,), settings))
    return cases


def _coarser(sections: dict) -> tuple[str, ...]:
    """Fewer paths, and tolerances that float32 resolves, where an experiment has more."""
    settings = ()
    if sections.get("ensemble", {}).get("paths", 0) > PATHS:
        settings += (f"ensemble.paths={PATHS}",)
    for name, finest in FINEST.items():
        given = str(sections["time"].get(name))
        if re.fullmatch(r"[\d.]+e-\d+", given) and float(given) < finest:
            settings += (f"time.{name}={finest}",)
    return settings


def _models_and_solvers(checkout: Path) -> list[Case]:
    kinds = json_of(checkout, "list")
    models = [name for kind, names in kinds.items() if kind.startswith("models") for name in names]
    solvers = [name for kind, names in kinds.items() if kind.startswith("solvers") for name in names]
    cases = []
    for described in json_of(checkout, "describe", *models)["described"]:
        text = described["yaml"]
        settings = _coarser({"time": yaml.safe_load(text)["time"]})
        # Some say what they save.
        texts = text + SAVE, text
        cases.append(Case(f"model {described['name']}", "run", texts, (f"ensemble.paths={PATHS}", *settings)))
    for name in dict.fromkeys(solvers):
        texts = tuple(f"{problem}solver: {name}\n{SAVE}" for problem in PROBLEMS)
        cases.append(Case(f"solver {name}", "run", texts, (f"ensemble.paths={PATHS}",)))
    return cases


def _derivatives() -> list[Case]:
    settings = (f"ensemble.paths={PATHS}",)
    return [
        Case(f"derivatives, {name}", "sensitivity", (text,), settings) for name, text in DERIVATIVES.items()
    ]


def _with_errors(checkout: Path) -> list[Case]:
    """The files with errors of the tests of the checkout."""
    (file,) = (checkout / "tests").glob("**/test_bad_input.py")
    spec = importlib.util.spec_from_file_location("bad_input", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [
        Case(f"error {i}: {message[:60]}", "validate", (module.text_with(**changes),))
        for i, (changes, message) in enumerate(module.CASES)
    ]
