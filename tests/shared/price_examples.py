"""A price in a few steps, and the end of its file, for messages about one wrong key."""

TIME = {"t1": 1.0, "steps": 4}
PRICE = {"model": {"type": "GBM", "mu": 0.05, "sigma": 0.2}, "initial": {"S": 100.0}, "time": TIME}
REST = "initial: {S: 100}\ntime: {t1: 1, steps: 4}\n"
