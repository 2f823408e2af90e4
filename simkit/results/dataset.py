"""The result of an ensemble as a labelled `xarray.Dataset`."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
import xarray as xr
from simkit_solvers.problems.observe import happened_name
from simkit_solvers.problems.problem import AbstractExactMoments, variables_of
from simkit_solvers.problems.schedule import is_changed, model_of, schedule_of

from simkit.ensemble.could_differ import is_random
from simkit.ensemble.initial import differs_between_paths
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.reducers import STATISTICS
from simkit.ensemble.simulation import EnsembleResult, Simulation
from simkit.ensemble.step_bias.resolution import Resolution
from simkit.ensemble.stepping import since
from simkit.ensemble.weights import WEIGHTS
from simkit.observe.exercise import ExerciseFit
from simkit.observe.observable import Observable
from simkit.observe.time_functions import SetVariables, counted_events, given_events, triggered_events
from simkit.results.dataset_errors import against_exact, censored, limits, resolution_of_mean, step_bias
from simkit.results.derived import derived_variables
from simkit.results.quantity import RunQuantity, quantities
from simkit.results.step_notes import BLOWN_UP, part_of_one
from simkit.results.variables import DatasetParts, Variables, power_of, variable, with_stderr

FORMAT = 1
SPACED = 2  # steps between dates that longer steps meet too
OF_MEANS = ("mean", "stderr")  # what there is of weighted paths: all else would be with the drift
ON_TIME = 1e-9  # of the span: what rounding makes of a time


def to_dataset(simulation: Simulation, result: EnsembleResult, provenance: Mapping[str, Any]) -> xr.Dataset:
    """The dataset of a run: `labelled`."""
    return as_dataset(labelled(simulation, result, provenance))


def as_dataset(one: DatasetParts) -> xr.Dataset:
    """The dataset that is made of these."""
    return xr.Dataset(one.data_vars, one.coords, one.attrs)


def labelled(simulation: Simulation, result: EnsembleResult, provenance: Mapping[str, Any]) -> DatasetParts:
    """The statistics by flat names such as `S_mean`, with units, long names and provenance.

    All variables and attributes are listed in `docs/reference/results.md`. `provenance` goes to the
    attributes: strings and numbers only.
    """
    known = quantities(simulation, result)
    exact = exact_moments(simulation, result.times)
    variables: Variables = {}
    for quantity in known.values():
        variables |= _statistics(quantity)
        variables |= _paths(quantity)
        variables |= against_exact(quantity, exact)
        variables |= step_bias(quantity)
        variables |= limits(quantity)
        variables |= censored(quantity)
        if quantity.name in result.exercises:
            variables |= _exercise(quantity, result.exercises[quantity.name])
    if WEIGHTS not in result.statistics:
        covariance = result.statistics["covariance"]["covariance"]
        unit = "product of the two quantities' units"
        dims = ("quantity", "quantity_2")
        variables["covariance"] = variable(dims, covariance, unit, "covariance of the final values")
    variables |= derived_variables(known, simulation, result)
    variables |= _events(simulation, result)
    variables |= _event_counts(simulation, result)
    coordinates = _coordinates(known, simulation, result, variables)
    return DatasetParts(variables, coordinates, _attributes(known, simulation, result, provenance))


def _coordinates(
    known: Mapping[str, RunQuantity], simulation: Simulation, result: EnsembleResult, variables: Variables
) -> Variables:
    levels = np.asarray(simulation.quantiles, float)
    coordinates = {
        "time": variable(("time",), result.times, simulation.time_unit, "time"),
        "quantile": variable(("quantile",), levels, "1", "quantile level"),
    }
    if result.stored:
        kept = len(next(iter(result.stored.values())))
        coordinates["path"] = variable(("path",), np.arange(kept), "1", "path")
    for name, quantity in known.items():
        if name in result.exercises:
            t0 = float(simulation.grid.t0)
            dates = t0 + (result.times[-1] - t0) * result.exercises[name].dates
            key = f"{name}_date"
            coordinates[key] = variable((key,), dates, "time", f"exercise date of {name}")
        if quantity.weighted:
            continue
        edges = variables[f"{name}_histogram_edge"][1]
        centres, key = (edges[1:] + edges[:-1]) / 2, f"{name}_bin"
        coordinates[key] = variable((key,), centres, quantity.unit, f"bin centre of {quantity.description}")
    names = result.statistics["covariance"]["quantity"].astype(object)
    for axis in ("quantity", "quantity_2"):
        coordinates[axis] = variable((axis,), names, "1", "quantity")
    return coordinates


def exact_moments(simulation: Simulation, times: np.ndarray) -> dict[str, dict[str, np.ndarray]]:
    """Exact mean and variance over time of the state variables whose model knows them: `[name]["mean"]`.

    Empty where paths begin at different places: the closed forms start from a fixed one. Empty too where
    parameters change with time or events change the state.
    """
    problem, initial = model_of(simulation.problem), simulation.initial
    differ = differs_between_paths(initial.values()) or is_changed(simulation.problem)
    if differ or not isinstance(problem, AbstractExactMoments):
        return {}
    with jax.enable_x64(True):
        problem, start = jax.tree.map(
            lambda leaf: np.asarray(leaf, np.float64), (problem, problem.State(**initial))
        )
        request = Request(_exact_moments, (problem, start, times - times[0]), quick=True)
        (program,), _ = compiled(request)  # which is stored, as each operation by itself would not be
        mean, variance = program(*request.arguments)
    moments = {"mean": mean._asdict(), "variance": variance._asdict()}
    if simulation.stepping.view == "rate equation":
        del moments["variance"]  # which has none of the network's spread
    return {
        name: known
        for name in problem.State._fields
        if (known := {key: np.asarray(each[name]) for key, each in moments.items() if each[name] is not None})
    }


def _exact_moments(model: AbstractExactMoments, start, times):
    """Means and variances at each time: a program."""
    return tuple(jax.vmap(f, (0, None))(times, start) for f in (model.exact_mean, model.exact_variance))


def _statistics(quantity: RunQuantity) -> Variables:
    name, unit, description, dims = quantity.name, quantity.unit, quantity.description, quantity.dims
    histogram, n = quantity.result.statistics["histogram"], quantity.n
    row = slice(None) if dims else 0
    variables: Variables = {}
    for kind in STATISTICS.values():
        figures = quantity.result.statistics[kind.name]
        for key, label in kind.labels.items():
            if quantity.weighted and key not in OF_MEANS:
                continue
            values = quantity.stderr if key == "stderr" else figures[f"{name}_{key}"]
            of, text = power_of(unit, label.power), label.text.format(description)
            variables[f"{name}_{key}"] = variable((*dims, *label.dims), values[row], of, text, n=n)
    variables[f"{name}_mean"][2]["description"] = description
    factor = quantity.variance_reduction
    if factor is not None:
        what = f"variance of the mean of as many independent paths, over that of the mean: {description}"
        variables[f"{name}_variance_reduction"] = variable((), factor, "1", what)
        variables[f"{name}_mean"][2]["replicates"] = quantity.result.covariance_and_count[1]
    if quantity.weighted:
        return variables
    counts, edges = histogram[f"{name}_histogram"], histogram[f"{name}_histogram_edge"]
    what = f"paths by final {description}, all but the outermost thousandths"
    variables[f"{name}_histogram"] = variable((f"{name}_bin",), counts, "1", what, n=n)
    edge = variable((f"{name}_edge",), edges, unit, f"bin edges of {description}")
    return variables | {f"{name}_histogram_edge": edge}


def _paths(quantity: RunQuantity) -> Variables:
    stored = quantity.result.stored.get(quantity.name)
    if stored is None:
        return {}
    values = stored if quantity.dims else stored[:, 0]
    what = f"{quantity.description} along the first paths"
    return {f"{quantity.name}_path": variable(("path", *quantity.dims), values, quantity.unit, what)}


def _exercise(quantity: RunQuantity, fit: ExerciseFit) -> Variables:
    """The upper bound, and the figures of the paths to which the policy was fitted."""
    name, unit, description = quantity.name, quantity.unit, quantity.description
    variables: Variables = {}
    if fit.upper is not None:
        what = f"upper bound of the value of {description}"
        variables |= with_stderr(f"{name}_upper_bound", (), fit.upper, fit.upper_stderr, unit, what)
    what = f"mean of {description} on the paths to which the policy was fitted"
    variables |= with_stderr(f"{name}_in_sample", (), fit.mean, fit.stderr, unit, what)
    for key, values, of, what in (
        ("fraction", fit.fraction, "1", "fraction of those paths that exercise"),
        ("low", fit.low, "", "least basis value where they exercise"),
        ("high", fit.high, "", "largest basis value where they exercise"),
    ):
        variables[f"{name}_exercise_{key}"] = variable((f"{name}_date",), values, of, what)
    return variables


def _events(simulation: Simulation, result: EnsembleResult) -> Variables:
    """The events before each row that set a state variable, of those variables that events set.

    Events with a condition happen on some paths, or at other times on each: of those whether one has, on each
    stored path.
    """
    schedule, times, counts, marks = schedule_of(simulation.problem), result.times, {}, {}
    delays: dict[str, float] = {}
    if schedule is None:
        return {}
    for i, event in enumerate(schedule.events):
        change = event.change
        set_here = dict(change.values) if isinstance(change, SetVariables) else simulation.initial
        if event.condition is not None:
            on_paths = result.stored.get(since(happened_name(schedule.counted.index(i))))
            for name in () if on_paths is None else set_here:
                marks[name] = marks.get(name, False) | on_paths
            continue
        # A row at the time of an event has the values after it.
        at = np.asarray(event.times)
        rows = np.searchsorted(times + ON_TIME * (times[-1] - times[0]), at)
        saved = rows < len(times)
        delay = float(np.max(times[rows[saved]] - at[saved], initial=0.0))
        for name in set_here:
            delays[name] = max(delays.get(name, 0.0), delay)
            before = counts.setdefault(name, np.zeros(len(times), int))
            before += np.bincount(rows, minlength=len(times))[: len(times)]
    what = "events that set {} after the row before, up to this one"
    whether = "whether an event set {} after the row before, up to this one, along the first paths"
    return {
        f"{name}_events": variable(("time",), count, "1", what.format(name), longest_delay=delays[name])
        for name, count in counts.items()
    } | {
        f"{name}_path_events": variable(("path", "time"), one.astype(np.int8), "1", whether.format(name))
        for name, one in marks.items()
    }


def _event_counts(simulation: Simulation, result: EnsembleResult) -> Variables:
    """How often events with a condition have happened on a path: the means over the paths, with errors."""
    n, variables = int(result.statistics["moments"]["n"]), {}
    names, random = counted_events(schedule_of(simulation.problem)), is_random(simulation)
    most = 1.0 if simulation.reduction is None else simulation.reduction.inflation
    for name, (total, squares) in zip(names, result.happened, strict=True):
        stderr = _error_of_count(n, total, squares) * most if random else 0.0
        what = f"times that event {name} happened on a path, in the mean"
        variables |= with_stderr(f"{name}_count", (), total / n, stderr, "1", what, n=n)
    return variables


def _error_of_count(n: int, total: int, squares: int) -> float:
    """The standard error of a mean count, from sums of whole numbers, in which nothing cancels.

    At least that of one event more or less on all paths; NaN of one path, which shows no spread.
    """
    if n == 1:
        return np.nan
    return max(math.sqrt((n * squares - total**2) / (n - 1)) / n, 1 / n)


def _picture_attributes(simulation: Simulation) -> dict[str, str]:
    """What the user wants the picture to show, if anything: semicolons separate pairs."""
    picture = simulation.picture
    texts = {
        "plot_over_time": " ".join(picture.over_time),
        "plot_portrait": "; ".join(" ".join(pair) for pair in picture.portrait),
    }
    return {key: text for key, text in texts.items() if text}


def _share_of_one(quantity: RunQuantity) -> float:
    """What part of the variance of the mean at the end one path makes."""
    low, high, mean, variance = map(quantity.at_end, ("min", "max", "mean", "variance"))
    return part_of_one(low, high, mean, variance, quantity.n)


def _counts(counts: Mapping[str, int]) -> str:
    """A count for each quantity, as `S 3, call 12`."""
    return ", ".join(f"{name} {count}" for name, count in counts.items())


def _target(simulation: Simulation) -> dict[str, Any]:
    """The attributes about the error that was wanted, where one was."""
    target, pilot = simulation.target, simulation.pilot
    if target is None or pilot is None:
        return {}
    return {
        "target": target.stderr or target.total_error,
        "target_kind": "stderr" if target.stderr else "total_error",
        "target_relative": int(target.relative),
        "target_of": " ".join(simulation.target_names),
        "target_paths": pilot.wanted,
        "pilot_paths": pilot.paths,
        "pilot_s": float(pilot.seconds),
        **({"target_limited_by": pilot.limited_by} if pilot.limited_by else {}),
    }


def reduction_attributes(simulation: Simulation) -> dict[str, Any]:
    """The attributes about what makes variances smaller, where something does."""
    reduction = simulation.reduction
    if reduction is None:
        return {}
    controls = " ".join(reduction.controls)
    drift = {}
    if reduction.drift is not None:
        names = simulation.problem.Noise._fields
        drift["importance_drift"] = ", ".join(
            f"{n} {x:.6g}" for n, x in zip(names, reduction.drift, strict=True)
        )
        drift |= {"importance_pilot_paths": reduction.pilot, "importance_of": reduction.aim}
    scramblings = {"scramblings": reduction.scramblings} if reduction.scramblings else {}
    return {"variance_reduction": reduction.description, "control_variates": controls, **scramblings, **drift}


def run_attributes(simulation: Simulation, result: Any) -> dict[str, Any]:
    """What every dataset of paths says of its run; `result` has its devices and its seconds."""
    return {
        "simkit_format": FORMAT,
        "model": type(model_of(simulation.problem)).__name__,
        "kind": simulation.stepping.kind,
        "solver": type(simulation.solver).__name__,
        "state_variables": " ".join(variables_of(simulation.problem)),
        "observables": " ".join(simulation.observables),
        "t0": float(simulation.grid.t0),
        "seed": simulation.seed,
        "precision": simulation.precision,
        "normals": simulation.normals,
        "devices": result.devices,
        "elapsed_s": float(result.elapsed_s),
        "compile_s": float(result.compile_s),
    }


def _stepped(simulation: Simulation) -> Sequence[Observable]:
    """The observables of paths that noise moves between the ends of fixed steps."""
    of_noise = simulation.stepping.kind != "ode" and simulation.grid.steps
    return simulation.observed if of_noise else ()


def _blown_up(
    known: Mapping[str, RunQuantity], judged: Mapping[str, Resolution], simulation: Simulation
) -> dict[str, Resolution]:
    """The variables that unstable steps have made huge, and what is made of them, though it be bounded."""
    means = {name: np.abs(known[name].statistic("mean")) for name in variables_of(simulation.problem)}
    start = max(float(each[0]) for each in means.values()) or math.inf
    huge = {
        name: Resolution("unresolved", judged[name].steps)
        for name, each in means.items()
        if name in judged and judged[name].kind == "unresolved" and each[-1] > BLOWN_UP * start
    }
    made = {each.name: each.names & huge.keys() for each in simulation.observed}
    return huge | {name: huge[min(names)] for name, names in made.items() if names}


def _attributes(
    known: Mapping[str, RunQuantity],
    simulation: Simulation,
    result: EnsembleResult,
    provenance: Mapping[str, Any],
) -> dict[str, Any]:
    schedule, stepped = schedule_of(simulation.problem), _stepped(simulation)
    judged = {name: resolution_of_mean(known[name]) for name in result.bias}
    blown_up = _blown_up(known, judged, simulation)
    judged |= blown_up
    shares = {name: _share_of_one(quantity) for name, quantity in known.items() if quantity.weighted}
    optional = {
        "view": simulation.stepping.view,
        "derived": " ".join(each.name for each in simulation.derived),
        "triggered_events": " ".join(triggered_events(schedule)),
        "counted_events": " ".join(counted_events(schedule)),
        "given_events": given_events(schedule, simulation.time_unit),
        **_picture_attributes(simulation),
        "extremes_of_steps": " ".join(each.name for each in stepped if each.has_extremes_of_steps),
        "first_times_of_steps": " ".join(each.name for each in stepped if each.has_first_times_of_steps),
        "monitored_often": " ".join(e.name for e in stepped if e.has_dates and (e.every or 1) % SPACED),
        "blown_up": " ".join(blown_up),
        "bias_left_out": _counts(result.bias_left_out),
        "noticeable_bias": _counts({n: r.steps for n, r in judged.items() if r.kind == "noticeable"}),
        "unresolved": _counts({n: r.steps for n, r in judged.items() if r.kind == "unresolved"}),
        "degenerate": json.dumps(result.degenerate) if result.degenerate else "",
        "shares_of_one": json.dumps(shares) if shares else "",
        "wanted_paths": _counts({n: r.paths * simulation.paths for n, r in judged.items() if r.paths}),
    }
    return {
        **run_attributes(simulation, result),
        **{key: text for key, text in optional.items() if text},
        "paths": result.paths,
        **_target(simulation),
        **reduction_attributes(simulation),
        "failed_paths": result.failed,
        **simulation.stepping.attributes(result.steps),
        "bias_s": float(result.bias_s),
        **({"fit_s": float(result.fit_s)} if result.exercises else {}),
        "path_steps_per_s": float(result.path_steps_per_s),
        **provenance,
    }
