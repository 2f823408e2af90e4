"""`simkit.debug`: what went wrong in which path, and what single paths did step by step."""

import dataclasses
import os
from collections.abc import Iterable, Mapping
from typing import Any

import jax
import numpy as np

from simkit.config.overrides import Overrides
from simkit.diagnostics.debugging.finding import Finding, find
from simkit.diagnostics.debugging.key_reuse import KeyReport, check_keys
from simkit.diagnostics.debugging.trace import Trace, trace
from simkit.ensemble.chunks import Chunk
from simkit.ensemble.early_exercise.longstaff_schwartz import with_policies
from simkit.ensemble.over_chunks import over_chunks
from simkit.ensemble.programs import compiled
from simkit.ensemble.run import chunk_plan, chunk_requests
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.work import workers_of
from simkit.errors import InputError
from simkit.experiments.variants import load_one

SCREENED = 10_000
EXPLAINED = 3


@dataclasses.dataclass(frozen=True)
class DebugReport:
    """The results of debugging.

    `screened` of the `paths` of the ensemble were run, of which those in `failed` keep something that is not
    finite; `findings` explain the first of them, `traces` are the rows of the requested paths, and `keys`
    says whether random words are used twice, None where that was not checked.
    """

    screened: int
    paths: int
    failed: tuple[int, ...]
    findings: tuple[Finding, ...]
    traces: tuple[Trace, ...]
    keys: KeyReport | None

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.failed and not (self.keys and self.keys.reused)


def debug(
    source: str | os.PathLike | Mapping[str, Any],
    *,
    overrides: Overrides = (),
    variant: str | None = None,
    path: int | Iterable[int] = (),
    paths: int | None = None,
    values: Iterable[str] | None = None,
    every: int | None = None,
    keys: bool = False,
) -> DebugReport:
    """Examine single paths of an experiment, as `simkit debug` does; nothing is written.

    `path` names those to examine; without it the first `paths` (10 000, or all where there are fewer) are
    run, and the first three of those that fail are explained. `values` are names of variables, observables
    and Brownian increments (`dW`) whose values at every `every`-th step are wanted, all of them for an empty
    list; of path 0 if none is named. `keys` looks for random words that are used twice. Raises `InputError`.

    >>> import simkit
    >>> experiment = {
    ...     "model": {"ode": {"x": "x**2"}},
    ...     "initial": {"x": 1.0},
    ...     "solver": "Euler",
    ...     "time": {"t1": 9.0, "steps": 99},
    ... }
    >>> report = simkit.debug(experiment)
    >>> print(report.findings[0].text)
    path 0: x = inf at t = 2.09091 (step 23 of 99)
    """
    simulation = load_one(source, overrides, variant)
    chosen = [path] if isinstance(path, int) else list(path)
    wrong = [each for each in chosen if not 0 <= each < simulation.paths]
    if wrong:
        raise InputError(f"path {wrong[0]}: the paths are 0 to {simulation.paths - 1}")
    if paths is not None and not 1 <= paths <= simulation.paths:
        raise InputError(f"paths {paths}: must be from 1 to the {simulation.paths} of the ensemble")
    if paths is not None and chosen:
        raise InputError(f"paths {paths}: name single paths or how many, not both")
    if every is not None and values is None:
        raise InputError(
            f"every {every}: is for values to print, and there are none; add values, or remove it"
        )
    with jax.enable_x64(True):
        simulation, _, _ = with_policies(simulation)
    shown = [] if values is None else [trace(simulation, each, list(values), every) for each in chosen or [0]]
    screened = len(chosen) or paths or min(simulation.paths, SCREENED)
    failed = () if chosen else failed_among(simulation, screened)
    results = (find(simulation, each) for each in chosen or failed[:EXPLAINED])
    findings = tuple(each for each in results if each is not None)
    failed = failed or tuple(each.path for each in findings)
    report = check_keys(simulation) if keys else None
    return DebugReport(screened, simulation.paths, failed, findings, tuple(shown), report)


def failed_among(simulation: Simulation, paths: int) -> tuple[int, ...]:
    """Which of the first paths keep something that is not finite, by the program of the ensemble."""
    simulation = dataclasses.replace(simulation, paths=paths)
    with jax.enable_x64(True):
        plan = chunk_plan(simulation)
        request, _ = chunk_requests(simulation, plan)
        (simulate,), _ = compiled(request)
        inputs, _ = request.arguments
    failed: list[int] = []

    def work(chunk: Chunk) -> list[int]:
        values, _ = simulate(inputs, chunk.ids)
        finite = np.all([np.isfinite(np.asarray(x)).all(axis=0) for x in values], axis=0).reshape(-1)
        return (chunk.first + np.flatnonzero(~finite[: chunk.count])).tolist()

    over_chunks(plan, work, lambda _, paths: failed.extend(paths), workers_of(simulation))
    return tuple(failed)
