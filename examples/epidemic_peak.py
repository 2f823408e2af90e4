"""The sensitivities of epidemic_peak.yaml as a picture: `python examples/epidemic_peak.py`."""

from pathlib import Path

from simkit import prefer_wide_vectors, save_picture

prefer_wide_vectors()  # before jax is imported

import simkit
from simkit.results.number_text import with_error

EXPERIMENT = Path(__file__).with_name("epidemic_peak.yaml")

if __name__ == "__main__":
    found = simkit.sensitivity(EXPERIMENT)
    mean = float(found["peak_mean"])
    for label in found["parameter"].values:
        one = found.sel(parameter=label)
        scale = float(one["parameter_value"]) / mean
        share, error = (float(one[f"peak_derivative{kind}"]) * scale for kind in ("", "_stderr"))
        print(f"1 % more {label:<10} changes the peak by {with_error(share, error)} %")
    save_picture(found, "epidemic_peak.png")
