"""Names from elsewhere, or nearly right, lead to those of simkit."""

import pytest
from md_examples import fluid
from price_examples import PRICE, TIME
from simkit_physics import MODELS, DoubleWellLangevin, model_elsewhere
from simkit_physics.elsewhere import ELSEWHERE as MODELS_ELSEWHERE
from simkit_solvers import SOLVERS, make_solver
from simkit_solvers.methods.registry import ELSEWHERE, solver_elsewhere

from simkit import InputError, load
from simkit.engines.loaded import load_each
from simkit.studies import elementary_effects, sobol_indices


def test_the_size_of_a_study_is_named_by_its_own_argument():
    distribution = [{"uniform": [0, 1]}]
    with pytest.raises(InputError, match=r"^points: no such argument; the size of this study is walks$"):
        elementary_effects(lambda x: x[0], distribution, points=16)  # pyright: ignore[reportCallIssue]
    with pytest.raises(InputError) as caught:
        sobol_indices(lambda x: x[0], distribution, walks=16, replicate=8)  # pyright: ignore[reportCallIssue]
    assert caught.value.problems == [
        "replicate: no such argument; did you mean 'replicates'?",
        "walks: no such argument; the size of this study is points",
    ]


def test_whoever_knows_a_solver_by_another_name_finds_one_of_simkit():
    assert {*ELSEWHERE.values()} <= {*SOLVERS}
    assert not {*ELSEWHERE} & {name.casefold() for name in SOLVERS}
    assert solver_elsewhere("Gillespie") == solver_elsewhere("GillespieSSA") == "DirectMethod"
    with pytest.raises(ValueError, match=r"^unknown solver 'SSA'; use DirectMethod$"):
        make_solver("SSA")


def test_whoever_knows_a_model_by_another_name_finds_one_of_simkit():
    """However its words are joined; and no other name hides one of simkit."""
    assert {*MODELS_ELSEWHERE.values()} <= {*MODELS}
    assert not {*MODELS_ELSEWHERE} & {name.casefold() for name in MODELS}
    assert model_elsewhere("Black-Scholes") == model_elsewhere("geometric Brownian motion") == "GBM"


NETWORK = {
    "model": {"reactions": {"infect": {"equation": "S + I -> 2 I", "rate": 0.1}}},
    "initial": {"S": 9, "I": 1},
    "time": {"t1": 1.0},
}

GROWTH = {"model": {"ode": {"x": "x"}}, "initial": {"x": 1}, "time": {"t1": 1.0, "steps": 8}}

WELL = GROWTH | {
    "model": {"type": "DoubleWellLangevin", **DoubleWellLangevin.example},
    "initial": DoubleWellLangevin.example_initial,
}

MEANT = {
    "double": (PRICE | {"precision": "double"}, "precision: must be .* got 'double'; did you mean 'float64'"),
    "half": (PRICE | {"precision": "float16"}, "precision: must be .* 'float16'; did you mean 'float32'"),
    "dtype": (PRICE | {"dtype": "float32"}, "dtype: unknown key; write precision: float32 or float64$"),
    "a key like none of thirteen": (
        PRICE | {"uncertainty": {"method": "morris", "zzz": 1}},
        "uncertainty.zzz: unknown key; known: method, .*, seed",
    ),
    "a key of a section at the root": (
        PRICE | {"sigma": 3},
        "sigma: unknown key; did you mean model.sigma[?]$",
    ),
    "= for ==": (
        PRICE | {"observe": {"x": "hitting_time(S = 5)"}},
        "observe.x: the arguments of hitting_time are given without names, not as here; equality is ==",
    ),
    "first_time": (
        PRICE | {"observe": {"x": "first_time(S > 5)"}},
        "observe.x: unknown function 'first_time' .*; did you mean 'hitting_time'[?]$",
    ),
    "the time of a peak": (
        PRICE | {"observe": {"x": "argmax(S)"}},
        r"observe.x: .* the time of a peak is .* hitting_time\(c\) .* result\['S_mean'\].idxmax\('time'\)$",
    ),
    "expected shortfall": (
        PRICE | {"observe": {"x": "CVaR(S)"}},
        r"observe.x: .* that of where\(S < q, S, 0\) over that of where\(S < q, 1, 0\); .* under derived$",
    ),
    "a parameter that an event sets": (
        PRICE | {"events": {"shock": {"at": TIME["t1"], "set": {"sigma": 0.3}}}},
        r"events.shock.set.sigma: is a parameter, and events set state variables \(S\); .* use curves$",
    ),
    "people in parts": (
        NETWORK | {"initial": {"S": 9.5, "I": 1}},
        "initial.S: must be a whole number from 0 to 2000000000, the number of S, got 9.5$",
    ),
    "a key like none at the root": (PRICE | {"foo": 3}, "foo: unknown key; `simkit list keys` shows all$"),
    "a key nearly like one at the root": (
        PRICE | {"solvr": "Milstein"},
        "solvr: unknown key; did you mean 'solver'",
    ),
    "a list of reactions": (
        NETWORK | {"model": {"reactions": ["S -> I"]}},
        r"model.reactions: must be a mapping of names to values, such as {decay: {equation: X -> 0, rate",
    ),
    "an arrow": (
        NETWORK
        | {"model": {"reactions": {"infect": {"equation": "S + I => 2I", "rate": 0.1}}}, "time": TIME},
        r"model.reactions.infect.equation: 'S \+ I => 2I' is not a reaction: write reactants -> products",
    ),
    "SSA": (NETWORK | {"solver": "SSA"}, "solver: unknown solver 'SSA'; use DirectMethod$"),
    "Langevin": (
        PRICE | {"solver": "Langevin"},
        "solver: unknown solver 'Langevin'; use EulerMaruyama, which fits this model$",
    ),
    "Langevin of a Langevin model": (
        WELL | {"solver": "Langevin"},
        "solver: unknown solver 'Langevin'; use BAOAB$",
    ),
    "an ODE solver of a Langevin model": (
        WELL | {"solver": "RK45"},
        "solver: unknown solver 'RK45'; use BAOAB, which fits this model$",
    ),
    **{
        f"{name} of a stochastic model": (
            PRICE | {"solver": name},
            f"solver: unknown solver '{name}'; use EulerMaruyama, which fits this model$",
        )
        for name in ("odeint", "RK45", "LSODA")
    },
    "odeint": (GROWTH | {"solver": "odeint"}, "solver: unknown solver 'odeint'; use Rodas5P$"),
    "Gillespie of an ordinary equation": (
        GROWTH | {"solver": "SSA"},
        "solver: unknown solver 'SSA'; use Tsit5, which fits this model$",
    ),
    "BlackScholes": (
        PRICE | {"model": {"type": "BlackScholes", "mu": 0.05, "sigma": 0.2}},
        "model.type: unknown model 'BlackScholes'; use GBM$",
    ),
}


@pytest.mark.parametrize(("experiment", "message"), MEANT.values(), ids=MEANT)
def test_what_was_meant_is_the_only_message(experiment, message):
    with pytest.raises(InputError, match=f"^{message}") as caught:
        load(experiment)
    assert len(caught.value.problems) == 1


def test_a_derivative_in_the_place_of_a_variable_is_led_to_its_name():
    with pytest.raises(InputError, match=r"'dx/dt' is not a name: .*; write x, whose value is dx/dt"):
        load(GROWTH | {"model": {"ode": {"dx/dt": 1}}})


def test_a_key_like_none_of_molecular_dynamics_has_all_its_keys_named():
    """Of which there are fifteen."""
    with pytest.raises(InputError, match=r"^zzz: unknown key; known: constants, .*, variants$"):
        load_each(fluid() | {"zzz": 1})
