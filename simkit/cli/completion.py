"""Names for the shell's Tab key, found in the source text so that jax need not be imported."""

import ast
import importlib.util
from importlib import resources
from pathlib import Path


def template_names() -> list[str]:
    """The templates of `simkit new`."""
    files = resources.files("simkit.templates").iterdir()
    return sorted(Path(file.name).stem for file in files if file.name.endswith(".yaml"))


def complete_template(incomplete: str) -> list[str]:
    """Templates that start like this."""
    return [name for name in template_names() if name.startswith(incomplete)]


def complete_name(incomplete: str) -> list[str]:
    """Models, solvers, closed forms and keys that start like this."""
    names = [*_models(), *_solvers(), *_closed_forms(), *_keys()]
    return [name for name in names if name.startswith(incomplete)]


def _syntax_tree(package: str, *parts: str) -> ast.Module:
    """The parsed source of a module in a top-level package, which is located but not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        return ast.Module([], [])
    path = Path(spec.origin).parent.joinpath(*parts)
    return ast.parse((path / "__init__.py" if path.is_dir() else path).read_text(encoding="utf-8"))


def _models() -> list[str]:
    """Names that `simkit_physics` takes from the modules in its folders."""
    return [
        alias.name
        for node in _syntax_tree("simkit_physics").body
        if isinstance(node, ast.ImportFrom) and (node.module or "").count(".") > 1
        for alias in node.names
        if alias.name[0].isupper()
    ]


def _closed_forms() -> list[str]:
    """The functions that `@closed_form(…)` enters."""
    spec = importlib.util.find_spec("simkit")
    files = sorted(Path(spec.origin).parent.glob("closed_forms/*.py")) if spec and spec.origin else []
    return [
        node.name
        for file in files
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(each).startswith("closed_form(") for each in node.decorator_list)
    ]


def _keys() -> list[str]:
    """The top-level keys of an experiment."""
    return [
        node.target.id
        for section in _syntax_tree("simkit", "config", "settings", "experiment.py").body
        if isinstance(section, ast.ClassDef) and section.name == "Experiment"
        for node in section.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_"
    ]


RECORDS = ("SolverInfo", "_ode", "_sde", "_heun", "_shifted")


def _solvers() -> list[str]:
    """Names of the records in `simkit_solvers`: `SolverInfo(Leapfrog, …)`, `_ode(diffrax.Tsit5, …)`."""
    package = importlib.util.find_spec("simkit_solvers")
    files = sorted(Path(package.origin).parent.rglob("*.py")) if package and package.origin else []
    names = []
    for node in (node for file in files for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))):
        match node:
            case ast.Call(ast.Name("SolverInfo"), [ast.Name(name), *_]) if name[0].isupper():
                names.append(name)
            case ast.Call(ast.Name(call), [ast.Attribute(ast.Name("diffrax"), name), *_]) if call in RECORDS:
                names.append(name)
    return names
