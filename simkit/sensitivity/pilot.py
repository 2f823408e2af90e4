r"""Which of several right estimators to take: a pilot measures how much each varies, on few paths.

The estimator with the smallest product of variance and cost gives the smallest error in a given time. The
variance is that of paths with the last ids there are, so that the choice knows nothing of the paths that are
averaged, and is the same on any devices. What a path costs is known by method, since no clock may decide.

A variance that is measured says nothing where there is none: the tail of the estimates then falls off as
$|x|^{-\alpha}$ with $\alpha \le 2$, and its index $\alpha$ is estimated from the largest ones by Hill's mean.
Reference: Hill (1975), A simple general approach to inference about the tail of a distribution,
doi:10.1214/aos/1176343247.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from simkit_solvers.andersen_qe import AbstractSquareRootVariance

from simkit.paths import as_device_ids, lanes_for, path_mesh
from simkit.programs import compiled
from simkit.reaction_plan import model_of
from simkit.sensitivity.choice import Choice, Method, Offer
from simkit.sensitivity.facts import Facts
from simkit.sensitivity.part import Part, chunks_of, of_paths
from simkit.sensitivity.parts import parts_of
from simkit.settings import MAX_PATHS

PILOT = 4096  # paths, or as many as the run has
FEWEST = 256  # paths that tell a variance
FINITE = 2.0  # the tail index of a variance
TAIL, TOP = 64, 256  # one in so many estimates is in the tail, and at its top
MOST = 0.65  # of the variance, at the top of the tail
SEEN = 32  # estimates that differ from what most are, from which on a variance is believed
BETTER = 1.5  # times the product of the best is as good
# What a path costs, in plain runs, as in the tables of docs/guides/which_derivative.md and of
# docs/guides/sensitivities_of_jump_processes_and_odes.md.
COSTS: dict[Method, float] = {
    "pathwise": 1.3,
    "reverse": 2.4,
    "smoothing": 2.4,
    "mixed": 2.0,
    "score": 1.1,
    "weak derivative": 3.0,
    "coupled differences": 1.3,
    "finite differences": 4.4,
}


class Measured(NamedTuple):
    """An estimator's variance times cost, the index of its tail, and what is wrong with its variance."""

    product: float
    fault: str = ""

    @property
    def settled(self) -> bool:
        """Whether there is a variance to speak of."""
        return not self.fault


def picked(facts: Facts, offers: Sequence[Offer]) -> tuple[list[Choice], float]:
    """An estimator for each derivative, its reason with what the pilot says, and the seconds to compile."""
    contested = [offer for offer in offers if len(offer.rivals) > 1 or offer.instead]
    if not contested or facts.simulation.paths < FEWEST:
        return [offer.rivals[0] for offer in offers], 0.0
    rivals = {choice for offer in contested for choice in offer.rivals}
    # With what may be picked in their place: else a method's program for some derivatives would be compiled,
    # and then that for all of them. Differences share theirs anyway.
    rivals_and_others = [choice for offer in offers for choice in (*offer.rivals, *offer.instead)]
    grouped = [c for c in rivals_and_others if c in rivals or c.method != "finite differences"]
    measured, seconds = _measured(facts, grouped, rivals)
    instead = [
        choice
        for offer in contested
        if not any(measured[each].settled for each in offer.rivals)
        for choice in offer.instead
    ]
    more, again = _measured(facts, [*grouped, *instead], instead)
    measured |= more
    candidates = [[c for c in (*each.rivals, *each.instead) if c in measured] for each in offers]
    good = [_good(each, measured) for each in candidates]
    often = Counter(choice.method for each in good for choice in each)
    choices = []
    for offer, among, equal in zip(offers, candidates, good, strict=True):
        if not among:
            choices.append(offer.rivals[0])
            continue
        # Derivatives by one method share a program.
        best = equal[0] if equal[0] == among[0] else max(equal, key=lambda choice: often[choice.method])
        choices.append(dataclasses.replace(best, reason=_reason(facts, best, among, measured)))
    return choices, seconds + again


def _good(candidates: list[Choice], measured: dict[Choice, Measured]) -> list[Choice]:
    """Those that are as good as the best, for all that the pilot can tell; the usual one first."""
    settled = [choice for choice in candidates if measured[choice].settled] or candidates
    least = min((measured[choice].product for choice in settled), default=0.0)
    return [choice for choice in settled if measured[choice].product <= BETTER * least]


def _reason(facts: Facts, best: Choice, candidates: list[Choice], measured: dict[Choice, Measured]) -> str:
    """Why this one: the pilot tells how it compares with the best of the others, or why not the usual one."""
    usual = candidates[0]
    if measured[best].fault:
        square_root = isinstance(model_of(facts.simulation.problem), AbstractSquareRootVariance)
        remedy = "; take solver: AndersenQE" if square_root else ""
        return f"{best.reason}, but {best.method} {measured[best].fault}{remedy}"
    if measured[usual].fault:
        what = "with short steps it" if usual.method == best.method else usual.method
        return f"{what} {measured[usual].fault}"
    others = [usual] if best != usual else [c for c in candidates if c != best and measured[c].settled]
    other = min(others, key=lambda choice: measured[choice].product, default=best)
    if other == best or measured[other].product == 0:
        return best.reason
    ratio = measured[best].product / measured[other].product
    return f"{best.reason}; variance × cost {ratio:.2g} of {other.method}"


def _measured(
    facts: Facts, grouped: Iterable[Choice], wanted: Iterable[Choice]
) -> tuple[dict[Choice, Measured], float]:
    """What some choices are measured to be, each by the program of the group in which it is."""
    wanted, found, seconds = set(wanted), {}, 0.0
    parts = parts_of(facts, list(dict.fromkeys(grouped)), [])
    parts = [part for part in parts if any(c in wanted for c, _ in part.found)]
    # All at once: XLA compiles one while the next is traced.
    seconds += compiled(*(request for part in parts for request in part.requests))[1]
    for part in parts:
        samples = _sample(facts, part)
        found |= {c: _statistics(samples[i], COSTS[c.method]) for c, i in part.found if c in wanted}
    return found, seconds


def _sample(facts: Facts, part: Part) -> list[np.ndarray]:
    """The arrays of a part over the paths of the pilot, `(rows, paths)`."""
    simulation, plan = facts.simulation, chunks_of(facts.simulation)
    count = min(PILOT, lanes_for(simulation.paths))
    programs, mesh = compiled(*part.requests)[0], path_mesh(simulation.devices)
    arrays = []
    for first in range(0, count, plan.paths):
        ids = as_device_ids(MAX_PATHS - count + first, plan.leaves, plan.lanes, mesh)
        arrays.append(of_paths(part.run(programs, ids), count - first))
    return [np.concatenate(each, axis=1).astype(float) for each in zip(*arrays, strict=True)]


def _statistics(rows: np.ndarray, cost: float) -> Measured:
    """Of estimates by row and path: the mean variance over rows, and the first fault of a row."""
    if not np.all(np.isfinite(rows)):
        return Measured(np.inf, "is not finite on some paths")
    faults = filter(None, map(_fault, rows))
    return Measured(cost * float(np.mean(np.var(rows, axis=1))), next(faults, ""))


def _fault(x: np.ndarray) -> str:
    """What is wrong with the variance of estimates."""
    away = np.sort(np.abs(x - np.median(x)))[::-1]
    seen = int(np.count_nonzero(away))
    if 0 < seen < SEEN:
        return "differs on too few paths to tell"
    tail, top = max(len(x) // TAIL, 1), max(len(x) // TOP, 1)
    squares = np.square(away)
    # Spikes of one height on a few paths have a steep end too, but none of them stands out.
    if tail >= seen or np.sum(squares[:top]) < MOST * np.sum(squares):
        return ""
    index = 1 / float(np.mean(np.log(away[:tail] / away[tail])))
    return "" if index > FINITE else f"has no finite variance (tail index {index:.1f})"
