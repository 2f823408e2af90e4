"""The reference pages made from the code: models, solvers, YAML keys, functions, commands, public names.

`conf.py` calls `generate` before Sphinx reads the pages, so that nothing here can disagree with the code.
"""

import inspect
from pathlib import Path

from commands import command_tables
from equations import equation
from gallery import gallery_page, picture_of
from keys import yaml_page
from public_names import interface_pages
from simkit_physics import MODELS, models_by_field
from simkit_solvers import (
    SOLVERS,
    AbstractExactMoments,
    AbstractJumpDiffusion,
    AbstractReactionNetwork,
    ChemicalLangevin,
    Reaction,
    SolverInfo,
    check_solver,
    make_solver,
    parameters_of,
    solvers_by_problem,
    variables_of,
)
from tables import linked, table

from simkit import CLOSED_FORMS
from simkit.cli import model_snippet, opening
from simkit.config import Solver
from simkit.experiments import takes_langevin
from simkit.expressions import function_summaries
from simkit.functionals import FUNCTIONALS

PROBLEMS = {
    "ode": "ordinary equations",
    "sde": "stochastic equations",
    "jump": "the jump process of reaction networks",
    "model": "stochastic models of one kind",
}
CALCULUS = {"ito": "Itô", "stratonovich": "Stratonovich", "any": "Itô and Stratonovich alike"}
JUMPS = (
    "Solvers integrate the equation between jumps, and the loop adds the jumps of each step "
    "([how](../../guides/jumps_and_exact_sampling.md))."
)
STRATONOVICH = """\
model:
  sde: {x: {drift: -x, noise: {W: 0.5*x}}}
  calculus: stratonovich
initial: {x: 1.0}
"""
OSCILLATOR = """\
model:
  ode: {q: p, p: -q}
initial: {q: 1.0, p: 0.0}
"""


def generate(folder: Path) -> None:
    """Write every generated page below `folder`, and remove those whose subject is gone."""
    pages = {"yaml.md": yaml_page(), "gallery.md": gallery_page()}
    pages |= {f"models/{name}.md": model_page(name) for name in MODELS}
    pages |= {f"solvers/{name}.md": solver_page(SOLVERS[name]) for name in SOLVERS}
    pages |= interface_pages()
    pages["models/index.md"] = models_index()
    pages["solvers/index.md"] = solvers_index()
    pages["tables/functions.md"] = functions_table()
    pages["tables/closed_forms.md"] = closed_forms_list()
    pages["tables/commands.md"] = command_tables()
    for part in ("models", "solvers", "tables", "api"):
        (folder / part).mkdir(parents=True, exist_ok=True)
        for old in (folder / part).glob("*.md"):
            if f"{part}/{old.name}" not in pages:
                old.unlink()
    for name, text in pages.items():
        file = folder / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")


def model_page(name: str) -> str:
    """Equation, variables and parameters with units, noise, reference, and how to write it."""
    model = MODELS[name]
    parts = [f"# {name}", linked(inspect.getdoc(model) or "")]
    parts.append(f"![{name}](../pictures/{picture_of(name)}.png)")
    variables = [(f"`{key}`", _unit(v.unit), v.description) for key, v in variables_of(model).items()]
    parts += ["## Variables", table(("variable", "unit", "meaning"), variables)]
    parameters = [
        (f"`{key}`", _unit(p.unit), p.range.replace(">=", "≥").replace("<=", "≤") or "any", p.description)
        for key, p in parameters_of(model).items()
    ]
    parts += ["## Parameters", table(("parameter", "unit", "range", "meaning"), parameters)]
    if model.stochastic:
        noises = ", ".join(f"`{noise}`" for noise in model.Noise._fields)
        parts += [
            "## Noise",
            f"Independent noises: {noises}. Calculus: {CALCULUS[model.calculus]}. Kind: {model.noise_kind}.",
        ]
    if issubclass(model, AbstractJumpDiffusion):
        parts.append(JUMPS)
    if issubclass(model, AbstractReactionNetwork):
        rows = [(f"`{key}`", _equation(each)) for key, each in model.reactions.items()]
        parts += ["## Reactions", table(("reaction", "equation"), rows)]
    fitting = ", ".join(f"[{solver}](../solvers/{solver}.md)" for solver in _fitting_solvers(model))
    parts += ["## Solvers that fit", fitting + "."]
    if issubclass(model, AbstractExactMoments):
        parts.append("Exact mean and variance from fixed initial values are shown next to the estimates.")
    parts += ["## In YAML", f"```yaml\n{model_snippet(name, model)}```"]
    arguments = ", ".join(f"{key}={value}" for key, value in model.example.items())
    parts += [
        "## In Python",
        f"```python\nfrom simkit_physics import {name}\n\nmodel = {name}({arguments})\n```",
    ]
    return "\n\n".join(parts) + "\n"


def solver_page(info: SolverInfo) -> str:
    """What it solves, how it steps, its orders, options and reference."""
    parts = [f"# {info.name}"]
    if info.origin != "diffrax":
        parts.append(linked(inspect.getdoc(info.cls) or ""))
    else:
        parts += [info.summary, "## Method", equation(info), linked(f"Reference: {info.reference}.")]
        parts.append("The class is [diffrax](https://docs.kidger.site/diffrax/)'s.")
    usage = [("solves", " and ".join(PROBLEMS[kind] for kind in info.problem))]
    if info.order is not None:
        usage.append(("order on ordinary equations", str(info.order)))
    if info.calculus is not None:
        usage.append(("converges to the solution of", CALCULUS[info.calculus]))
    if info.exact:
        usage.append(("step bias", "none"))
    elif info.strong is None and info.weak is not None:
        usage.append(("weak order", f"{info.weak.least:g}"))
    if info.adaptive_noise_kinds:
        link = "[adaptive steps](../../guides/adaptive_sdes.md) on noise that is"
        usage.append((link, ", ".join(info.adaptive_noise_kinds)))
    parts += ["## Use", table(("", ""), usage)]
    if info.strong is not None and info.weak is not None:
        rows = [
            (kind, f"{strong:g}", f"{weak:g}")
            for kind, strong, weak in zip(info.strong._fields, info.strong, info.weak, strict=True)
            if strong is not None and weak is not None
        ]
        parts += [table(("noise", "strong order", "weak order"), rows)]
    if info.options:
        defaults = [
            (f"`{key}`", "by the precision" if value is None else f"{value:g}")
            for key, value in info.options.items()
        ]
        parts += ["## Options", table(("option", "default"), defaults)]
    parts += ["## In YAML", f"```yaml\n{_solver_example(info)}```"]
    if info.langevin:
        parts.append(
            "Equations in the file do not work with this solver; use "
            "[a class](../../guides/add_a_model.md#underdamped-langevin-dynamics)."
        )
    return "\n\n".join(parts) + "\n"


def _solver_example(info: SolverInfo) -> str:
    """An experiment in which the solver fits."""
    if "jump" in info.problem:
        return f"{_first_lines('ImmigrationDeath')}solver: {info.name}\ntime: {{t1: 1.0}}\n"
    if "model" in info.problem:
        start = _first_lines(_model_for(info))
    elif info.langevin:
        start = _first_lines("DoubleWellLangevin")
    elif "sde" not in info.problem:
        start = OSCILLATOR
    elif info.calculus == "stratonovich" and info.noise_kinds != ("additive",):
        start = STRATONOVICH
    else:
        name = "OrnsteinUhlenbeck" if info.noise_kinds == ("additive",) else "GBM"
        start = _first_lines(name)
    return f"{start}solver: {info.name}\ntime: {{t1: 1.0, steps: 100}}\n"


def _model_for(info: SolverInfo) -> str:
    """The first model that a solver for particular models takes."""
    solver = make_solver(info.name)
    return next(name for name, model in MODELS.items() if _fits(solver, model(**model.example)))


def _first_lines(model: str) -> str:
    """The sections `model` and `initial` of a model's example."""
    return "".join(model_snippet(model, MODELS[model]).splitlines(keepends=True)[:2])


def models_index() -> str:
    """All models with the first sentence about each."""
    more = "To add your own, see [add a model](../../guides/add_a_model.md)."
    parts = [f"# Models\n\nA model is a class; `type:` in YAML is its name. {more}"]
    for field, models in models_by_field().items():
        rows = [
            (f"[{name}]({name}.md)", opening(inspect.getdoc(model) or ""), _listed(variables_of(model)))
            for name, model in models.items()
        ]
        heading = f"## {field[0].upper()}{field[1:]}"
        parts.append(f"{heading}\n\n{table(('model', 'what', 'variables'), rows)}")
    return "\n\n".join([*parts, _toctree(MODELS)])


def solvers_index() -> str:
    """All solvers with their orders, by the problems that they solve."""
    text = (
        "`solver:` in YAML is a name or `{type: name, option: …}`. `order` is for ordinary equations; "
        "`strong` and `weak` are for the most general noise of the solver, its page has the others. "
        "A solver that does not fit a model is refused with the reason. Equations are separable if the first "
        "half of the variables changes depending on the second half only, and vice versa, as in Hamiltonian "
        "systems. To add your own, see [add a solver](../../guides/add_a_solver.md)."
    )
    parts = [f"# Solvers\n\n{text}"]
    for problems, solvers in solvers_by_problem(SOLVERS.values()).items():
        ordinary = problems.endswith("ordinary equations")
        rows = []
        for info in solvers:
            strong = "" if info.strong_order is None else f"{info.strong_order:g}"
            weak = "exact" if info.exact else "" if info.weak_order is None else f"{info.weak_order:g}"
            orders = () if "jump" in info.problem else (str(info.order),) if ordinary else (strong, weak)
            rows.append((f"[{info.name}]({info.name}.md)", info.summary, *orders))
        heads = ("solver", "what", "order") if ordinary else ("solver", "what", "strong", "weak")
        heads = heads[:2] if problems == "reaction networks" else heads
        parts.append(f"## For {problems}\n\n{table(heads, rows)}")
    return "\n\n".join([*parts, _toctree(SOLVERS)])


def functions_table() -> str:
    """Functions and path functionals."""
    plain = [(f"`{name}`", text) for name, text in function_summaries().items() if name not in FUNCTIONALS]
    along = [
        (f"`{name}`", text.removesuffix("; in observables"))
        for name, text in function_summaries().items()
        if name in FUNCTIONALS
    ]
    return (
        f"## Functions\n\n{table(('function', 'what'), plain)}\n\n"
        "## Path functionals\n\nThey are for observables only, and cannot be nested.\n\n"
        f"{table(('functional', 'what'), along)}\n"
    )


def closed_forms_list() -> str:
    """Closed forms by module, each with its arguments and its docstring."""
    parts: list[str] = []
    seen = None
    for name, form in CLOSED_FORMS.items():
        module = inspect.getmodule(form)
        if module is not seen:
            seen = module
            heading, _, rest = (inspect.getdoc(module) or "").partition("\n\n")
            parts += [f"## {heading.rstrip('.')}", linked(rest)]
        shown = ", ".join(
            p.name if p.default is p.empty else f"{p.name}={p.default:g}"
            for p in inspect.signature(form).parameters.values()
        )
        parts += [f"### {name}", f"`{name}({shown})`", linked(inspect.getdoc(form) or "")]
    return "\n\n".join(part for part in parts if part) + "\n"


def _fitting_solvers(model) -> list[str]:
    network = model(**model.example)
    fitting = []
    for name in SOLVERS:
        problem = network
        if isinstance(network, AbstractReactionNetwork) and takes_langevin(Solver(type=name)):
            problem = ChemicalLangevin(network)
        if _fits(make_solver(name), problem):
            fitting.append(name)
    return fitting


def _fits(solver, problem) -> bool:
    try:
        check_solver(solver, problem)
    except ValueError:
        return False
    return True


def _equation(reaction: Reaction) -> str:
    """`S + I → 2 I`."""
    sides = (reaction.reactants, reaction.products)
    texts = (" + ".join(name if n == 1 else f"{n} {name}" for name, n in side) or "0" for side in sides)
    return " → ".join(texts)


def _listed(names) -> str:
    """Names in code type; of many the first and the last."""
    shown = [f"`{name}`" for name in names]
    return ", ".join(shown if len(shown) <= 8 else [*shown[:2], "…", shown[-1]])


def _unit(unit: str) -> str:
    return f"`{unit}`" if unit else ""


def _toctree(names) -> str:
    return "```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"
