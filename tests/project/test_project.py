"""What the files around the code promise each other."""

import importlib.metadata
import re
import tomllib

import pytest
import yaml
from checkout import ROOT

from simkit.machine.doctor import KNOWN_BAD_JAX

TEMPLATES = {
    "gbm": "gbm.yaml",
    "heston": "heston.yaml",
    "merton": "merton.yaml",
    "ou": "ou.yaml",
    "sde": "inline_sde.yaml",
    "ode": "lorenz.yaml",
    "langevin": "langevin.yaml",
    "stiff": "stiff.yaml",
    "adaptive": "arenstorf.yaml",
    "adaptive_sde": "adaptive_sde.yaml",
    "epidemic": "epidemic.yaml",
    "american_put": "american_put.yaml",
    "variants": "variants.yaml",
    "strong_order": "strong_order.yaml",
    "dosing": "dosing.yaml",
    "uncertainty": "uncertainty.yaml",
    "greeks": "greeks.yaml",
    "epidemic_peak": "epidemic_peak.yaml",
    "outbreak": "outbreak.yaml",
    **{
        name: f"particles/{name}.yaml"
        for name in ("lj_fluid", "lj_melt", "argon", "kob_andersen", "replicas")
    },
}
ROOMS = ("solvers", "physics", "simkit", "examples", "tests", "benchmarks")


@pytest.fixture(scope="module")
def project() -> dict:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_each_template_is_the_example_file():
    assert {path.stem for path in (ROOT / "simkit/templates").glob("*.yaml")} == set(TEMPLATES)
    examples = ROOT / "examples"
    files = {path for folder in ("", "particles/") for path in examples.glob(f"{folder}*.yaml")}
    assert files == {examples / example for example in TEMPLATES.values()}
    for template, example in TEMPLATES.items():
        ours, theirs = ROOT / "simkit/templates" / f"{template}.yaml", ROOT / "examples" / example
        assert ours.read_bytes() == theirs.read_bytes(), f"run: cp {theirs} {ours}"


@pytest.mark.parametrize("package", ["jax", "jaxlib"])
def test_dependencies_exclude_what_doctor_warns_of(project, package):
    requirement = next(text for text in project["dependencies"] if re.match(rf"{package}\b", text))
    assert set(re.findall(r"!=([\d.]+)", requirement)) == set(KNOWN_BAD_JAX)


def test_installed_jax_is_not_known_to_be_bad():
    assert not {importlib.metadata.version(name) for name in ("jax", "jaxlib")} & set(KNOWN_BAD_JAX)


def test_version_is_the_same_everywhere(project):
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    released = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert citation["version"] == project["version"] == released[1]
    assert citation["license"] == project["license"] == "Apache-2.0"


def test_readme_shows_the_two_commands_on_its_first_screen():
    first_screen = "\n".join((ROOT / "README.md").read_text().splitlines()[:24])
    assert "make run" in first_screen
    assert "make test" in first_screen
    assert "](docs/images/gbm.png)" in first_screen


def test_readme_says_how_fast_simkit_is_in_five_rows_after_what_it_is():
    """The first table has five rows of words, with figures that the table of the benchmarks has too."""
    first_screen = (ROOT / "README.md").read_text().partition("\n## ")[0]
    places = [first_screen.index(text) for text in ("molecular dynamics", "make run", "| task")]
    assert places == sorted(places)
    rows = [line for line in first_screen.splitlines() if line.startswith("| ")][1:]
    assert len(rows) == 5
    assert not re.search(r"\dx\b|float32|`", "".join(rows))
    results = "".join(row.split("|")[2] for row in rows)
    figures = set(re.findall(r"\d+(?:\.\d+)?(?= times| and \d)", results))
    measured = (ROOT / "benchmarks/README.md").read_text()
    assert len(figures) >= 7
    assert not [figure for figure in figures if f"{figure}x" not in measured]


@pytest.mark.parametrize("room", ROOMS)
def test_each_room_says_what_belongs_in_it_and_how_to_add_one(room):
    text = (ROOT / room / "README.md").read_text()
    assert re.search(r"\b([Tt]o add|[Oo]ne more)\b", text)
    for name in re.findall(r"`([a-z_]+/[a-z_]+\.py|[a-z_]+\.(?:py|yaml))`", text):
        exists = (ROOT / name).exists() or any((ROOT / room).rglob(name))
        assert exists, f"{room}/README.md names {name}, which is not there"


def test_links_in_the_readme_lead_somewhere():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", (ROOT / "README.md").read_text()):
        assert (ROOT / target).exists(), target
