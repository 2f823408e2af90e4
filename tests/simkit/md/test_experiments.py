"""Files of molecular dynamics: what they are loaded as, and files of positions that do not fit."""

import jsonschema
import numpy as np
import pytest
import yaml
from checkout import EXAMPLES
from md_examples import MIXTURE, fluid, problems
from simkit_physics import POTENTIALS
from simkit_solvers import PARTICLE_METHODS

import simkit
from simkit import InputError
from simkit.cli.about_particles import about_particle_method, about_potential
from simkit.md.experiment import load_particles
from simkit.schema import file_schema


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"observe": {"P": "pressure_xx"}}, "observe.P: pressure_xx needs a periodic box"),
        ({"potential__tail": True}, "potential.tail: is that of a uniform fluid"),
        ({"observe": {"g": {"rdf": {"max": 1.0}}}}, "observe.g.rdf: needs a periodic box"),
    ],
)
def test_free_space_has_no_pressure(tmp_path, changes, message):
    path = tmp_path / "a.xyz"
    path.write_text("2\n\nA 0 0 0\nA 1 0 0\n")
    system = {"file": str(path), "box": {"free": True}}
    assert problems(fluid(system=system, **changes))[0].startswith(message)


@pytest.mark.parametrize(
    ("text", "settings", "message"),
    [
        ("2\n\nA 0 0 0\nA 1 0 0\n", {}, "system.file: has no box; give system.box"),
        (
            '2\nLattice="5 0 0 0 5 0 0 0 5" Properties=species:S:1:pos:R:3\nA 0 0 0\nA 1 0 6\n',
            {},
            "system.file: the particle on line 4 of a.xyz at (1, 0, 6) is outside the box with the sides 5, "
            "5, 5; wrap",
        ),
        (
            "3\n\nA 0 0 0\nA 6 0 0\nA 7 0 0\n",
            {"box": {"sides": [5, 5, 5]}},
            "system.box: the particle on line 4 of a.xyz at (6, 0, 0) is outside the box with the sides 5, "
            "5, 5, like 1 other",
        ),
        (
            "2\n\nA 0 0 0\nA 1 0 0\n",
            {"box": {"sides": [5, 5, 5], "free": True}},
            "system.box.sides: are those of a periodic box; remove them, or free: true",
        ),
        (
            "2\n\nA 0 0 0\nA 1 0 0\n",
            {"box": {"sides": [5, 5, 5]}, "species": {"B": {"mass": 1.0}}},
            "system.species.B: the file has no such species",
        ),
        ("2\n\nA 0 0 0\nA 1 0\n", {"box": {"sides": [5, 5, 5]}}, "system.file: "),
    ],
)
def test_a_file_of_positions_that_does_not_fit_is_refused(tmp_path, text, settings, message):
    (tmp_path / "a.xyz").write_text(text)
    (tmp_path / "a.yaml").write_text("")
    experiment = fluid(system={"file": str(tmp_path / "a.xyz"), **settings})
    assert any(line.startswith(message) for line in problems(experiment)), problems(experiment)


TWO = "LAMMPS\n\n3 atoms\n1 atom types\n0 5 xlo xhi\n0 5 ylo yhi\n0 5 zlo zhi\n\nAtoms\n\n"


@pytest.mark.parametrize(
    ("name", "text", "pair"),
    [
        ("a.xyz", "3\n\nA 0 0 0\nA 1 0 0\nA 1 0 0\n", "on lines 4 and 5 of a.xyz"),
        ("a.data", TWO + "7 1 1 0 0\n30 1 2 0 0\n9 1 1 0 0\n", "with ids 7 and 9 of a.data"),
    ],
)
def test_particles_of_a_file_at_the_same_place_are_refused_with_all_other_mistakes(
    tmp_path, name, text, pair
):
    (tmp_path / name).write_text(text)
    system = {"file": str(tmp_path / name), "box": {"free": True}}
    assert problems(fluid(system=system, observe={}, sensitivity={"wrt": ["epsilo"]}))[:1] == [
        f"system.file: the particles {pair} are at the same place: their distance is 0; move one of them or "
        "leave it out"
    ]


def test_species_have_the_numbers_that_their_fractions_say_in_random_order():
    simulation = load_particles(fluid(system__species=MIXTURE, system__lattice__cells=4))
    species = np.asarray(simulation.system.particles.species)
    assert np.bincount(species).tolist() == [192, 64]
    assert np.sum(np.diff(species) != 0) > 20  # not one after the other


def test_parameters_mix_by_the_rule_and_pairs_override_it():
    potential = {"epsilon": {"A": 1.0, "B": 4.0}, "sigma": {"A": 1.0, "B": 0.5}}
    changes = {f"potential__{key}": value for key, value in potential.items()}
    changes |= {
        "potential__pairs": {"B-A": {"epsilon": 3.0, "cutoff": "2.0*0.9"}},
        "system__species": MIXTURE,
    }
    simulation = load_particles(fluid(**changes))
    truncated = simulation.system.potential
    np.testing.assert_allclose(truncated.potential.epsilon, [[1, 3], [3, 4]])
    np.testing.assert_allclose(truncated.potential.sigma, [[1, 0.75], [0.75, 0.5]])
    np.testing.assert_allclose(truncated.cutoffs, [[2, 1.8], [1.8, 2]])
    geometric = load_particles(fluid(**changes, potential__mixing="geometric")).system.potential
    np.testing.assert_allclose(geometric.potential.sigma[0, 1], 0.5**0.5)
    missing = problems(fluid(**changes, potential__mixing="explicit"))
    assert missing == ["potential.sigma: has no sigma for the pair A-B; give it under potential.pairs"]


@pytest.mark.parametrize("name", [*POTENTIALS, *PARTICLE_METHODS])
def test_what_describe_shows_of_a_potential_or_method_is_valid(name):
    about = about_potential if name in POTENTIALS else about_particle_method
    shown = yaml.safe_load(about(name)["yaml"])
    if name == "FIRE":
        assert problems(fluid(**shown))[0].startswith("solver: FIRE samples no ensemble")
    else:
        load_particles(fluid(**shown))


def test_a_potential_that_ends_by_itself_needs_no_cutoff():
    changes = {f"potential__{key}": {"A": 1.0, "B": 0.5} for key in ("epsilon", "sigma")}
    changes |= {"potential__type": "WCA", "potential__cutoff": None, "system__species": MIXTURE}
    cutoffs = load_particles(fluid(**changes)).system.potential.cutoffs
    np.testing.assert_allclose(cutoffs, 2 ** (1 / 6) * np.array([[1, 0.75], [0.75, 0.5]]))


def test_a_resolved_experiment_loads_to_the_same_system():
    simulation = load_particles(fluid(system__species=MIXTURE))
    again = load_particles(simulation.experiment.resolved())
    assert again.experiment.resolved() == simulation.experiment.resolved()
    for a, b in zip(simulation.system.particles.position, again.system.particles.position, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.fixture(scope="module")
def schema():
    return jsonschema.Draft202012Validator(file_schema())


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("particles/*.yaml")), ids=lambda path: path.stem)
def test_examples_and_what_they_resolve_to_fit_the_schema(path, schema):
    experiment = yaml.safe_load(path.read_text())
    schema.validate(experiment)
    schema.validate(load_particles(path).experiment.resolved())
    for wrong in ({"solver": {"type": "Verlet"}}, {"sytem": {}}, {"potential": {"type": "LJ", "cutoff": 1}}):
        assert not schema.is_valid(experiment | wrong)


def test_other_commands_refuse_molecular_dynamics_with_a_remedy():
    with pytest.raises(InputError, match="system: this does not work for molecular dynamics"):
        simkit.load(fluid())
    with pytest.raises(InputError, match="system: this does not work for molecular dynamics"):
        simkit.uncertainty(fluid())
    with pytest.raises(InputError, match="there is no variant 'low'"):
        simkit.run(fluid(), variants=["low"])
