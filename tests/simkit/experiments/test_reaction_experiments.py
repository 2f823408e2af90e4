"""Reaction networks in experiments: which process is meant, the same bits however cut, errors, failures."""

import dataclasses
import functools
import re

import jax.numpy as jnp
import numpy as np
import pytest
from simkit_physics import SIR, ImmigrationDeath
from simkit_solvers import ChemicalLangevin, JumpGrid, in_calculus, parameters_of

import simkit
from simkit import InputError, NumericalError, load
from simkit.engines.loaded import load_each
from simkit.ensemble import LEAF, run_ensemble
from simkit.results.table import closing_line, summary

ARRIVALS = {
    "model": {"type": "ImmigrationDeath", "alpha": 100.0, "mu": 1.0},
    "initial": {"X": 10},
    "time": {"t1": 2.0},
    "save": {"points": 2},
    "ensemble": {"paths": 3000, "seed": 3, "devices": 1},
}
EPIDEMIC = {
    "constants": {"beta": 0.4, "N": 1000},
    "model": {
        "reactions": {
            "infection": {"equation": "S + I -> 2 I", "rate": "beta/N"},
            "recovery": {"equation": "I -> R", "rate": "gamma"},
        },
        "parameters": {"gamma": 0.1},
    },
    "initial": {"S": "N - 10", "I": 10, "R": 0},
    "time": {"t1": 5.0},
    "ensemble": {"paths": 100, "devices": 1},
}


def but(experiment, path, value):
    """The same experiment with one key changed, or without it."""
    first, *rest = path
    changed = dict(experiment)
    if rest:
        changed[first] = but(changed.get(first, {}), rest, value)
    elif value is None:
        changed.pop(first, None)
    else:
        changed[first] = value
    return changed


def with_steps(solver, steps=200):
    return {**ARRIVALS, "solver": solver, "time": {"t1": 2.0, "steps": steps}}


@functools.cache
def ran():
    """The events, run once."""
    return simkit.run(ARRIVALS)


@pytest.mark.more
@pytest.mark.parametrize(
    ("experiment", "view", "kind"),
    [
        (ARRIVALS, "jump process", "jump"),
        (with_steps("EulerMaruyama"), "chemical Langevin equation", "sde"),
        (with_steps("Tsit5", 20), "rate equation", "ode"),
    ],
    ids=["events", "langevin", "rates"],
)
def test_the_solver_says_which_process_is_meant(experiment, view, kind):
    """And all three have the exact mean of a linear network, as a table and a dataset say."""
    result = ran() if kind == "jump" else simkit.run(experiment)
    assert (result.attrs["model"], result.attrs["view"], result.attrs["kind"]) == (
        "ImmigrationDeath",
        view,
        kind,
    )
    content = summary(result)["state"]["X"]
    assert content["exact"] == pytest.approx(100 - 90 * np.exp(-2))
    if kind == "ode":
        assert content["mean"] == pytest.approx(content["exact"], rel=1e-8)
        assert "X_exact_variance" not in result
        return
    assert abs(content["z"]) < 5
    spread = float(result["X_variance"][-1] / result["X_exact_variance"][-1])
    assert abs(spread - 1) < 5 * np.sqrt(2 / 3000)
    assert ("X_bias" in result) == (kind == "sde")


@pytest.mark.parametrize(
    ("solver", "expected"),
    [("Heun", ImmigrationDeath), ("Euler", ChemicalLangevin), ("PlatenWeak2", ChemicalLangevin)],
)
def test_solvers_of_both_kinds_of_equation(solver, expected):
    """Those of Itô equations take the chemical Langevin equation, the others the rate equation."""
    assert isinstance(load(with_steps(solver)).problem, expected)


def test_events_are_counted_and_shown():
    result = ran()
    x = result["X_path"].values
    assert (x == np.round(x)).all()
    figures = summary(result)
    assert figures["steps"] is None
    arrivals = 200 + (10 + 200 - float(result["X_mean"][-1]))  # and as many deaths as are gone
    assert figures["events"]["mean"] == pytest.approx(arrivals, rel=0.01)
    assert figures["events"]["max"] > figures["events"]["mean"]
    assert re.search(r"3,000 paths × \d+ events on average \(at most \d+\) in ", closing_line(result))
    assert not any(name.endswith("_bias") for name in result)


@pytest.mark.user_code
@pytest.mark.slow
def test_the_same_bits_however_cut():
    """On two devices in small chunks as on one in a large one."""
    simulation = dataclasses.replace(load(ARRIVALS), paths=2 * LEAF + 5)
    one = run_ensemble(simulation)
    other = run_ensemble(dataclasses.replace(simulation, devices=2, chunk=LEAF))
    assert one.steps == other.steps
    np.testing.assert_array_equal(one.stored["X"], other.stored["X"])
    for name, value in one.statistics["moments"].items():
        np.testing.assert_array_equal(value, other.statistics["moments"][name])


def test_counts_beyond_float32_are_whole_in_float32():
    many = but(but(ARRIVALS, ["initial", "X"], 16_777_217), ["model", "mu"], 0.0)
    result = simkit.run(but(many, ["ensemble", "paths"], 64), overrides=["precision=float32"])
    assert float(result["X_min"][0]) == float(result["X_max"][0]) == 16_777_217
    assert (result["X_path"].values[:, -1] % 2 == 1).any()


def test_a_network_in_the_file_is_that_of_the_class():
    inline = load(EPIDEMIC).problem
    named = SIR(beta=0.4, gamma=0.1, N=1000.0)
    assert list(parameters_of(inline)) == ["gamma", "beta", "N"]
    assert tuple(inline.reactions.values()) == tuple(named.reactions.values())
    y = [jnp.asarray(x) for x in (700.0, 200.0, 100.0)]
    for ours, theirs in zip(
        inline.propensities(0.0, inline.State(*y)), named.propensities(0.0, named.State(*y)), strict=True
    ):
        assert float(ours) == pytest.approx(float(theirs), rel=1e-14)


def test_observables_know_the_parameters_of_every_view():
    y = ImmigrationDeath.State(X=jnp.asarray(50.0))
    for experiment in (ARRIVALS, with_steps("EulerMaruyama"), with_steps("Tsit5")):
        simulation = load(experiment | {"observe": {"share": "X*mu/alpha"}})
        observer, problem = simulation.observer, simulation.problem
        row = observer.row(problem, observer.init(problem, jnp.asarray(0.0), y), jnp.asarray(0.0), y)
        assert float(row["share"]) == 0.5


def test_observables_know_the_parameters_of_a_converted_model():
    walk = {
        "model": {"type": "GBM", "mu": 0.1, "sigma": 0.25},
        "initial": {"S": 100},
        "solver": {"type": "Heun", "convert": True},
        "time": {"t1": 1.0, "steps": 4},
        "observe": {"share": "S*sigma"},
    }
    simulation = load(walk)
    observer, y = simulation.observer, simulation.problem.State(S=jnp.asarray(2.0))
    problem = in_calculus(simulation.problem, "stratonovich")
    row = observer.row(problem, observer.init(problem, jnp.asarray(0.0), y), jnp.asarray(0.0), y)
    assert float(row["share"]) == 0.5


JUMPS = {**EPIDEMIC, "solver": "DirectMethod"}
BAD_INPUT = [
    (["time", "steps"], 100, r"time.steps: events of a reaction network occur at random times, .* remove it"),
    (["time", "rtol"], 1e-3, r"time.rtol: events of a reaction network occur"),
    (["save", "every"], 2, r"save.every: events occur at random times; use save.points"),
    (["initial", "I"], 2.5, r"initial.I: must be a whole number from 0 to 2000000000, .* of I, got 2.5"),
    (["initial", "I"], -1, r"initial.I: must be a whole number from 0 .*got -1"),
    (["initial", "I"], {"normal": [10, 1]}, r"initial.I: must be a whole number of molecules"),
    (["initial", "Q"], 3, r"initial.Q: unknown variable .* no reaction changes .*: Q -> Q [+] X$"),
    (
        ["observe", "most"],
        "mean(I)",
        r"observe.most.*: mean\(…\) averages over the ends of steps, and events",
    ),
    (["solver"], {"type": "DirectMethod", "convert": True}, r"solver.convert: has no effect"),
    (
        ["solver"],
        {"type": "TauLeaping", "epsilon": 2.0},
        r"^solver.epsilon: must be above 0 and .* 1, got 2$",
    ),
    (["solver"], {"type": "TauLeaping", "epsilom": 0.1}, r"has no option 'epsilom'; did you mean 'epsilon'"),
    (
        ["model", "reactions", "infection", "equation"],
        "S + I = 2 I",
        r"model.reactions.infection.equation: 'S \+ I = 2 I' is not a reaction: write",
    ),
    (
        ["model", "reactions", "infection", "equation"],
        "S + 0.5 I -> I",
        r"infection.equation: .*the number of I must be a whole one from 1, got 0.5",
    ),
    (
        ["model", "reactions", "infection", "equation"],
        None,
        r"infection.equation: is missing; reactants and products",
    ),
    (["model", "reactions", "infection", "rate"], None, r"infection.rate: give either rate, for mass action"),
    (["model", "reactions", "infection", "propensity"], "S", r"infection.rate: give either rate"),
    (["model", "reactions", "infection", "rate"], "beta*S", r"infection.rate: depends on S, .*propensity"),
    (["model", "reactions", "infection", "rate"], "-beta", r"infection.rate: must be at least 0, got -0.4"),
    (["model", "reactions", "infection", "rate"], "bta", r"infection.rate: .*'bta'.*did you mean 'beta'"),
    (["model", "reactions", "infection", "rate"], "beta*atan2(t, 1)", r"solver.*: .*a rate depends on t by"),
    (["model", "reactions", "recovery", "equation"], "I -> exp", r"recovery.equation: 'exp' is a function"),
    (["model", "reactions", "2"], {"equation": "I -> S", "rate": 1}, r"reactions.2: '2' is not a name"),
    (["model", "reactions", "back"], {"equation": "I -> S", "rte": 1}, r"back.rte: unknown key.*'rate'"),
    (["model", "parameters", "S"], 1.0, r"parameters.S: S is a species of the reactions"),
    (["model", "parameters", "rates"], 1.0, r"parameters.rates: 'rates' is the name of a part of a model"),
    (["model", "reactions"], {}, r"model.reactions: needs at least one reaction"),
    (["constants", "N"], "1000/", r"^constants.N: not an expression: it ends too early[^\n]*$"),
]


@pytest.mark.parametrize(("path", "value", "said"), BAD_INPUT)
def test_bad_input_names_place_and_remedy(path, value, said):
    with pytest.raises(InputError, match=said):
        load(but(JUMPS, path, value))


@pytest.mark.parametrize("equation", ["I -> I", "S + I -> I + S"])
def test_a_reaction_that_changes_nothing_has_a_remark(equation):
    section = but(JUMPS, ["model", "reactions", "idle"], {"equation": equation, "rate": 1})
    (remark,) = load_each(section).remarks
    assert remark.startswith("model.reactions.idle.equation: changes no number of molecules")
    assert not load_each(JUMPS).remarks


def test_the_name_of_a_species_is_wrong_where_it_first_stands():
    """And not in an equation that has the letter elsewhere."""
    steps = {"r1": "Water -> X", "r2": "X -> t", "r3": "t -> 0"}
    network = {"reactions": {name: {"equation": text, "rate": 1} for name, text in steps.items()}}
    with pytest.raises(InputError, match=r"^model\.reactions\.r2\.equation: 't' is the time"):
        load({"model": network, "initial": {"Water": 1, "X": 0, "t": 0}, "time": {"t1": 1.0}})


def test_nothing_is_checked_against_reactions_that_cannot_be_read():
    wrong = {"reactions": {"death": {"reaction": "S -> T", "rate": 1}}}
    given = {"model": wrong, "initial": {"S": 9, "T": 0}, "time": {"t1": 1.0}, "observe": {"sum": "S + T"}}
    right = {"birth": {"equation": "0 -> S", "rate": 1}}
    for reactions in (wrong, {"reactions": wrong["reactions"] | right}):
        with pytest.raises(InputError) as raised:
            load(given | {"model": reactions})
        places = {line.partition(": ")[0] for line in raised.value.problems}
        assert places == {"model.reactions.death.reaction"}


@pytest.mark.parametrize("solver", ["EulerMaruyama", "Tsit5"])
@pytest.mark.parametrize(
    ("amount", "place"), [(-1, r"initial\.I"), ({"uniform": ["-0.001*N", 5]}, r"initial\.I\.uniform\[0\]")]
)
@pytest.mark.parametrize("named", [False, True])
def test_no_species_begins_below_zero(solver, amount, place, named):
    experiment = {**EPIDEMIC, "solver": solver, "time": {"t1": 5.0, "steps": 50}}
    if named:
        experiment["model"] = {"type": "SIR", "beta": "beta", "gamma": 0.1, "N": "N"}
    load(but(experiment, ["initial", "I"], 0))
    with pytest.raises(InputError, match=rf"{place}: must be >= 0, .*; got -1$"):
        load(but(experiment, ["initial", "I"], amount))


def test_solvers_and_models_of_other_kinds():
    walk = {
        "model": {"type": "GBM", "mu": 0.1, "sigma": 0.2},
        "initial": {"S": 100},
        "time": {"t1": 1.0},
        "solver": "DirectMethod",
    }
    with pytest.raises(InputError, match="is for reaction networks, and GBM is not one; use EulerMaruyama"):
        load(walk)
    with pytest.raises(InputError, match=r"time.steps: is missing"):
        load({**ARRIVALS, "solver": "Tsit5"})
    with pytest.raises(InputError, match="converges to the Stratonovich solution"):
        load(with_steps("SPaRK"))


def test_a_network_uses_the_direct_method_by_default():
    simulation = load({key: ARRIVALS[key] for key in ("model", "initial", "time")})
    assert type(simulation.solver).__name__ == "DirectMethod"
    assert isinstance(simulation.grid, JumpGrid)
    assert simulation.paths == 10_000
    assert load(but(with_steps("Tsit5"), ["ensemble"], None)).paths == 1


FAILURES = [
    (
        "X -> 0",
        "1 - 0.5*X",
        5,
        r"path 0: stopped at t = \S+ of 40; path 1: .*: a propensity is negative or not finite"
        ".*at or above zero.*simkit debug FILE",
    ),
    (
        "X -> 0",
        1,
        1,
        r"path 0: stopped at t = \S+ of 40, where odd takes X from 0 to -1; path 1: .* -1, and 1 more"
        " of all 4 paths: a count would leave 0",
    ),
    (
        "X -> 2 X",
        "X**2",
        1,
        r"path 0: stopped at t = \S+ of 40; .*: max_steps = 200 were taken.*larger time",
    ),
]


@pytest.mark.parametrize(
    ("equation", "propensity", "start", "said"),
    [FAILURES[0], *(pytest.param(*failure, marks=pytest.mark.slow) for failure in FAILURES[1:])],
)
def test_a_path_that_fails_is_named_with_time_and_reason(equation, propensity, start, said):
    experiment = {
        "model": {
            "reactions": {
                "odd": {"equation": equation, "propensity": propensity},
                "arrival": {"equation": "0 -> X", "rate": 0.001},
            }
        },
        "initial": {"X": start},
        "time": {"t1": 40.0, "max_steps": 200},
        "ensemble": {"paths": 4, "devices": 1},
    }
    with pytest.raises(NumericalError, match=said):
        simkit.run(experiment)


@pytest.mark.parametrize("solver", ["DirectMethod", "Tsit5"])
def test_a_population_that_is_not_the_sum_of_its_parts_has_a_remark(solver):
    """With N = 1000 in place of 2000 each infectious one would meet twice as many."""
    epidemic = {
        "model": {"type": "SIR", "beta": 0.3, "gamma": 0.1, "N": 1000},
        "initial": {"S": 1995, "I": 5, "R": 0},
        "solver": solver,
        "time": {"t1": 10.0} | ({"steps": 20} if solver == "Tsit5" else {}),
    }
    (remark,) = load_each(epidemic).remarks
    assert remark == (
        "model.N: is 1000, size of the population, and S + I + R is 2000 at the start; use N: 2000, or other "
        "initial values"
    )
    assert not load_each(epidemic, {"model.N": 2000}).remarks
    if solver == "Tsit5":
        drawn = {"initial": {"S": {"uniform": [900, 1000]}, "I": 5, "R": 0}}
        assert not load_each(epidemic | drawn).remarks


@pytest.mark.slow
def test_a_langevin_equation_of_small_counts_that_fails_names_the_direct_method():
    epidemic = {
        "model": {"type": "SIR", "beta": 0.3, "gamma": 0.1, "N": 1000},
        "initial": {"S": 995, "I": 5, "R": 0},
        "solver": "EulerMaruyama",
        "time": {"t1": 100.0, "steps": 200},
        "ensemble": {"paths": 500, "devices": 1},
    }
    with pytest.raises(NumericalError, match=r"at t = \S+ \(step .* use DirectMethod.*simkit debug FILE"):
        simkit.run(epidemic)


@pytest.mark.slow
def test_an_event_that_breaks_a_count_says_what_to_write():
    halved = {"half": {"at": 1, "set": {"X": "X/2 + 0.25"}}}
    said = r"where half takes X from \d+ to \S+; .*: an event sets a count that .* Let events set whole"
    with pytest.raises(NumericalError, match=said):
        simkit.run({**ARRIVALS, "events": halved})


def test_constants_reach_rates():
    simulation = load(EPIDEMIC)
    bound = simulation.bind({"N": 500.0})
    assert float(bound.problem.N) == 500
    assert bound.initial["S"] == 490
    langevin = load({**EPIDEMIC, "solver": "EulerMaruyama", "time": {"t1": 5.0, "steps": 50}})
    assert langevin.bind({"N": 500.0}).problem.original.N == 500
