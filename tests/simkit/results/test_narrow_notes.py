"""A distribution that is narrower than the bins is called so, in the table and in its panel."""

import re

import matplotlib.pyplot as plt
import pytest

import simkit
from simkit.results.narrow_notes import narrow_notes

WARM = {
    "model": {"type": "OrnsteinUhlenbeck", "theta": 1.0, "mu": 324.4, "sigma": 0.05},
    "initial": {"X": 340.0},
    "solver": "ExactSampling",
    "time": {"t1": 10.0, "steps": 1},
    "ensemble": {"paths": 500, "seed": 1},
    "observe": {"above": "X - 324.4"},
}
MOVED = r"X: bins may have moved its quantiles by 0\.\d+, and its standard deviation is 0\.03\d?; "


def test_the_table_says_what_to_observe():
    (line,) = narrow_notes(simkit.run(WARM))
    assert re.match(MOVED + r"observe X - 324\.4\d? to see it better", line)


def test_whole_numbers_beyond_one_to_a_bin_are_narrow_too():
    """Bins between 32768 and 65536 are 64 wide, whatever bars a picture makes of them."""
    model = {"type": "ImmigrationDeath", "alpha": 50_000.0, "mu": 1.0}
    experiment = {"model": model, "initial": {"X": 50_000}, "solver": "TauLeaping", "time": {"t1": 0.05}}
    dataset = simkit.run(experiment | {"ensemble": {"paths": 64, "seed": 1}})
    (line,) = narrow_notes(dataset)
    moved = float(re.search(r"quantiles by (\S+),", line)[1])
    assert moved == pytest.approx(float(dataset["X_quantile_bin_error"][-1].max()), rel=0.05)
    assert re.search(r"; observe X - (49|50)\d{3} to", line)


def test_variants_have_lines_of_their_own():
    variants = {"variants": {"cold": {"model.mu": 280.0}, "wide": {"model.sigma": 50.0}}}
    lines = narrow_notes(simkit.run(WARM | variants))
    assert [line.split(":")[0] for line in lines] == ["above of variant cold", "X of variant cold"]


@pytest.mark.more
@pytest.mark.parametrize("kind", ["distribution", "density"])
def test_a_panel_says_so_too(kind):
    dataset = simkit.run(WARM)
    titles = [
        simkit.plot_dataset(dataset, name, kind=kind).axes[0].get_title("left") for name in ("X", "above")
    ]
    plt.close("all")
    assert "narrower than its bins show" in titles[0]
    assert "narrower" not in titles[1]
