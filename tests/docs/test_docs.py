"""Every block of code on the pages runs as it stands, and the pages say what the code says.

On one page, in order: `python` blocks share a namespace. A `yaml` block that is a whole experiment is built
and run on few paths; any other is a part, and is built in place of the same sections of the experiment before
it on the page (of examples/gbm.yaml where there is none). A first line `# name.yaml` makes it a file. In a
`console` block each `$ simkit …` is run, on few paths, and what is shown under it must be printed, up to
numbers and `…`. `bash` is make and pip, which are not run. `text` is prose, `pycon` an example that
test_public_examples.py runs. Nothing else is allowed. The generated pages' experiments are built but not run:
other tests run every model and solver. test_readme.py runs the README. What runs whole pages is marked
`more`, and the four long tutorials and one guide `slow`.
"""

import importlib
import itertools
import re
import shlex
import sys
import types
from pathlib import Path
from unittest import mock

import jax
import pytest
from checkout import ROOT
from simkit_physics import MODELS
from simkit_solvers import SOLVERS, parameters_of, variables_of
from typer.testing import CliRunner

import simkit
from simkit import experiment_schema
from simkit.cli import app
from simkit.config import read_document
from simkit.config.settings.places import is_particles
from simkit.engines.loaded import load_each
from simkit.md.experiment import load_particles
from simkit.studies import has_distributions
from simkit.studies.plan import load_uncertain

DOCS = ROOT / "docs"
ROOMS = [
    ROOT / room / "README.md"
    for room in (
        "solvers",
        "physics",
        "physics/simkit_physics/particles",
        "simkit",
        "examples",
        "tests",
        "benchmarks",
    )
]
GENERATED = (
    "reference/models/",
    "reference/solvers/",
    "reference/tables/",
    "reference/api/",
    "reference/yaml.md",
    "reference/gallery.md",
)
WRITTEN = [
    path
    for path in sorted(DOCS.rglob("*.md"))
    if not path.relative_to(DOCS).as_posix().startswith((*GENERATED, "_build/"))
]
PICTURES = {
    *(path.stem for path in (ROOT / "examples").rglob("*.yaml")),
    *(f"model_{name}" for name in MODELS),
}
DIRECTIVES = ("{toctree}", "{include}")
NOT_RUN = ("make", "pip")
LONG_GUIDES = ("sensitivities_of_jump_processes_and_odes",)
FEW = 64


@pytest.fixture(scope="module")
def generated(tmp_path_factory) -> Path:
    """A folder with the generated pages, as `make docs` would put them into docs/reference."""
    folder = tmp_path_factory.mktemp("docs") / "reference"
    sys.path.insert(0, str(DOCS))
    try:
        from generate import generate

        generate(folder)
    finally:
        sys.path.remove(str(DOCS))
    return folder.parent


def blocks(text: str):
    """(tag, first line's number, code) of every fenced block."""
    block = None
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"\s*(```+)\s*(\S*)", line)
        if block is None and fence:
            block = fence[1], fence[2], number + 1, []
        elif block is not None and line.strip() == block[0]:
            yield block[1], block[2], "\n".join(block[3]) + "\n"
            block = None
        elif block is not None:
            block[3].append(line)
    assert block is None, f"the block from line {block and block[2]} is not closed"


class Page:
    """One page while its blocks are run in the current directory."""

    def __init__(self, path: Path, module: types.ModuleType):
        self.path, self.module = path, module
        self.text = path.read_text(encoding="utf-8")
        self.experiment = load_plain((ROOT / "examples/gbm.yaml").read_text(encoding="utf-8"))
        self.commanded = re.findall(r"^\$ simkit run (\S+)", self.text, re.MULTILINE)

    def run(self):
        rules = {"python": self.python, "yaml": self.yaml, "console": self.console, "bash": self.bash}
        for tag, line, code in blocks(self.text):
            if tag in ("text", *DIRECTIVES):
                continue
            run = rules.get(tag)
            assert run is not None, f"{self.path}:{line}: no rule for a block tagged {tag!r}; prose is `text`"
            run(line, code)

    def python(self, line: int, code: str):
        source = "\n" * (line - 1) + code  # so that a traceback has the page's line
        with jax.enable_x64(False):  # as for a reader, unless the page enables it
            exec(compile(source, str(self.path), "exec", dont_inherit=True), vars(self.module))

    def yaml(self, line: int, code: str):
        given = load_plain(code)
        wholes = {"model", "initial", "time"}, {"system", "potential", "time"}
        whole = any(keys <= given.keys() for keys in wholes)
        experiment = given if whole else self.experiment | given
        name = re.match(r"# (\S+\.yaml)\n", code)
        if name:
            Path(name[1]).write_text(code, encoding="utf-8")
        if is_particles(experiment):
            load_each(experiment)
            self.experiment = experiment if whole else self.experiment
            return
        if has_distributions(experiment):
            load_uncertain(experiment)
            self.experiment = experiment
            return
        load_each(experiment)
        if whole:
            self.experiment = experiment
            if name is None or name[1] not in self.commanded:
                chosen = is_single(experiment) or has_target(experiment)
                few_paths = [] if chosen else [f"ensemble.paths={FEW}"]
                simkit.run(code, overrides=["ensemble.devices=1", "output=null", *few_paths])

    def console(self, line: int, code: str):
        shown = re.split(r"^\$ ", code, flags=re.MULTILINE)
        assert shown[0] == "", f"{self.path}:{line}: a console block begins with a command"
        for entry in shown[1:]:
            command, _, expected = entry.partition("\n")
            program, *arguments = shlex.split(command)
            assert program == "simkit", f"{self.path}:{line}: no rule for the command {program!r}"
            runs = arguments[0] in ("run", "sensitivity") and "--dry-run" not in arguments
            data = read_document(arguments[1]).data if runs else {}
            if runs and "--part" not in arguments and not is_particles(data):
                arguments += ["--set", "ensemble.devices=1"]
                arguments += [] if has_target(data) else ["--set", f"ensemble.paths={FEW}"]
            if arguments[0] == "uncertainty":
                arguments += ["--set", "uncertainty.points=16", "--set", "uncertainty.replicates=4"]
            result = CliRunner().invoke(app, arguments)
            assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
            printed = [skeleton(text) for text in result.output.splitlines()]
            for text in expected.splitlines():
                assert text == "…" or any(skeleton(text) in each for each in printed), (
                    f"{self.path}:{line}: {command}\ndid not print {text!r}, but\n{result.output}"
                )

    def bash(self, line: int, code: str):
        for command in code.splitlines():
            assert command.split()[0] in NOT_RUN, f"{self.path}:{line}: no rule for the command {command!r}"


def load_plain(code: str) -> dict:
    """An experiment or a part of one as plain data, read by simkit's own loader."""
    return read_document(code + "\n").data


def is_single(experiment: dict) -> bool:
    return all(simulation.paths == 1 for simulation in load_each(experiment).each.values())


def has_target(experiment: dict) -> bool:
    return "target" in experiment.get("ensemble", {})


def skeleton(line: str) -> str:
    """A line without its numbers, frames and widths, which change with the number of paths."""
    line = re.sub(r"[-+]?\(?[-+]?\d+(,\d{3})*(\.\d+)?(e[-+]?\d+)?(M|kB)?", "#", line)
    return " ".join(re.sub(r"[┏┓┗┛━┳┻┃┡┩╇│├┤─┼└┘┴()]|e[-+]#", " ", line).split())


@pytest.mark.more
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=pytest.mark.slow)
        if path.parent.name == "tutorials" or path.stem in LONG_GUIDES
        else path
        for path in (*WRITTEN, *ROOMS)
    ],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_every_block_runs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    with mock.patch.dict(MODELS), mock.patch.dict(SOLVERS):  # what a page adds is gone after it
        Page(path, module).run()


@pytest.mark.more
@pytest.mark.parametrize("solver", ["DirectMethod", "TauLeaping"])
def test_the_summary_of_a_guide_takes_results_with_and_without_a_step_bias(solver):
    text = (DOCS / "guides/pandas_and_plots.md").read_text(encoding="utf-8")
    (code,) = (code for _, _, code in blocks(text) if "summary =" in code)
    network = {"reactions": {"birth": {"equation": "0 -> S", "rate": 2.0}}}
    run = {"model": network, "initial": {"S": 0}, "solver": solver, "time": {"t1": 2.0}}
    run |= {"save": {"points": 4}, "ensemble": {"paths": 100}, "observe": {"call": "maximum(S - 2, 0)"}}
    names = {"result": simkit.run(run)}
    exec(code, names)
    biases = {"bias", "bias_stderr"} if solver == "TauLeaping" else set()
    assert set(names["summary"].columns) == {"mean", "stderr"} | biases
    assert any("_bias" in name for name in names["result"]) == bool(biases)


@pytest.mark.more
def test_generated_blocks_are_valid(generated):
    for path in generated.rglob("*.md"):
        for tag, line, code in blocks(path.read_text(encoding="utf-8")):
            place = f"{path.relative_to(generated)}:{line}"
            if tag == "python":
                exec(compile(code, place, "exec", dont_inherit=True), {"__name__": "page"})
            elif tag == "yaml" and path.name != "yaml.md" and is_particles(load_plain(code)):
                assert load_particles(load_plain(code)).run.steps > 1, place
            elif tag == "yaml" and has_distributions(load_plain(code)):
                assert load_uncertain(load_plain(code)).simulation.grid.rows > 1, place
            elif tag == "yaml" and path.name != "yaml.md":
                for simulation in load_each(load_plain(code)).each.values():
                    assert simulation.grid.rows > 1, place
            else:
                assert tag in ("yaml", "text", "pycon", *DIRECTIVES), (
                    f"{place}: no rule for a block tagged {tag!r}"
                )


@pytest.mark.parametrize("name", MODELS)
def test_each_model_has_a_page(name, generated):
    text = (generated / f"reference/models/{name}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {name}\n")
    assert "$" in text
    assert re.search(r"References?: .*\bdoi:10\.", text, re.DOTALL)
    assert re.search(rf"^!\[{name}\]\(\.\./pictures/\w+\.png\)$", text, re.MULTILINE)
    for key, spec in parameters_of(MODELS[name]).items():
        assert re.search(
            rf"\| `{key}` \| `{re.escape(spec.unit)}` \| .*{re.escape(spec.description)}", text
        ), key
    for key, quantity in variables_of(MODELS[name]).items():
        assert f"| `{key}` | `{quantity.unit}` | {quantity.description} |" in text
    assert f"[{name}]({name}.md)" in (generated / "reference/models/index.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SOLVERS)
def test_each_solver_has_a_page(name, generated):
    text = (generated / f"reference/solvers/{name}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {name}\n")
    assert "$" in text
    assert re.search(r"References?: .*\bdoi:10\.", text, re.DOTALL)
    for key in SOLVERS[name].options:
        assert f"| `{key}` |" in text
    assert f"[{name}]({name}.md)" in (generated / "reference/solvers/index.md").read_text(encoding="utf-8")


def exported(module: types.ModuleType) -> set[str]:
    """The names of `__all__`; without one, those of its own that are neither private nor modules."""
    return set(getattr(module, "__all__", ())) or {
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and not isinstance(value, types.ModuleType)
        and getattr(value, "__module__", module.__name__).startswith(module.__name__)
    }


@pytest.mark.parametrize(
    ("package", "page"),
    [
        ("simkit", "simkit"),
        ("simkit.transforms", "transforms"),
        ("simkit.studies", "studies"),
        ("simkit_solvers", "solvers"),
        ("simkit_physics", "physics"),
    ],
)
def test_the_pages_of_the_interface_list_what_is_exported(package, page, generated):
    module = importlib.import_module(package)
    text = (generated / f"reference/api/{page}.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^### `(\S+)`\n\n(.*?)(?=^##|\Z)", text, re.MULTILINE | re.DOTALL))
    assert sections.keys() == exported(module)
    for name, section in sections.items():
        if callable(getattr(module, name)) and name != "Scalar":
            assert section.startswith(f"```text\n{name}("), name
            assert re.search(r"^```\n\n\S", section, re.MULTILINE), f"{name} has no docstring"
        module_itself = isinstance(getattr(module, name), types.ModuleType)
        assert module_itself or "\n```pycon\n>>> " in section or "[More, with an example](" in section, name


def test_each_yaml_key_is_explained(generated):
    text = (generated / "reference/yaml.md").read_text(encoding="utf-8")
    schema = experiment_schema()
    sections = [schema, *(spec for name, spec in schema["$defs"].items() if name not in MODELS)]
    for key in itertools.chain.from_iterable(section["properties"] for section in sections):
        row = re.search(rf"^\| `{key}` \|(.*)\|$", text, flags=re.MULTILINE)
        assert row, key
        assert re.split(r"(?<!\\)\|", row[1])[2].strip(), f"{key} has no meaning"


@pytest.mark.parametrize(
    "path", [ROOT / "README.md", *WRITTEN, *ROOMS], ids=lambda path: path.relative_to(ROOT).as_posix()
)
def test_links_lead_somewhere(path, generated):
    check_links(path, path.read_text(encoding="utf-8"), generated)


def test_links_of_generated_pages_lead_somewhere(generated):
    for path in generated.rglob("*.md"):
        place = path.relative_to(generated)
        folder = (
            place.parent.parent if place.parent.name == "tables" else place.parent
        )  # where it is included
        check_links(DOCS / folder / place.name, path.read_text(encoding="utf-8"), generated)


def check_links(path: Path, text: str, generated: Path):
    """Each relative link is a file there, written or generated, and its anchor a heading in that file."""
    for target in re.findall(r"\]\((?!<?https?:)([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        name, _, anchor = target.partition("#")
        if "pictures/" in name:  # drawn from these when the pages are built
            assert Path(name).stem in PICTURES, f"{path}: {target}"
            continue
        file = (path.parent / name).resolve() if name else path.resolve()
        if not file.exists() or (file.is_relative_to(DOCS) and (generated / file.relative_to(DOCS)).exists()):
            assert file.is_relative_to(DOCS), f"{path}: {target}"
            file = generated / file.relative_to(DOCS)
        assert file.exists(), f"{path}: {target}"
        if anchor:
            there = file.read_text(encoding="utf-8")
            assert anchor in anchors(there) | set(re.findall(r"^\((\S+)\)=$", there, re.MULTILINE)), (
                f"{path}: {target}"
            )


def anchors(text: str) -> set[str]:
    """The anchors that MyST gives the headings: those of one text are numbered from the second."""
    known: set[str] = set()
    for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE):
        slug = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        again = (f"{slug}-{i}" for i in itertools.count(1))
        known.add(slug if slug not in known else next(each for each in again if each not in known))
    return known


def test_every_page_is_in_the_contents():
    listed = set()
    for code in (code for tag, _, code in blocks((DOCS / "index.md").read_text()) if tag == "{toctree}"):
        listed |= {line for line in code.splitlines() if line and not line.startswith(":")}
    assert {path.relative_to(DOCS).with_suffix("").as_posix() for path in WRITTEN} - {"index"} <= listed
