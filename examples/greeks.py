"""The Greeks of greeks.yaml from Python, with the estimator of each: `python examples/greeks.py`."""

from pathlib import Path

from simkit import tune_process

tune_process()  # before jax is imported

import simkit

EXPERIMENT = Path(__file__).with_name("greeks.yaml")

if __name__ == "__main__":
    greeks = simkit.sensitivity(EXPERIMENT)
    for name in ("call", "digital"):
        print(f"{name} {float(greeks[name + '_mean']):.4f} ± {float(greeks[name + '_mean_stderr']):.4f}")
        for label in greeks["parameter"].values:
            row = greeks.sel(parameter=label)
            value, error = (float(row[f"{name}_derivative{kind}"]) for kind in ("", "_stderr"))
            print(f"  d/d{label:<6} {value:9.5f} ± {error:.5f}  {row[name + '_derivative_estimator'].item()}")
