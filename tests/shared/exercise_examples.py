"""A put that may be exercised early."""

PUT = "exp(-r*t) * maximum(K - exp(x), 0)"


def experiment(early_exercise, **changes):
    """A put on a geometric Brownian motion, whose logarithm is exact on any grid."""
    return {
        "constants": {"K": 100.0, "r": 0.05, "vol": 0.25},
        "model": {"sde": {"x": {"drift": "-vol**2/2", "noise": {"W": "vol"}}}},
        "initial": {"x": "log(100)"},
        "time": {"t1": 1.0, "steps": 10},
        "ensemble": {"paths": 4096, "seed": 3},
        "observe": {"put": {"value": PUT, "early_exercise": early_exercise}},
        **changes,
    }
