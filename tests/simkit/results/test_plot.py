"""Pictures show what the dataset says, whatever its size, and are written whole or not at all."""

import subprocess
import sys

import matplotlib.image
import numpy as np
import pytest
from dataset_examples import gbm_dataset, one_curve_dataset
from matplotlib.figure import Figure
from pictures import assert_nothing_overlaps

from simkit import InputError, OutputError, plot_dataset, read_dataset, save_picture, write_dataset

pytestmark = pytest.mark.more


def labels(figure):
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_a_fan_its_end_and_the_observables():
    dataset = gbm_dataset(rows=53)
    figure = plot_dataset(dataset)
    fan, end, level, _, call = figure.axes
    assert labels(figure) == [
        "5–95 % of paths",
        "25–75 % of paths",
        "sample paths",
        "median",
        "mean",
        "exact mean",
    ]
    assert fan.get_ylabel() == "S, asset price [currency]"
    assert fan.get_xlabel() == ""
    assert call.get_xlabel() == "call [currency]"
    assert (level.get_ylabel(), level.get_xlabel()) == ("level", "time")
    np.testing.assert_array_equal(level.get_lines()[-1].get_ydata(), dataset["level_mean"])
    curves = {line.get_label(): line for line in fan.get_lines()}
    np.testing.assert_array_equal(curves["mean"].get_ydata(), dataset["S_mean"])
    np.testing.assert_array_equal(curves["median"].get_ydata(), dataset["S_quantile"].sel(quantile=0.5))
    np.testing.assert_array_equal(curves["exact mean"].get_ydata(), dataset["S_exact"])
    bars = end.patches[0].get_data()
    assert len(bars.values) == 25  # 2000 paths make no hundred bars
    np.testing.assert_allclose(bars.values.sum(), 100 * dataset["S_histogram"].sum() / 2000)
    assert_nothing_overlaps(figure)


def test_two_saved_times_are_enough_and_say_so():
    figure = plot_dataset(gbm_dataset(rows=2))
    assert figure.axes[0].get_title("right").startswith("only 2 times were saved: set save.points")
    assert_nothing_overlaps(figure)


def test_a_single_path_is_a_curve():
    dataset = one_curve_dataset()
    figure = plot_dataset(dataset)
    (axes,) = figure.axes
    np.testing.assert_array_equal(axes.get_lines()[0].get_ydata(), dataset["X_path"][0])
    assert not axes.collections
    assert_nothing_overlaps(figure)


def asking(dataset, **attributes):
    copy = dataset.copy()
    copy.attrs = dataset.attrs | attributes
    return copy


def test_the_plot_section_says_what_stands_over_time():
    figure = plot_dataset(asking(gbm_dataset(), plot_over_time="level"))
    level, _, call = figure.axes
    assert level.get_ylabel() == "level"
    assert call.get_xlabel() == "call [currency]"
    assert_nothing_overlaps(figure)


def test_a_portrait_draws_two_quantities_against_each_other():
    dataset = gbm_dataset()
    figure = plot_dataset(asking(dataset, plot_portrait="S level"))
    portrait = next(axes for axes in figure.axes if axes.get_xlabel() == "S, asset price [currency]")
    assert portrait.get_ylabel() == "level"
    orbits = portrait.get_lines()[::2]
    assert len(orbits) == 8
    for number, orbit in enumerate(orbits):
        np.testing.assert_array_equal(orbit.get_xdata(), dataset["S_path"][number])
        np.testing.assert_array_equal(orbit.get_ydata(), dataset["level_path"][number])
    assert_nothing_overlaps(figure)


def test_several_pairs_share_a_portrait_each_in_its_colour():
    dataset = asking(one_curve_dataset(), plot_portrait="X X; X X")
    figure = plot_dataset(dataset)
    curve, portrait = figure.axes
    assert portrait.get_xlabel() == "X, X"
    dataset["X_mean"].attrs["units"] = "length"
    assert plot_dataset(dataset).axes[1].get_xlabel() == "X, X [length]"
    one, _, other, _ = portrait.get_lines()
    assert one.get_color() != other.get_color()
    np.testing.assert_array_equal(one.get_ydata(), curve.get_lines()[0].get_ydata())
    assert_nothing_overlaps(figure)


def test_of_a_condition_only_the_fraction_is_drawn():
    dataset = gbm_dataset().copy(deep=True)
    dataset["level_path"][:] = dataset["level_path"] > 1
    dataset["level_min"][:] = 0
    dataset["level_max"][:] = 1
    level = plot_dataset(dataset).axes[2]
    assert [line.get_label() for line in level.get_lines()] == ["mean"]
    assert len(level.collections) == 1  # its error, and no quantiles, which jump


def test_failed_paths_are_in_the_title():
    assert "2,000 paths (37 failed)" in plot_dataset(gbm_dataset(failed=37))._suptitle.get_text()
    assert "failed" not in plot_dataset(gbm_dataset())._suptitle.get_text()


def many(dataset, states, observables):
    """The same dataset with its quantities under more names."""
    copies = {"S": states, "call": observables}
    result = dataset
    for name, count in copies.items():
        for number in range(count):
            old = [str(key) for key in dataset.variables if str(key).startswith(f"{name}_")]
            result = result.merge(
                dataset[old].rename({key: key.replace(name, f"{name}{number}", 1) for key in old})
            )
    result.attrs = dataset.attrs | {
        "state_variables": " ".join(f"S{number}" for number in range(states)),
        "observables": " ".join(f"call{number}" for number in range(observables)),
    }
    return result


@pytest.mark.parametrize(("states", "observables", "axes"), [(2, 0, 4), (6, 20, 12 + 9), (1, 4, 2 + 4)])
def test_many_quantities_find_room(states, observables, axes):
    figure = plot_dataset(many(gbm_dataset(), states, observables))
    assert len(figure.axes) == axes
    assert_nothing_overlaps(figure)


def test_no_sample_at_all_draws_empty_axes():
    assert len(plot_dataset(gbm_dataset(failed=2000)).axes) == 5


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_the_picture_is_drawn_from_the_file_alone(tmp_path, ending):
    write_dataset(gbm_dataset(), tmp_path / "gbm.zarr")
    save_picture(read_dataset(tmp_path / "gbm.zarr"), tmp_path / f"gbm{ending}")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"gbm{ending}", "gbm.zarr"]
    if ending == ".png":
        pixels = matplotlib.image.imread(tmp_path / "gbm.png")
        assert pixels.shape[1] == 1800
        assert 0.02 < np.mean(pixels[..., :3].min(-1) < 0.9) < 0.5


def test_a_failure_leaves_the_old_picture(tmp_path, monkeypatch):
    path = tmp_path / "gbm.png"
    path.write_text("the old one")

    def full(self, target, **options):
        target.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Figure, "savefig", full)
    with pytest.raises(OutputError, match=r"gbm\.png: could not be written: No space left on device"):
        save_picture(gbm_dataset(), path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["gbm.png"]
    assert path.read_text() == "the old one"
    with pytest.raises(InputError, match=r"gbm\.txt: a picture must end in one of \.png, \.pdf"):
        save_picture(gbm_dataset(), tmp_path / "gbm.txt")


def test_importing_these_modules_imports_no_drawing_and_no_jax():
    modules = "simkit.pictures, simkit.results.storage, simkit.results.table"
    code = f"import sys, {modules}; print({{'matplotlib', 'jax'}} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def without_attributes(dataset):
    return dataset.drop_attrs()


def a_part(dataset):
    return dataset[["S_mean", "S_stderr"]]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (without_attributes, "not one of simkit.*no simkit_format.*simkit.read_dataset returned"),
        (a_part, "has no '[A-Za-z_]+', which its picture needs: give the whole one"),
        (lambda dataset: "gbm.zarr", "got str; simkit.read_dataset reads one from a file"),
    ],
)
def test_a_foreign_dataset_is_refused_with_a_remedy(given, message):
    with pytest.raises(InputError, match=message):
        plot_dataset(given(gbm_dataset()))


@pytest.mark.parametrize("draw", [plot_dataset, lambda given: save_picture(given, "picture.png")])
def test_what_is_no_dataset_is_refused(draw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="a picture needs the dataset of a run, got int"):
        draw(3)
    assert not list(tmp_path.iterdir())
