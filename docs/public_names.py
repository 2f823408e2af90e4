"""The pages about the Python interface: every public name of a package, with its signature and docstring."""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from simkit_physics import MODELS
from simkit_solvers import SOLVERS
from tables import linked, table
from themes import INTRODUCTIONS, THEMES

from simkit.cli import opening

PACKAGES = {  # package: name of its page
    "simkit": "simkit",
    "simkit.transforms": "transforms",
    "simkit.studies": "studies",
    "simkit_solvers": "solvers",
    "simkit_physics": "physics",
}
VALUES = {  # what has no docstring of its own
    "__version__": """The version, a text.

>>> import simkit
>>> simkit.__version__.count(".")
2""",
    "CLOSED_FORMS": """Closed forms by name ([list](../expressions.md)), functions of numbers or arrays.

>>> from simkit import CLOSED_FORMS
>>> round(float(CLOSED_FORMS["black_scholes_call"](S=100.0, K=100.0, r=0.05, sigma=0.2, T=1.0)), 2)
10.45""",
    "POTENTIALS": """Pair potentials made of numbers, by class name. Add your own class here for use in YAML.

>>> from simkit_physics import POTENTIALS
>>> float(POTENTIALS["Morse"](D=1.0, a=2.0, r0=1.0).energy(1.0))  # at r = 1, the minimum
-1.0""",
    "TRUNCATIONS": """Truncations of pair potentials, by their names in YAML.

>>> from simkit_physics import TRUNCATIONS
>>> TRUNCATIONS["shifted_force"].__name__
'ShiftedForce'""",
    "UNITS": """Systems of units by name: `lj`, `metal`, `real` and `si`.

>>> from simkit_physics import UNITS
>>> UNITS["metal"].label("energy/length")
'eV/Å'""",
    "MODELS": """Models by class name. Add your own class here to use it in experiments.

>>> from simkit_physics import MODELS
>>> MODELS["GBM"](mu=0.05, sigma=0.2)
GBM(mu=0.05, sigma=0.2)""",
    "PARTICLE_METHODS": """Methods of molecular dynamics by their names in YAML; their fields are the options.

>>> from simkit_solvers import PARTICLE_METHODS
>>> PARTICLE_METHODS["VelocityVerlet"].ensemble
'NVE'""",
    "SOLVERS": """Solvers by class name, each a `SolverInfo`. Add your own here to use it in experiments.

>>> from simkit_solvers import SOLVERS
>>> SOLVERS["SRIW1"].strong.general is None  # refused: it needs diagonal noise
True""",
    "Scalar": """Type of one number of one path: a `float` or an array without dimensions.

>>> from simkit_solvers import Scalar
>>> def growth(rate: Scalar, t: Scalar) -> Scalar:
...     return rate * t""",
}
TITLE = (
    "# {package}\n\n{about}\n\n`from {package} import …` is the only supported way to import these names. "
    "`help()` shows the same in a session, with an example for each."
)


def interface_pages() -> dict[str, str]:
    """The index, and a page for each package, by file name below `reference/`."""
    pages = {f"api/{page}.md": package_page(package) for package, page in PACKAGES.items()}
    rows = [(f"[{package}]({page}.md)", _about(package)) for package, page in PACKAGES.items()]
    contents = "```{toctree}\n:hidden:\n\n" + "\n".join(PACKAGES.values()) + "\n```"
    index = (
        "# Python interface\n\nThese pages list all public names. Anything else may change without notice."
    )
    return pages | {"api/index.md": "\n\n".join([index, table(("package", "what"), rows), contents]) + "\n"}


def package_page(package: str) -> str:
    """The public names of one package, in the order of the rooms that define them."""
    module = importlib.import_module(package)
    parts = [TITLE.format(package=package, about=linked(inspect.getdoc(module) or ""))]
    themes = by_theme(module)
    anchors = _anchors([each for theme, names in themes.items() for each in (theme, *names)])
    for theme, names in themes.items():
        parts += [f"## {theme}", INTRODUCTIONS.get((package, theme), "")]
        rows = [(f"[`{name}`](#{anchors[name]})", _first_sentence(name, module)) for name in names]
        parts.append(table(("name", "what"), rows))
        for name in names:
            parts.append(f"### `{name}`")
            parts += list(_entry(name, getattr(module, name)))
    return "\n\n".join(part for part in parts if part) + "\n"


def by_theme(module: ModuleType) -> dict[str, list[str]]:
    """The public names of a package below the headings of its page."""
    themes = THEMES[module.__name__]
    places = [(place, theme) for theme, places in themes.items() for place in places]
    names: dict[tuple[str, str], list[str]] = {each: [] for each in places}
    for name, origin in public_names(module).items():
        fitting = [each for each in places if f"{origin}.".startswith(f"{each[0]}.")]
        if not fitting:
            raise ValueError(f"docs/themes.py: no theme for {module.__name__}.{name}, of {origin}")
        names[max(fitting, key=lambda each: len(each[0]))].append(name)
    return {theme: [name for each in places if each[1] == theme for name in names[each]] for theme in themes}


def public_names(module: ModuleType) -> dict[str, str]:
    """What a package exports, and the module of each: names that its stub, or its `__init__`, imports as
    themselves or defines; modules are relative to the package."""
    file = Path(str(module.__file__))
    stub = file.with_suffix(".pyi")
    names: dict[str, str] = {}
    for node in ast.parse((stub if stub.exists() else file).read_text("utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            origin = (node.module or "").removeprefix(f"{module.__name__}.")
            names |= {alias.name: origin or alias.name for alias in node.names if alias.asname == alias.name}
        elif isinstance(node, ast.AnnAssign | ast.FunctionDef):
            name = node.target.id if isinstance(node, ast.AnnAssign) else node.name
            names[name] = "__init__"
    return names


def documentation(name: str, thing: object) -> tuple[str, str]:
    """What is said of a public name, and its example in the form of doctest."""
    text = VALUES.get(name) or inspect.getdoc(thing) or ""
    about, mark, example = text.partition("\n\n>>> ")
    return about, mark.lstrip("\n") + example


def has_page(name: str, thing: object) -> str | None:
    """The folder of the page of a model or solver, which has an example."""
    if MODELS.get(name) is thing:
        return "models"
    return "solvers" if name in SOLVERS and SOLVERS[name].cls is thing else None


def _first_sentence(name: str, module: ModuleType) -> str:
    return opening(documentation(name, getattr(module, name))[0])


def _anchors(headings: list[str]) -> dict[str, str]:
    """The anchor that MyST gives each heading of a page, after that of its title."""
    anchors: dict[str, str] = {}
    for heading in headings:
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        same = sum(re.sub(r"-\d+$", "", other) == slug for other in anchors.values())
        anchors[heading] = f"{slug}-{same}" if same else slug
    return anchors


def _about(package: str) -> str:
    return (inspect.getdoc(importlib.import_module(package)) or "").partition("\n")[0]


def _entry(name: str, thing: object) -> Iterator[str]:
    """Signature and docstring; of a model or solver, which has a page, the first sentence and a link."""
    about, example = documentation(name, thing)
    if isinstance(thing, ModuleType):
        yield f"{opening(inspect.getdoc(thing) or '')}. [Its names]({PACKAGES[thing.__name__]}.md)."
        return
    if name not in VALUES:
        yield f"```text\n{signature(name, thing)}\n```"
    if folder := has_page(name, thing):
        yield f"{opening(about)}. [More, with an example](../{folder}/{name}.md)."
        return
    yield linked(about)
    if example:
        yield f"```pycon\n{example}\n```"
    if isinstance(thing, type):
        rows = [
            (f"`{' '.join(signature(key, method).split())}`", opening(inspect.getdoc(method) or ""))
            for key, method in _methods(thing)
        ]
        if rows:
            yield table(("method", "what"), rows)


def _methods(cls: type) -> Iterator[tuple[str, object]]:
    """Public methods with a docstring, of the class and of what it inherits within simkit."""
    seen = set()
    for each in cls.__mro__:
        if not each.__module__.startswith("simkit"):
            continue
        for key, value in vars(each).items():
            method = inspect.unwrap(getattr(value, "__func__", value))
            if not key.startswith("_") and key not in seen and inspect.isfunction(method) and method.__doc__:
                seen.add(key)
                yield key, method


def signature(name: str, thing: object) -> str:
    """How it is called, with annotations as the source has them; one argument a line where it is long."""
    function = inspect.unwrap(vars(thing).get("__init__", thing) if isinstance(thing, type) else thing)
    if isinstance(thing, type) and not _is_written(function):
        arguments, result = _fields(thing), ""
    else:
        node = _parsed(function)
        arguments = _arguments(node.args)
        result = f" -> {ast.unparse(node.returns)}" if node.returns and not isinstance(thing, type) else ""
        if arguments and arguments[0] in ("self", "cls"):
            arguments = arguments[1:]
    line = f"{name}({', '.join(arguments)}){result}"
    if len(line) <= 100:
        return line
    return f"{name}(\n" + "".join(f"    {each},\n" for each in arguments) + f"){result}"


def _is_written(function) -> bool:
    """Whether the source has this `__init__`, which that of a dataclass is not."""
    return inspect.isfunction(function) and function.__code__.co_filename != "<string>"


def _parsed(thing) -> ast.FunctionDef | ast.ClassDef:
    return ast.parse(textwrap.dedent(inspect.getsource(thing))).body[0]


def _arguments(args: ast.arguments) -> list[str]:
    """Each argument as text, with the marks `*` and `/`."""
    shown = []
    defaults = [None] * (len(args.args) - len(args.defaults)) + list(args.defaults)
    for each, default in zip(args.args, defaults, strict=True):
        shown.append(_argument(each, default))
    if args.vararg:
        shown.append(f"*{_argument(args.vararg, None)}")
    elif args.kwonlyargs:
        shown.append("*")
    shown += [
        _argument(each, default) for each, default in zip(args.kwonlyargs, args.kw_defaults, strict=True)
    ]
    if args.kwarg:
        shown.append(f"**{_argument(args.kwarg, None)}")
    return shown


def _argument(each: ast.arg, default: ast.expr | None) -> str:
    text = ast.unparse(each)
    if default is None:
        return text
    return f"{text} = {ast.unparse(default)}" if each.annotation else f"{text}={ast.unparse(default)}"


def _fields(cls: type) -> list[str]:
    """The arguments of a dataclass, a named tuple or an exception, with annotations as written."""
    written: dict[str, str] = {}
    for each in reversed(cls.__mro__):
        if not each.__module__.startswith("simkit"):
            continue
        for node in _parsed(each).body:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                written[node.target.id] = ast.unparse(node.annotation)
    if not (dataclasses.is_dataclass(cls) or hasattr(cls, "_fields")):
        return [] if not issubclass(cls, BaseException) else ["message"]
    shown = []
    for name, each in inspect.signature(cls).parameters.items():
        default = "" if each.default is each.empty else f" = {each.default!r}"
        shown.append(f"{name}: {written[name]}{default}" if name in written else f"{name}{default}")
    return shown
