"""Runs to look into: a price with observables, and one run of every kind of steps."""

GBM = {
    "constants": {"r": 0.05},
    "model": {"type": "GBM", "mu": "r", "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 64},
    "ensemble": {"paths": 64, "seed": 1, "devices": 1},
    "observe": {"call": "exp(-r*t) * maximum(S - 100, 0)", "asian": "mean(S)"},
}
KINDS = {
    "ordinary": {
        "model": {"ode": {"x": "v", "v": "-x"}},
        "initial": {"x": 1.0, "v": {"uniform": [0, 1]}},
        "time": {"t1": 1.0, "steps": 40},
    },
    "adaptive": {
        "model": {"ode": {"x": "v", "v": "-x"}},
        "initial": {"x": 1.0, "v": {"uniform": [0, 1]}},
        "time": {"t1": 1.0, "rtol": 1e-6, "atol": 1e-6},
    },
    "adaptive_sde": GBM | {"time": {"t1": 1.0, "rtol": 1e-2, "atol": 1e-2}, "observe": {}},
    "jumps": {
        "model": {"type": "ImmigrationDeath", "alpha": 2.0, "mu": 1.0},
        "initial": {"X": 3},
        "time": {"t1": 1.0},
    },
}
