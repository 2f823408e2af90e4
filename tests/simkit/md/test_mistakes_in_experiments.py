"""Mistakes in files of molecular dynamics are named with their place, value and remedy."""

import pytest
from md_examples import MIXTURE, fluid, problems

import simkit
import simkit.md.particle_memory
from simkit.engines.loaded import load_each

MISTAKES = {
    "no potential": (
        {"potential": None},
        "potential: must be a mapping with the keys type, energy, file, parameters, cutoff",
    ),
    "unknown type": (
        {"potential__type": "LenardJones"},
        "potential.type: unknown potential 'LenardJones'; did",
    ),
    "unknown parameter": (
        {"potential__sigm": 1.0},
        "potential.sigm: LennardJones has no such parameter; did",
    ),
    "sigma < 0": ({"potential__sigma": -1.0}, "potential.sigma: must be > 0, got -1"),
    "cutoff missing": (
        {"potential__cutoff": None},
        "potential.cutoff: is missing; pairs farther apart do not interact; give one, such as cutoff: 2.5",
    ),
    "no cutoff": ({"potential__cutoff": 0.0}, "potential.cutoff: must be > 0, got 0"),
    "text": ({"potential__cutoff": "2.5"}, "potential.cutoff: '2.5' is text, not a number"),
    "name in text": ({"potential__cutoff": "2*rc"}, "potential.cutoff: unknown name 'rc'"),
    "switch without": ({"potential__switch_from": 1.0}, "potential.switch_from: is for truncation: switched"),
    "no switch": ({"potential__truncation": "switched"}, "potential.switch_from: is missing"),
    "switch beyond": (
        {"potential__truncation": "switched", "potential__switch_from": 2.1},
        "potential.switch_from: must be below the cutoff, got 2.1",
    ),
    "truncation": ({"potential__truncation": "shift"}, "potential.truncation: must be plain or shifted"),
    "both": ({"potential__energy": "1/r"}, "potential: give one of type"),
    "pair": ({"potential__pairs": {"A": {"sigma": 1}}}, "potential.pairs.A: must be a pair of species"),
    "unknown in a pair": (
        {"potential__pairs": {"A-C": {"sigma": 1}}},
        "potential.pairs.A-C: there is no species 'C'; known: A",
    ),
    "species": ({"potential__sigma": {"A": 1, "C": 2}}, "potential.sigma.C: there is no species 'C'"),
    "a species without": (
        {"system__species": MIXTURE, "potential__sigma": {"A": 1.0}},
        "potential.sigma: has no sigma for B; give it here, or under potential.pairs",
    ),
    "cutoff of many boxes": (
        {"potential__cutoff": 60.0},
        "potential.cutoff: must be at most 51.2993, 10 times the least width of the box, got 60; take "
        "a smaller cutoff, a larger box, or",
    ),
    "function as value": (
        {"observe": {"g": "rdf"}},
        "observe.g: rdf has options; write {rdf: {max: …}}",
    ),
    "random in two boxes": (
        {
            "system__lattice": None,
            "system__random": {"count": 9, "density": 0.1, "least_distance": 1.0},
            "system__box": {"sides": [9, 9, 9]},
        },
        "system.random: needs either density, of a cubic box, or system.box with sides, got both",
    ),
    "cells of a wrong type": (
        {"system__lattice__cells": 2.5},
        "system.lattice.cells: must be a whole number, got 2.5",
    ),
    "two cells": (
        {"system__lattice__cells": [4, 4]},
        "system.lattice.cells: must be a whole number or three of them, got [4, 4]",
    ),
    "heat capacity": (
        {
            "solver": {"type": "BrownianDynamics", "temperature": 1.0, "friction": 1.0},
            "observe": {"c": {"fluctuations": {}}},
        },
        "observe.c.fluctuations: is known at constant energy or temperature; take VelocityVerlet, BAOAB",
    ),
    "dt < 0": ({"time__dt": -0.004}, "time.dt: must be > 0, got -0.004"),
    "steps of a stage": ({"stages": {"a": {"steps": 0}}}, "stages.a.steps: must be at least 1, got 0"),
    "charges": (
        {
            "system__species": MIXTURE,
            "potential": {
                "type": "Coulomb",
                "charge_product": {"A": 1.0, "B": 1.0},
                "constant": 1.0,
                "cutoff": 2,
            },
        },
        "potential.charge_product: no rule mixes charge_product, in charge^2; "
        "give it for the pair A-B under potential.pairs",
    ),
    "exponents": (
        {
            "system__species": MIXTURE,
            "potential__type": "Mie",
            "potential__n": {"A": 12, "B": 14},
            "potential__m": 6,
        },
        "potential.n: no rule mixes n, a pure number; give it for the pair A-B under potential.pairs",
    ),
    "screening": (
        {
            "system__species": MIXTURE,
            "potential": {
                "type": "Yukawa",
                "A": 1.0,
                "kappa": {"A": 1.0, "B": 2.0},
                "cutoff": 2,
                "mixing": "geometric",
            },
        },
        "potential.kappa: no rule mixes kappa, in 1/length",
    ),
    "steepness": (
        {
            "system__species": MIXTURE,
            "potential": {"type": "Morse", "D": 1.0, "a": {"A": 1.0, "B": 2.0}, "r0": 1.0, "cutoff": 2},
        },
        "potential.a: no rule mixes a, in 1/length",
    ),
    "epsilon of a species < 0": (
        {"system__species": MIXTURE, "potential__epsilon": {"A": -1.0, "B": -4.0}},
        "potential.epsilon.A: must be >= 0, got -1",
    ),
    "a pair twice": (
        {
            "system__species": MIXTURE,
            "potential__pairs": {"A-B": {"sigma": 0.9}, "B-A": {"sigma": 1.1}},
        },
        "potential.pairs.B-A: the pair A-B is given already; give it once",
    ),
    "equal replicas": (
        {"ensemble__paths": 4, "system__velocities": None},
        "ensemble.paths: all 4 replicas would be equal: nothing in them is random; "
        "give system.velocities: {temperature: …}, "
        "a stage with BAOAB, or paths: 1",
    ),
    "float32 in SI": (
        {"precision": "float32", "system__units": "si", "system__species": {"A": {"mass": 6.6e-26}}},
        "precision: numbers in SI units are too small for float32; take float64, or units: metal or real",
    ),
    "mixed in SI": (
        {"precision": "mixed", "system__units": "si", "system__species": {"A": {"mass": 6.6e-26}}},
        "precision: numbers in SI units are too small for mixed",
    ),
    "intervals": (
        {
            "time__steps": 92_681,
            "save__every": 92_681,
            "observe": {"g": {"rdf": {"max": 1.0, "every": 92_680}}},
            "stages": {"equilibrate": {"steps": 1}},
        },
        "observe: the run would end at step 8,589,767,761, and steps are counted up to 4,294,967,295: after "
        "stages it begins at a common multiple of every, here of 92680 and 92681; take multiples",
    ),
    "too many cells": (
        {"system__lattice__cells": 10_000},
        "system.lattice.cells: gives 4,000,000,000,000 particles, which need at least 1.66PB of memory, ",
    ),
    "density": ({"system__lattice__density": 0}, "system.lattice.density: must be > 0, got 0"),
    "two": (
        {"system__lattice__spacing": 1.7},
        "system.lattice.spacing: follows from the density; remove one of them",
    ),
    "neither": (
        {"system__lattice": {"type": "fcc", "cells": 3}},
        "system.lattice: needs either density or spacing",
    ),
    "two sources": ({"system__file": "a.xyz"}, "system: needs one of lattice, random, file, got lattice and"),
    "box": ({"system__box": {"sides": [5, 5, 5]}}, "system.box: a lattice fills a box of its own"),
    "units": (
        {"system__units": "metals"},
        "system.units: must be lj or metal or real or si, got 'metals'; did",
    ),
    "mass": (
        {"system__units": "metal"},
        "system.species: has no mass for A; give species: {A: {mass: …}} in g/mol",
    ),
    "fractions": (
        {"system__species": {"A": {"fraction": 0.5}, "B": {"fraction": 0.6}}},
        "system.species: the fractions must add up to 1, got 1.1",
    ),
    "velocities": ({"system__velocities__temperature": -1}, "system.velocities.temperature: must be > 0"),
    "method": ({"solver": "VelocityVerle"}, "solver: unknown method 'VelocityVerle'"),
    "thermostat": (
        {"solver": "BAOAB"},
        "solver: BAOAB needs temperature and friction; write {type: BAOAB, temperature: …, friction: …}",
    ),
    "temperature by an unknown name": (
        {"solver": {"type": "BAOAB", "temperature": "ramp", "friction": 1.0}},
        "solver.temperature: unknown name 'ramp'; define it under curves: or constants:",
    ),
    "friction": (
        {"solver": {"type": "BAOAB", "temperature": 1.0, "friction": 0.0}},
        "solver.friction: must be > 0, got 0",
    ),
    "option": (
        {"solver": {"type": "VelocityVerlet", "temperature": 1.0}},
        "solver.temperature: VelocityVerlet has no such option",
    ),
    "FIRE": ({"solver": "FIRE"}, "solver: FIRE samples no ensemble"),
    "dt": ({"time__dt": 0.0}, "time.dt: must be > 0, got 0"),
    "no dt": ({"time": {"steps": 10}}, "time.dt: is missing"),
    "t1": ({"time__t1": 1.0}, "time.t1: unknown key; write dt and steps"),
    "points": ({"save__points": 7}, "save.points: unknown key; in molecular dynamics save.every is"),
    "NVE": ({"solver": "NVE"}, "solver: unknown method 'NVE' of molecular dynamics; use VelocityVerlet"),
    "NVT": ({"solver": "NVT"}, "solver: unknown method 'NVT' of molecular dynamics; use BAOAB or Nose"),
    "NPT": ({"solver": "NPT"}, "solver: unknown method 'NPT' of molecular dynamics; use one of BAOAB or"),
    "RK4": ({"solver": "RK4"}, "solver: unknown method 'RK4' of molecular dynamics; use VelocityVerlet"),
    "every": ({"save__every": 7}, "save.every: must divide the 40 steps, got 7; 5 would do"),
    "trajectory": (
        {"save__trajectory": {"file": "a.xyz", "every": 15}},
        "save.trajectory.every: must be a multiple of save.every, 10, got 15",
    ),
    "quantity": (
        {"observe": {"T": "temperatur"}},
        "observe.T: unknown name 'temperatur' (column 1 of the expression); did",
    ),
    "range": (
        {"observe": {"g": {"rdf": {"max": 4.0}}}},
        "observe.g.rdf.max: must be at most 2.56496, half the least width of the box, got 4",
    ),
    "two kinds": (
        {"observe": {"g": {"rdf": {"max": 1.0}, "value": "pressure"}}},
        "observe.g: needs one of value, rdf, msd, vacf, structure_factor, fluctuations, got value and rdf",
    ),
    "no name": (
        {"observe": {"rdf": {"bins": 10}}},
        "observe.rdf: needs a name of its own above it; write my_rdf: {rdf: …}",
    ),
    "short": ({"observe": {"D": {"msd": {}}}}, "observe.D.msd: needs 40 measurements, got 4"),
    "reserved": ({"observe": {"force": "pressure"}}, "observe.force: force is a variable of every dataset"),
    "constant": (
        {"constants": {"pressure": 1.0}},
        "constants.pressure: pressure is a quantity of the system",
    ),
    "model": ({"model": {"type": "GBM"}}, "model: unknown key; in molecular dynamics potential says"),
    "seed": ({"ensemble__seed": -1}, "ensemble.seed: must be at least 0, got -1"),
    "stage": (
        {"stages": {"cool": {"solver": "BAOAB", "steps": 5}}},
        "stages.cool.solver: BAOAB needs temperature and friction",
    ),
    "curve ends": (
        {
            "curves": {"c": {"times": [0, 0.1], "values": [1, 2]}},
            "solver": {"type": "BAOAB", "temperature": "c", "friction": 1.0},
        },
        "solver.temperature: c is known from 0 to 0.1, and this stage lasts from 0 to 0.16",
    ),
    "inherited curve ends": (
        {
            "curves": {"c": {"times": [0, 0.16], "values": [1, 2]}},
            "solver": {"type": "BAOAB", "temperature": "c", "friction": 1.0},
            "stages": {"equilibrate": {"steps": 100}},
        },
        "stages.equilibrate: c, the solver's temperature, is known from 0 to 0.16, and this stage lasts "
        "from 0 to 0.4; add points, write outside: hold, or give the stage a solver of its own",
    ),
    "tail": (
        {
            "potential": {
                "type": "Coulomb",
                "charge_product": 1.0,
                "constant": 1.0,
                "cutoff": 2,
                "truncation": "plain",
                "tail": True,
            },
        },
        "potential.tail: Coulomb: has no tail correction",
    ),
}


@pytest.mark.parametrize(("changes", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_named_with_its_place_value_and_remedy(changes, message):
    assert any(line.startswith(message) for line in problems(fluid(**changes))), problems(fluid(**changes))


RANDOM = {"system__lattice": None, "system__random": {"count": 200, "density": 0.1, "least_distance": 0.5}}


@pytest.mark.parametrize(
    ("changes", "start", "remedy"),
    [
        ({}, "system.lattice.cells: gives 108 particles, which need at least 44.9kB", "take fewer cells"),
        (
            RANDOM,
            "system.random.count: gives 200 particles, which need at least 83.2kB",
            "take fewer",
        ),
    ],
    ids=["lattice", "random"],
)
def test_more_particles_than_memory_are_refused_before_there_are_any(monkeypatch, changes, start, remedy):
    monkeypatch.setattr(simkit.md.particle_memory, "available_memory", lambda: 1000)
    assert problems(fluid(**changes)) == [f"{start} of memory, and 1kB are available; {remedy}"]


def test_a_cutoff_of_more_than_a_box_is_a_remark():
    (remark,) = load_each(fluid(potential__cutoff=5.2)).remarks
    assert remark.startswith("potential.cutoff: is 1.01 times the least width of the box, 5.12993: ")
    assert not load_each(fluid(potential__cutoff=5.1)).remarks


def test_all_mistakes_are_named_at_their_places_in_the_file(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_text(
        "system:\n"
        "  lattice: {type: fcc, cells: 0, density: 0.8}\n"
        "potential: {type: LennardJones, epsilon: 1, sigm: 1, cutoff: 2}\n"
        "solver: {type: BAOAB, temperature: 0, friction: 1}\n"
        "time: {dt: 0.005, steps: 10}\n"
    )
    assert problems(path, ["time.steps=-1"]) == [
        f"{path}:2:31: system.lattice.cells: must be at least 1, got 0",
        f"{path}:3:45: potential.sigm: LennardJones has no such parameter; did you mean 'sigma'?",
        f"{path}:4:36: solver.temperature: must be > 0, got 0",
        "override time.steps: must be at least 0, got -1",
    ]


def test_a_misspelt_system_is_reported_as_molecular_dynamics():
    experiment = fluid()
    experiment["sytem"] = experiment.pop("system")
    with pytest.raises(simkit.InputError) as caught:
        simkit.run(experiment)
    assert caught.value.problems == ["sytem: unknown key; did you mean 'system'?"]


def test_a_table_whose_distances_do_not_increase_is_named_with_its_line(tmp_path):
    path = tmp_path / "u.csv"
    path.write_text("r,u\n0.8,3\n1.0,0\n0.9,1\n1.5,-1\n2.0,0\n")
    assert problems(fluid(potential={"type": "Tabulated", "file": str(path)})) == [
        f"potential.file: {path}:4: the distances must increase, got 0.9 after 1; sort them"
    ]
