"""Rooms: none imports one above it, each README names its files, and outsiders import public names."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout import ROOT

PACKAGES = {
    "simkit_solvers": ROOT / "solvers/simkit_solvers",
    "simkit_physics": ROOT / "physics/simkit_physics",
    "simkit": ROOT / "simkit",
}
# From low to high; what stands together may import each other.
ROOMS = {
    "simkit_solvers": ["numerics", "random", "grids", "problems", "roots", "methods", "loops", "derivatives"],
    "simkit": [
        ("errors", "version", "suggestions", "progress", "garbage"),
        *[
            "machine",
            "time_series",
            "closed_forms",
            "functionals",
            "expressions",
            "config",
            "distributions",
            "observe",
            "records",
            "ensemble",
            "cluster",
            "results",
            "experiments",
            "md",
        ],
        *[
            "derivatives",
            "multilevel",
            "engines",
            "studies",
            "sweeps",
            "steady_states",
            "diagnostics",
            "transforms",
        ],
        ("api", "pictures", "schema"),
        "cli",
    ],
}
READMES = [
    room
    for package, rooms in ROOMS.items()
    for each in rooms
    if isinstance(each, str)
    for room in [PACKAGES[package] / each]
]


def imports(source: str) -> Iterator[str]:
    """The full names of what is imported, wherever in the source; relative imports are not used."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def height(package: str, module: str) -> int | None:
    """How high the room of a module stands; `None` of a package's own names."""
    for i, each in enumerate(ROOMS[package]):
        if module in each if isinstance(each, tuple) else module == each:
            return i
    return None


@pytest.mark.parametrize("package", PACKAGES)
def test_no_package_imports_one_above_it(package):
    above = list(PACKAGES)[list(PACKAGES).index(package) + 1 :]
    files = sorted(PACKAGES[package].rglob("*.py"))
    assert files
    wrong = [
        (file.relative_to(ROOT), name)
        for file in files
        for name in imports(file.read_text("utf-8"))
        if name.split(".")[0] in above
    ]
    assert not wrong


@pytest.mark.parametrize("package", ROOMS)
def test_no_room_imports_one_above_it(package):
    wrong = []
    for file in sorted(PACKAGES[package].rglob("*.py")):
        own = height(package, file.relative_to(PACKAGES[package]).with_suffix("").parts[0])
        if own is None:
            assert file.name in ("__init__.py", "__main__.py"), f"{file} is in no room"
            continue
        for name in imports(file.read_text("utf-8")):
            top, _, rest = name.partition(".")
            other = height(package, rest.split(".")[0]) if top == package else None
            if other is not None and other > own:
                wrong.append((file.relative_to(ROOT), name))
    assert not wrong


def test_the_check_sees_every_form_of_import():
    lines = ("def f():", "    import simkit.run as r", "    from simkit_physics.gbm import GBM")
    lines += ("from simkit import api",)
    source = "\n".join(lines)
    assert set(imports(source)) == {"simkit.run", "simkit_physics.gbm.GBM", "simkit.api"}
    assert height("simkit", "cli") > height("simkit", "api") > height("simkit", "errors")


@pytest.mark.parametrize("room", READMES, ids=lambda room: f"{room.parent.name}-{room.name}")
def test_the_readme_of_a_room_names_all_its_files_and_no_others(room):
    text = (room / "README.md").read_text("utf-8")
    assert "To add " in text
    assert "Not here: " in text
    named = re.findall(r"^\| `([^`]+\.py)` \| [^\s|]", text, re.M)
    files = {str(file.relative_to(room)) for file in room.rglob("*.py")} - {"__init__.py"}
    files = {name for name in files if not name.endswith("/__init__.py")}
    readme = (room / "README.md").relative_to(ROOT)
    assert not files - {*named}, f"add a row for {', '.join(sorted(files - {*named}))} to {readme}"
    assert sorted(named) == sorted(files), f"take rows without a file out of {readme}"


def test_a_class_name_stands_for_one_class():
    places: dict[str, list[Path]] = {}
    for file in (file for package in PACKAGES.values() for file in sorted(package.rglob("*.py"))):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(file.relative_to(ROOT))
    assert len(places) > 300
    assert not {name: files for name, files in places.items() if len(files) > 1}, "say in the name which"


def stated(text: str) -> str:
    """What a row or the start of a docstring says, apart from capitals, line breaks and the full stop."""
    return " ".join(text.split("\n\n")[0].split()).rstrip(".").lower()


@pytest.mark.parametrize("room", READMES, ids=lambda room: f"{room.parent.name}-{room.name}")
def test_the_readme_of_a_room_says_what_its_files_say_of_themselves(room):
    rows = re.findall(r"^\| `([^`]+\.py)` \| (.+) \|$", (room / "README.md").read_text("utf-8"), re.M)
    assert rows
    docstrings = {name: ast.get_docstring(ast.parse((room / name).read_text("utf-8"))) for name, _ in rows}
    wrong = {name: row for name, row in rows if stated(row) != stated(docstrings[name] or "")}
    assert not wrong, "these rows differ from the first paragraphs of the docstrings of the files"


def public_names(package: str) -> set[str]:
    """What a package exports, by its stub."""
    tree = ast.parse((PACKAGES[package] / "__init__.pyi").read_text("utf-8"))
    return {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}


def code_of(page: Path) -> str:
    """The blocks of Python on a page."""
    return "\n".join(re.findall(r"^```python\n(.*?)^```", page.read_text("utf-8"), re.M | re.S))


def texts_outside(*folders: str) -> dict[Path, str]:
    """The code in these folders, and that of the pages in them."""
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    pages = [ROOT / "README.md", *(page for folder in folders for page in (ROOT / folder).rglob("*.md"))]
    return {file: file.read_text("utf-8") for file in files} | {page: code_of(page) for page in pages}


@pytest.mark.parametrize("package", ROOMS)
def test_outsiders_import_the_public_names_of_a_package_from_it(package):
    """Other packages, examples, benchmarks, tests and the documentation."""
    names = public_names(package)
    assert not [
        (file.relative_to(ROOT), name)
        for file, text in texts_outside("physics", "examples", "benchmarks", "tests", "docs").items()
        for name in imports(text)
        if re.fullmatch(rf"{package}\.\w+\..+", name) and name.rpartition(".")[2] in names
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_only_tests_reach_inside_a_package(package):
    """All others import what its `__init__` exports, or that of one of its rooms."""
    folders = [each for each in ("physics", "examples", "benchmarks", "docs") if each not in package]
    wrong = []
    for file, text in texts_outside(*folders).items():
        for name in imports(text):
            module, _, last = name.rpartition(".")
            if name.partition(".")[0] == package and name != package and last not in exported(module):
                wrong.append((file.relative_to(ROOT), name))
    assert not wrong


def exported(module: str) -> set[str]:
    """What a package or a room exports, by its stub or, where it has none, by its `__init__`."""
    package, _, room = module.partition(".")
    init = PACKAGES[package] / room / "__init__.py"
    if "." in room or not init.exists():
        return set()
    stub = init.with_suffix(".pyi")
    body = ast.parse((stub if stub.exists() else init).read_text("utf-8")).body
    named = {
        each.asname or each.name for node in body if isinstance(node, ast.ImportFrom) for each in node.names
    }
    return (
        named
        | {
            target.id if isinstance(target, ast.Name) else ""
            for node in body
            if isinstance(node, ast.Assign | ast.AnnAssign)
            for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        }
        | {node.name for node in body if isinstance(node, ast.FunctionDef)}
    )


@pytest.mark.parametrize("package", ROOMS)
def test_every_public_name_is_there_and_documented(package):
    module = __import__(package)
    for name in public_names(package):
        thing = getattr(module, name)
        assert name in dir(module)
        text = getattr(thing, "__doc__", None) or ""  # of a dataclass without one, its signature
        documented = text and not text.startswith(f"{name}(")
        assert isinstance(thing, dict | str | type(None)) or documented or name == "Scalar", name


@pytest.mark.parametrize(
    "stub", sorted(PACKAGES["simkit"].glob("*/__init__.pyi")), ids=lambda stub: stub.parent.name
)
def test_every_name_that_a_room_exports_is_there(stub):
    room = f"simkit.{stub.parent.name}"
    assert set(importlib.import_module(room).__all__) == exported(room)
    for name in exported(room):
        getattr(importlib.import_module(room), name)


def test_the_readme_of_physics_names_its_folders_and_files():
    text = (ROOT / "physics/README.md").read_text("utf-8")
    entries = {
        f"{each.name}/" if each.is_dir() else each.name
        for each in PACKAGES["simkit_physics"].iterdir()
        if each.suffix == ".py" or (each / "__init__.py").exists()
    }
    assert sorted(re.findall(r"^\| `([^`]+)` \| [^\s|]", text, re.M)) == sorted(entries - {"__init__.py"})


@pytest.mark.parametrize(("package", "folder"), [("simkit_solvers", "solvers"), ("simkit", "simkit")])
def test_the_readme_of_a_package_names_its_rooms_in_their_order(package, folder):
    text = (ROOT / folder / "README.md").read_text("utf-8")
    named = [name for name in re.findall(r"^\| `(\w+)/` \|", text, re.M) if height(package, name) is not None]
    assert named == [room for room in ROOMS[package] if isinstance(room, str)]
