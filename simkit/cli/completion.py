"""Names for the shell's Tab key, read from the source text so that jax need not be imported."""

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
    """Models, solvers, closed forms, keys and what molecular dynamics has that start like this."""
    names = [*_models(), *_solvers(), *_closed_forms(), *_keys()]
    names += [*_potentials(), *_particle_methods(), *_quantities(), *_particle_functions()]
    return [name for name in names if name.startswith(incomplete)]


def _folder(package: str) -> Path:
    """The folder of a top-level package, which is located but not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(package)
    return Path(spec.origin).parent


def _syntax_tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _models() -> list[str]:
    """Names that `simkit_physics` takes from its folders."""
    physics = _folder("simkit_physics")
    return [
        alias.name
        for node in _syntax_tree(physics / "__init__.py").body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("simkit_physics.")
        for alias in node.names
        for folder in [str(node.module).split(".")[1]]
        if alias.name[0].isupper() and (physics / folder).is_dir() and folder != "particles"
    ]


def _potentials() -> list[str]:
    """The classes of potentials that their package imports, and that of a file."""
    source = _folder("simkit_physics") / "particles/potentials/__init__.py"
    return ["Tabulated"] + [
        alias.name
        for node in _syntax_tree(source).body
        if isinstance(node, ast.ImportFrom) and not str(node.module).endswith(".truncation")
        for alias in node.names
        if alias.name[0].isupper() and not alias.name.startswith("Abstract")
    ]


def _particle_methods() -> list[str]:
    """The names in the table of the methods of molecular dynamics."""
    return _keys_of(_folder("simkit_solvers") / "methods/particles/particle_methods.py", "PARTICLE_METHODS")


def _quantities() -> list[str]:
    """The quantities of molecular dynamics."""
    return _keys_of(_folder("simkit") / "md/quantities.py", "QUANTITIES")


def _particle_functions() -> list[str]:
    """The functions of molecular dynamics: the `key` of each class."""
    return [
        node.value.value
        for file in sorted(_folder("simkit").glob("md/functions/*.py"))
        for section in _syntax_tree(file).body
        if isinstance(section, ast.ClassDef)
        for node in section.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "key"
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]


def _keys_of(file: Path, name: str) -> list[str]:
    """The texts that are keys of a table."""
    return [
        key.value
        for node in _syntax_tree(file).body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == name
        if isinstance(node.value, ast.Dict)
        for key in node.value.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    ]


def _closed_forms() -> list[str]:
    """The functions that `@closed_form(…)` enters."""
    return [
        node.name
        for file in sorted(_folder("simkit").glob("closed_forms/*.py"))
        for node in _syntax_tree(file).body
        if isinstance(node, ast.FunctionDef)
        and any(ast.unparse(each).startswith("closed_form(") for each in node.decorator_list)
    ]


def _keys() -> list[str]:
    """The top-level keys of an experiment."""
    settings = _folder("simkit") / "config/settings"
    names = [
        node.target.id
        for file, name in (("experiment.py", "Experiment"), ("particles.py", "ParticleExperiment"))
        for section in _syntax_tree(settings / file).body
        if isinstance(section, ast.ClassDef) and section.name == name
        for node in section.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id[0] != "_"
    ]
    return list(dict.fromkeys(names))


RECORDS = ("SolverInfo", "_ode", "_sde", "_heun", "_shifted")


def _solvers() -> list[str]:
    """Names of the records in `simkit_solvers`: `SolverInfo(Leapfrog, …)`, `_ode(diffrax.Tsit5, …)`."""
    files = sorted(_folder("simkit_solvers").rglob("*.py"))
    names = []
    for node in (node for file in files for node in ast.walk(_syntax_tree(file))):
        match node:
            case ast.Call(ast.Name("SolverInfo"), [ast.Name(name), *_]) if name[0].isupper():
                names.append(name)
            case ast.Call(ast.Name(call), [ast.Attribute(ast.Name("diffrax"), name), *_]) if call in RECORDS:
                names.append(name)
    return names
