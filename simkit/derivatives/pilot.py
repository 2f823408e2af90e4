r"""Which of several valid estimators to select: a pilot measures how much each varies, on few paths.

The estimator with the smallest product of variance and cost gives the smallest error in a given time. The
variance is that of paths with the last ids there are, so that the choice knows nothing of the paths that are
averaged, and is the same on any devices. What a path costs is known by method, since no clock may decide.

A sample variance means nothing where the true one is infinite, so one that a few paths dominate is refused
(`tails`). What would be selected is measured on steps of another length too, those of its step error,
whose programs the study needs in any case, and refused where its largest values grow as steps become shorter.
"""

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from simkit_solvers.methods.registry import info_of
from simkit_solvers.methods.sde.andersen_qe import AbstractSquareRootVariance
from simkit_solvers.problems.schedule import model_of

from simkit.config.settings import MAX_PATHS
from simkit.derivatives.chunks import chunks_of, workers_of_levels
from simkit.derivatives.differentiated_run import DifferentiatedRun
from simkit.derivatives.estimator import Offer, Part, Selection
from simkit.derivatives.estimators import DIFFERENCES
from simkit.derivatives.levels import FEW_PATH_STEPS, quickly_made
from simkit.derivatives.moments import by_path
from simkit.derivatives.parts import parts_of
from simkit.derivatives.tails import tail_of
from simkit.ensemble.chunks import Chunk, Chunks, lanes_for, leaf_by_leaf, planned_steps
from simkit.ensemble.over_chunks import concatenated
from simkit.ensemble.programs import Request, compiled
from simkit.ensemble.work import workers_of
from simkit.machine.on_each_device import Devices

PILOT = 4096  # paths, or as many as the run has
FEWEST = 256  # paths, for a variance
BETTER = 1.5  # within this factor of the best product an estimator is as good

PartBuilder = Callable[[list[Selection]], tuple[list[Part], list[Request]]]


class PilotResult(NamedTuple):
    """The values of an estimator by row and path, its variance times cost, and what is wrong with it."""

    rows: np.ndarray
    product: float
    fault: str = ""

    @property
    def reliable(self) -> bool:
        """Whether there is a usable variance."""
        return not self.fault


def select_estimators(
    run: DifferentiatedRun, offers: Sequence[Offer], planned: PartBuilder
) -> tuple[list[Selection], float]:
    """An estimator for each derivative, its reason with what the pilot says, and the seconds to compile.

    `planned` gives the parts and the programs of a study of some choices.
    """
    contested = [offer for offer in offers if len(offer.rivals) > 1 or offer.instead]
    if not contested or run.simulation.paths < FEWEST:
        return [offer.rivals[0] for offer in offers], 0.0
    rivals = {choice for offer in contested for choice in offer.rivals}
    # With what may take their place: else a method's program for some derivatives would be compiled, and then
    # that for all of them. Differences have one program anyway.
    rivals_and_others = [choice for offer in offers for choice in (*offer.rivals, *offer.instead)]
    grouped = [c for c in rivals_and_others if c in rivals or c.estimator is not DIFFERENCES]
    usual = {offer.rivals[0] for offer in offers}
    measured, seconds = _measured(run, grouped, rivals, usual)
    compared: set[Selection] = set()
    while True:
        instead = _instead(contested, measured)
        if instead:
            more, to_compile = _measured(run, [*grouped, *instead], instead, instead)
            measured |= more
            seconds += to_compile
        best = _best(offers, measured)
        wanted = {c for c in best if c in measured and measured[c].reliable and c not in compared}
        if not wanted:
            break
        grown, to_compile = _compared(run, planned(best), wanted, measured)
        measured |= grown
        compared |= wanted
        seconds += to_compile
    return [
        dataclasses.replace(choice, reason=_reason(run, choice, _candidates(offer, measured), measured))
        for offer, choice in zip(offers, best, strict=True)
    ], seconds


def _instead(contested: Sequence[Offer], measured: dict[Selection, PilotResult]) -> list[Selection]:
    """What to measure next, where no rival has a usable variance."""
    return [
        choice
        for offer in contested
        if not any(measured[each].reliable for each in offer.rivals)
        for choice in offer.instead
        if choice not in measured
    ]


def _candidates(offer: Offer, measured: dict[Selection, PilotResult]) -> list[Selection]:
    """The estimators of an offer that were measured."""
    return [choice for choice in (*offer.rivals, *offer.instead) if choice in measured]


def _best(offers: Sequence[Offer], measured: dict[Selection, PilotResult]) -> list[Selection]:
    """The estimator to select for each derivative: of equally good ones the one that most of them have."""
    candidates = [_candidates(offer, measured) for offer in offers]
    good = [_good(each, measured) for each in candidates]
    often = Counter(choice.method for each in good for choice in each)
    return [
        offer.rivals[0]
        if not among or equal[0] == among[0]
        else max(equal, key=lambda choice: often[choice.method])
        for offer, among, equal in zip(offers, candidates, good, strict=True)
    ]


def _good(candidates: list[Selection], measured: dict[Selection, PilotResult]) -> list[Selection]:
    """The estimators that are as good as the best, as far as the pilot shows; the usual one first.

    One that is 0 on all paths where others vary does so on paths that are too rare for the pilot.
    """
    varying = [choice for choice in candidates if measured[choice].product > 0] or candidates
    reliable = [choice for choice in varying if measured[choice].reliable] or varying
    least = min((measured[choice].product for choice in reliable), default=0.0)
    return [choice for choice in reliable if measured[choice].product <= BETTER * least]


def _reason(
    run: DifferentiatedRun,
    best: Selection,
    candidates: list[Selection],
    measured: dict[Selection, PilotResult],
) -> str:
    """Why this one: how it compares with the best of the others, or why not the usual one."""
    if not candidates:
        return best.reason
    usual = candidates[0]
    if measured[best].fault:
        return "; ".join(filter(None, [f"{best.reason}, but {measured[best].fault}", remedy(run)]))
    if measured[usual].fault:
        what = "with short steps" if usual.method == best.method else f"{usual.method}:"
        return f"{what} {measured[usual].fault}"
    others = [usual] if best != usual else [c for c in candidates if c != best and measured[c].reliable]
    other = min(others, key=lambda choice: measured[choice].product, default=best)
    if other == best or measured[other].product == 0:
        return best.reason
    ratio = measured[best].product / measured[other].product
    return f"{best.reason}; variance × cost {ratio:.2g} of {other.method}"


def remedy(run: DifferentiatedRun) -> str:
    """Which solver has a variance where no estimator has; nothing where none is known."""
    square_root = isinstance(model_of(run.simulation.problem), AbstractSquareRootVariance)
    other = square_root and not info_of(run.simulation.solver).switches
    return "use solver: AndersenQE" if other else ""


def _measured(
    run: DifferentiatedRun,
    grouped: Iterable[Selection],
    wanted: Iterable[Selection],
    likely: Iterable[Selection],
) -> tuple[dict[Selection, PilotResult], float]:
    """Measure each choice with the program of its group.

    That is the study's own where one of the group is `likely` to be selected, else one that is made quickly.
    """
    wanted, likely, result, seconds = set(wanted), set(likely), {}, 0.0
    parts = parts_of(run, list(dict.fromkeys(grouped)), [])
    parts = [part for part in parts if any(c in wanted for c, _ in part.derivatives)]
    short = _paths_of(run) * planned_steps(run.simulation.grid) <= FEW_PATH_STEPS
    parts = [
        quickly_made(part) if short and likely.isdisjoint(c for c, _ in part.derivatives) else part
        for part in parts
    ]
    # All at once: XLA compiles one while the next is traced.
    seconds += compiled(*(request for part in parts for request in part.requests))[1]
    for part in parts:
        samples = _sample(run, part)
        result |= {c: _statistics(samples[i], c.estimator.cost) for c, i in part.derivatives if c in wanted}
    return result, seconds


def _compared(
    run: DifferentiatedRun,
    plan: tuple[list[Part], list[Request]],
    wanted: set[Selection],
    measured: dict[Selection, PilotResult],
) -> tuple[dict[Selection, PilotResult], float]:
    """Some of the choices of a study once more, by the same paths on steps of another length."""
    parts, requests = plan
    result, seconds = {}, compiled(*requests)[1]
    for part in parts:
        if not part.levels or not any(choice in wanted for choice, _ in part.derivatives):
            continue
        level = part.levels[0]
        if level.factor == 1:  # other paths of the same distribution
            continue
        samples = _sample_of_level(run, level)
        for choice, i in level.derivatives:
            if choice in wanted:
                rows, product, _ = measured[choice]
                tail = tail_of(rows[-1], samples[i][-1][: rows.shape[1]], level.factor)
                result[choice] = PilotResult(rows, product, "" if tail is None else tail.fault)
    return result, seconds


def _paths_of(run: DifferentiatedRun) -> int:
    """How many paths the pilot has, which use the highest path ids."""
    return min(PILOT, lanes_for(run.simulation.paths))


def _sample(run: DifferentiatedRun, part: Part) -> list[np.ndarray]:
    """The arrays of a part over the paths of the pilot, `(rows, paths)`."""
    return _arrays(run, part, chunks_of(run.simulation), workers_of(run.simulation))


def _sample_of_level(run: DifferentiatedRun, level: Part) -> list[np.ndarray]:
    """The arrays of the same paths on the steps of a level."""
    plan = leaf_by_leaf(run.simulation.paths)
    return _arrays(run, level, plan, workers_of_levels(run.simulation))


def _arrays(run: DifferentiatedRun, part: Part, plan: Chunks, workers: Devices):
    """The arrays of a part over the paths of the pilot, in chunks of the size of a plan's."""
    count = _paths_of(run)
    plan = dataclasses.replace(plan, total=count, first=MAX_PATHS - count)

    def work(simulate: Callable, chunk: Chunk) -> list[np.ndarray]:
        return by_path(simulate(chunk.ids))

    (arrays,) = concatenated(work, [part.ready()], plan, workers)
    return [each.astype(float) for each in arrays]


def _statistics(rows: np.ndarray, cost: float) -> PilotResult:
    """The mean variance over rows of estimates by row and path, and the first fault of a row."""
    if not np.all(np.isfinite(rows)):
        return PilotResult(rows, np.inf, "not finite on some paths")
    faults = (tail.fault for row in rows if (tail := tail_of(row)) is not None)
    return PilotResult(rows, cost * float(np.mean(np.var(rows, axis=1))), next(filter(None, faults), ""))
