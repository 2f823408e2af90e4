"""Which way to a small error costs least: total errors against path-steps for six means, as a picture.

The total error is that of the paths and the step bias together, as a run quotes them; path-steps are those of
the run, without its step bias and its pilot. Draws `docs/images/error_for_less.png`.
"""

import math
from pathlib import Path
from typing import NamedTuple

import matplotlib
from report import Measurement, parse_arguments, report

import simkit

PICTURE = Path(__file__).parents[1] / "docs/images/error_for_less.png"
COLOURS = {"plain": "#000000", "antithetic": "#0072B2", "control": "#D55E00", "sobol": "#009E73"}
MARKERS = dict(zip(COLOURS, "ovsD", strict=True))
PATHS = tuple(2**k for k in range(10, 20, 3))
DISCOUNT = "exp(-0.05*t)"
GBM = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "ExactSampling",
    "time": {"t1": 1.0, "steps": 64},
}
HESTON = {
    "model": {
        "type": "Heston",
        "mu": 0.05,
        "kappa": 2.0,
        "theta": 0.04,
        "xi": 0.3,
        "rho": -0.7,
    },
    "initial": {"S": 100.0, "v": 0.04},
    "solver": "AndersenQE",
    "time": {"t1": 1.0, "steps": 64},
}
NETWORK = {
    "model": {
        "reactions": {
            "birth": {"equation": "0 -> A", "rate": 50.0},
            "death": {"equation": "A -> 0", "rate": 1.0},
        }
    },
    "initial": {"A": 50},
    "time": {"t1": 2.0},
}


class Case(NamedTuple):
    """An experiment, what is averaged, and the ways to do it besides plain paths."""

    experiment: dict
    value: str
    ways: tuple[str, ...] = ("antithetic", "control", "sobol")


CASES = {
    "European call (GBM)": Case(GBM, f"{DISCOUNT} * maximum(S - 100, 0)"),
    "Asian call (GBM)": Case(GBM, f"{DISCOUNT} * maximum(mean(S) - 100, 0)"),
    "Down-and-out call (GBM)": Case(GBM, f"{DISCOUNT} * maximum(S - 100, 0) * (min(S) > 90)"),
    "Digital option (GBM)": Case(GBM, f"{DISCOUNT} * (S > 100)"),
    "European call (Heston)": Case(HESTON, f"{DISCOUNT} * maximum(S - 100, 0)", ("control", "sobol")),
    "More than 60 molecules": Case(NETWORK, "A > 60", ()),
}


def ensemble(way: str, paths: int) -> dict:
    if way == "sobol":
        return {"paths": paths, "driver": "sobol"}
    return {"paths": paths} | ({} if way == "plain" else {"variance_reduction": way})


def point(case: Case, way: str, paths: int) -> tuple[float, float]:
    """Path-steps and total error of a run."""
    experiment = case.experiment | {"observe": {"x": case.value}, "ensemble": ensemble(way, paths)}
    dataset = simkit.run(experiment)
    bias = float(dataset.get("x_bias", 0.0))  # NaN, which is not drawn, where it is unknown
    work = dataset.attrs["path_steps_per_s"] * dataset.attrs["elapsed_s"]
    return work, math.hypot(float(dataset["x_stderr"]), bias)


def draw(curves: dict) -> None:
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, 3, figsize=(12, 7), layout="constrained")
    for panel, (title, ways) in zip(panels.flat, curves.items(), strict=True):
        for way, points in ways.items():
            work, error = zip(*points, strict=True)
            panel.loglog(work, error, marker=MARKERS[way], color=COLOURS[way], label=way, markersize=5)
        panel.set(title=title, xlabel="path-steps", ylabel="total error")
        panel.grid(alpha=0.3)
        panel.legend(frameon=False)
    PICTURE.parent.mkdir(exist_ok=True)
    figure.savefig(PICTURE, dpi=110)


def main():
    arguments = parse_arguments(__doc__)
    sizes = PATHS[:2] if arguments.small else PATHS
    curves = {
        title: {way: [point(case, way, paths) for paths in sizes] for way in ("plain", *case.ways)}
        for title, case in CASES.items()
    }
    findings = [
        Measurement(f"{title}: error of plain paths in that of {way}, {sizes[-1]} paths", plain / error)
        for title, ways in curves.items()
        for plain in [ways["plain"][-1][1]]
        for way, points in ways.items()
        if way != "plain"
        for error in [points[-1][1]]
    ]
    report("error_for_less", findings, {}, {}, arguments)
    if not arguments.small:
        draw(curves)


if __name__ == "__main__":
    main()
