"""Asian calls on Sobol' points along a Brownian bridge against QuantLib's engine, at equal error.

Ten calls on the arithmetic mean of 64 weekly prices. The error is the root mean square over them, and over
four seeds of simkit, against runs with 64 times as many paths. QuantLib uses one sequence of points, and does
not know its error; simkit uses 16 scramblings, and knows it. Seconds are those of ten whole runs, without
compilation.
"""

import math
import sys
from collections.abc import Callable

import numpy as np
from report import Measurement, parse_arguments, report
from rounds import interleaved, ratio

import simkit

try:
    import QuantLib
except ImportError:
    sys.exit("this benchmark needs QuantLib: pip install --group benchmarks")

SPOT, RATE, WEEKS, YEAR = 100.0, 0.05, 64, 365
EXPIRY = 7 * WEEKS / YEAR
SEEDS = range(3, 7)
CALLS = [(strike, sigma) for sigma in (0.2, 0.3) for strike in (90.0, 95.0, 100.0, 105.0, 110.0)]


def our_price(paths: int, strike: float, sigma: float, seed: int = 1) -> float:
    """A price by a run on Sobol' points."""
    run = simkit.run(
        {
            "constants": {"K": strike, "r": RATE, "T": EXPIRY},
            "model": {"type": "GBM", "mu": "r", "sigma": sigma},
            "initial": {"S": SPOT},
            "solver": "ExactSampling",
            "time": {"t1": EXPIRY, "steps": WEEKS},
            "ensemble": {"paths": paths, "seed": seed, "driver": "sobol"},
            "save": {"paths": 0},
            "observe": {"asian": "exp(-r*T) * maximum(mean(S) - K, 0)"},
        }
    )
    return float(run["asian_mean"])


def their_price(paths: int, strike: float, sigma: float) -> float:
    """A price by QuantLib's points."""
    today = QuantLib.Date(2, 1, 2025)
    QuantLib.Settings.instance().evaluationDate = today
    count, calendar = QuantLib.Actual365Fixed(), QuantLib.NullCalendar()
    process = QuantLib.BlackScholesMertonProcess(
        QuantLib.QuoteHandle(QuantLib.SimpleQuote(SPOT)),
        QuantLib.YieldTermStructureHandle(QuantLib.FlatForward(today, 0.0, count)),
        QuantLib.YieldTermStructureHandle(QuantLib.FlatForward(today, RATE, count)),
        QuantLib.BlackVolTermStructureHandle(QuantLib.BlackConstantVol(today, calendar, sigma, count)),
    )
    dates = [today + 7 * week for week in range(1, WEEKS + 1)]
    option = QuantLib.DiscreteAveragingAsianOption(
        QuantLib.Average.Arithmetic,
        0.0,
        0,
        dates,
        QuantLib.PlainVanillaPayoff(QuantLib.Option.Call, strike),
        QuantLib.EuropeanExercise(dates[-1]),
    )
    engine = QuantLib.MCDiscreteArithmeticAPEngine(process, "ld", brownianBridge=True, requiredSamples=paths)
    option.setPricingEngine(engine)
    return option.NPV()


def main():
    arguments = parse_arguments(__doc__)
    paths, rounds = (2**14, 2) if arguments.small else (2**17, 6)
    truth = prices(lambda *call: our_price(64 * paths, *call, seed=2))
    our_error = rms(
        [prices(lambda *call, seed=seed: our_price(paths, *call, seed)) - truth for seed in SEEDS]
    )
    sizes = [2**k * paths // 16 for k in range(6)]  # one sequence: its error falls, but not evenly
    errors = [rms(prices(lambda *call, size=size: their_price(size, *call)) - truth) for size in sizes]
    slope, level = np.polyfit(np.log(sizes), np.log(errors), 1)
    enough = round(math.exp((math.log(our_error) - level) / slope))
    print(
        f"error of {paths:,} paths of simkit: {our_error:.2g}; of QuantLib's, by a fit of N^{slope:.2f} to:"
    )
    print("; ".join(f"{size:,}: {error:.2g}" for size, error in zip(sizes, errors, strict=True)))
    names = f"simkit, {paths} paths", f"QuantLib, {enough} paths"
    timings = interleaved(
        {
            names[0]: lambda: prices(lambda *call: our_price(paths, *call)),
            names[1]: lambda: prices(lambda *call: their_price(enough, *call)),
        },
        rounds,
    )
    faster = ratio(timings[names[1]], timings[names[0]])
    findings = [
        Measurement(f"time of an Asian call at equal error, {WEEKS} dates, of QuantLib", faster, "x", 5),
        Measurement("paths of QuantLib there in those of simkit", enough / paths),
    ]
    work = {name: len(CALLS) * WEEKS * each for name, each in zip(names, (paths, enough), strict=True)}
    report("asian_call", findings, timings, work, arguments)


def prices(price: Callable[[float, float], float]) -> np.ndarray:
    """Those of all calls."""
    return np.array([price(*call) for call in CALLS])


def rms(errors) -> float:
    """The root of the mean square."""
    return float(np.sqrt(np.mean(np.square(errors))))


if __name__ == "__main__":
    main()
