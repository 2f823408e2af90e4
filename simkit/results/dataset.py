"""From what an ensemble gives back to a labelled `xarray.Dataset`."""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
import xarray as xr
from simkit_solvers.problems.problem import AbstractExactMoments, AbstractSDE, variables_of
from simkit_solvers.problems.reaction_network import view
from simkit_solvers.problems.schedule import is_changed, model_of

from simkit.ensemble.initial import differs_between_paths
from simkit.ensemble.simulation import EnsembleResult, Simulation, StepCounts
from simkit.ensemble.stepping import stepping
from simkit.observe.exercise import ExerciseFit
from simkit.results.dataset_errors import (
    against_exact,
    censored,
    labels,
    limits,
    resolutions,
    squared,
    standard_errors,
    step_bias,
)
from simkit.results.derived import derived_variables

FORMAT = 1
MOMENTS = {
    "mean": "mean of {}",
    "stderr": "standard error of the mean of {}",
    "variance": "variance of {}",
    "variance_stderr": "standard error of the variance of {}",
    "min": "smallest {}",
    "max": "largest {}",
}


def to_dataset(simulation: Simulation, result: EnsembleResult, provenance: Mapping[str, Any]) -> xr.Dataset:
    """The statistics by flat names with units, long names and provenance.

    For a state variable `S`: `S_mean`, `S_stderr`, `S_variance`, `S_variance_stderr`, `S_min`, `S_max`
    `(time)`, `S_quantile`, `S_quantile_stderr` and `S_quantile_bin_error` `(time, quantile)`, `S_histogram`
    `(S_bin)` of the end with `S_histogram_edge` `(S_edge)`, `S_path` `(path, time)`, and where they are known
    `S_exact`, `S_exact_variance` `(time)`, `S_bias`, `S_bias_stderr`, `S_bias_order`, where there is no
    estimate `S_bias_bound`, and `S_z` at the end; `S_lower` and `S_upper` where all paths have one value and
    could have others. Observables kept at the end have no `time`. A hitting time has `T_censored` and
    `T_censored_stderr`, which part of the paths was still waiting at the end. `covariance` is that of
    the final values. With early exercise, an observable `P` has `P_in_sample` and `P_in_sample_stderr`, its
    mean on the paths where the policy was found, and `P_exercise_share`, `P_exercise_low` and
    `P_exercise_high` `(P_date)`: how many of those exercise, and the range of the first basis function where
    they do. Where Brownian noise drives the model, `P_upper_bound` and `P_upper_bound_stderr` are an upper
    bound of the value. A figure `v` made of means has `v_value`, `v_stderr`, and where they are known
    `v_bias`, `v_bias_stderr` or `v_bias_bound`, `v_exact` and `v_z`. The attribute `bias_left_out` says of
    which quantities the step bias leaves out paths, as `S 3, call 3`, since they have no finite value at its
    other steps; `noticeable_bias` and `unresolved` say in the same way which have a step bias that matters,
    or one as large as themselves, and how many steps would do. `provenance` goes to the attributes: strings
    and numbers only.
    """
    units = quantities(simulation)
    coordinates = {
        "time": ("time", result.times, {"units": "time", "long_name": "time"}),
        "quantile": ("quantile", np.asarray(simulation.quantiles, float), labels("1", "quantile level")),
    }
    variables: dict[str, tuple] = {}
    ends = {name for name, info in simulation.observables.items() if info.at == "end"}
    exact = exact_moments(simulation, result.times)
    for name, (unit, description) in units.items():
        at = () if name in ends else ("time",)
        variables |= _statistics(name, unit, description, at, simulation, result)
        variables |= _paths(name, unit, description, at, result)
        variables |= against_exact(name, unit, description, at, simulation, result, exact)
        variables |= step_bias(name, unit, description, simulation, result)
        variables |= limits(name, unit, description, simulation, result)
        variables |= censored(name, simulation, result)
        if name in result.exercises:
            fit = result.exercises[name]
            variables |= _exercise(name, unit, description, fit)
            t0 = float(simulation.grid.t0)
            dates = t0 + (result.times[-1] - t0) * fit.dates
            coordinates[f"{name}_date"] = (f"{name}_date", dates, labels("time", f"exercise date of {name}"))
        edges = variables[f"{name}_histogram_edge"][1]
        centres = (edges[1:] + edges[:-1]) / 2
        coordinates[f"{name}_bin"] = (f"{name}_bin", centres, labels(unit, f"bin centre of {description}"))
    covariance = result.statistics["covariance"]
    names = covariance["quantity"].astype(object)
    for axis in ("quantity", "quantity_2"):
        coordinates[axis] = (axis, names, labels("1", "quantity"))
    variables["covariance"] = (
        ("quantity", "quantity_2"),
        covariance["covariance"],
        labels("product of the two quantities' units", "covariance of the final values"),
    )
    variables |= derived_variables(simulation, result)
    return xr.Dataset(variables, coordinates, _attributes(simulation, result, provenance))


def quantities(simulation: Simulation) -> dict[str, tuple[str, str]]:
    """Unit and description of every state variable and observable, in that order."""
    states = variables_of(simulation.problem)
    # A model without units of its own calls that of X [X], which says nothing here.
    found = {
        name: ("" if spec.unit == f"[{name}]" else spec.unit, spec.description or name)
        for name, spec in states.items()
    }
    return found | {n: (info.unit, info.description or n) for n, info in simulation.observables.items()}


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
        since = times - times[0]
        mean = jax.vmap(problem.exact_mean, (0, None))(since, start)
        variance = jax.vmap(problem.exact_variance, (0, None))(since, start)
    found: dict[str, dict[str, np.ndarray]] = {}
    known = [("mean", mean), ("variance", variance)]
    if view(simulation.problem, simulation.grid.has_events) == "rate equation":
        known = known[:1]  # which has none of the network's spread
    for key, moment in known:
        for name, value in moment._asdict().items():
            if value is not None:
                found.setdefault(name, {})[key] = np.asarray(value)
    return found


def _statistics(
    name: str, unit: str, description: str, at: tuple, simulation: Simulation, result: EnsembleResult
) -> dict[str, tuple]:
    moments, histogram = result.statistics["moments"], result.statistics["histogram"]
    n = {"n": int(moments["n"])}
    row = slice(None) if at else 0
    found = {}
    values = {key: moments[f"{name}_{key}"] for key in MOMENTS} | {
        "stderr": standard_errors(name, simulation, result)
    }
    for key, text in MOMENTS.items():
        what = labels(squared(unit) if "variance" in key else unit, text.format(description))
        found[f"{name}_{key}"] = (at, values[key][row], what | n)
    found[f"{name}_mean"][2]["description"] = description
    for key, text in (
        ("quantile", "quantile of {}"),
        ("quantile_stderr", "standard error of the quantile of {}"),
        ("quantile_bin_error", "bound on the quantile's bin error: {}"),
    ):
        what = labels(unit, text.format(description))
        found[f"{name}_{key}"] = ((*at, "quantile"), histogram[f"{name}_{key}"][row], what | n)
    counts = labels("1", f"paths by final {description}, all but the outermost thousandths")
    found[f"{name}_histogram"] = ((f"{name}_bin",), histogram[f"{name}_histogram"], counts | n)
    edges = labels(unit, f"bin edges of {description}")
    found[f"{name}_histogram_edge"] = ((f"{name}_edge",), histogram[f"{name}_histogram_edge"], edges)
    return found


def _paths(name: str, unit: str, description: str, at: tuple, result: EnsembleResult) -> dict[str, tuple]:
    if name not in result.stored:
        return {}
    values = result.stored[name] if at else result.stored[name][:, 0]
    return {f"{name}_path": (("path", *at), values, labels(unit, f"{description} along the first paths"))}


def _exercise(name: str, unit: str, description: str, fit: ExerciseFit) -> dict[str, tuple]:
    """What the paths say on which the policy was found."""
    at = (f"{name}_date",)
    bound = {}
    if fit.upper is not None:
        bound = {
            f"{name}_upper_bound": (
                (),
                fit.upper,
                labels(unit, f"upper bound of the value of {description}"),
            ),
            f"{name}_upper_bound_stderr": (
                (),
                fit.upper_stderr,
                labels(unit, f"standard error of {name}_upper_bound"),
            ),
        }
    mean = f"mean of {description} on the paths where the policy was found"
    return bound | {
        f"{name}_in_sample": ((), fit.mean, labels(unit, mean)),
        f"{name}_in_sample_stderr": ((), fit.stderr, labels(unit, f"standard error of {name}_in_sample")),
        f"{name}_exercise_share": (at, fit.share, labels("1", "share of those paths that exercise")),
        f"{name}_exercise_low": (at, fit.low, labels("", "least basis value where they exercise")),
        f"{name}_exercise_high": (at, fit.high, labels("", "largest basis value where they exercise")),
    }


def _step_attributes(simulation: Simulation, steps: int | StepCounts) -> dict[str, int | float]:
    """How many steps of which length, or by which tolerances they were chosen and how many it took."""
    return stepping(simulation.problem, simulation.grid).attributes(simulation.solver, steps)


def _picture_attributes(simulation: Simulation) -> dict[str, str]:
    """What the picture is to show, where something was asked for: pairs are separated by semicolons."""
    picture = simulation.picture
    found = {
        "plot_over_time": " ".join(picture.over_time),
        "plot_portrait": "; ".join(" ".join(pair) for pair in picture.portrait),
    }
    return {key: text for key, text in found.items() if text}


def _attributes(
    simulation: Simulation, result: EnsembleResult, provenance: Mapping[str, Any]
) -> dict[str, Any]:
    problem = simulation.problem
    states = variables_of(problem)
    jumps = simulation.grid.has_events
    seen = view(problem, jumps)
    judged = resolutions(simulation, result)
    by_quantity = {
        "bias_left_out": result.bias_left_out,
        "noticeable_bias": {name: r.steps for name, r in judged.items() if r.kind == "noticeable"},
        "unresolved": {name: r.steps for name, r in judged.items() if r.kind == "unresolved"},
    }
    return {
        "simkit_format": FORMAT,
        "model": type(model_of(problem)).__name__,
        "kind": "jump" if jumps else "sde" if isinstance(problem, AbstractSDE) else "ode",
        **({} if seen is None else {"view": seen}),
        "solver": type(simulation.solver).__name__,
        "state_variables": " ".join(states),
        "observables": " ".join(simulation.observables),
        **({"derived": " ".join(each.name for each in simulation.derived)} if simulation.derived else {}),
        **_picture_attributes(simulation),
        "paths": result.paths,
        "failed_paths": result.failed,
        **{
            key: ", ".join(f"{name} {count}" for name, count in counts.items())
            for key, counts in by_quantity.items()
            if counts
        },
        **_step_attributes(simulation, result.steps),
        "t0": float(simulation.grid.t0),
        "seed": simulation.seed,
        "precision": simulation.precision,
        "normals": simulation.normals,
        "devices": result.devices,
        "elapsed_s": float(result.elapsed_s),
        "compile_s": float(result.compile_s),
        "bias_s": float(result.bias_s),
        **({"fit_s": float(result.fit_s)} if result.exercises else {}),
        "path_steps_per_s": float(result.path_steps_per_s),
        **provenance,
    }
