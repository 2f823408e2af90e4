"""The table shows figures with their errors, to people on any terminal and to programs."""

import io
import json
import math
import re

import pytest
from dataset_examples import gbm_dataset, one_curve_dataset
from rich.console import Console

import simkit
from simkit.results.printing import laid_out
from simkit.results.table import print_table, summary, with_error


def printed(dataset, encoding="utf-8"):
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding=encoding)
    print_table(dataset, file)
    return raw.getvalue().decode(encoding)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (10.45058, 0.01472, "10.4506 ± 0.0147"),
        (105.127, 0.996, "105.127 ± 0.996"),
        (105.127, 99.6, "105.1 ± 99.6"),
        (12345.6, 1234.5, "12346 ± 1234"),
        (-0.0000123, 0.000456, "-0.000012 ± 0.000456"),
        (0.0, 1.5, "0.00 ± 1.50"),
        (1.5e-9, 2.25e-11, "(1.5000 ± 0.0225)e-09"),
        (1e-9, 2e-3, "0.00000 ± 0.00200"),
        (2.5e-12, 2.25e-9, "(0.00 ± 2.25)e-09"),
        (-6.02e23, 1.25e21, "(-6.0200 ± 0.0125)e+23"),
        (-0.650638924, 8.5e-6, "-0.65063892 ± 0.00000850"),
        (1e-30, 2e-300, "1e-30 ± 2e-300"),
        (1.25, None, "1.25"),
        (4.4e293, math.inf, "4.4e+293 ± inf"),
        (9.96646, math.nan, "9.97 ± ?"),
        (0.1, 0.0, "0.1"),
        (1 / 3, 0.0, "0.3333333333"),
        (None, None, ""),
    ],
)
def test_digits_follow_the_error(value, error, text):
    assert with_error(value, error) == text


def test_every_figure_is_in_its_row():
    dataset = gbm_dataset()
    lines = printed(dataset).splitlines()
    call = next(line for line in lines if "call" in line)
    assert with_error(float(dataset["call_mean"]), float(dataset["call_stderr"])) in call
    assert "0.002100 ± 0.000800" in call
    assert "10.450584" in call
    assert f"{float(dataset['call_z']):+.2f}" in call
    assert "currency" in call
    stock = next(line for line in lines if "│ S " in line)
    assert with_error(float(dataset["S_mean"][-1]), float(dataset["S_stderr"][-1])) in stock
    assert "105.12711" in stock
    assert lines[0] == "GBM, EulerMaruyama, at t = 1; ± is one standard error"
    assert (
        lines[-1] == "2,000 paths × 12 steps in 0.50 s, 48 million path-steps per second (compiled in 1.2 s)"
    )


@pytest.mark.parametrize(
    ("solvers", "work"),
    [
        (["DirectMethod"], "events"),
        (["TauLeaping"], "leaps"),
        (["DirectMethod", "DirectMethod"], "events"),
        (["DirectMethod", "TauLeaping"], "events and leaps"),
    ],
)
def test_the_speed_of_networks_is_in_what_their_paths_are_made_of(solvers, work):
    """Of variants as well, where steps differ."""
    experiment = {
        "model": {"type": "ImmigrationDeath", "alpha": 30.0, "mu": 1.0},
        "initial": {"X": 30},
        "solver": solvers[0],
        "time": {"t1": 1.0},
        "ensemble": {"paths": 20, "seed": 1},
    }
    if len(solvers) > 1:
        alphas = zip(solvers, (30.0, 40.0), strict=True)
        several = {f"v{i}": {"solver": x, "model.alpha": a} for i, (x, a) in enumerate(alphas)}
        experiment["variants"] = several
    line = printed(simkit.run(experiment)).splitlines()[-1]
    assert re.search(rf" s, [\d,.]+( million)? {work} per second \(compiled in", line)


def test_a_step_bias_with_a_bound_alone_is_reported_in_the_units_of_the_run():
    """Long steps, or tolerances: of the one kind of run nobody chose the other."""
    dataset = gbm_dataset()
    dataset["S_bias_bound"] = 0.25
    assert "the steps are too long for an estimate of the step bias (S): it does not decrease" in printed(
        dataset
    )
    del dataset.attrs["dt"]
    text = printed(dataset.assign_attrs(rtol=1e-6, atol=1e-8))
    assert "no estimate of the step bias (S): it does not decrease with the tolerances at any order" in text
    assert text.count("use smaller rtol and atol") == 1
    assert "steps are too long" not in text


def test_failed_paths_stand_next_to_every_mean():
    lines = printed(gbm_dataset(failed=37)).splitlines()
    rows = [line for line in lines if "│" in line and "±" in line]
    assert len(rows) == 3
    assert all("1,963 (37 failed)" in row for row in rows)
    assert lines[-1].startswith("2,000 paths (37 failed and left out) × 12 steps")
    assert "failed" not in printed(gbm_dataset())


@pytest.mark.parametrize(
    ("bias", "error", "text"),
    [
        (-0.0129123456, 8e-8, "-0.01291235 ± 8e-08"),
        (-0.0129100000, 9.6e-8, "-0.0129100 ± 1e-07"),
        (1.25e-6, 3e-12, "1.250000e-06 ± 3e-12"),
        (123456.789, 2.0, "123457 ± 2"),
        (1.5, 1e-300, "1.50000000000000 ± 1e-300"),
    ],
)
def test_a_step_bias_has_as_many_digits_as_its_error_gives_meaning_to(bias, error, text):
    dataset = gbm_dataset()
    dataset["call_bias"][...], dataset["call_bias_stderr"][...] = bias, error
    call = next(line for line in printed(dataset).splitlines() if "call" in line)
    assert f" {text} " in call


@pytest.mark.parametrize(
    ("mean", "error", "bias", "own", "text"),
    [
        (0.009080399968422, 4.01e-13, 1.75e-9, 5.5e-10, "0.00908039997 ± 4e-13"),
        (0.009080399968422, 4.01e-13, 1.0e-13, 5.5e-10, "0.009080399968 ± 4e-13"),
        (10.4505849, 0.00123, -0.5, 0.02, "10.451 ± 0.0012"),
        (10.4505849, 0.00123, -0.013, 0.001, "10.4506 ± 0.0012"),
        (10.4505849, 0.00123, -0.012, 0.001, "10.45058 ± 0.00123"),
    ],
)
def test_a_mean_has_no_digits_below_a_step_bias_that_is_well_above_its_error(mean, error, bias, own, text):
    """Two digits less than the bias has are kept; in the last rows the bias is over and under ten errors."""
    dataset = gbm_dataset()
    for key, value in (("mean", mean), ("stderr", error), ("bias", bias), ("bias_stderr", own)):
        dataset[f"call_{key}"][...] = value
    call = next(line for line in printed(dataset).splitlines() if "call" in line)
    assert f" {text} " in call


def test_an_error_of_zero_is_shown_as_one():
    dataset = gbm_dataset()
    dataset["call_stderr"][...] = 0.0
    call = next(line for line in printed(dataset).splitlines() if "call" in line)
    assert f"{float(dataset['call_mean']):.10g} ± 0 " in call


@pytest.mark.parametrize(
    ("exact", "said"), [(12.0, "-17 %"), (5.0, "+100 %"), (10.0, "equal"), (0.0, "+10 abs"), (-2.0, "+600 %")]
)
def test_a_mean_without_spread_is_off_by_a_fraction_of_the_exact_value(exact, said):
    dataset = gbm_dataset()
    for key, value in (("mean", 10.0), ("stderr", 0.0), ("z", math.nan), ("exact", exact)):
        dataset[f"call_{key}"][...] = value
    text = printed(dataset)
    call = next(line for line in text.splitlines() if "call" in line)
    assert re.search(rf" {re.escape(said)} +│", call)
    assert "┃ z or off by ┃" in text  # the price has a spread


def test_where_there_is_no_terminal_nothing_is_folded_or_cut():
    dataset = gbm_dataset()
    dataset["call_mean"].attrs["units"] = unit = " ".join(["currency of the country"] * 20)
    assert any(line.count(unit) == 1 and "10.450584" in line for line in printed(dataset).splitlines())


def test_long_names_are_folded_on_a_narrow_terminal_and_no_number_is():
    name, number = "model.parameters.rate_of_elimination_from_the_central_compartment", "-0.06589 ± 0.00175"
    columns = {
        "": [f"peak_of_the_concentration_after_the_last_dose = {number}", "  step bias unknown"],
        "with respect to": [name, name],
        "derivative": [number] * 2,
        "elasticity": [number] * 2,
        "estimator": ["finite differences", "pathwise"],
        "because": ["continuous in the path; the extreme is that of a step"] * 2,
    }
    file = io.StringIO()
    console = Console(file=file, width=120)
    assert console.measure(laid_out(columns, [], True)).minimum <= 120
    console.print(laid_out(columns, [], True))
    text = file.getvalue()
    assert max(map(len, text.splitlines())) <= 120
    assert text.count(f"{number} │ {number}") == 2
    assert text.count("0.00175") == 5


def test_a_single_path_has_a_value_and_no_error():
    text = printed(one_curve_dataset().assign_attrs(kind="ode"))
    assert "value" in text
    assert "mean" not in text
    assert "±" not in text
    assert "step bias" not in text
    assert "1 path × 400 steps" in text


@pytest.mark.parametrize("several", [{}, {"variants": {"a": {}, "b": {"initial.x": 2.0}}}])
def test_what_is_behind_the_sign_of_a_single_path_is_no_sampling_error(several):
    """It is the error of the estimated step bias, whether or not there are variants."""
    decay = {"model": {"ode": {"x": "-x"}}, "initial": {"x": 1.0}, "time": {"t1": 1.0, "steps": 8}}
    lines = printed(simkit.run(decay | {"solver": "Euler"} | several)).splitlines()
    assert lines[0] == "Ordinary equations of x, Euler, at t = 1; ± is the estimated error"
    dataset = gbm_dataset()
    assert printed(dataset).splitlines()[0].endswith("; ± is one standard error")
    dataset.attrs["paths"] = 1
    assert printed(dataset).splitlines()[0].endswith("; ± is the estimated error")


def test_a_single_random_path_says_that_its_values_are_no_means():
    dataset = gbm_dataset()
    note = "one random path, not means"
    assert note not in printed(dataset)
    dataset.attrs["paths"] = 1
    assert note in printed(dataset)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_where_the_encoding_is_poor_the_table_is_ascii(encoding):
    text = printed(gbm_dataset(), encoding)
    assert text.isascii()
    assert "?" not in text
    assert "+-" in text
    assert len({len(line) for line in text.splitlines()[1:-1]}) == 1
    dataset = gbm_dataset()
    dataset["call_mean"].attrs["units"] = "日本"
    assert printed(dataset, encoding).count("?") == 2


def test_no_colour_codes_without_a_terminal():
    assert "\x1b" not in printed(gbm_dataset())


def test_markup_in_a_unit_is_only_text():
    dataset = gbm_dataset()
    dataset["call_mean"].attrs["units"] = "[bold]m[/nothing]"
    assert "[bold]m[/nothing]" in printed(dataset)


def test_the_summary_is_json():
    content = json.loads(json.dumps(summary(gbm_dataset(failed=37)), allow_nan=False))
    assert content["paths"] == 2000
    assert content["failed_paths"] == 37
    call = content["observables"]["call"]
    assert call["bias"] == 0.0021
    assert call["n"] == 1963
    keys = {"mean", "stderr", "bias", "bias_stderr", "bias_order", "exact", "z", "n", "unit"}
    assert set(call) == keys | {"resolved", "noticeable_bias"}
    assert call["resolved"]
    assert not call["noticeable_bias"]
    assert content["observables"]["level"]["exact"] is None
    alone = json.loads(json.dumps(summary(one_curve_dataset()), allow_nan=False))
    assert alone["state"]["X"]["stderr"] is None
    assert re.fullmatch(r"1\.0\d+", str(alone["state"]["X"]["mean"]))


@pytest.mark.parametrize(
    ("value", "bias", "bound", "text"),
    [
        (-0.4115025918328312, None, 0.71, "-0.412 ± 0"),
        (2.60989053490181e-11, None, 0.5, "0 ± 0"),
        (1.2529125982810094, 3e-6, None, "1.2529126 ± 0"),
        (1.2529125982810094, -2e-14, None, "1.252912598 ± 0"),
        (1.2529125982810094, None, None, "1.252912598 ± 0"),
    ],
)
def test_a_value_that_all_paths_share_has_the_digits_that_its_step_bias_leaves(value, bias, bound, text):
    """Its error is that of rounding."""
    dataset = gbm_dataset()
    dataset = dataset.drop_vars(["S_bias", "S_bias_stderr"], errors="ignore").copy(deep=True)
    for key, number in (("mean", value), ("stderr", 3e-16 * abs(value)), ("variance", 0.0)):
        dataset[f"S_{key}"][...] = number
    for key, number in (("bias", bias), ("bias_stderr", bias and 1e-9 * abs(bias)), ("bias_bound", bound)):
        if number is not None:
            dataset[f"S_{key}"] = number
    stock = next(line for line in printed(dataset).splitlines() if "│ S " in line)
    assert f" {text} " in stock


def test_a_single_path_has_the_digits_that_its_step_bias_leaves():
    dataset = one_curve_dataset()
    dataset["X_bias"], dataset["X_bias_stderr"] = 0.02, 0.0
    row = next(line for line in printed(dataset).splitlines() if "│ X " in line)
    assert f" {round(float(dataset['X_mean'][-1]), 4):.10g} " in row


def test_who_accepts_figures_that_are_no_result_gets_no_advice_to_do_so():
    dataset = gbm_dataset()
    dataset.attrs |= {"unresolved": "S 48", "configuration": "ensemble:\n  paths: 2000\n  unresolved: stop\n"}
    assert "use 48 steps or more" in printed(dataset)
    assert "accept it by ensemble" in printed(dataset)
    dataset.attrs["configuration"] = dataset.attrs["configuration"].replace("stop", "keep")
    assert "use 48 steps or more" in printed(dataset)
    assert "accept it" not in printed(dataset)
