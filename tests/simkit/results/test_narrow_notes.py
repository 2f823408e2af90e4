"""A distribution that is narrower than the bins is called so, in the table and in its panel."""

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
LINE = "X: the bins of its quantiles and histogram are 0.5 wide, and its standard deviation is 0.03"


def test_the_table_says_what_to_observe():
    (line,) = narrow_notes(simkit.run(WARM))
    assert line.startswith(LINE)
    assert line.endswith("; observe X -324.4 to see it better")


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
    assert "narrower than bins of 0.5 show" in titles[0]
    assert "narrower" not in titles[1]
