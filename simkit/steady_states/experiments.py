"""Steady states of experiments: from a file, or its variants, to a dataset."""

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simkit.config.diagnostics import placed
from simkit.config.overrides import Overrides, opened
from simkit.engines.loaded import Loaded
from simkit.engines.paths import PathEngine
from simkit.ensemble.simulation import Simulation, experiment_of
from simkit.experiments.constants import remark_unused
from simkit.experiments.experiment import simulation_of
from simkit.experiments.variant_fit import fitted
from simkit.experiments.variants import build_each
from simkit.results.provenance import provenance
from simkit.steady_states.study import check_settings, find_steady_states

if TYPE_CHECKING:
    import xarray as xr


def steady(
    source: str | os.PathLike | Mapping[str, Any],
    wrt: str | Iterable[str] | None = None,
    *,
    overrides: Overrides = (),
    variants: Iterable[str] | None = None,
    search: int = 0,
    ranges: Mapping[str, Sequence[float]] | None = None,
    at: float | None = None,
) -> "xr.Dataset":
    r"""The steady state that a model reaches from its initial values, as `simkit steady` finds it.

    $f(y^*) = 0$ with the drift of a stochastic equation and the rate equation of a reaction network, at the
    conserved totals of the start. The dataset has, along `root`, values and their errors, the rates of change
    left, eigenvalues of the Jacobian with their errors, the `kind` of stability, `stable` and `reached`.

    `source`, `overrides` and `variants` are as for `simkit.run`. With `search`, that many starts of Newton's
    method find other steady states within `ranges`, such as `{"x": (0, 2)}`. Derivatives are with respect to
    the parameters named in `wrt`; an empty list stands for those of `sensitivity.wrt`, or all of the model.
    `at` freezes the time of equations that depend on it. Raises `InputError` where there can be no steady
    state, and `NumericalError` where none is found. Nothing is written.

    >>> import simkit
    >>> growth = {"model": {"ode": {"x": "2*x*(1 - x/K)"}, "parameters": {"K": 10.0}}, "initial": {"x": 1.0}}
    >>> result = simkit.steady(growth | {"time": {"t1": 10.0, "steps": 100}}, wrt="K")
    >>> state = result.sel(root=1, quantity="x")
    >>> round(float(state["value"]), 6), str(state["kind"].values)
    (10.0, 'stable node')
    >>> round(float(state["derivative"].sel(parameter="K")), 6)
    1.0
    """
    names = [wrt] if isinstance(wrt, str) else None if wrt is None else list(wrt)
    loaded = load_paths(source, overrides, variants)
    return steady_states(loaded, wrt=names, search=search, ranges=ranges, at=at)


def load_paths(source: Any, overrides: Overrides = (), chosen: Iterable[str] | None = None) -> Loaded:
    """An experiment of paths, or its variants. Raises `InputError`, also for one of molecular dynamics."""
    document = opened(source, overrides)
    remark_unused(document)
    build = functools.partial(simulation_of, of_paths=False)
    each = build_each(document, None if chosen is None else list(chosen), build)
    return Loaded(PathEngine(), fitted(each))


def steady_states(loaded: Loaded, **settings: Any) -> "xr.Dataset":
    """The steady states of each variant, labelled. Raises what `steady` raises, by variant."""

    def one(simulation: Simulation, _: Any) -> "xr.Dataset":
        experiment = experiment_of(simulation)
        check_settings(simulation, **settings)
        with placed(experiment.document):
            found = find_steady_states(simulation, **settings)
        from simkit.steady_states.dataset import to_dataset  # imports xarray

        return to_dataset(simulation, found, provenance(experiment.resolved(), experiment.document.name))

    datasets = loaded.engine.one_by_one(loaded.each, one, None)
    if "" in datasets:
        return datasets[""]
    from simkit.results.variant_dataset import side_by_side

    return side_by_side(datasets)
