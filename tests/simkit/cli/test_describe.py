"""What `simkit list` and `simkit describe` print."""

import json
import re
from unittest import mock

import diffrax
import pytest
import yaml
from command import simkit_command
from simkit_physics import MODELS, POTENTIALS
from simkit_solvers import PARTICLE_METHODS, SOLVERS, SolverInfo

from simkit import CLOSED_FORMS, experiment_schema, load
from simkit.cli.catalogue import KINDS, first_sentence
from simkit.cli.completion import template_names
from simkit.closed_forms.registry import example_of
from simkit.config import Experiment, ParticleExperiment
from simkit.config.settings import ErrorTarget
from simkit.expressions import function_summaries
from simkit.md.functions import FUNCTIONS
from simkit.md.quantities import QUANTITIES

KEYS = list(dict.fromkeys([*Experiment.model_fields, *ParticleExperiment.model_fields]))
PARTICLES = [*POTENTIALS, "Tabulated", *PARTICLE_METHODS, *QUANTITIES, *FUNCTIONS]
NAMES = list(dict.fromkeys([*MODELS, *SOLVERS, *CLOSED_FORMS, *function_summaries(), *KEYS, *PARTICLES]))


def test_describe_without_a_name_points_to_the_list():
    result = simkit_command("describe")
    assert result.exit_code == 2
    assert result.stderr == "give a name, as in `simkit describe GBM`; `simkit list` shows all\n"


def test_list_names_everything():
    result = simkit_command("list")
    groups = json.loads(simkit_command("list", "--json").stdout)
    listed = {name for group in groups.values() for name in group}
    assert listed == {*NAMES, *template_names()}
    for name in listed:
        assert f"\n  {name} " in result.stdout
    assert all(line for group in groups.values() for line in group.values())


def test_list_shows_one_kind():
    groups = json.loads(simkit_command("list", "--json").stdout)
    shown = [json.loads(simkit_command("list", kind, "--json").stdout) for kind in KINDS]
    assert [group for kind in shown for group in kind] == list(groups)
    assert shown[0]["models of mechanics"]["NBody"] == ("Four bodies in a plane under their softened gravity")
    result = simkit_command("list", "model")
    assert (result.exit_code, result.stderr) == (
        2,
        "list: nothing of the kind 'model'; did you mean 'models'?\n",
    )


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_summary_is_no_half_sentence(model):
    summary = first_sentence(model)
    assert not re.search(r"([,;:]| (is|are|of|with|and|for|by|the|where))$", summary)
    assert "; " not in summary


def test_describe_takes_several_names_and_lists_all_unknown_ones():
    names = ["GBM", "EulerMaruyama", "time.steps"]
    alone = [simkit_command("describe", name).stdout.strip() for name in names]
    page = simkit_command("describe", *names, "GBM").stdout
    assert [part.strip() for part in page.split("─" * 72)] == alone
    actual = json.loads(simkit_command("describe", *names, "--json").stdout)["described"]
    assert actual == [json.loads(simkit_command("describe", name, "--json").stdout) for name in names]
    result = simkit_command("describe", "GBM", "GMB", "time.step")
    assert result.exit_code == 2
    assert [line.split(";")[0] for line in result.stderr.splitlines()] == [
        "nothing is called 'GMB'",
        "nothing is called 'time.step'",
    ]
    assert result.stdout == simkit_command("describe", "GBM").stdout
    as_json = simkit_command("describe", "GBM", "GMB", "--json")
    assert as_json.exit_code == 2
    assert json.loads(as_json.stdout)["error"]["problems"] == result.stderr.splitlines()[:1]


def test_describe_of_a_key_inside_a_section_is_its_line():
    page = simkit_command("describe", "time.steps").stdout
    assert page.startswith("time.steps: key of time\n\n")
    assert json.loads(simkit_command("describe", "time", "--json").stdout)["sections"][0]["keys"]
    result = simkit_command("describe", "time.step")
    assert (result.exit_code, result.stderr) == (
        2,
        "nothing is called 'time.step'; did you mean 'time.steps'? (`simkit describe time` shows its keys)\n",
    )


def test_describe_of_a_section_inside_a_section_lists_its_keys():
    page = simkit_command("describe", "ensemble.target").stdout
    assert page.startswith("ensemble.target: key of ensemble\n\n")
    for key in ErrorTarget.model_fields:
        assert re.search(rf"^  {key} ", page, re.MULTILINE), key
        inside = simkit_command("describe", f"ensemble.target.{key}").stdout
        assert inside.startswith(f"ensemble.target.{key}: key of ensemble.target\n\n")
    assert "\n  control " in simkit_command("describe", "ensemble.variance_reduction").stdout
    assert "\n  dates " in simkit_command("describe", "observe.early_exercise").stdout
    result = simkit_command("describe", "ensemble.target.stder")
    assert (result.exit_code, result.stderr) == (
        2,
        "nothing is called 'ensemble.target.stder'; did you mean 'ensemble.target.stderr'? "
        "(`simkit describe ensemble.target` shows its keys)\n",
    )


def test_describe_of_a_template_says_how_to_write_it():
    result = simkit_command("describe", "epidemic")
    written = "'epidemic' is a template; `simkit new epidemic` writes it as epidemic.yaml\n"
    assert (result.exit_code, result.stderr) == (2, written)


@pytest.mark.parametrize("name", NAMES)
def test_describe_knows_every_name(name):
    page = simkit_command("describe", name)
    content = json.loads(simkit_command("describe", name, "--json").stdout)
    assert (page.exit_code, page.stderr) == (0, "")
    assert page.stdout.startswith(f"{name}: {content['kind']}\n")
    assert content["text"]
    assert not set("\\$") & set(page.stdout), "LaTeX is left over"
    assert ">>>" not in page.stdout, "an example in Python, where YAML is wanted"


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        (
            "SRIW1",
            {
                "for": "stochastic equations",
                "calculus": "ito",
                "noise may be": "additive, scalar, diagonal",
                "adaptive for": "additive, scalar, diagonal",
                "strong order": "additive 1.5, diagonal 1.5",
                "weak order": "additive 2, diagonal 1.5, scalar 2",
                "from": "simkit",
            },
        ),
        (
            "EulerHeun",
            {
                "for": "stochastic equations",
                "calculus": "stratonovich",
                "noise may be": "additive, scalar, diagonal, commutative, general",
                "adaptive for": "additive, scalar, diagonal, commutative, general",
                "strong order": "additive 1, commutative 1, general 0.5",
                "weak order": "additive 1, commutative 1, general 1",
                "from": "diffrax",
            },
        ),
        ("Rodas5P", {"for": "ordinary equations", "order": "5", "from": "simkit"}),
        ("GBM", {"calculus": "ito", "noise is": "scalar", "noises": "W"}),
    ],
)
def test_describe_shows_the_properties(name, properties):
    page = simkit_command("describe", name).stdout
    for label, value in properties.items():
        assert re.search(rf"^  {label} +{re.escape(value)}$", page, re.MULTILINE), label
    assert re.search(r"^Reference: .*doi:10\.", page, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", MODELS)
def test_yaml_of_a_model_is_an_experiment(name):
    content = json.loads(simkit_command("describe", name, "--json").stdout)
    assert "doi:" in content["reference"]
    assert all(row["unit"] and row["description"] for row in content["parameters"])
    simulation = load(content["yaml"])
    assert type(simulation.problem).__name__ == name
    assert f"  {content['yaml'].splitlines()[0]}\n" in simkit_command("describe", name).stdout


@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_yaml_of_a_closed_form_has_its_value(name):
    content = json.loads(simkit_command("describe", name, "--json").stdout)
    decay = {"model": {"ode": {"y": "x - y"}}, "initial": {"y": 0}, "time": {"t1": 1, "steps": 1}}
    simulation = load(decay | yaml.safe_load(content["yaml"]))
    assert simulation.constants["x"] == CLOSED_FORMS[name](**example_of(name))


@pytest.mark.parametrize("name", KEYS)
def test_describe_of_a_key_shows_all_below_it_and_an_example_that_is_one(name):
    content = json.loads(simkit_command("describe", name, "--json").stdout)
    page = simkit_command("describe", name).stdout
    definitions = experiment_schema()["$defs"]
    below = {"time": "Time", "ensemble": "Ensemble", "save": "Save", "observe": "ObservableSettings"}
    if name in below:
        shown = [row["name"] for row in content["sections"][0]["keys"]]
        assert shown == list(definitions[below[name]]["properties"])
    for section in content["sections"]:
        for row in section["keys"]:
            assert re.search(rf"^  {row['name']} ", page, re.MULTILINE)
            assert row["description"][:20] in page
    if content["yaml"]:
        assert set(yaml.safe_load(content["yaml"])) == {name}


def test_describe_says_whose_each_meaning_of_a_parameter_is():
    page = simkit_command("describe", "solver").stdout
    first, second = re.search(
        r"^  friction +(BAOAB: rate .+\.)\n +(BrownianDynamics: rate .+)$", page, re.MULTILINE
    ).groups()
    assert first == "BAOAB: rate at which velocities are forgotten."
    assert second.startswith("BrownianDynamics: rate at which velocities would be")
    assert not re.search(r": (of|in|that) ", page.partition("In molecular dynamics")[2])


def test_describe_shows_what_a_method_of_both_kinds_needs_for_particles():
    page = simkit_command("describe", "BAOAB").stdout
    assert "  solver: BAOAB\n" in page
    assert "solver: {type: BAOAB, temperature: 1.0, friction: 1.0}" in page
    assert re.search(r"^  friction +1/time +rate at which velocities are forgotten +> 0$", page, re.MULTILINE)


@pytest.mark.parametrize("name", ["Yukawa", "Buckingham", "BornMayer"])
def test_describe_leaves_no_marks_of_bold_words(name):
    assert "Collapses" in simkit_command("describe", name).stdout
    assert "**" not in simkit_command("describe", name).stdout


def test_describe_of_a_function_of_molecular_dynamics_shows_its_keys():
    page = simkit_command("describe", "rdf").stdout
    assert page.startswith("rdf: function of molecular dynamics\n\nThe radial distribution function g(r)")
    assert re.search(r"^  max +required +The largest distance", page, re.MULTILINE)
    assert "  observe: {x: {rdf: {bins: 200, max: 3.0}}}" in page


def test_describe_says_where_a_solver_of_ones_own_is_from():
    own = type("Own", (diffrax.Euler,), {"__module__": "mine.solvers", "__doc__": "A step of one's own."})
    with mock.patch.dict(SOLVERS, {"Own": SolverInfo(own, "one's own", order=1)}):
        page = simkit_command("describe", "Own").stdout
    assert re.search(r"^  from +mine$", page, re.MULTILINE)
    assert "A step of one's own." in page


def test_a_template_is_listed_by_a_whole_sentence():
    templates = json.loads(simkit_command("list", "templates", "--json").stdout)["templates"]
    assert templates["adaptive_sde"].endswith(": a price that is calm except for a day of news")
    assert templates["ode"].endswith(": Lorenz's weather")


def test_describe_of_a_key_without_its_section_names_both():
    result = simkit_command("describe", "discrete")
    assert result.exit_code == 2
    assert result.stderr == (
        "nothing is called 'discrete' by itself; see `simkit describe constants.discrete` or "
        "`simkit describe model.discrete`\n"
    )


def test_describe_suggests_a_name():
    result = simkit_command("describe", "hestn")
    assert result.exit_code == 2
    assert result.stderr == (
        "nothing is called 'hestn'; did you mean 'Heston'? (`simkit list` shows all names)\n"
    )


def test_describe_of_a_command_points_to_its_help():
    result = simkit_command("describe", "steady")
    assert (result.exit_code, result.stderr) == (2, "'steady' is a command; see `simkit steady --help`\n")
    assert simkit_command("steady", "--help").exit_code == 0


def test_completion_knows_exactly_the_names_that_describe_knows():
    def complete(words: str) -> set[str]:
        count = str(len(words.split()) - words.endswith("?"))
        words = words.rstrip("?")
        environment = {"_SIMKIT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": count}
        return set(simkit_command(env=environment).stdout.split())

    assert complete("simkit describe ?") == {*MODELS, *SOLVERS, *CLOSED_FORMS, *KEYS, *PARTICLES}
    assert complete("simkit describe Hes?") == {"Heston"}
    assert complete("simkit new ?") == set(template_names())
