"""The sensitivities of epidemic_peak.yaml as a picture: `python examples/epidemic_peak.py`."""

from pathlib import Path

from simkit import save_picture, tune_process

tune_process()  # before jax is imported

import simkit

EXPERIMENT = Path(__file__).with_name("epidemic_peak.yaml")

if __name__ == "__main__":
    result = simkit.sensitivity(EXPERIMENT)
    mean = float(result["peak_mean"])
    for label in result["parameter"].values:
        one = result.sel(parameter=label)
        scale = float(one["parameter_value"]) / mean
        percent, error = (float(one[f"peak_derivative{kind}"]) * scale for kind in ("", "_stderr"))
        print(f"1 % more {label:<10} changes the peak by {percent:+.4f} ± {error:.4f} %")
    save_picture(result, "epidemic_peak.png")
