"""What other programs write in formulas, and what simkit has for it."""

import ast

from simkit.suggestions import shown

_SECOND, _DAY = "fs ps ns us ms s sec secs second seconds min mins minute minutes", "d day days"
_HOUR, _LONG = "h hr hrs hour hours", "w wk week weeks month months y yr yrs year years"
TIME_UNITS = frozenset(f"{_SECOND} {_HOUR} {_DAY} {_LONG}".split())

DISTRIBUTIONS = {
    "normal": "mean and sd",
    "lognormal": "mean and sd of the logarithm; or median and cv",
    "uniform": "low and high",
    "triangular": "low, mode and high",
    "truncated_normal": "mean, sd, low and high",
    "beta": "a, b, low and high",
    "discrete": "values, and probabilities if they differ",
}
_OTHER_DISTRIBUTIONS = {
    "gauss": "normal",
    "gaussian": "normal",
    "unif": "uniform",
    "truncnorm": "truncated_normal",
}
_OTHER_DISTRIBUTIONS |= dict.fromkeys(("lognorm", "log_normal", "lnorm"), "lognormal")

_NAMES = {"ln": "log", "pow": "**", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "fabs": "abs"}
_NAMES |= dict.fromkeys(("first_time", "first_passage_time", "stopping_time"), "hitting_time")
_NAMES |= {"cmax": "max", "auc": "integral", "phi": "normal_cdf", "norm_cdf": "normal_cdf"}
_NAMES |= dict.fromkeys(("n", "cdf", "ncdf"), "normal_cdf")
_PROBABILITY = "the mean of a condition is its probability; observe {0} alone"
_AVERAGE = "means over paths are reported anyway; observe {0} alone, and mean(x) is along the path"
_REPORTED = "mean, variance and quantiles over paths are reported anyway; observe {0} alone"
_NOISE = "formulas draw no random numbers; noise is part of a model: sde with noise, or a stochastic model"
_PEAK = (
    "the time of a peak is when the slope first is 0 or less: hitting_time(c) with that condition, as in "
    "hitting_time(beta*S < gamma) of an epidemic; that of a mean is in the dataset: "
    "result['{0}_mean'].idxmax('time')"
)
_TAIL = (
    "the mean beyond a level q is that of where({0} < q, {0}, 0) over that of where({0} < q, 1, 0); observe "
    "both, and divide them under derived"
)
_REMEDIES = {
    **dict.fromkeys(("argmax", "argmin", "idxmax", "peak_time", "tmax", "tpeak"), _PEAK),
    **dict.fromkeys(("expected_shortfall", "cvar", "es", "tail_mean"), _TAIL),
    **dict.fromkeys(("probability", "prob", "pr", "p"), _PROBABILITY),
    **dict.fromkeys(("expectation", "expected", "e", "average", "avg"), _AVERAGE),
    **dict.fromkeys(
        ("variance", "var", "std", "stddev", "sd", "median", "quantile", "percentile"), _REPORTED
    ),
    **dict.fromkeys(("rand", "randn", "rnorm", "runif", "random", "noise"), _NOISE),
    **dict.fromkeys(("iif", "ifelse", "piecewise"), "a choice is written where(condition, a, b)"),
    **dict.fromkeys(("heaviside", "step", "indicator"), "a step is written where({0} > 0, 1, 0)"),
    **dict.fromkeys(("mod", "rem", "fmod"), "a remainder is written a - b*floor(a/b)"),
    **dict.fromkeys(
        ("linspace", "logspace", "geomspace", "arange", "range"),
        "values of a sweep are a range first:last:count, as in 0.1:0.5:9 or 0.1:10:9:log, or a list",
    ),
    "log10": "write log({0})/log(10)",
    "log2": "write log({0})/log(2)",
    "round": "write floor({0} + 0.5)",
    "int": "write floor({0}); an integral along the path is integral({0})",
    "cot": "write 1/tan({0})",
    "square": "write ({0})**2",
    "diff": "a slope is what the model's equation says; write that",
}
_EQUATION = "an equation has no dt and dW in it: write drift and noise, as in {drift: -x, noise: {W: s}}"
_OF_NAMES = {
    **dict.fromkeys(("dt", "dW", "dw", "dB", "dX", "dx", "noise", "randn", "xi"), _EQUATION),
    **dict.fromkeys(("T", "time"), "the time is t"),
}


def name_elsewhere(name: str) -> str:
    """`; ` and what to write in place of a name that is known elsewhere; empty if it is unknown."""
    return f"; {_OF_NAMES[name]}" if name in _OF_NAMES else ""


def function_elsewhere(node: ast.Call, name: str) -> str | None:
    """What to write in place of a call of a function that is known elsewhere; `None` if it is unknown."""
    key = name.casefold()
    first = shown(ast.unparse(node.args[0])).strip("'") if node.args else "x"
    kind = _OTHER_DISTRIBUTIONS.get(key, key)
    if kind in DISTRIBUTIONS:
        values = [f"{each.arg}: {ast.unparse(each.value)}" for each in node.keywords if each.arg]
        numbers = f"{{{', '.join(values)}}}" if values else f"[{', '.join(map(ast.unparse, node.args))}]"
        return (
            f"a distribution is not a function; for a constant, a parameter or an initial value write "
            f"{{{kind}: {numbers}}}, without quotes ({DISTRIBUTIONS[kind]})"
        )
    if key in _NAMES:
        return f"did you mean {_NAMES[key]!r}?"
    return _REMEDIES[key].format(first) if key in _REMEDIES else None
