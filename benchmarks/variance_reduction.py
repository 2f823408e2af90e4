"""What antithetic paths, control variates, weights, strata and Sobol' points cost, and make of variances.

Costs are times of the loop over paths, statistics included, in those of plain paths of the same experiment.
"""

from report import Measurement, parse_arguments, report
from rounds import ratio, timed

import simkit

DATES = (12, 64)
ASIAN = "exp(-0.05*t) * maximum({mean} - 100, 0)"
HOW = {
    "plain": None,
    "antithetic": "antithetic",
    "control": {"control": ["geometric"]},
    "both": {"antithetic": True, "control": ["geometric"]},
    "importance": {"importance": {"drift": 0.5}},
    "stratified": "stratified",
    "sobol": "sobol",
}
MOST = {"sobol": 2.5}  # in plain paths
POINTS = 2**16  # paths, of which Sobol' points make 16 scramblings


def experiment(dates: int, paths: int, how) -> dict:
    exact = f"geometric_asian_call(S=100, K=100, r=0.05, sigma=0.2, T=1, n={dates})"
    driver = {"driver": "sobol"} if how == "sobol" else {"variance_reduction": how}
    return {
        "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100.0},
        "solver": "ExactSampling",
        "time": {"t1": 1.0, "steps": dates},
        "ensemble": {"paths": paths} | ({} if how is None else driver),
        "save": {"paths": 0},
        "observe": {
            "call": ASIAN.format(mean="S"),
            "asian": ASIAN.format(mean="mean(S)"),
            "geometric": {"value": ASIAN.format(mean="exp(mean(log(S)))"), "exact": exact},
        },
    }


def main():
    arguments = parse_arguments(__doc__)
    paths, rounds = (2**17, 2) if arguments.small else (2**22, 6)
    dates = DATES[-1]
    programs = {
        name: lambda how=how: simkit.run(experiment(dates, paths, how)).attrs["elapsed_s"]
        for name, how in HOW.items()
    }
    timings = timed(programs, rounds)
    findings = [
        Measurement(what, cost, "x", MOST.get(name, 1.1), "at most")
        for name in HOW
        if name != "plain"
        for what in [f"time of a path, {name}, {dates} dates, in a plain one"]
        for cost in [ratio(timings[name], timings["plain"])]
    ]
    for count in DATES:
        for name in ("antithetic", "control", "both"):
            result = simkit.run(experiment(count, 100_000, HOW[name]))
            factor = float(result["asian_variance_reduction"])
            goal = (1000, "at least") if name == "control" else ()
            what = f"variance of an Asian call, {count} dates, plain in {name}"
            findings.append(Measurement(what, factor, "x", *goal))
    far = experiment(DATES[0], 100_000, "importance")
    far["observe"] = {"call": ASIAN.format(mean="S").replace("100", "200")}
    factor = float(simkit.run(far)["call_variance_reduction"])
    findings.append(
        Measurement(
            "variance of a call at twice the price, plain in importance", factor, "x", 1000, "at least"
        )
    )
    for how, goal in (("sobol", (100, "at least")), ("stratified", ())):
        result = simkit.run(experiment(dates, POINTS, how))
        for name in ("call", "asian"):
            factor = float(result[f"{name}_variance_reduction"])
            what = f"variance, {name}, {dates} dates, {POINTS} paths, plain in {how}"
            findings.append(Measurement(what, factor, "x", *goal))
    report("variance_reduction", findings, timings, dict.fromkeys(programs, paths * dates), arguments)


if __name__ == "__main__":
    main()
