"""What to do where steps leave a figure in doubt."""

import re

import numpy as np
import pytest
import xarray as xr
from simkit_solvers import SOLVERS

import simkit
from simkit import load, plot_dataset
from simkit.ensemble.step_bias.resolution import resolution
from simkit.ensemble.step_bias.step_error import StepError
from simkit.results.dataset_errors import resolution_of
from simkit.results.step_notes import more_steps, step_notes
from simkit.results.swept import unfolded

STABLE = {name for name, info in SOLVERS.items() if "ode" in info.problem and info.stiff}


@pytest.mark.parametrize("solver", [name for name, info in SOLVERS.items() if "ode" in info.problem])
def test_whoever_takes_a_stiff_solver_is_not_advised_another(solver):
    dataset = xr.Dataset(attrs={"kind": "ode", "solver": solver, "dt": 0.1})
    advice = more_steps(dataset, {"x": 200})
    assert advice.startswith("use 200 steps or more")
    assert advice.endswith("or Rodas5P if the problem is stiff") == (solver not in STABLE)


@pytest.mark.parametrize(
    ("model", "times"),
    [({"ode": {"x": "-x"}}, 16), ({"sde": {"x": {"drift": "-x", "noise": {"W": 0.5}}}}, 64)],
)
def test_a_sixteenth_of_the_error_takes_tolerances_by_what_they_make_of_it(model, times):
    """Errors of ordinary equations go with the tolerances, of stochastic ones with their power 2/3."""
    time = {"t1": 1.0, "rtol": 1e-3, "atol": 1e-3}
    simulation = load({"model": model, "initial": {"x": 1.0}, "time": time})
    error = StepError(4.0, 0.0, 0.0, "estimate", 1.0)
    assert resolution_of(error, simulation, 10.0, 0.0, 0.25, False).steps == times


def test_stiff_solvers_are_those_that_solve_equations():
    implicit = {
        "ImplicitEuler",
        "Kvaerno3",
        "Kvaerno4",
        "Kvaerno5",
        "KenCarp3",
        "KenCarp4",
        "KenCarp5",
        "Sil3",
    }
    assert implicit | {"Rodas5P", "Rosenbrock23"} == STABLE


def notes(variables=None, **attributes):
    """The lines below the table of a run of 200 steps whose quantity x has these figures."""
    run = {"kind": "sde", "solver": "EulerMaruyama", "model": "GBM", "steps": 200, "dt": 0.1, "paths": 1000}
    run |= {"observables": "x", "state_variables": ""}
    return step_notes(xr.Dataset(variables or {}, attrs=run | attributes))


@pytest.mark.parametrize("value", ["0", "the time of the end"])
@pytest.mark.parametrize(
    ("part", "error", "line"),
    [
        (
            1.0,
            1 / 5000,
            "no path met the condition before the end (below 0.06 % of all do, by the rule of three)",
        ),
        (1.0, 1 / 2, "no path met the condition before the end"),
        (1.0, 0.0, "no path met the condition before the end"),
        (0.9998, 1 / 5000, "99.9800 ± 0.0200 % of the paths had not met the condition before the end"),
    ],
)
def test_a_condition_that_no_path_met_has_a_limit_by_the_rule_of_three(part, error, line, value):
    """Of n paths, whose error is 1/n, unless all must have one value."""
    fraction = ((), part, {"counts_as": value})
    (note,) = notes({"x_censored": fraction, "x_censored_stderr": error})
    assert note == f"x: {line}{', and count with' if part < 1 else '; the mean is'} {value}"


@pytest.mark.parametrize(
    ("model", "solver", "advice"),
    [
        ("GBM", "EulerMaruyama", "use 600 steps or more, or DriftImplicitEuler if the problem is stiff"),
        ("DoubleWellLangevin", "EulerMaruyama", "use 600 steps or more, or BAOAB"),
        ("DoubleWellLangevin", "BAOAB", "use 600 steps or more"),
        ("DoubleWell", "LeimkuhlerMatthews", "use 600 steps or more"),
    ],
)
def test_particles_with_friction_are_advised_a_solver_of_their_kind(model, solver, advice):
    assert notes(noticeable_bias="x 600", model=model, solver=solver) == [
        f"! x: the step bias matters; {advice}"
    ]


@pytest.mark.parametrize(
    ("solver", "other"), [("EulerMaruyama", ", such as DriftImplicitEuler"), ("BAOAB", "")]
)
def test_a_hundred_times_as_many_steps_are_no_remedy(solver, other):
    (few,) = notes(noticeable_bias="x 19800", solver=solver)
    assert "use 19,800 steps or more" in few
    (many,) = notes(noticeable_bias="x 20000", solver=solver)
    assert f"these steps would have to be 20,000; use another solver{other}" in many


@pytest.mark.parametrize(("kind", "paths", "spread"), [("ode", 50, 0.0), ("ode", 50, 0.1), ("ode", 1, 0.0)])
def test_paths_without_anything_random_are_said_to_be_the_same(kind, paths, spread):
    variance = {"x_variance": ("time", [0.0, spread])}
    lines = notes(variance, kind=kind, paths=paths)
    line = "all 50 paths are the same, as nothing is random; one is enough"
    assert lines == ([line] if paths > 1 and not spread else [])


def test_the_step_bias_of_a_first_time_is_subtracted_only_where_it_is_known():
    about = {"first_times_of_steps": "x", "solver": "EulerMaruyama"}
    known, bound = {"x_bias": 0.1, "x_bias_stderr": 0.01}, {"x_bias_bound": 0.1}
    (line,) = notes(known, noticeable_bias="x 600", **about)
    assert "it falls with the root of the step: use 600 steps, or subtract it; if the steps are the" in line
    (line, *_) = notes(bound, noticeable_bias="x 600", **about)
    assert "it falls with the root of the step: use 600 steps; if the steps are the" in line
    (line,) = notes(known, noticeable_bias="x 600, y 700", **about)
    assert "use 700 steps or more, or DriftImplicitEuler if the problem is stiff" in line


def test_a_step_bias_that_is_not_known_is_not_said_to_matter():
    """Nothing is known of it but that it may be 0.028."""
    figures = {"x_mean": ("time", [0.0, 0.4486]), "x_bias": 0.0003, "x_bias_stderr": 0.0276}
    (line,) = notes(figures, noticeable_bias="x 600", solver="BAOAB")
    expected = "! x: the step bias is known only to ± 0.028, 6.2 % of the value; use 600 steps or more"
    assert line == expected
    (line,) = notes(figures | {"x_bias": 0.05}, noticeable_bias="x 600", solver="BAOAB")
    assert line == "! x: the step bias matters; use 600 steps or more"
    figures |= {"x_bias": 4.0, "x_bias_stderr": 2.5}
    (line,) = notes(figures, unresolved="x 800", solver="BAOAB")
    assert line.startswith(
        "! x: no result, the step bias is known only to ± 2.5, more than the value; use 800"
    )


@pytest.mark.parametrize(
    ("paths", "remedy"),
    [
        (16_000, "use 16,000 paths or more"),
        (100_000, "paths would have to be 100,000, as so few of them make this value"),
        (3 * 10**15, "paths would have to be 3.0e+15, as so few of them make this value"),
    ],
)
def test_a_step_bias_lost_in_noise_takes_paths(paths, remedy):
    figures = {"x_mean": ("time", [0.0, 0.4486]), "x_bias": 0.0, "x_bias_stderr": 0.3}
    for key in ("noticeable_bias", "unresolved"):
        (line,) = notes(figures, **{key: "x 600", "wanted_paths": f"x {paths}"})
        assert f"; {remedy}" in line
        assert "steps" not in line.partition(";")[2]


@pytest.mark.parametrize(("alpha", "short"), [(150.0, True), (1000.0, False)])
def test_leaps_that_hold_fewer_events_than_they_cost_are_told_an_exact_method(alpha, short):
    """As many events as exact paths have, within 3 %, in leaps of which each costs 30 of them."""
    model = {"type": "ImmigrationDeath", "alpha": alpha, "mu": 1.0}
    experiment = {"model": model, "initial": {"X": int(alpha)}, "solver": "TauLeaping", "time": {"t1": 5.0}}
    result = simkit.run(experiment | {"ensemble": {"paths": 200, "seed": 1}})
    events = result.attrs["events_in_leaps_mean"]
    assert events == pytest.approx(10 * alpha, rel=0.03)
    lines = [line for line in step_notes(result) if "DirectMethod, which is exact" in line]
    assert len(lines) == short
    assert all(f"holds {events / result.attrs['leaps_mean']:.2g} events" in line for line in lines)


def test_an_error_beyond_the_largest_number_has_its_reason():
    figures = {"x_mean": ("time", [1e305, 1.1e305]), "x_stderr": ("time", [0.0, float("inf")])}
    (line,) = notes(figures)
    assert line.startswith("x: the squares of values are too large for a float64, so the error is unknown")
    assert notes(figures | {"x_stderr": ("time", [0.0, 1e300])}) == []


def test_one_random_path_shows_no_order_whatever_its_steps():
    bound = {"x_mean": ("time", [0.5]), "x_bias_bound": 0.1}
    assert notes(bound, paths=1) == [
        "no estimate of the step bias (x): one path shows no order; take more paths"
    ]
    assert "the steps are too long for an estimate" in notes(bound, paths=2)[0]
    assert "the steps are too long for an estimate" in notes(bound, paths=1, kind="ode")[0]


@pytest.mark.parametrize(("steps", "times"), [(200, 3), (50, 3), (7, 3)])
def test_as_many_steps_are_recommended_as_the_dates_of_the_run_divide(steps, times):
    """To make 1 % of 2.4 % takes 2.4 times as many at first order, and thrice as many will do."""
    judged = resolution(StepError(0.24, 0.001, 0.001, "estimate", 1.0), 10.0, 1.0, 0.001, steps)
    assert (judged.kind, judged.steps) == ("noticeable", times * steps)


def test_a_species_that_is_gone_on_all_paths_has_no_error_that_is_known():
    """5.6e-5 of 100 molecules are left in the mean. E, which no reaction changes, is exactly 0."""
    experiment = {
        "model": {"reactions": {"decay": {"equation": "A + E -> E + B", "rate": 1.2}}},
        "initial": {"A": 100, "E": 1, "B": 0},
        "time": {"t1": 12.0},
        "ensemble": {"paths": 300, "seed": 1},
        "observe": {"left": "A", "most": "maximum(A, 9)"},
    }
    dataset = simkit.run(experiment)
    assert not dataset["A_max"][-1]
    (note,) = step_notes(dataset)
    assert note.startswith("left, most, A: the same on all 300 paths, so no bound on the contribution of")
    (note,) = step_notes(simkit.run(experiment, overrides={"initial.E": 0}))
    assert note.startswith("most, B: the same on all")


def test_what_no_path_does_is_as_uncertain_in_variants_as_by_itself():
    """A payoff without a bound has no limit by the rule of three, and a difference of two zeros no error."""
    experiment = {
        "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "solver": "ExactSampling",
        "time": {"t1": 1.0, "steps": 1},
        "ensemble": {"paths": 300, "seed": 1},
        "observe": {"call": "maximum(S - 400, 0)", "crossed": "S > 400"},
    }
    (alone,) = step_notes(simkit.run(experiment))
    assert alone.startswith(
        "call: the same on all 300 paths, so no bound on the contribution of rarer paths is known"
    )
    variants = {"variants": {"calm": {"model.sigma": 0.1}, "wild": {"model.sigma": 0.2}}}
    both = simkit.run(experiment | variants)
    each, same = step_notes(both)
    assert each.partition(":")[0] == "call of variant calm and of variant wild"
    assert same.startswith("call, crossed: wild and calm do not differ on any of 300 paths; rarer paths")
    for name in ("call", "crossed"):
        assert np.isnan(both[f"{name}_difference_stderr"].sel(variant="wild"))
    assert float(both["S_difference_stderr"].sel(variant="wild")) > 0


SWITCHING = {
    "model": {"sde": {"x": {"drift": "m", "noise": {"W": 0.5}}}, "parameters": {"m": 0.0}},
    "initial": {"x": 0.0},
    "time": {"t1": 1.0, "steps": 20},
    "ensemble": {"paths": 200, "seed": 1},
    "observe": {"when": "hitting_time(x > 1)", "never": "hitting_time(x > 100)"},
}


def notes_of_sweep(experiment, values):
    """The lines below the table of a sweep over m, and its dataset."""
    dataset = simkit.sweep(experiment, {"model.parameters.m": values})
    return step_notes(unfolded(dataset)), dataset


def test_more_than_three_points_have_one_line_of_a_first_time_with_the_range():
    """All met it at the last point, of which the dataset has no fraction."""
    notes, dataset = notes_of_sweep(SWITCHING, [0.0, 0.25, 0.5, 1.0, 5.0])
    parts = 100 * dataset["when_censored"].fillna(0.0)
    low, high = float(parts.min()), float(parts.max())
    assert low == 0 < 90 < high < 100
    about = [note for note in notes if note.startswith("when")]
    (line,) = (note for note in about if "had not met" in note)
    part = re.match(
        r"when: (\S+) to (\S+) % of the paths had not met the condition at the end of any step, and count "
        "with the time of the end; between steps more may have$",
        line,
    )
    assert part is not None
    assert [float(x) for x in part.groups()] == pytest.approx([low, high], abs=0.05)
    few, _ = notes_of_sweep(SWITCHING, [0.0, 0.5, 1.0])
    assert [note.partition(":")[0] for note in few if "had not met" in note] == [
        f"when at model.parameters.m={m}" for m in ("0", "0.5", "1")
    ]


def test_what_more_than_three_points_have_alike_is_said_once():
    """That no path met a condition, and that points do not differ in it from the first."""
    notes, _ = notes_of_sweep(SWITCHING, [0.0, 0.5, 1.0, 1.5, 2.0])
    lines = [note for note in notes if note.startswith("never")]
    assert [line.partition(" paths")[0].partition(" path met")[0] for line in lines] == [
        "never of all 5 points: no",
        "never: 4 of 5 points and model.parameters.m=0 do not differ on any of 200",
    ]
    few, _ = notes_of_sweep(SWITCHING, [0.0, 0.5, 1.0])
    points = [f"model.parameters.m={m}" for m in ("0", "0.5", "1")]
    (line,) = (note for note in few if note.startswith("never at"))
    assert line.startswith(f"never {' and '.join(f'at {point}' for point in points)}: no path met")
    (line,) = (note for note in few if "do not differ" in note)
    assert line.startswith(f"never: {points[1]} and {points[2]} and {points[0]} do not differ")
    variants = {f"v{i}": {"model.parameters.m": 0.1 * i} for i in range(4)}
    assert "never of all 4 variants: no path met" in " ".join(
        step_notes(simkit.run(SWITCHING | {"variants": variants}))
    )


def test_a_mean_that_one_path_makes_is_told_so():
    """The fourth power of a Cauchy variable has no mean: one of 1000 paths makes most of its variance."""
    experiment = {
        "model": {"sde": {"x": {"drift": 0, "noise": {"W": 1}}, "y": {"drift": 0, "noise": {"V": 1}}}},
        "initial": {"x": 0.0, "y": 0.0},
        "time": {"t1": 1.0, "steps": 1},
        "ensemble": {"paths": 1000, "seed": 1},
        "observe": {"heavy": "(x/y)**4", "light": "x*x", "rare": "x > 3"},
    }
    (note,) = (note for note in step_notes(simkit.run(experiment)) if "one path makes" in note)
    assert re.match(r"heavy: one path makes up to \d+ % of the variance, so mean and error say little", note)
    assert note.endswith("use more paths, or more steps where paths explode")
    few = step_notes(simkit.run(experiment, overrides={"ensemble.paths": 50}))
    assert not any("one path makes" in note for note in few)
    spread = {f"x_{key}": 10.0 for key in ("max", "variance")} | {"x_min": 0.0, "x_mean": 0.001}
    (of_events,) = notes(spread | {"x_max": 100.0}, kind="jump", paths=1000)
    assert of_events.endswith("use more paths")


def test_pictures_name_what_is_no_result():
    """At k = 30 Euler's steps of 1/16 are almost unstable, and at k = 1 they are short enough."""
    experiment = {
        "model": {"sde": {"x": {"drift": "-k*x", "noise": {"W": 0.1}}}, "parameters": {"k": 30.0}},
        "initial": {"x": 1.0},
        "solver": "EulerMaruyama",
        "time": {"t1": 1.0, "steps": 16},
        "ensemble": {"paths": 4000, "seed": 1, "unresolved": "keep"},
        "observe": {"square": "x*x"},
    }
    line = "\nno result, as the steps are too long: "
    assert plot_dataset(simkit.run(experiment)).get_suptitle().endswith(f"{line}x, square")
    swept = simkit.sweep(experiment, {"model.parameters.k": [1, 30, 31]})
    assert f"{line}x (2 of 3), square (2 of 3)\n" in plot_dataset(swept).get_suptitle()
    assert plot_dataset(swept).get_suptitle().endswith("(! in the table): x (1 of 3), square (1 of 3)")
    fine = simkit.run(experiment, overrides={"model.parameters.k": 1})
    assert "no result" not in plot_dataset(fine).get_suptitle()
    assert fine.attrs["noticeable_bias"].split(",")[0].startswith("x ")
    assert "\nthe step bias matters (! in the table): x" in plot_dataset(fine).get_suptitle()
