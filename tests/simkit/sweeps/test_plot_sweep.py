"""The picture of a sweep shows the means that the dataset has, with two standard errors."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection, QuadMesh

import simkit

ODE = {
    "model": {"ode": {"x": "-k*x + c"}, "parameters": {"k": 1.0, "c": 0.0}},
    "initial": {"x": 1.0},
    "time": {"t1": 1.0, "steps": 8},
}
GBM = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 1},
    "ensemble": {"paths": 200, "seed": 1},
    "observe": {"call": "maximum(S - 100, 0)", "put": "maximum(100 - S, 0)"},
}


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def test_lines_have_bands_of_two_standard_errors():
    result = simkit.sweep(GBM, {"model.sigma": [0.3, 0.1, 0.2], "model.mu": [0.0, 0.1]})
    figure = simkit.plot_dataset(result)
    assert [panel.get_ylabel() for panel in figure.axes] == ["call", "put"]
    for panel, name in zip(figure.axes, ("call", "put"), strict=True):
        assert panel.get_xlabel() == "model.sigma"
        bands = [c for c in panel.collections if isinstance(c, FillBetweenPolyCollection)]
        for i, (line, band) in enumerate(zip(panel.lines, bands, strict=True)):
            own = result.isel({"model.mu": i}).sortby("model.sigma")
            x, y = line.get_data()
            assert x.tolist() == [0.1, 0.2, 0.3]
            assert np.allclose(y, own[f"{name}_mean"])
            heights = band.get_paths()[0].vertices[:, 1]
            top = float((own[f"{name}_mean"] + 2 * own[f"{name}_stderr"]).max())
            assert heights.max() == pytest.approx(top)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["model.mu = 0", "model.mu = 0.1"]
    assert "bands: two standard errors" in figure.get_suptitle()


def test_two_keys_of_three_numbers_make_a_map():
    result = simkit.sweep(GBM, {"model.sigma": [0.1, 0.4, 0.2, 0.8], "model.mu": [0.0, 0.1, 0.3]})
    figure = simkit.plot_dataset(result)
    panel = figure.axes[0]
    (mesh,) = [c for c in panel.collections if isinstance(c, QuadMesh)]
    shown = result["call_mean"].sortby("model.sigma").transpose("model.mu", "model.sigma")
    assert np.allclose(mesh.get_array(), shown)
    largest = float(result["call_stderr"].max())
    assert panel.get_title(loc="left") == f"standard errors up to {largest:.2g}"
    assert (panel.get_xscale(), panel.get_yscale()) == ("log", "linear")


def test_what_is_no_number_has_a_place_of_its_own():
    result = simkit.sweep(GBM | {"solver": "EulerMaruyama"}, {"solver": ["EulerMaruyama", "Milstein"]})
    panel = simkit.plot_dataset(result).axes[0]
    assert [label.get_text() for label in panel.get_xticklabels()] == ["EulerMaruyama", "Milstein"]


def test_an_equation_without_noise_has_no_band():
    result = simkit.sweep(ODE, {"model.parameters.k": "1:2:5"})
    figure = simkit.plot_dataset(result)
    (line,) = figure.axes[0].lines
    assert np.allclose(line.get_ydata(), np.exp(-np.linspace(1, 2, 5)), atol=1e-4)
    assert not figure.axes[0].collections
    assert "standard errors" not in figure.get_suptitle()
    assert not figure.legends
