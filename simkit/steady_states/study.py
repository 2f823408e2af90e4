"""The steady states of a simulation: the one that it reaches, and those that a search finds."""

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.schedule import model_of

from simkit.ensemble.initial import differs_between_paths
from simkit.ensemble.simulation import Simulation, experiment_of
from simkit.errors import InputError, NumericalError
from simkit.experiments.sensitivity_names import full_name
from simkit.results.number_text import with_error
from simkit.steady_states.conserved import conserved_totals
from simkit.steady_states.implicit_derivatives import derivatives_of
from simkit.steady_states.newton import Fixed, Root
from simkit.steady_states.rates import Rates
from simkit.steady_states.search import Ranges, checked_search, searched
from simkit.steady_states.settling import Rest, settle
from simkit.steady_states.stability import Stability, stability_of
from simkit.suggestions import known_names, shown

TIMES = "time."  # what names of t0 and t1 begin with
SHOWN = 6  # variables in a message
NO_DERIVATIVE = "it is one of a continuum, or the Jacobian is singular or infinite there"


@dataclasses.dataclass(frozen=True)
class SteadyState:
    """One steady state, and all about it.

    `reached` says that the model comes to rest there from its initial values. `derivatives` and their errors
    are those of the variables, then of the observables, a column for each target; NaN where there are none.
    """

    root: Root
    stability: Stability
    reached: bool
    observed: np.ndarray
    observed_error: np.ndarray
    derivatives: np.ndarray
    derivatives_error: np.ndarray


@dataclasses.dataclass(frozen=True)
class SteadyStates:
    """The steady states of a simulation, the one it reaches first, with what all have in common.

    `weights` are those of the conserved totals and `totals` their values, `time` that at which the model was
    near the state it reaches, NaN where it reaches none. `targets` are labels and names of what derivatives
    are taken in. `notes` are sentences for people.
    """

    rates: Rates
    fixed: Fixed
    states: tuple[SteadyState, ...]
    totals: np.ndarray
    time: float
    targets: dict[str, str]
    notes: tuple[str, ...]


def check_settings(
    simulation: Simulation,
    *,
    wrt: Sequence[str] | None = None,
    search: int = 0,
    ranges: Ranges | None = None,
    at: float | None = None,
) -> None:
    """Raise `InputError` for what `find_steady_states` cannot be asked."""
    if at is not None and not np.isfinite(at):
        raise InputError(f"at: must be a time, got {at:g}")
    checked_search(search, ranges or {}, simulation.problem.State._fields)
    if wrt is not None:
        _targets(simulation, wrt)


def find_steady_states(
    simulation: Simulation,
    *,
    wrt: Sequence[str] | None = None,
    search: int = 0,
    ranges: Ranges | None = None,
    at: float | None = None,
) -> SteadyStates:
    """The steady state that a simulation comes to rest at, and those that a search over `ranges` finds.

    `wrt` are names to differentiate in; with an empty list those of the file, or all of the model; settings
    are those that `check_settings` lets pass. Raises `InputError` where there can be no steady state, and
    `NumericalError` where none is found.
    """
    with jax.enable_x64(True):
        rates = Rates(simulation, at)
        targets = {} if wrt is None else _targets(simulation, wrt)
        weights = conserved_totals(rates)
        fixed = Fixed(rates, weights, rates.start, rates.scale)
        if len(weights) == len(rates.names):
            raise InputError(
                "model: its rates of change (the drift) are zero in every state, so that every state is a "
                "steady one; give a model whose drift does something"
            )
        _refuse_start(rates)
        rest = settle(fixed)
        roots, notes = _roots(fixed, rest)
        if search:
            seed = experiment_of(simulation).ensemble.seed
            inside, converged, outside = searched(fixed, search, ranges or {}, seed, roots)
            notes += _search_notes(search, converged, 0 if _is_in_continuum(rest) else outside)
            roots += _of_one_continuum(fixed, sorted(inside, key=lambda each: tuple(each.state)), rest)
        if not roots:
            raise NumericalError(_none_text(fixed, rest, search))
        states = tuple(
            _described(fixed, root, rest if root is rest.root else None, tuple(targets.values()))
            for root in roots
        )
        notes += _notes(simulation, rates, states, [*targets])
        if wrt is not None and not wrt and (times := _of_file(simulation)[1]):
            notes.append(f"no derivatives in {', '.join(times)}: a steady state does not depend on it")
        time = rest.time if rest.root is not None else np.nan
        return SteadyStates(rates, fixed, states, weights @ rates.start, time, targets, tuple(notes))


def _roots(fixed: Fixed, rest: Rest) -> tuple[list[Root], list[str]]:
    """The root that is reached, or one that Newton's method finds near where the model goes."""
    if rest.root is not None:
        return [rest.root], []
    note = f"from its initial values the model {rest.course}"
    for place, start in (("the mean of that run", rest.mean), ("the initial values", fixed.start)):
        root = fixed.root_from(start)
        if root.converged:
            return [root], [f"{note}: this state is what Newton's method finds from {place}"]
    return [], [note]


def _is_in_continuum(rest: Rest) -> bool:
    return rest.stability is not None and rest.stability.continuum


def _of_one_continuum(fixed: Fixed, roots: list[Root], rest: Rest) -> list[Root]:
    """The roots, of those in a continuum one only, and none where the model reaches such a one."""
    result, continuum = [], _is_in_continuum(rest)
    for root in roots:
        is_in_one = stability_of(fixed, root).continuum
        if not (is_in_one and continuum):
            result.append(root)
        continuum = continuum or is_in_one
    return result


def _described(fixed: Fixed, root: Root, rest: Rest | None, names: tuple[str, ...]) -> SteadyState:
    """All about a root; `rest` where it is reached."""
    rates = fixed.rates
    stability = (rest and rest.stability) or stability_of(fixed, root)
    observed = np.asarray([*rates.observed(root.state).values()])
    slopes, _ = rates.observed_slopes((), root.state)
    off = abs(slopes) @ root.error + 4 * np.finfo(float).eps * abs(observed)
    shape = (len(root.state) + len(observed), len(names))
    values, errors = np.full(shape, np.nan), np.full(shape, np.nan)
    if names and not stability.zeros.any():
        values, errors = derivatives_of(fixed, root, names)
    return SteadyState(root, stability, rest is not None, observed, off, values, errors)


def _targets(simulation: Simulation, wrt: Sequence[str]) -> dict[str, str]:
    """Labels and names of what to differentiate in; times that the file names are left out."""
    labels = list(wrt) or _of_file(simulation)[0]
    if not labels:
        prefix = "model."
        labels = [name.removeprefix(prefix) for name in simulation.targets if name.startswith(prefix)]
    known = [name.split(".", 1)[-1] for name in simulation.targets if not name.startswith(TIMES)]
    targets = {}
    for label in labels:
        name = full_name(label, simulation.targets)
        if name is None:
            raise InputError(f"wrt: unknown name {shown(label)}{known_names(label, known)}")
        if name.startswith(TIMES):
            raise InputError(
                f"wrt: a steady state does not depend on {label}; name parameters or initial values of the "
                "model, or use `simkit sensitivity`"
            )
        targets[label] = name
    return targets


def _of_file(simulation: Simulation) -> tuple[list[str], list[str]]:
    """The names of the file's `sensitivity.wrt`: first those of the model, then times."""
    section = experiment_of(simulation).sensitivity
    names: tuple[list[str], list[str]] = ([], [])
    for label in section.wrt if section else ():
        names[(full_name(label, simulation.targets) or "").startswith(TIMES)].append(label)
    return names


def _refuse_start(rates: Rates) -> None:
    values = dict(zip(rates.names, rates(rates.start).tolist(), strict=True))
    bad = [name for name, rate in values.items() if not np.isfinite(rate)]
    if bad:
        undefined = rates.undefined(rates.start)
        raise NumericalError(
            f"the rate of change of {', '.join(bad)} is not finite at the initial values"
            f"{f', by {undefined.what}' if undefined else ''}; begin elsewhere, as by "
            f"--set initial.{bad[0]}=NUMBER, or change a parameter"
        )


def _search_notes(search: int, converged: int, outside: int) -> list[str]:
    beyond = f"; {outside} more lie outside of the ranges" if outside else ""
    return [
        f"Newton's method converged from {converged} of {search} starts{beyond}; a search can miss states"
    ]


def _notes(
    simulation: Simulation, rates: Rates, states: Sequence[SteadyState], targets: Sequence[str]
) -> list[str]:
    notes = []
    if rates.frozen:
        notes.append(f"the equations are those at t = {rates.time:g}, and events are left out")
    if differs_between_paths(simulation.initial.values()):
        start = ", ".join(f"{name} = {x:.6g}" for name, x in zip(rates.names, rates.start, strict=True))
        notes.append(f"initial values differ between paths; the start is their medians or first row: {start}")
    if isinstance(model_of(rates.problem), AbstractJumpDiffusion):
        notes.append("the jumps of the model are left out: this is where its drift vanishes")
    lines = [str(number) for number, state in enumerate(states, 1) if state.stability.continuum]
    if lines:
        notes.append(
            f"steady state {', '.join(lines)} is one of a continuum: which one is reached depends on all "
            "initial values, not on conserved totals alone"
        )
    lines = [str(number) for number, state in enumerate(states, 1) if state.stability.steep]
    if lines:
        notes.append(
            f"a rate of change has an infinite slope at steady state {', '.join(lines)}, so that no "
            "eigenvalue describes it; the model may reach such a state in a finite time"
        )
    if targets and any(state.stability.zeros.any() for state in states):
        notes.append(
            f"no derivatives of a state where the implicit function theorem does not hold ({NO_DERIVATIVE}); "
            "use `simkit sensitivity` with a large time.t1"
        )
    for number, state in enumerate(states, 1):
        notes += _undefined(rates, state, targets, f" of state {number}" if len(states) > 1 else "")
    left_out = [each.name for each in simulation.observed if each.name not in rates.observables]
    if left_out:
        notes.append(f"not shown: {', '.join(left_out)}, which the state alone does not determine")
    for number, state in enumerate(states, 1):
        notes += _out_of_range(rates, state, number if len(states) > 1 else None)
    return notes


def _undefined(rates: Rates, state: SteadyState, targets: Sequence[str], which: str) -> list[str]:
    """The derivatives that the equations or observables do not have in a state, a line for each target."""
    if state.stability.zeros.any():  # where none is sought
        return []
    names, notes = (*rates.names, *rates.observables), []
    for label, column in zip(targets, state.derivatives.T, strict=True):
        missing = [name for name, each in zip(names, column, strict=True) if not np.isfinite(each)]
        if missing:
            notes.append(
                f"no derivative{which} with respect to {label} (?) of {', '.join(missing)}: it is not finite "
                "there, as that of x**n with respect to n is not where x is negative"
            )
    return notes


def below_range(rates: Rates, root: Root) -> np.ndarray:
    """Which variables are below their least value, by more than their error."""
    return root.state + root.error < rates.least


def _out_of_range(rates: Rates, state: SteadyState, number: int | None) -> list[str]:
    below = below_range(rates, state.root)
    where = f" in state {number}" if number else ""
    values = zip(rates.names, state.root.state, state.root.error, rates.least, below, strict=True)
    return [
        f"! {name} = {with_error(value, error)}{where} is below {least:g}, the least that it may be"
        for name, value, error, least, is_below in values
        if is_below
    ]


def _none_text(fixed: Fixed, rest: Rest, search: int) -> str:
    """What to say where no steady state is found: the best point, what it leaves, and the remedy."""
    ends = [fixed.root_from(y) for y in (fixed.start, rest.mean)]
    finite = [root for root in ends if np.isfinite(root.residual).all()]
    best = min(finite, key=lambda root: float(np.linalg.norm(root.residual / fixed.scale)), default=None)
    text = "no steady state was found"
    if best is not None:
        rows = [*zip(fixed.rates.names, best.state, best.residual, strict=True)][:SHOWN]
        more = ", …" if len(best.state) > SHOWN else ""
        values = ", ".join(f"{name} = {x:.6g}" for name, x, _ in rows) + more
        left = ", ".join(f"d{name}/dt = {x:.3g}" for name, _, x in rows) + more
        text += f"; the best point is {values}, with {left}"
    further = "search in other ranges (--from NAME=LOW:HIGH)" if search else "search (--search 100)"
    return (
        f"{text}. The model {rest.course}. Begin elsewhere (--set initial.{fixed.rates.names[0]}=NUMBER), "
        f"{further}, or see by `simkit run` where it goes"
    )
