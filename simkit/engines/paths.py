"""Ensembles of paths, as commands and Python functions see them."""

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from simkit.cluster.parts import EnsemblePart, Joined
from simkit.config.diagnostics import placed
from simkit.config.documents import Document
from simkit.config.settings import Experiment, Sensitivity
from simkit.derivatives.study import find_sensitivities
from simkit.engines.engine import OF_NO_EFFECT, AbstractEngine, Progress, Target
from simkit.ensemble.run import Accumulate, SimulatedPaths, run_part, simulate_paths
from simkit.ensemble.simulation import Simulation, experiment_of
from simkit.ensemble.sizes import LIGHTER, check_memory, estimate, estimate_text
from simkit.ensemble.work import devices_of
from simkit.errors import InputError
from simkit.experiments.experiment import simulation_of
from simkit.experiments.variant_fit import fitted
from simkit.experiments.variants import refuse_paths, together
from simkit.progress import counted
from simkit.records.recording import current
from simkit.results.provenance import as_yaml, provenance
from simkit.results.variables import DatasetParts

if TYPE_CHECKING:
    import xarray as xr

PAIRED, OF_ALL = 2**16, 2**20  # paths of which variants are compared one by one, of one and of all together


class PathEngine(AbstractEngine[Simulation]):
    """Differential equations and jump processes: many paths, and statistics over them."""

    counted = "paths"
    parameter = "sigma"
    lighter = LIGHTER

    def build(self, document: Document) -> Simulation:
        return simulation_of(document)

    def root(self) -> type[Experiment]:
        return Experiment

    def fitted(self, each: dict[str, Simulation]) -> dict[str, Simulation]:
        return fitted(each)

    def experiment(self, simulation: Simulation) -> Experiment:
        return experiment_of(simulation)

    def work(self, simulation: Simulation) -> int:
        return simulation.paths

    def about(self, simulation: Simulation) -> dict[str, Any]:
        from simkit_solvers.problems.schedule import model_of

        return {
            "model": type(model_of(simulation.problem)).__name__,
            "solver": type(simulation.solver).__name__,
            "paths": simulation.paths if simulation.target is None or simulation.pilot else None,
            "steps": simulation.grid.steps,
            "observables": list(simulation.observables),
        }

    def summary(self, simulation: Simulation) -> str:
        about, steps = self.about(simulation), simulation.stepping.description
        if about["steps"] is not None:
            steps = counted(about["steps"], "step")
        paths = (
            "as many paths as its target takes" if about["paths"] is None else counted(about["paths"], "path")
        )
        from simkit.results.titles import EQUATIONS

        model = EQUATIONS.get(about["model"], about["model"])
        return f"{model}, {about['solver']}, {paths}, {steps}"

    def sized(self, each: Mapping[str, Simulation]) -> dict[str, Simulation]:
        if all(one.target is None and one.reduction is None for one in each.values()):
            return {**each}
        if any(one.levels is not None for one in each.values()):
            from simkit.multilevel.pilot import planned

            with placed(experiment_of(next(iter(each.values()))).document):
                return {name: planned(one) for name, one in each.items()}
        from simkit.engines.sizing import sized  # which imports xarray

        with placed(experiment_of(next(iter(each.values()))).document):
            return sized(each)

    def offers(self, simulation: Simulation) -> dict[str, tuple[int, float]]:
        if simulation.levels is not None:
            return {}
        from simkit.engines.sizing import offers

        return offers(simulation)

    def size(self, simulation: Simulation) -> dict[str, Any]:
        with placed(experiment_of(simulation).document):
            sizes = estimate(simulation)
        if simulation.levels is None or not simulation.levels.paths:
            return sizes
        from simkit.multilevel.level_paths import level_sizes

        return sizes | level_sizes(simulation, simulation.levels)

    def size_text(self, sizes: dict[str, Any]) -> str:
        return estimate_text(sizes)

    def shorter(self, simulation: Simulation) -> str:
        fewer = ", fewer ensemble.paths," if simulation.paths > 1 else ""
        fewer = fewer if simulation.target is None else ", a larger ensemble.target,"
        return f"a smaller time.t1{fewer} or {simulation.stepping.shorter}"

    def pilot(self, simulation: Simulation) -> Simulation:
        experiment = experiment_of(simulation).model_copy(update={"cluster": None})
        return dataclasses.replace(simulation, experiment=experiment)

    def check_target(self, each: Mapping[str, Simulation], target: Target) -> None:
        refuse_paths(map(experiment_of, each.values()), target)

    def identity(self, simulation: Simulation) -> str:
        experiment = experiment_of(simulation).resolved()  # with the digests of its files
        experiment["ensemble"] = {k: x for k, x in experiment["ensemble"].items() if k not in OF_NO_EFFECT}
        return as_yaml(
            {key: section for key, section in experiment.items() if key not in ("output", "cluster")}
        )

    def run(
        self,
        each: Mapping[str, Simulation],
        progress: Progress | None = None,
        parts: list[Any] | None = None,
    ) -> "xr.Dataset":
        """Where the seed is the same, path i of all variants meets the same noise."""
        each = self.sized(each)
        if any(one.levels is not None for one in each.values()):
            return _run_levels(each[""], progress)
        self._check_machine(each)
        kept = _paired(each)
        with _elsewhere(each, parts) as elsewhere:

            def run(simulation: Simulation, progress: Progress | None) -> SimulatedPaths:
                return simulate_paths(simulation, progress, kept, elsewhere)

            results = self.one_by_one(each, run, progress, _finished)
        from simkit.ensemble.coupling import claimed_order
        from simkit.results.dataset import as_dataset
        from simkit.results.variant_dataset import combined

        if "" in each:
            return as_dataset(results[""][0])
        datasets = {name: dataset for name, (dataset, _) in results.items()}
        ends = {name: ends for name, (_, ends) in results.items()}
        described = as_yaml(together({name: experiment_of(one) for name, one in each.items()}))
        draws = {name: one.draws_per_step for name, one in each.items()}
        if max(draws.values()) == 1:
            return combined(datasets, ends, described)
        return combined(datasets, ends, described, draws, claimed_order(each.values()))

    def check_parts(self) -> None:
        """Paths are independent."""

    def run_part(
        self, each: Mapping[str, Simulation], part: EnsemblePart, progress: Progress | None = None
    ) -> list[Any]:
        if any(one.levels is not None for one in each.values()):
            raise InputError("ensemble.method: multilevel has no parts; run it as a whole, without --part")
        if any(one.target is not None and one.target.max_time is not None for one in each.values()):
            raise InputError(
                "ensemble.target.max_time: would give each part another number of paths; use max_paths"
            )
        each = self.sized(each)
        self._check_machine(each)
        kept = _paired(each)

        def one(simulation: Simulation, progress: Progress | None) -> Any:
            return run_part(simulation, part.paths_of(simulation), progress, kept)

        return [*self.one_by_one(each, one, progress).values()]

    def _check_machine(self, each: Mapping[str, Simulation]) -> None:
        """Raise `InputError` where there are too few devices, or is too little memory."""
        for simulation in each.values():
            with placed(experiment_of(simulation).document):
                devices_of(simulation)
        at_work = experiment_of(next(iter(each.values()))).cluster is not None and current() is not None
        check_memory(each, in_file=at_work and "" in each)

    def differentiate(
        self, simulation: Simulation, section: Sensitivity, progress: Progress | None = None
    ) -> "xr.Dataset":
        experiment = experiment_of(simulation)
        known = provenance(experiment.resolved(), experiment.document.name)
        if simulation.levels is not None:
            return _differentiate_levels(simulation, section, progress, known)
        refuse_of_means(simulation)
        with placed(experiment.document):
            study = find_sensitivities(simulation, section, progress)
        from simkit.derivatives.result import to_dataset  # imports xarray, which a command does meanwhile

        return to_dataset(simulation, study, known)

    def table(self) -> ModuleType:
        from simkit.results import table

        return table

    def keeps_unresolved(self, each: Mapping[str, Simulation]) -> bool:
        return all(experiment_of(one).ensemble.unresolved == "keep" for one in each.values())


def refuse_of_means(simulation: Simulation) -> None:
    """Raise `InputError` for what is for means alone: a target in place of paths, and variance reduction."""
    with placed(experiment_of(simulation).document):
        if simulation.levels is not None:
            raise InputError(
                "ensemble.method: multilevel is for `simkit run` and `sensitivity`; leave it out here, "
                "and say how many paths there are: --set ensemble.method=null --set ensemble.target=null "
                "--set ensemble.paths=100000"
            )
        if simulation.reduction is not None and simulation.reduction.averages:
            raise InputError(
                "ensemble.variance_reduction: is for means, of `simkit run` and `simkit sweep`; leave it out "
                "here: --set ensemble.variance_reduction=null"
            )
        if simulation.target is not None:
            raise InputError(
                "ensemble.target: is for `simkit run` and `simkit sweep`; here say how many paths there are: "
                "--set ensemble.target=null --set ensemble.paths=100000"
            )


def _paired(each: Mapping[str, Simulation]) -> int:
    """Of how many paths the final values are kept, to compare variants; of one alone none for that."""
    return 0 if "" in each else min(PAIRED, OF_ALL // len(each))


@contextlib.contextmanager
def _elsewhere(each: Mapping[str, Simulation], parts: list[Any] | None) -> Iterator[Accumulate | None]:
    """Where paths come from, if this process does not simulate them: from parts, or a cluster."""
    cluster = experiment_of(next(iter(each.values()))).cluster
    if parts is not None:
        yield Joined(iter(parts))
    elif cluster is None:
        yield None
    else:
        from simkit.cluster.dask_cluster import opened

        with opened(cluster) as opened_cluster:
            yield opened_cluster


def _run_levels(simulation: Simulation, progress: Progress | None) -> "xr.Dataset":
    from simkit.multilevel.run import run_levels

    result = run_levels(simulation, progress)
    from simkit.multilevel.dataset import to_dataset  # imports xarray, which a command does meanwhile

    experiment = experiment_of(simulation)
    return to_dataset(simulation, result, provenance(experiment.resolved(), experiment.document.name))


def _differentiate_levels(
    simulation: Simulation, section: Sensitivity, progress: Progress | None, provenance: dict[str, Any]
) -> "xr.Dataset":
    from simkit.multilevel.sensitivities import find_level_sensitivities

    with placed(experiment_of(simulation).document):
        study, result = find_level_sensitivities(simulation, section, progress)
    from simkit.multilevel.derivative_dataset import to_dataset  # imports xarray

    return to_dataset(simulation, study, result, provenance)


def _finished(simulation: Simulation, paths: SimulatedPaths) -> tuple[DatasetParts, Mapping[str, np.ndarray]]:
    """What the dataset of a run is made of, and the final values of its first paths."""
    result = paths.result()
    from simkit.results.dataset import labelled  # imports xarray, which a command does meanwhile

    experiment = experiment_of(simulation)
    known = provenance(experiment.resolved(), experiment.document.name)
    return labelled(simulation, result, known), result.ends
