"""Pictures of runs of particles: the box, rows over time, functions; nothing twice, nothing blank."""

import matplotlib.collections as mpl
import numpy as np
import pytest
import xarray as xr
import yaml
from md_examples import fluid

import simkit
from simkit import save_picture
from simkit.md.number_notes import joined_notes
from simkit.md.plots.functions import panels_of
from simkit.md.plots.plot import plot_particles
from simkit.results.plots.plot_layout import titled_figure

pytestmark = pytest.mark.more


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    experiment = fluid(
        system__species={"A": {"fraction": 0.5}, "B": {}},
        potential__sigma={"A": 1.0, "B": 0.8},
        time__steps=80,
        save__every=2,
        observe={
            "T": "temperature",
            "E": "total_energy/atoms",
            "c": {"fluctuations": {}},
            "g": {"rdf": {"max": 2.0, "every": 4}},
            "S": {"structure_factor": {"max": 8.0, "every": 4}},
            "C": {"vacf": {}},
            "D": {"msd": {}},
        },
    )
    (folder / "two.yaml").write_text(yaml.safe_dump(experiment, sort_keys=False))
    return simkit.run(folder / "two.yaml", out=folder / "two.zarr"), folder


def panel(figure, label):
    (axes,) = [each for each in figure.axes if each.get_ylabel().startswith(label)]
    return axes


def test_each_panel_has_units_and_values_and_nothing_is_drawn_twice(measured):
    run, folder = measured
    figure = plot_particles(simkit.read_dataset(folder / "two.zarr"))
    assert figure.get_suptitle().startswith("two.yaml: LennardJones, VelocityVerlet (NVE), 108 particles")
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert len(set(labels)) == len(labels) == 9  # the total energy is the conserved one, and c is a number
    assert all(axes.has_data() and axes.get_ylabel() for axes in figure.axes)
    assert [axes.get_xlabel() for axes in figure.axes if axes.get_xlabel()] == [
        *("x [σ]", "time [τ]", "r [σ]", "k [1/σ]", "lag [τ]", "frequency [1/τ]", "lag [τ]")
    ]
    drift = panel(figure, "ΔE/N")
    unit = 10.0 ** int(np.floor(np.log10(np.abs(run["drift_path"]).max())))
    line, series = (each.get_ydata() for each in drift.lines)
    np.testing.assert_allclose(series * unit, run["drift_path"][0], rtol=1e-9)
    slope = (line[-1] - line[0]) * unit / float(run["time"][-1])
    assert slope == pytest.approx(float(run["drift"]), rel=1e-9)
    save_picture(run, folder / "again.png")
    assert (folder / "again.png").stat().st_size > 10_000


def test_particles_are_as_large_as_sigma_and_the_nearest_are_drawn_last(measured):
    run, _ = measured
    axes = panel(plot_particles(run), "y [σ]")
    (spheres,) = [each for each in axes.collections if isinstance(each, mpl.EllipseCollection)]
    order = np.argsort(run["end_position"].values[0, :, 2], kind="stable")
    np.testing.assert_array_equal(spheres.get_offsets(), run["end_position"].values[0, order][:, :2])
    species = run["particle_species"].values[order]
    np.testing.assert_allclose(2 * spheres._widths, np.array([1.0, 0.8])[species])
    brightness = spheres.get_facecolors()[:, :3].sum(1)
    of_one = brightness[species == 0]
    assert np.all(np.diff(of_one) <= 1e-12)  # what is farther away is paler
    assert len(axes.lines) == 12 + 2  # edges of the box, and a legend of two species


def test_the_fit_of_the_displacement_is_drawn_where_it_was_made(measured):
    run, _ = measured
    axes = panel(plot_particles(run), "⟨|Δx|²⟩")
    attributes = run["D_diffusion"].attrs
    fits = [line for line in axes.lines if line.get_linestyle() == ":"]
    assert len(fits) == 2
    for fit, diffusion in zip(fits, run["D_diffusion"].values, strict=True):
        x, y = fit.get_data()
        assert attributes["fitted_from"] <= x[0] < x[-1] <= attributes["fitted_to"] * (1 + 1e-9)
        assert (y[-1] - y[0]) / (x[-1] - x[0]) == pytest.approx(6 * diffusion, rel=1e-9)


def displacement_of(species, notes):
    """The panel of a displacement whose slope is 6 D, in the width that it has in a picture."""
    lag, D = np.linspace(0.1, 4.0, 40), np.arange(1, len(species) + 1) / 100
    square = {"units": "Å^2", "long_name": "mean-square displacement"}
    about = {"units": "Å^2/ps", "fitted_from": 1.0, "fitted_to": 4.0, "note": joined_notes(species, notes)}
    variables = {
        "D": (("D_lag", "species"), 6 * D * lag[:, None], square),
        "D_stderr": (("D_lag", "species"), 0 * D * lag[:, None]),
        "D_diffusion": ("species", D, about),
        "D_diffusion_stderr": ("species", D / 10),
        "D_exponent": ("species", np.ones(len(species))),
    }
    coordinates = {"D_lag": ("D_lag", lag, {"units": "ps"}), "species": np.array(species, object)}
    with titled_figure("", (5.5, 3.6)) as figure:
        axes = figure.add_subplot()
        (draw,) = panels_of(xr.Dataset(variables, coordinates), "D")
        draw(axes)
    figure.canvas.draw()
    return axes


def test_diffusion_coefficients_stand_beside_no_other_text_and_only_where_they_are_ones():
    """Of several species they are in the legend, within the panel; of one in the caption."""
    axes = displacement_of(
        ["Ar", "Kr", "Xe"], [None, "t^-0.26: this slope is no diffusion coefficient", None]
    )
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [
        "Ar: D = 0.0100 ± 0.0010 Å²/ps",
        "Kr: no diffusion coefficient",
        "Xe: D = 0.0300 ± 0.0030 Å²/ps",
    ]
    legend, inside = axes.get_legend().get_window_extent(), axes.get_window_extent()
    assert inside.x0 <= legend.x0 < legend.x1 <= inside.x1
    for note, figure in ((None, "D = 0.0100 ± 0.0010 Å²/ps"), ("slow", "no diffusion coefficient")):
        axes = displacement_of(["A"], [note])
        assert axes.get_title("right") == figure
        assert axes._left_title.get_window_extent().x1 < axes._right_title.get_window_extent().x0
