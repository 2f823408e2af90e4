"""Lines below a table that name the numbers made doubtful by steps or too few paths, and the remedy."""

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from simkit.ensemble.step_bias.resolution import COMPARABLE
from simkit.results.level_notes import is_multilevel
from simkit.results.number_text import (
    AT_ANY_TIME,
    AT_STEPS,
    RULE_OF_THREE,
    percentages,
    rarer_paths,
    with_error,
)
from simkit.results.swept import is_swept
from simkit.results.variants import each_variant, variant_names
from simkit.suggestions import called, few_alike

if TYPE_CHECKING:
    import xarray as xr

IMPLICIT = {"ode": "Rodas5P", "sde": "DriftImplicitEuler"}
FEW_IN_LEAP = 25  # events; a leap took as long as 30 to 45, with 2 and with 3 reactions, on one processor
ABSURD = 100  # times as many steps, which another solver would not need
DOMINATES, MANY_PATHS = 0.4, 100  # a part of the variance that one of so many paths should not make
ROUNDED = 1e-9  # of a mean: a spread that rounding may make
FEW = 3  # variants that each have a line of their own
WHICH = "\0"  # stands in a line where it says of which variant
LARGEST_COUNT = 1e12  # that is written with all its digits
BLOWN_UP = 1e6  # times the values of the start, by which unstable steps change a value


def by_quantity(dataset: "xr.Dataset", attribute: str) -> dict[str, int]:
    """An attribute such as `S 3, call 12`: a count for each quantity that it names."""
    pairs = (each.split() for each in str(dataset.attrs.get(attribute, "")).split(", ") if each)
    return {name: int(count) for name, count in pairs}


def step_notes(dataset: "xr.Dataset") -> list[str]:
    """What to say below the table, of each variant."""
    notes = notes_of_variants(dataset, _of_steps)
    return [*notes, *_all_censored(dataset), *_same_variants(dataset)]


def _of_steps(dataset: "xr.Dataset", which: str) -> list[str]:
    return [*unresolved_notes(dataset, which), *_others(dataset, which)]


def notes_of_variants(
    dataset: "xr.Dataset", notes: "Callable[[xr.Dataset, str], Iterable[str]]", having: str = ""
) -> list[str]:
    """The lines on each variant, or on a run by itself, that `notes` makes of its dataset and its name.

    A line that several of them have alike but for the name stands there once, with their names, or of more
    than `FEW` with their number.
    """
    each = each_variant(dataset, having).items()
    lines = [(variant, line) for variant, one in each for line in notes(one, WHICH)]
    return _alike_once(dataset, lines, of_variant, " of ")


def _alike_once(
    dataset: "xr.Dataset", lines: list[tuple[str, str]], named: Callable[[str], str], before: str
) -> list[str]:
    """Lines with the variants `named` in place of `WHICH`, or `before` and the number of those alike."""
    alike: dict[str, list[str]] = {}
    for variant, line in lines:
        alike.setdefault(line, []).append(variant)
    what, total = "points" if is_swept(dataset) else "variants", len(variant_names(dataset))

    def which(variants: list[str]) -> str:
        if len(variants) <= FEW:
            names = " and ".join(named(each).strip() for each in variants)
            return names and before[:1] + names
        return f"{before}{'all' if len(variants) == total else f'{len(variants)} of'} {total} {what}"

    return few_alike(line.replace(WHICH, which(variants)) for line, variants in alike.items())


def _same_variants(dataset: "xr.Dataset") -> list[str]:
    """Variants that differ on no path, while an event has happened on none, or all have one value.

    So their difference of 0 has no error. Other variants that agree mostly do so on every path.
    """
    paths = int(dataset.attrs.get("paths", 1))
    if not variant_names(dataset) or dataset.attrs.get("kind") == "ode" or paths == 1:
        return []
    idle = {name: set(_never_happened(one)) for name, one in each_variant(dataset).items()}
    names = [*dataset.attrs["observables"].split(), *dataset.attrs["state_variables"].split()]
    first, *others = variant_names(dataset)
    lines = []
    for other in others:
        sizes = {name: dataset[f"{name}_difference"].sel(variant=other) for name in names}
        errors = {name: dataset[f"{name}_difference_stderr"].sel(variant=other) for name in names}
        rarely = idle[first] & idle[other]
        same = [x for x in names if sizes[x] == 0 and (np.isnan(errors[x]) or (rarely and errors[x] == 0))]
        if same:
            line = (
                f"{', '.join(same)}: {WHICH} and {first} do not differ on any of {paths:,} paths; "
                f"{rarer_paths(paths)} may, which no error includes"
            )
            lines.append((other, line))
    return _alike_once(dataset, lines, str, "")


def _never_happened(dataset: "xr.Dataset") -> list[str]:
    """The events with a condition that no path of a run has met."""
    events = dataset.attrs.get("counted_events", "").split()
    return [name for name in events if dataset[f"{name}_count"] == 0]


def all_unresolved(dataset: "xr.Dataset") -> list[str]:
    """The quantities that are no result, of each variant."""
    return notes_of_variants(dataset, unresolved_notes, having="unresolved")


def marked_in_table(dataset: "xr.Dataset") -> str:
    """For the title of a picture, lines that name the quantities that the table marks, and of how many."""
    each, lines = each_variant(dataset).values(), ""
    for what, names in (
        ("no result, as the weights degenerate", lambda one: json.loads(one.attrs.get("degenerate", "{}"))),
        ("no result, as the steps are too long", lambda one: by_quantity(one, "unresolved")),
        ("the step bias matters (! in the table)", lambda one: by_quantity(one, "noticeable_bias")),
    ):
        counts = Counter(name for one in each for name in names(one))
        parts = [name if n == len(each) else f"{name} ({n} of {len(each)})" for name, n in counts.items()]
        lines += f"\n{what}: {', '.join(parts)}" if parts else ""
    return lines


def of_variant(variant: str) -> str:
    return "" if not variant else f" {called(variant)}" if "=" in variant else f" of variant {variant}"


def unresolved_notes(dataset: "xr.Dataset", which: str = "") -> list[str]:
    """A line for each reason why quantities of a single run are no result."""
    return no_result(dataset, by_quantity(dataset, "unresolved"), which)


def no_result(dataset: "xr.Dataset", wanted: dict[str, int], which: str = "") -> list[str]:
    """A line for the figures that are no result for the same reason, given the steps wanted for each."""
    if not wanted:
        return []
    alike: dict[str, dict[str, int]] = {}
    for name, steps in wanted.items():
        reason = _unsure(dataset, name) or "the step bias is as large as the value"
        if name in dataset.attrs.get("blown_up", "").split():
            reason = "the steps are unstable"
        alike.setdefault(reason, {})[name] = steps
    return [
        f"! {', '.join(names)}{which}: no result, {reason}; {_remedy(dataset, names)}{or_accept(dataset)}"
        for reason, names in alike.items()
    ]


def or_accept(dataset: "xr.Dataset") -> str:
    """How to accept figures that are no result, unless the experiment does so already."""
    import yaml

    configuration = yaml.safe_load(dataset.attrs.get("configuration", "")) or {}
    kept = configuration.get("ensemble", {}).get("unresolved") == "keep"
    return "" if kept else "; or accept it by ensemble: {unresolved: keep}"


def _others(dataset: "xr.Dataset", which: str) -> Iterable[str]:
    noticeable = by_quantity(dataset, "noticeable_bias")
    unsure = {name: _unsure(dataset, name) for name in noticeable}
    for name, known in unsure.items():
        if known:
            yield f"! {name}{which}: {known}; {_remedy(dataset, {name: noticeable[name]})}"
    noticeable = {name: steps for name, steps in noticeable.items() if not unsure[name]}
    if noticeable:
        yield f"! {', '.join(noticeable)}{which}: the step bias matters; {more_steps(dataset, noticeable)}"
    names = [*dataset.attrs["observables"].split(), *dataset.attrs["state_variables"].split()]
    bounds = {name: float(x) for name in names if (x := dataset.get(f"{name}_bias_bound")) is not None}
    seen = [name for name in bounds if _has_no_order(dataset, name)]
    if seen:
        yield _no_estimate(dataset, f"{which} ({', '.join(seen)})")
    if dataset.attrs.get("kind") == "jump":
        yield from _spread(dataset, which)
        yield from _short_leaps(dataset, which)
    chosen = "dt" not in dataset.attrs  # by tolerances, or by epsilon
    failing = by_quantity(dataset, "unresolved")
    unknown = [name for name in bounds if name not in seen and name not in failing]
    counts = by_quantity(dataset, "bias_left_out")
    if unknown:
        reason = _why_unknown(dataset, not counts.keys().isdisjoint(unknown))
        yield f"the step bias{which} is unknown ({', '.join(unknown)}): {reason}"
    extremes = dataset.attrs.get("extremes_of_steps", "").split()
    if extremes:
        yield (
            f"{', '.join(extremes)}{which}: the largest or smallest value is one at the end of a step, and "
            "no error includes what lies between; if the steps are the dates that are meant, give every: 1"
        )
    lost = ", ".join(f"{name}: {count:,}" for name, count in counts.items() if name not in unknown)
    if lost:
        others = "with other tolerances" if chosen else "at its other steps"
        remedy = "a larger time.max_steps may help" if chosen else "use more steps"
        yield f"the step bias{which} leaves out paths without a finite value {others} ({lost}); {remedy}"
    too_large = [name for name in names if np.isinf(_last(dataset, f"{name}_stderr"))]
    paths = int(dataset.attrs.get("paths", 1))
    if dataset.attrs.get("kind") == "ode" and paths > 1 and all(_never_vary(dataset, name) for name in names):
        yield f"all {paths:,} paths{which} are the same, as nothing is random; one is enough"
    if too_large:
        yield (
            f"{', '.join(too_large)}{which}: the squares of values are too large for a float64, so the error "
            "is unknown; use units in which values are smaller"
        )
    shares = {name: share for name in names if (share := share_of_one(dataset, name)) > DOMINATES}
    if shares:
        explode = "" if dataset.attrs.get("kind") == "jump" else ", or more steps where paths explode"
        yield (
            f"{', '.join(shares)}{which}: one path makes up to {100 * max(shares.values()):.0f} % of the "
            f"variance, so mean and error say little; use more paths{explode}"
        )
    empty = [
        name for name in names if f"{name}_upper" in dataset and not np.isfinite(dataset[f"{name}_upper"])
    ]
    if empty:
        yield (
            f"{', '.join(empty)}{which}: the same on all {int(dataset.attrs['paths']):,} paths, so no bound "
            "on the contribution of rarer paths is known; use more paths"
        )


def share_of_one(dataset: "xr.Dataset", name: str) -> float:
    """What part of the sum of squared deviations is that of the path that is farthest from the mean.

    0 for few paths, and for a fraction of them, whose error is known from how many there are.
    """
    if "shares_of_one" in dataset.attrs:
        return json.loads(dataset.attrs["shares_of_one"]).get(name, 0.0)
    n = int(dataset.attrs.get("paths", 1))
    low, high, mean, variance = (
        _last(dataset, f"{name}_{key}") for key in ("min", "max", "mean", "variance")
    )
    return 0.0 if (low, high) == (0, 1) else part_of_one(low, high, mean, variance, n)


def part_of_one(low: float, high: float, mean: float, variance: float, n: int) -> float:
    """What part of the variance of n values the farthest of them makes; 0 of few, or of mere rounding."""
    spread = math.sqrt(variance) if 0 < variance < math.inf else 0.0
    if n < MANY_PATHS or not spread > ROUNDED * abs(mean):
        return 0.0
    return (max(high - mean, mean - low) / spread) ** 2 / n


def _last(dataset: "xr.Dataset", name: str) -> float:
    """A figure at the end, NaN where there is none."""
    return float(np.atleast_1d(dataset.get(name, np.nan))[-1])


def _never_vary(dataset: "xr.Dataset", name: str) -> bool:
    """Whether all paths have the same values."""
    return not np.any(dataset.get(f"{name}_variance", 0.0))


def _unsure(dataset: "xr.Dataset", name: str) -> str:
    """How well a step bias is known, if its error is larger or comparable with both it and the value."""
    value, bias, error = (_last(dataset, f"{name}_{key}") for key in ("mean", "bias", "bias_stderr"))
    if not error > abs(bias) * (COMPARABLE if error > COMPARABLE * abs(value) else 1):
        return ""
    part = (
        f", {100 * error / abs(value):.2g} % of the value" if error < abs(value) else ", more than the value"
    )
    return f"the step bias is known only to ± {error:.2g}{part}"


def _no_estimate(dataset: "xr.Dataset", of: str) -> str:
    """What to say of step biases that have a bound alone."""
    if dataset.attrs.get("kind") != "ode" and dataset.attrs["paths"] == 1:
        return f"no estimate of the step bias{of}: one path shows no order; take more paths"
    bound = "at any order; the table gives the difference of two runs, and the bias is about that or more"
    if "dt" in dataset.attrs:
        return f"the steps are too long for an estimate of the step bias{of}: it does not decrease {bound}"
    given = "the tolerances" if "rtol" in dataset.attrs else "epsilon"
    smaller = "smaller rtol and atol" if "rtol" in dataset.attrs else "a smaller epsilon"
    return (
        f"no estimate of the step bias{of}: it does not decrease with {given} {bound}. If that is too "
        f"large, use {smaller}"
    )


def _all_censored(dataset: "xr.Dataset") -> Iterable[str]:
    """How many paths had not met the condition of a first time, of more than `FEW` variants the range."""
    names, ranges = [], []
    for name in dataset.attrs["observables"].split():
        each = [one.get(f"{name}_censored") for one in each_variant(dataset).values()]
        parts = np.nan_to_num([0.0 if part is None else float(part) for part in each])
        if np.count_nonzero(parts) <= FEW or parts.min() == 1:
            names.append(name)
            continue
        values = dict.fromkeys(x.attrs["counts_as"] for x in each if x is not None and float(x) > 0)
        seen = next(x.attrs.get("seen", AT_ANY_TIME) for x in each if x is not None)
        ranges.append(_waiting(name, percentages(parts), " or ".join(values), seen))
    return [*notes_of_variants(dataset, lambda one, which: censored_notes(one, names, which)), *ranges]


def _waiting(name: str, part: str, value: str, seen: str) -> str:
    more = "; between steps more may have" if seen == AT_STEPS else ""
    return f"{name}: {part} % of the paths had not met the condition {seen}, and count with {value}{more}"


def censored_notes(dataset: "xr.Dataset", names: Iterable[str], which: str = "") -> Iterable[str]:
    """How many paths had not met the condition of a first time by the end, and with what they count."""
    for name in names:
        if np.isfinite(dataset.get(f"{name}_censored", np.nan)):
            part, error = (100 * float(dataset[f"{name}_censored{end}"]) for end in ("", "_stderr"))
            about = dataset[f"{name}_censored"].attrs
            value, seen = about["counts_as"], about.get("seen", AT_ANY_TIME)
            if part == 100:
                yield f"{name}{which}: {_none_met(error, seen)}; the mean is {value}"
                continue
            yield _waiting(f"{name}{which}", with_error(part, error), value, seen)


def _none_met(error: float, seen: str) -> str:
    """That no path met a condition, and how many of all may; `error` is 100 % by the number of paths."""
    most = RULE_OF_THREE * error
    bound = f" (below {most:.2g} % of all do, by the rule of three)" if 0 < most < 100 else ""
    return f"no path met the condition {seen}{bound}"


def _why_unknown(dataset: "xr.Dataset", failed: bool) -> str:
    """The reason why there is no step bias: paths that have failed on other steps, or no other steps."""
    adaptive = "rtol" in dataset.attrs
    if "dt" in dataset.attrs and dataset.attrs["kind"] == "ode" and not failed:
        return (
            "the largest or smallest value, or the first time, is one at a step, and what lies between steps "
            "is not seen; compare with more steps, or give rtol and atol, by which first times are located"
        )
    if "triggered_events" in dataset.attrs and not failed:
        return (
            "events that conditions trigger come at other times on other steps, between the dates that are "
            "monitored; compare with more steps"
        )
    if "dt" in dataset.attrs:
        often = ", ".join(dataset.attrs.get("monitored_often", "").split())
        remedies = ["use an even number of steps"] * (int(dataset.attrs["steps"]) % 2)
        remedies += [f"give every: 2 for what is monitored more often ({often})"] * bool(often)
        return (
            "jumps are not split between halves of a step, and no longer steps meet all dates; "
            f"{' and '.join(remedies) or 'use more steps'}"
        )
    if adaptive and not failed and _steps_are_capped(dataset):
        return (
            "most steps are as long as first_step or the saved times allow, not as the tolerances do; "
            "use smaller tolerances"
        )
    if adaptive and not failed:
        precision = dataset.attrs["precision"]
        remedy = "precision: float64" if precision == "float32" else "a larger rtol"
        return f"there are no other tolerances below 1 that {precision} resolves; use {remedy}"
    return f"paths fail with other {'tolerances' if adaptive else 'leaps'}; a larger time.max_steps may help"


def _steps_are_capped(dataset: "xr.Dataset") -> bool:
    """Whether most steps of stochastic paths are as long as first_step or the saved times allow."""
    from simkit_solvers import AdaptiveGrid, Tolerances

    if dataset.attrs.get("kind") != "sde":
        return False
    t, tolerances = dataset["time"].values, Tolerances(dataset.attrs["rtol"], dataset.attrs["atol"])
    grid = AdaptiveGrid(t[0], t[-1], tolerances, dataset.attrs.get("first_step"), len(t) - 1)
    return dataset.attrs["accepted_steps_mean"] < 2 * grid.fewest_steps


def _spread(dataset: "xr.Dataset", which: str) -> Iterable[str]:
    """What leaps make of the variances of counts, which is often more than they make of the means."""
    result = []
    for name in dataset.attrs["state_variables"].split():
        bias = dataset.get(f"{name}_variance_bias")
        variance = 0.0 if bias is None else float(dataset[f"{name}_variance"][-1])
        if bias is not None and np.isfinite(bias) and variance > 0:
            part, error = (100 * float(x) / variance for x in (bias, dataset[f"{name}_variance_bias_stderr"]))
            result.append(f"{name} {part:+.1f} % ± {error:.1f} %")
    if result:
        yield f"leaps change the variance{which} by: {', '.join(result)}"


def _short_leaps(dataset: "xr.Dataset", which: str) -> Iterable[str]:
    """That leaps hold so few events that single ones take less time."""
    leaps = float(dataset.attrs.get("leaps_mean", 0))
    each = float(dataset.attrs.get("events_in_leaps_mean", math.inf)) / leaps if leaps else math.inf
    if each < FEW_IN_LEAP:
        yield (
            f"a leap{which} holds {each:.2g} events on average, fewer than a leap costs: DirectMethod, which "
            "is exact, takes less time"
        )


def _remedy(dataset: "xr.Dataset", steps: dict[str, int]) -> str:
    """How many paths for figures whose step bias is lost in noise, and for others how many steps."""
    paths = by_quantity(dataset, "wanted_paths")
    if not steps.keys() <= paths.keys():
        return more_steps(dataset, steps)
    wanted = max(paths[name] for name in steps)
    if wanted < ABSURD * dataset.attrs["paths"]:
        return f"use {wanted:,} paths or more"
    return f"paths would have to be {_count(wanted)}, as so few of them make this value"


def _count(number: int) -> str:
    return f"{number:,}" if number < LARGEST_COUNT else f"{number:.1e}"


def more_steps(dataset: "xr.Dataset", wanted: dict[str, int]) -> str:
    """How many steps, and for steps that are no result what else may help; of adaptive steps tolerances.

    Steps beyond the stability of a solver blow up as a power of their number. A solution of an ordinary
    equation that changes with each length of step and shows no order is chaotic rather than stiff, unless
    it has blown up; where it has, no number of steps can be foretold.
    """
    if is_multilevel(dataset):
        return "ask for a smaller ensemble.target"
    kind, times = str(dataset.attrs.get("kind")), max(wanted.values())
    if kind == "jump":
        return f"use an epsilon {times:,} times as small, or DirectMethod"
    if wanted.keys() <= {*dataset.attrs.get("first_times_of_steps", "").split()}:
        known = not any(np.isfinite(dataset.get(f"{name}_bias_bound", np.nan)) for name in wanted)
        return (
            f"it falls with the root of the step: use {_count(times)} steps{', or subtract it' * known}; if "
            "the steps are the dates that are meant, give every: 1"
        )
    adaptive = "rtol" in dataset.attrs
    smaller = f"use tolerances {times:,} times as small, or smaller ones"
    text = smaller if adaptive else f"use {times:,} steps or more"
    other = _other_solver(dataset)
    if times >= ABSURD * dataset.attrs.get("steps", math.inf):
        another = f"use another solver{other and f', such as {other}'}"
        return f"these steps would have to be {_count(times)}; {another}"
    if kind == "ode" and any(_has_no_order(dataset, name) for name in wanted):
        if other and _has_blown_up(dataset, wanted):
            return f"use {other}, or {'smaller tolerances' if adaptive else 'many more steps'}"
        return f"{text}, or an earlier time.t1 if the solution is chaotic: errors grow exponentially there"
    return f"{text}, or {other}" if other and not adaptive else text


def _other_solver(dataset: "xr.Dataset") -> str:
    """A solver that may need fewer steps, and when; nothing where the run has one of its kind."""
    from simkit_physics import MODELS
    from simkit_solvers import SOLVERS, AbstractUnderdampedLangevin

    kind, solver, model = (str(dataset.attrs.get(key)) for key in ("kind", "solver", "model"))
    info, cls = SOLVERS.get(solver), MODELS.get(model)
    if info is not None and (info.stiff or info.exact or info.langevin or info.overdamped):
        return ""
    if cls is not None and issubclass(cls, AbstractUnderdampedLangevin):
        return "BAOAB"
    other = IMPLICIT.get(kind)
    return f"{other} if the problem is stiff" if other else ""


def _has_blown_up(dataset: "xr.Dataset", names: Iterable[str]) -> bool:
    """Whether other steps change a value by far more than what is known of the start explains."""
    means = [f"{name}_mean" for name in (*dataset.attrs.get("state_variables", "").split(), *names)]
    sizes = [np.abs(np.atleast_1d(dataset[mean].values)) for mean in means if mean in dataset]
    start = max((each[np.argmax(each > 0)] for each in sizes), default=math.inf)
    return any(float(dataset.get(f"{name}_bias_bound", np.nan)) > BLOWN_UP * start for name in names)


def _has_no_order(dataset: "xr.Dataset", name: str) -> bool:
    bound = dataset.get(f"{name}_bias_bound")
    return bound is not None and bool(np.isfinite(bound))
