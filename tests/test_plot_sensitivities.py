"""The picture of sensitivities: units, second derivatives, and what can be compared."""

import numpy as np
import pytest
import xarray as xr
from test_plot import assert_nothing_overlaps

from simkit.plot import plot_dataset

LABELS, PAIRS = ["R0", "latent"], ["R0, R0", "R0, latent"]


def sensitivities(values=(2.5, 3.0), mean=100.0, unit="people"):
    """A quantity with first and second derivatives at two times."""
    times = np.array([0.0, 1.0])
    over_time = np.array([[0.0, 8.0], [0.0, -2.0]])
    second = np.array([[0.0, 6.0], [0.0, -9.0]])
    variables = {"ill_mean": ("time", np.array([1.0, mean]), {"units": unit})}
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


def test_changes_over_time_have_the_unit_of_the_quantity():
    figure = plot_dataset(sensitivities())
    first, _, over_time = figure.axes
    assert first.get_xlabel() == "change of the mean of ill in %, for 1 % more"
    assert bars(first) == pytest.approx({"R0": 0.2, "latent": -0.06})
    assert over_time.get_title("left") == "change of the mean of ill [people], for 1 % more"
    assert legend(over_time) == LABELS
    assert_nothing_overlaps(figure)


def test_second_derivatives_have_bars_of_their_own():
    """Multiplied by both parameters over the mean, the largest first, as thick as those of derivatives."""
    first, second, _ = plot_dataset(sensitivities()).axes
    assert bars(second) == pytest.approx({"R0, latent": -0.675, "R0, R0": 0.375})
    assert next(iter(bars(second))) == "R0, latent"
    assert second.get_xlabel() == "second derivative of the mean of ill,\ntimes both parameters over the mean"
    assert second.get_ylim() == first.get_ylim()
    without = sensitivities().drop_vars(["ill_second", "ill_second_stderr", "pair"])
    assert len(plot_dataset(without).axes) == 2


@pytest.mark.parametrize("change", [{"values": (0.0, 3.0)}, {"mean": 0.0}])
def test_what_cannot_be_compared_is_shown_in_its_unit(change):
    figure = plot_dataset(sensitivities(**change))
    first, second, over_time = figure.axes
    text = "derivative of the mean of ill [people per unit of the parameter]"
    assert first.get_xlabel() == text
    assert bars(first) == {"R0": 8.0, "latent [days]": -2.0}
    assert second.get_xlabel() == "second derivative of the mean of ill\n[people per unit of each parameter]"
    assert bars(second) == {"R0, latent": -9.0, "R0, R0": 6.0}
    if "values" in change:
        assert over_time.get_title("left") == text
        assert legend(over_time) == ["R0", "latent [days]"]
    assert_nothing_overlaps(figure)


@pytest.mark.parametrize("unit", ["", "1"])
def test_a_number_has_no_unit(unit):
    *_, over_time = plot_dataset(sensitivities(unit=unit)).axes
    assert over_time.get_title("left") == "change of the mean of ill, for 1 % more"
