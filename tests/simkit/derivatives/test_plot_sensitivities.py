"""The picture of sensitivities: units, second derivatives, and what can be compared."""

import numpy as np
import pytest
import xarray as xr
from pictures import assert_nothing_overlaps

from simkit import plot_dataset
from simkit.derivatives.plot import relative

BANDS = "bands: two standard errors, where wider than the lines"
LABELS, PAIRS = ["R0", "latent"], ["R0, R0", "R0, latent"]


def sensitivities(values=(2.5, 3.0), mean=100.0, unit="people"):
    """A quantity with first and second derivatives at two times."""
    times = np.array([0.0, 1.0])
    over_time = np.array([[0.0, 8.0], [0.0, -2.0]])
    second = np.array([[0.0, 6.0], [0.0, -9.0]])
    variables = {
        "ill_mean": ("time", np.array([1.0, mean]), {"units": unit}),
        "ill_mean_stderr": ("time", np.array([0.0, 4.0])),
    }
    for kind, along, array in (("derivative", "parameter", over_time), ("second", "pair", second)):
        variables[f"ill_{kind}"] = ((along, "time"), array)
        variables[f"ill_{kind}_stderr"] = ((along, "time"), 0.1 + 0 * array)
    coordinates = {
        "time": times,
        "parameter": LABELS,
        "parameter_value": ("parameter", list(values)),
        "parameter_unit": ("parameter", ["", "days"]),
        "pair": PAIRS,
    }
    attributes = {
        "simkit_kind": "sensitivity",
        "kind": "ode",
        "quantities": "ill",
        "model": "SEIR",
        "solver": "Tsit5",
        "t1": 1.0,
    }
    return xr.Dataset(variables, coordinates, attributes)


def bars(axes):
    names = [label.get_text() for label in axes.get_yticklabels()]
    return dict(zip(names, [bar.get_width() for bar in axes.patches], strict=True))


def legend(axes):
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_a_heavy_tail_has_its_mark_in_the_picture_too():
    dataset = sensitivities()
    dataset["ill_derivative_flag"] = ("parameter", ["heavy tail", ""])
    dataset["ill_second_flag"] = ("pair", ["", "no result"])
    figure = plot_dataset(dataset)
    first, second, *_ = figure.axes
    assert list(bars(first)) == ["R0 !", "latent"]
    assert set(bars(second)) == {"R0, R0", "R0, latent:\nno result"}
    assert figure.get_supxlabel().endswith("; !: heavy tail, of which these say little")
    assert_nothing_overlaps(figure)


def test_the_last_of_three_panels_fills_its_row():
    dataset = sensitivities()
    for key in ("ill_second", "ill_second_stderr"):
        dataset[key] = dataset[key].isel(time=-1, drop=True)
    first, second, last = (axes.get_position() for axes in plot_dataset(dataset).axes)
    assert last.x0 == pytest.approx(first.x0, abs=0.02)
    assert last.x1 == pytest.approx(second.x1, abs=0.02)


def test_changes_over_time_have_the_unit_of_the_quantity():
    figure = plot_dataset(sensitivities())
    first, _, over_time, _ = figure.axes
    assert first.get_xlabel() == "change of the mean of ill in %, for 1 % more"
    assert bars(first) == pytest.approx({"R0": 0.2, "latent": -0.06})
    assert over_time.get_title("left") == f"change of the mean of ill [people], for 1 % more\n{BANDS}"
    assert over_time.get_ylabel() == "change of ill [people]"
    assert legend(over_time) == LABELS
    assert_nothing_overlaps(figure)


def test_the_error_of_a_change_in_percent_is_that_of_derivative_and_mean():
    _, errors, *_ = relative(sensitivities(), "ill", "derivative")
    np.testing.assert_allclose(errors, [2.5 * (0.1 / 100 + 8 * 4 / 100**2), 3 * (0.1 / 100 + 2 * 4 / 100**2)])


def test_second_derivatives_have_bars_of_their_own():
    """Multiplied by both parameters over the mean, the largest first, as thick as those of derivatives."""
    first, second, *_ = plot_dataset(sensitivities()).axes
    assert bars(second) == pytest.approx({"R0, latent": -0.675, "R0, R0": 0.375})
    assert next(iter(bars(second))) == "R0, latent"
    assert second.get_xlabel() == "second derivative of the mean of ill,\ntimes both parameters over the mean"
    assert second.get_ylim() == first.get_ylim()
    without = sensitivities().drop_vars(["ill_second", "ill_second_stderr", "pair"])
    assert len(plot_dataset(without).axes) == 2


def test_few_bars_stand_in_the_middle_of_a_low_panel():
    """One parameter and nothing over time: room for two bars, one of them in the middle."""
    one = sensitivities().isel(parameter=[0]).drop_vars(["ill_second", "ill_second_stderr", "pair"])
    one["ill_derivative"], one["ill_derivative_stderr"] = (
        one[f"ill_derivative{end}"].isel(time=-1) for end in ("", "_stderr")
    )
    figure = plot_dataset(one)
    (axes,) = figure.axes
    assert axes.get_ylim() == (1.0, -1.0)
    assert figure.get_figheight() < 3
    assert_nothing_overlaps(figure)


def test_what_has_a_parameter_of_0_is_left_out_with_a_note():
    """It has no elasticity, and a derivative in a unit of its own says nothing next to the others."""
    values = (0.0, 3.0)
    dataset = sensitivities(values).drop_vars(["ill_second", "ill_second_stderr", "pair"])
    figure = plot_dataset(dataset)
    first, over_time = figure.axes
    note = "\nnot shown, as 1 % of 0 is 0: R0"
    assert first.get_xlabel() == f"change of the mean of ill in %, for 1 % more{note}"
    assert bars(first) == pytest.approx({"latent": -0.06})
    assert over_time.get_title("left") == f"change of the mean of ill [people], for 1 % more\n{BANDS}{note}"
    assert legend(over_time) == ["latent"]
    assert_nothing_overlaps(figure)


@pytest.mark.parametrize("mean", [0.0, -3.9])
def test_a_mean_of_0_has_changes_in_its_unit(mean):
    figure = plot_dataset(sensitivities(mean=mean))
    first, second, *_ = figure.axes
    assert first.get_xlabel() == "change of the mean of ill [people], for 1 % more"
    assert bars(first) == pytest.approx({"R0": 0.01 * 2.5 * 8, "latent": -0.01 * 3 * 2})
    assert second.get_xlabel() == "second derivative of the mean of ill [people], times both parameters"
    assert bars(second) == pytest.approx({"R0, latent": -9 * 7.5, "R0, R0": 6 * 6.25})
    assert_nothing_overlaps(figure)


@pytest.mark.parametrize("unit", ["days", ""])
def test_parameters_that_are_all_0_are_shown_in_the_unit_of_the_first(unit):
    dataset = sensitivities((0.0, 0.0)).assign_coords(parameter_unit=("parameter", ["days", unit]))
    figure = plot_dataset(dataset)
    first, second, over_time, second_over_time = figure.axes
    text = "derivative of the mean of ill [people per unit of the parameter]"
    note = "\nnot shown, as units differ: "
    others, pairs = ("", "") if unit else (f"{note}latent", f"{note}R0, latent")
    assert first.get_xlabel() == text + others
    assert bars(first) == ({"R0 [days]": 8.0, "latent [days]": -2.0} if unit else {"R0 [days]": 8.0})
    plain = "second derivative of the mean of ill\n[people per unit of each parameter]"
    assert second.get_xlabel() == plain + pairs
    assert over_time.get_title("left") == f"{text}\n{BANDS}{others}"
    assert second_over_time.get_title("left") == f"{plain}\n{BANDS}{pairs}"
    assert over_time.get_ylabel() == "derivative of ill"
    assert second_over_time.get_ylabel() == "second derivative of ill"
    assert_nothing_overlaps(figure)


def test_bars_without_the_error_of_steps_say_so():
    dataset = sensitivities()
    dataset["ill_derivative_unknown"] = ("parameter", ["the extreme is the value at a step", ""])
    figure = plot_dataset(dataset)
    note = "error bars: two standard errors; without the error of steps, which is unknown: ill"
    assert figure.get_supxlabel() == note
    assert_nothing_overlaps(figure)


@pytest.mark.parametrize("unit", ["", "1"])
def test_a_number_has_no_unit(unit):
    _, _, over_time, second = plot_dataset(sensitivities(unit=unit)).axes
    assert over_time.get_title("left") == f"change of the mean of ill, for 1 % more\n{BANDS}"
    assert (over_time.get_ylabel(), second.get_ylabel()) == ("change of ill", "second derivative")
    text = "second derivative of the mean of ill, times both parameters"
    assert second.get_title("left") == f"{text}\n{BANDS}"


def test_derivatives_over_time_lie_in_bands_of_two_standard_errors():
    """Of both orders, in the quantity's unit: times a hundredth of the parameter, or times both of a pair."""
    dataset = sensitivities()
    panels = plot_dataset(dataset).axes[2:]
    sizes = {"derivative": [0.025, 0.03], "second": [6.25, 7.5]}
    for axes, (kind, scales) in zip(panels, sizes.items(), strict=True):
        for line, band, row, scale in zip(
            axes.get_lines(), axes.collections, dataset[f"ill_{kind}"].values, scales, strict=False
        ):
            np.testing.assert_allclose(line.get_ydata(), scale * row)
            ends = band.get_paths()[0].vertices[:, 1]
            assert np.ptp(ends[np.isclose(band.get_paths()[0].vertices[:, 0], 1)]) == pytest.approx(
                2 * 2.0 * 0.1 * scale
            )
    assert legend(panels[1]) == PAIRS
    assert [len(axes.collections) for axes in panels] == [2, 2]


def test_the_largest_of_many_derivatives_over_time_are_drawn_and_the_others_counted():
    count = 9
    rows = np.array([[0.0, i] for i in range(count)])
    plain = sensitivities().drop_vars(["ill_second", "ill_second_stderr", "pair"])
    dataset = plain.isel(parameter=[0] * count).assign_coords(parameter=[f"k{i}" for i in range(count)])
    for suffix, values in (("", rows), ("_stderr", 0.1 + 0 * rows)):
        dataset[f"ill_derivative{suffix}"] = (("parameter", "time"), values)
    figure = plot_dataset(dataset)
    over_time = figure.axes[-1]
    assert legend(over_time) == [f"k{i}" for i in range(3, 9)]
    assert over_time.get_title("left").endswith(f"{BANDS}; the 6 largest of 9")
    assert_nothing_overlaps(figure)


def test_curves_without_errors_have_no_bands():
    dataset = sensitivities()
    for kind in ("derivative", "second"):
        dataset[f"ill_{kind}_stderr"] = np.nan * dataset[f"ill_{kind}_stderr"]
    texts = [axes.get_title(loc="left") for axes in plot_dataset(dataset).axes]
    assert not any("bands" in text for text in texts)
