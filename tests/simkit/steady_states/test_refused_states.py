"""What has no steady state is refused, or fails, with a remedy."""

import pytest
from simkit_physics import Merton
from steady_examples import DOUBLE_WELL, ISOMERS, LORENZ, TIME, ode

import simkit
from simkit import InputError, NumericalError

CURVES = {"curves": {"k": {"times": [0, 2], "values": [1.0, 5.0]}}}
DOSES = {"events": {"dose": {"at": 0.5, "set": {"x": "x + 1"}}}}
WHEN = {
    "events": {"dose": {"when": "x < 0.5", "set": {"x": "x + 1"}}},
    "time": {"t1": 1.0, "rtol": 1e-6, "atol": 1e-9},
}
CHANGES = "events: they change the state, so that it may never rest"
PARTICLES = {"system": {"particles": 4, "density": 0.5}, "potential": "LennardJones"}
NO_DRIFT = {"sde": {"x": {"drift": 0.0, "noise": {"W": 1.0}}}}
RANGE = "--from x (in Python ranges): must be two numbers, the lesser first, as in x=0:2"

REFUSED = {
    "time": (ode({"x": "cos(t) - x"}, {"x": 0.0}), {}, "model: its equations depend on the time t"),
    "curve": (ode({"x": "k - x"}, {"x": 0.0}) | CURVES, {}, "curves: k of the model changes with time"),
    "event": (ode({"x": "-x"}, {"x": 1.0}) | DOSES, {}, CHANGES),
    "event by its condition": (ode({"x": "-x"}, {"x": 1.0}) | WHEN, {}, CHANGES),
    "particles": (PARTICLES, {}, "system: this does not work for molecular dynamics"),
    "no drift": ({"model": NO_DRIFT, "initial": {"x": 0.0}, "time": TIME}, {}, "model: its rates of change"),
    "wrt": (LORENZ, {"wrt": ["rhu"]}, "wrt: unknown name 'rhu'; did you mean 'rho'"),
    "end of the run": (
        LORENZ,
        {"wrt": ["rho", "t1"]},
        "wrt: a steady state does not depend on t1; name parameters or initial values of the model, or use "
        "`simkit sensitivity`",
    ),
    "start of the run": (LORENZ, {"wrt": "time.t0"}, "wrt: a steady state does not depend on time.t0; name"),
    "search": (LORENZ, {"search": -1}, "search: must be a number of starts from 0 to 1,000,000, got -1"),
    "range": (
        LORENZ,
        {"search": 3, "ranges": {"q": (0, 1)}},
        "--from q (in Python ranges): there is no variable 'q'",
    ),
    "order": (
        LORENZ,
        {"search": 3, "ranges": {"x": (1, 0)}},
        "--from x (in Python ranges): must be two numbers",
    ),
    "one end": (LORENZ, {"search": 3, "ranges": {"x": 3}}, f"{RANGE}, got 3"),
    "text as an end": (LORENZ, {"search": 3, "ranges": {"x": (1, "b")}}, f"{RANGE}, got 1:b"),
    "no search": (LORENZ, {"ranges": {"x": (0, 1)}}, "--from x (in Python ranges): is for a search"),
    "at": (LORENZ, {"at": float("nan")}, "at: must be a time, got nan"),
    "beyond": (
        ode({"x": "k - x"}, {"x": 0.0}) | CURVES,
        {"at": 1.5},
        "time: curves are known for t = 0 to 1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_the_place_and_the_remedy(case):
    source, settings, message = REFUSED[case]
    with pytest.raises(InputError) as error:
        simkit.steady(source, **settings)
    assert str(error.value).startswith(message)
    if case in ("time", "curve") or case.startswith("event"):
        assert "give --at TIME (in Python at=TIME)" in str(error.value)


def test_times_that_the_file_names_for_other_studies_are_left_out_with_a_note():
    result = simkit.steady(LORENZ | {"sensitivity": {"wrt": ["rho", "t1"]}}, [])
    assert result["parameter"].values.tolist() == ["rho"]
    note = "no derivatives in t1: a steady state does not depend on it"
    assert note in result.attrs["notes"].splitlines()
    assert "t1" not in simkit.steady(LORENZ | {"sensitivity": {"wrt": ["rho", "t1"]}}, "rho").attrs["notes"]


@pytest.mark.parametrize(
    ("drift", "best"), [("1 + x**2", "dx/dt = 1"), ("1.0 + 0*x", "x = 0.5, with dx/dt = 1")]
)
def test_where_there_is_none_the_best_point_is_named(drift, best):
    with pytest.raises(NumericalError) as error:
        simkit.steady(ode({"x": drift}, {"x": 0.5}))
    assert str(error.value).startswith("no steady state was found; the best point is x = ")
    assert best in str(error.value)
    assert "Begin elsewhere (--set initial.x=NUMBER), search (--search 100)" in str(error.value)


def test_a_start_without_rates_is_named():
    with pytest.raises(
        NumericalError, match="of x is not finite at the initial values, by a division by zero; "
    ):
        simkit.steady(ode({"x": "1/x"}, {"x": 0.0}))


def test_negative_concentrations_are_named():
    states = simkit.steady(
        {
            "model": {"reactions": {"r": {"equation": "X -> 0", "propensity": "(X - 1)*(X + 2)"}}},
            "initial": {"X": 3},
            "time": {"t1": 1.0},
        },
        search=20,
        ranges={"X": (-5, 5)},
    )
    assert states["in_range"].values[:, 0].tolist() == [True, False]
    assert "! X = -2" in states.attrs["notes"]
    assert "in state 2 is below 0, the least that it may be" in states.attrs["notes"]


ADAPTIVE = {"time": {"t1": 1.0, "rtol": 1e-4, "atol": 1e-6}}
RELAXING = ode({"x": "a - x"}, {"x": 1.0}, a=3.0)
MONITORED = {
    "adaptive": (RELAXING | ADAPTIVE, ["integral(x)", "max(x)", "at(x, 0.3)"]),
    "fixed": (RELAXING, ["at(x, 0.33)"]),
    "stochastic": (DOUBLE_WELL | ADAPTIVE | {"solver": "Milstein"}, ["first(x, x > 1)", "at(x, 0.3)"]),
    "network": (ISOMERS, ["mean(A)"]),
}


@pytest.mark.parametrize("case", MONITORED)
def test_what_is_monitored_along_paths_is_named_whatever_their_steps(case):
    """No path is run, so that it does not matter which steps would have seen it."""
    source, functionals = MONITORED[case]
    observe = {f"path{i}": text for i, text in enumerate(functionals)}
    first = "A" if case == "network" else "x"
    dataset = simkit.steady(source | {"observe": observe | {"double": f"2*{first}"}})
    notes = dataset.attrs["notes"].splitlines()
    assert f"not shown: {', '.join(observe)}, which the state alone does not determine" in notes
    values = dataset["value"].sel(root=1)
    assert float(values.sel(quantity="double")) == 2 * float(values.sel(quantity=first))
    assert not {*observe} & {*values["quantity"].values.tolist()}
    with pytest.raises(InputError, match=r"observe\.path0"):
        simkit.load(source | {"observe": observe})
    with pytest.raises(InputError, match=r"observe\.top: unknown name 'other'"):
        simkit.steady(source | {"observe": {"top": "max(other)"}})


@pytest.mark.more
def test_notes_say_what_is_shown_and_what_is_not():
    random = DOUBLE_WELL | {"initial": {"x": {"normal": [0.4, 0.1]}}, "observe": {"top": "max(x)"}}
    dataset = simkit.steady(random)
    assert dataset.attrs["what"] == "fixed point of the drift"
    notes = dataset.attrs["notes"].splitlines()
    assert notes == [
        "initial values differ between paths; the start is their medians or first row: x = 0.4",
        "not shown: top, which the state alone does not determine",
    ]
    merton = {"type": "Merton", **Merton.example}
    dataset = simkit.steady({"model": merton, "initial": Merton.example_initial, "time": TIME})
    assert "the jumps of the model are left out" in dataset.attrs["notes"]
    assert dataset.attrs["what"] == "fixed point of the drift (Itô)"
    assert simkit.steady(ISOMERS).attrs["what"] == "steady state of the rate equation"
