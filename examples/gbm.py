"""The run of gbm.yaml as a Python script: `python examples/gbm.py`."""

from simkit import tune_process

tune_process()  # before jax is imported

import simkit

experiment = {
    "constants": {"S0": 100.0, "K": 100.0, "r": 0.05, "vol": 0.2},
    "model": {"type": "GBM", "mu": "r", "sigma": "vol"},
    "initial": {"S": "S0"},
    "time": {"t1": 1.0, "steps": 252},
    "ensemble": {"paths": 1_000_000, "seed": 42},
    "save": {"points": 21},
    "observe": {
        "call": {
            "value": "exp(-r*t) * maximum(S - K, 0)",
            "exact": "black_scholes_call(S=S0, K=K, r=r, sigma=vol, T=1)",
        },
        "asian": "exp(-r*t) * maximum(mean(S) - K, 0)",
    },
}

if __name__ == "__main__":
    result = simkit.run(experiment)
    for name in ("call", "asian"):
        print(f"{name:<6} {float(result[name + '_mean']):.4f} ± {float(result[name + '_stderr']):.4f}")
    print(f"exact  {float(result['call_exact']):.4f} (call)")
    print(result["S_mean"].to_series())
