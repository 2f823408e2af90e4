"""Studies of uncertain experiments that are refused, or whose runs fail, say where and why."""

import pytest
from study_examples import GROWTH, NOISY

from simkit import InputError, NumericalError, uncertainty

pytestmark = pytest.mark.more


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"constants.theta": "{normal: [0, -1]}"}, r"constants.theta: normal: sd must be >= 0, got -1"),
        (
            {"constants.theta": "{norml: [0, 1]}"},
            r"constants.theta: unknown distribution 'norml'; did you mean",
        ),
        ({"uncertainty.of": "[w]"}, r"uncertainty.of: no observable or state variable 'w'"),
        ({"uncertainty.groups": "{g: []}"}, r"uncertainty.groups: g must be a list of parameters such as"),
        ({"uncertainty.groups": "{g: [mu]}"}, r"uncertainty.groups.g: no uncertain parameter 'mu'"),
        ({"uncertainty.groups": "{g: [k], h: [k]}"}, r"groups.h: k is in g too"),
        ({"uncertainty.groups": "{k: [theta]}"}, r"groups.k: k is a parameter"),
        ({"uncertainty.points": 100}, r"uncertainty.points: must be a power of two.* 64 or 128"),
        ({"uncertainty.points": "many"}, r"uncertainty.points: must be a whole number"),
        ({"uncertainty.paths": 1}, r"uncertainty.paths: must be at least 2 where paths differ"),
        ({"uncertainty.method": "sobl"}, r"must be sobol or morris .* did you mean 'sobol'"),
        ({"uncertainty.method": "rank", "uncertainty.order": 2}, r"order: is for method sobol, not for rank"),
        ({"uncertainty.levels": 6}, r"levels: is for method morris, not for sobol; remove it"),
        ({"uncertainty.budget": 6000}, r"budget: says when to stop .* add width, or remove it"),
        (
            {"uncertainty.method": "morris", "uncertainty.levels": 5},
            r"levels: must be an even number .* got 5",
        ),
        ({"uncertainty.width": 0}, r"uncertainty.width: must be > 0"),
        ({"uncertainty.replicates": 1}, r"uncertainty.replicates: must be at least 2"),
        ({"uncertainty.wdith": 1}, r"uncertainty.wdith: unknown key; did you mean 'width'"),
        ({"uncertainty.method": "derivatives", "observe.up": "x > 0"}, r"observe.up: a condition jumps"),
        (
            {"uncertainty.method": "derivatives", "constants.k": "{discrete: [1, 2]}"},
            r"constants.k: is discrete, and has no derivative",
        ),
        ({"time.t1": "{normal: [1, 0.1]}"}, r"time.t1: a distribution is allowed only under constants"),
        ({"variants": "{a: {constants.k: 1}}"}, r"variants: a study takes one experiment"),
        ({f"constants.{n}": 1 for n in ("theta", "k", "spare")}, r"nothing is uncertain: give a constant"),
    ],
)
def test_wrong_studies_are_refused(changes, message):
    with pytest.raises(InputError, match=message):
        uncertainty(NOISY, overrides=changes)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            {
                "model": {
                    **{"type": "Heston", "mu": 0.05, "kappa": 1, "theta": 0.04, "rho": -0.5},
                    "xi": {"uniform": [0.3, 0.5]},
                },
                "initial": {"S": 100, "v": 0.04},
                "solver": "AndersenQE",
            },
            r"no derivative in xi: AndersenQE switches from one distribution to another; choose sobol",
        ),
        (
            {
                "model": {
                    "type": "Merton",
                    "mu": 0,
                    "sigma": 0.1,
                    "lam": {"uniform": [1, 2]},
                    "m": 0,
                    "delta": 1,
                }
            }
            | {"initial": {"S": 1}},
            r"no derivative in lam: the rate decides how many jumps a path has",
        ),
        (
            {
                "constants": {"c": {"uniform": [0, 1]}},
                "model": {"ode": {"x": "where(x > c, -1, 1)"}},
                "initial": {"x": 0},
            },
            r"no derivative in c: the equations jump with c",
        ),
    ],
    ids=["solver", "jumps", "equations"],
)
def test_derivatives_of_paths_that_jump_are_refused(source, message):
    settings = {"time": {"t1": 1, "steps": 4}, "uncertainty": {"method": "derivatives"}}
    with pytest.raises(InputError, match=message):
        uncertainty(source | settings)


def test_paths_that_are_all_one_are_refused():
    source = {
        "constants": {"c": {"uniform": [0, 1]}},
        "model": {"ode": {"x": "-c*x"}},
        "initial": {"x": 1},
        "time": {"t1": 1, "steps": 4},
        "uncertainty": {"paths": 16},
    }
    with pytest.raises(
        InputError, match=r"uncertainty.paths: 16 paths of the same parameters would all be one"
    ):
        uncertainty(source)


def test_laws_that_leave_the_range_of_a_parameter_are_refused():
    model = {"type": "OrnsteinUhlenbeck", "theta": {"normal": [1, 1]}, "mu": 0, "sigma": 1}
    source = {"model": model, "initial": {"X": 0}, "time": {"t1": 1, "steps": 4}}
    with pytest.raises(InputError, match=r"model.theta: must be >= 0, and the distributions give it -"):
        uncertainty(source)
    model["theta"], model["mu"] = 1, {"normal": [0, 1]}
    with pytest.raises(InputError, match=r"mu is a constant too"):
        uncertainty({**source, "constants": {"mu": 1}})


def test_runs_that_are_not_finite_are_named():
    with pytest.raises(NumericalError, match=r"x is nan in 8,192 of 8,192 runs, first at mu = "):
        uncertainty(GROWTH, overrides={"model.parameters.mu": "{uniform: [0, 1e60]}"})


def test_the_first_run_that_is_not_finite_is_named_by_its_parameters():
    """All four paths of a point, where a is negative."""
    experiment = {
        "model": {"sde": {"x": {"drift": "sqrt(a)", "noise": {"W": 0.1}}}, "parameters": {"a": 1.0}},
        "initial": {"x": 0.0},
        "time": {"t1": 1.0, "steps": 2},
        "uncertainty": {"method": "rank", "points": 64, "paths": 4, "seed": 1},
    }
    law = {"model.parameters.a": "{uniform: [-0.02, 1]}"}
    with pytest.raises(NumericalError, match=r"x is nan in \d+ of 2,048 runs, first at a = -0\.\d+; choose"):
        uncertainty(experiment, overrides=law)


def test_derivatives_that_are_not_finite_are_named_where_values_are_finite():
    """The root of what is always 0 has an infinite slope."""
    changes = {"uncertainty.method": "derivatives", "observe.y": "(x - x)**0.5"}
    with pytest.raises(NumericalError, match=r"the derivative of y is (nan|inf) in "):
        uncertainty(NOISY, overrides=changes)


def test_early_exercise_is_refused():
    put = "{value: maximum(1 - x, 0), early_exercise: {dates: 2, paths: 64}}"
    with pytest.raises(InputError, match="early exercise finds a policy for one set of parameters"):
        uncertainty(NOISY, overrides={"observe.put": put})
