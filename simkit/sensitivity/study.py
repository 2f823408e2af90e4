"""The sensitivities of an experiment: estimators chosen, run over all paths, and put together."""

import dataclasses
import functools
import itertools
import time
from collections.abc import Callable
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers.directions import Release
from simkit_solvers.grid import Grid
from simkit_solvers.jump_grid import JumpGrid

from simkit.chunks import LEAF, MOST_PATHS, plan_chunks, planned_steps
from simkit.ensemble import ChunkProgram, quantity_rows
from simkit.errors import InputError, NumericalError
from simkit.failures import failed_paths
from simkit.longstaff_schwartz import with_policies
from simkit.on_each_device import REPLICATED, ROWS
from simkit.paths import as_device_ids, path_mesh
from simkit.programs import Request, compiled
from simkit.sensitivity.choice import (
    FEW,
    Choice,
    Method,
    choose,
    choose_second,
    no_copies,
    release_interval,
    smooth,
)
from simkit.sensitivity.derivative_program import (
    DerivativeProgram,
    Kind,
    Moves,
    SecondProgram,
    SmoothedSecondProgram,
)
from simkit.sensitivity.differences import (
    COUPLED,
    ROUGH,
    ROUNDINGS,
    SECOND,
    SHORTER,
    SMOOTH,
    Stencil,
    Weighted,
    first_difference,
    is_too_long,
    mixed_difference,
    second_difference,
    shortest,
    step_of,
)
from simkit.sensitivity.error_controlled import (
    has_equations,
    is_ordinary_and_adaptive,
    with_tighter_tolerances,
)
from simkit.sensitivity.facts import Facts, not_smooth
from simkit.sensitivity.moments import Found, MomentsReduction, average, on_mesh
from simkit.sensitivity.targets import Target, admitted, changes, find_target, in_time, program_of, shifted
from simkit.sensitivity_names import named_pairs
from simkit.settings import Sensitivity
from simkit.simulation import Simulation

Progress = Callable[[int, int], None]
WHOLE = 1.0  # of a target's value: the size in which its equations are solved
IN_CACHE = (
    32 * LEAF
)  # paths of a chunk on each processor device: what their loops carry is read by many kernels


@dataclasses.dataclass(frozen=True)
class Derivative:
    """A derivative of a mean: its estimate, standard error and standard deviation per path, by row.

    `step_error` is how much a run to a tenth of the tolerances differs, where tolerances decide, and for
    finite differences how much a formula of lower order does.
    `check` is the same by finite differences, where that was asked for and is something else.
    """

    choice: Choice
    mean: np.ndarray
    stderr: np.ndarray
    sd: np.ndarray
    step_error: np.ndarray | None = None
    check: "Derivative | None" = None


@dataclasses.dataclass(frozen=True)
class Study:
    """The sensitivities of an experiment. `values` are means and standard errors of the quantities."""

    targets: tuple[Target, ...]
    derivatives: tuple[Derivative, ...]
    values: dict[str, tuple[np.ndarray, np.ndarray]]
    paths: int
    failed: int
    elapsed_s: float
    compile_s: float


@dataclasses.dataclass(frozen=True)
class _Part:
    """Derivatives that one program gives: (choice, position among its arrays), and values by position.

    `finer` simulates to tolerances that tell the error of the steps. `share` is the step of differences: then
    how far their lower order is away from each, and how large their terms are, follow as often.
    """

    requests: tuple[Request, ...]
    simulate: Callable
    counts: tuple[int, ...]
    found: tuple[tuple[Choice, int], ...]
    values: tuple[tuple[str, int], ...]
    cost: float
    finer: Callable | None = None
    share: float = 0.0


def find_sensitivities(
    simulation: Simulation, section: Sensitivity, progress: Progress | None = None
) -> Study:
    """Estimate all derivatives that the section asks for.

    Raises `InputError` where the method asked for would be wrong, with the reason, and `NumericalError`
    where paths or derivatives become NaN or infinite and `failures` is `stop`.
    """
    with jax.enable_x64(True):
        return _find(simulation, section, progress)


def _find(simulation: Simulation, section: Sensitivity, progress: Progress | None) -> Study:
    mesh = path_mesh(simulation.devices)
    simulation, _, (_, compile_s) = with_policies(simulation, mesh)
    targets = tuple(find_target(simulation, label) for label in section.wrt)
    labels = [target.label for target in targets]
    pairs = [(labels.index(a), labels.index(b)) for a, b in named_pairs(section)]
    program, inputs = program_of(simulation)
    moves, _ = changes(simulation, targets)
    targets = in_time(simulation, targets, moves)
    facts = Facts(simulation, program, inputs, targets, moves)
    quantities = section.of or list(simulation.observables) or list(simulation.problem.State._fields)
    choices = [_first(facts, section.method, q, i) for q in quantities for i in range(len(targets))]
    choices += [choose_second(facts, q, pair) for q in quantities for pair in pairs]
    checks = [_check_of(choice) for choice in choices if section.check and not _differs(choice)]
    parts = _parts(facts, [*choices, *checks], quantities)
    start, compile_before = time.perf_counter(), compile_s
    # All at once: XLA compiles one while the next is traced.
    compile_s += compiled(*(request for part in parts for request in _requests(simulation, part)))[1]
    total = sum(part.cost for part in parts)
    done = 0.0
    derivatives: dict[Choice, Derivative] = {}
    values: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    lost: set[int] = set()
    instead: dict[Choice, Choice] = {}
    for part in parts:
        weight = part.cost / total
        progressed = _share(progress, simulation.paths, done, weight)
        found, errors, seconds = _run(simulation, part, progressed)
        done += weight
        compile_s += seconds
        if len(found.failed) and section.method == "auto" and _is_weighted(part):
            again = {choice: _without_weight(simulation, choice) for choice, _ in part.found}
            instead |= again
            more = _parts(facts, list(again.values()), [name for name, _ in part.values])
            total += sum(each.cost for each in more)
            parts += more
            continue
        if len(found.failed) and simulation.failures == "stop":
            raise _failure(simulation, part, found)
        if len(found.failed) == simulation.paths:
            raise NumericalError(
                f"none of the {simulation.paths} paths has finite values and derivatives: there is nothing "
                "to average; `failures: stop` says why"
            )
        lost |= {int(x) for x in found.failed}
        for name, place in part.values:
            values.setdefault(name, (found.mean[place], found.stderr[place]))
        for choice, place in part.found:
            error = None if errors is None else errors[place]
            if part.share:
                error = np.abs(found.mean[place + len(part.found)]) + (0.0 if error is None else error)
            figures = found.mean[place], found.stderr[place], found.sd[place]
            derivatives[choice] = Derivative(choice, *figures, error)
        shorter = _with_shorter_steps(facts, part, found, errors)
        if shorter is not None:
            total += shorter.cost
            parts.append(shorter)
    elapsed = time.perf_counter() - start - (compile_s - compile_before)
    ordered = []
    for choice in choices:
        found = derivatives[instead.get(choice, choice)]
        check = None if _differs(found.choice) else derivatives.get(_check_of(choice))
        ordered.append(dataclasses.replace(_explained(facts, found), check=check))
    return Study(targets, tuple(ordered), values, simulation.paths, len(lost), elapsed, compile_s)


def _with_shorter_steps(
    facts: Facts, part: _Part, found: Found, errors: list[np.ndarray] | None
) -> _Part | None:
    """The differences of a part whose steps are too long, once more; None where none are, or can be."""
    share, precision = part.share / SHORTER, facts.simulation.precision
    if share < shortest(precision):
        return None
    again, count = [], len(part.found)
    rounding = ROUNDINGS * float(np.finfo(precision).eps)
    for choice, place in part.found:
        allowed = found.stderr[place] if errors is None else errors[place]
        apart = found.mean[place + count], found.stderr[place + count]
        if is_too_long(found.mean[place], allowed, *apart, rounding * found.mean[place + 2 * count]):
            again.append(choice)
    return _differences(facts, again, share) if again else None


def _without_weight(simulation: Simulation, choice: Choice) -> Choice:
    """The same derivative where a weight would not be finite."""
    reason = "the noise vanishes on some paths, where the weight is infinite"
    if isinstance(simulation.grid, JumpGrid):
        reason = "some paths are impossible at other values, so there is no score"
    return Choice(choice.quantity, choice.targets, "finite differences", reason)


def _check_of(choice: Choice) -> Choice:
    """The same derivative by finite differences."""
    return Choice(choice.quantity, choice.targets, "finite differences", "checks another")


def _differs(choice: Choice) -> bool:
    return choice.method == "finite differences"


def _explained(facts: Facts, found: Derivative) -> Derivative:
    """A derivative that is 0 on every path says so."""
    if np.any(found.mean) or np.any(np.nan_to_num(found.sd)):
        return found
    choice, reason = found.choice, "no path changes with it"
    if any(_is_idle(facts, i) for i in choice.targets):
        reason = "nothing in the experiment uses it"
    elif len(choice.targets) == 2:
        alone = len(set(choice.targets)) == 1
        reason = f"no path's slope{'' if alone else ' in one'} changes with {'it' if alone else 'the other'}"
    elif facts.is_rough(choice.quantity, choice.targets[0]) and facts.simulation.paths == 1:
        reason = "the value is a step, and flat around here"
    return dataclasses.replace(found, choice=dataclasses.replace(choice, reason=reason))


def _is_idle(facts: Facts, number: int) -> bool:
    """Whether no number of the run changes with a target."""
    if jax.tree.leaves(facts.moves[number]):
        return False
    target = facts.targets[number]
    pair = [shifted(facts.simulation, [target], [step]) for step in (0.0, step_of(target, SMOOTH))]
    here, there = map(jax.tree.leaves, pair)
    return all(np.array_equal(a, b) for a, b in zip(here, there, strict=True))


def _first(facts: Facts, method: str, quantity: str, target: int) -> Choice:
    """The estimator asked for, or the one that is right."""
    right = choose(facts, quantity, target)
    if method == "auto" or method == right.method.replace(" ", "_"):
        return right
    label = facts.targets[target].label
    asked = "asked for"
    if method == "finite_differences":
        return Choice(quantity, (target,), "finite differences", asked)
    if method in ("pathwise", "reverse"):
        if right.method == "pathwise":
            return dataclasses.replace(right, method="reverse", reason=asked)
        reason = not_smooth(facts, target) or right.reason.split(", and ")[0]
        raise InputError(
            f"sensitivity.method: the {method} derivative of {quantity} in {label} would be wrong: {reason}; "
            f"leave method out for {right.method}"
        )
    if method == "smoothing":
        smoothed = smooth(facts, quantity, (target,), kinks=False)
        if isinstance(smoothed, str):
            raise InputError(
                f"sensitivity.method: no smoothing for {quantity} in {label}: {smoothed}; leave method out "
                f"for {right.method}"
            )
        return Choice(quantity, (target,), "smoothing", asked, 0, smoothed)
    if method in ("weak_derivative", "coupled_differences"):
        name, reason = method.replace("_", " "), no_copies(facts, target, method)
        if reason is not None:
            raise InputError(
                f"sensitivity.method: no {name} for {quantity} in {label}: {reason}; leave method out for "
                f"{right.method}"
            )
        return Choice(quantity, (target,), cast(Method, name), asked)
    look = release_interval(facts, quantity, target, "jumps")
    if isinstance(look, str):
        raise InputError(
            f"sensitivity.method: no score for {quantity} in {label}: {look}; leave method out for "
            f"{right.method}"
        )
    return Choice(quantity, (target,), "score", asked, look)


def _parts(facts: Facts, choices: list[Choice], quantities: list[str]) -> list[_Part]:
    """The programs to run: one for each group of derivatives that can share a loop."""
    groups: dict[tuple, list[Choice]] = {}
    for choice in choices:
        second = len(choice.targets) == 2
        alone: tuple = ()
        if choice.method == "finite differences":
            alone = *choice.targets, facts.is_rough(choice.quantity, choice.targets[0])
        elif choice.method == "pathwise":
            alone = (has_equations(facts.simulation, facts.moves[choice.targets[0]]),)
        key = choice.method, second, choice.look, choice.smoothings, alone
        groups.setdefault(key, []).append(choice)
    parts = []
    for (method, second, look, _, _), group in groups.items():
        if method == "finite differences":
            parts.append(_differences(facts, group))
        elif second:
            parts.append(_second_part(facts, group, look))
        else:
            parts.append(_first_part(facts, group, look))
    given = {name for part in parts for name, _ in part.values}
    missing = [name for name in quantities if name not in given]
    if missing:
        parts.append(_plain(facts, missing))
    return parts


def _first_part(facts: Facts, group: list[Choice], look: int) -> _Part:
    names = list(dict.fromkeys(choice.quantity for choice in group))
    numbers = list(dict.fromkeys(choice.targets[0] for choice in group))
    rows = _rows(facts, names)
    fixed = isinstance(facts.simulation.grid, Grid)
    kind: Kind = "along" if fixed else "forward"
    solved = all(has_equations(facts.simulation, facts.moves[i]) for i in numbers)
    if solved:
        kind = "equations"
    backwards = len(numbers) > FEW * sum(count for _, count in rows)
    if group[0].method == "reverse" or (group[0].method == "pathwise" and backwards):
        kind = "reverse"
    if group[0].method == "weak derivative":
        kind = "extra jump"
    if isinstance(facts.simulation.grid, JumpGrid):
        kinds: dict[Method, Kind] = {"score": "counts", "weak derivative": "one event more"}
        kind = kinds.get(group[0].method, "coupled")
    release = Release(look) if look else None
    if group[0].method == "smoothing":
        kind, release = "smoothed", group[0].smoothings[0]
    program = DerivativeProgram(facts.program, rows, kind, release)
    dtype = jnp.dtype(facts.simulation.precision)
    share = WHOLE if kind == "equations" else COUPLED
    steps = tuple(jnp.asarray(step_of(facts.targets[i], share), dtype) for i in numbers)
    moves = Moves(facts.inputs, tuple(facts.moves[i] for i in numbers), (), steps)
    width = 1 + len(numbers)
    places = {(name, i): q * width + 1 + n for q, (name, _) in enumerate(rows) for n, i in enumerate(numbers)}
    counts = tuple(count for _, count in rows for _ in range(width))
    found = tuple((choice, places[choice.quantity, choice.targets[0]]) for choice in group)
    # Copies are beside the run: their mean is not its own.
    values = () if kind == "coupled" else tuple((name, q * width) for q, (name, _) in enumerate(rows))
    return _one_program(facts, program, moves, counts, found, values, float(width))


def _second_part(facts: Facts, group: list[Choice], look: int) -> _Part:
    names = list(dict.fromkeys(choice.quantity for choice in group))
    pairs = list(dict.fromkeys(choice.targets for choice in group))
    used = sorted({i for pair in pairs for i in pair})
    at = [(used.index(pair[0]), used.index(pair[1])) for pair in pairs]
    rows = _rows(facts, names)
    kind = "along" if isinstance(facts.simulation.grid, Grid) else "forward"
    first, both = changes(facts.simulation, [facts.targets[i] for i in used], at)
    program: Any = SecondProgram(facts.program, rows, tuple(at), kind, Release(look) if look else None)
    if group[0].method == "smoothing":
        once, again = group[0].smoothings
        program = SmoothedSecondProgram(facts.program, rows, tuple(at), (once, again))
    places = {
        (name, pair): q * len(pairs) + n for q, (name, _) in enumerate(rows) for n, pair in enumerate(pairs)
    }
    counts = tuple(count for _, count in rows for _ in pairs)
    found = tuple((choice, places[choice.quantity, choice.targets]) for choice in group)
    moves = Moves(facts.inputs, first, both)
    return _one_program(facts, program, moves, counts, found, (), 4.0 * len(pairs))


def _one_program(facts, program, moves, counts, found, values, cost) -> _Part:
    request = Request(program, (moves, _some_ids(facts)), facts.program.mesh)

    def simulate(run, ids, moves=moves):
        return run(moves, ids)

    finer = None
    if is_ordinary_and_adaptive(facts.simulation):
        tighter = with_tighter_tolerances(moves.inputs, facts.simulation.precision)
        finer = functools.partial(simulate, moves=moves._replace(inputs=tighter))
    return _Part((request,), simulate, counts, found, values, cost, finer)


def _plain(facts: Facts, names: list[str]) -> _Part:
    """The values alone."""
    rows = _rows(facts, names)
    request = Request(ChunkProgram(facts.program, rows), (facts.inputs, _some_ids(facts)), facts.program.mesh)

    def simulate(run, ids):
        return run(facts.inputs, ids)[0]

    values = tuple((name, q) for q, name in enumerate(names))
    return _Part((request,), simulate, tuple(count for _, count in rows), (), values, 1.0)


def _differences(facts: Facts, group: list[Choice], share: float | None = None) -> _Part:
    """The same paths at other values of one target, or two; `share` is the longest step to take."""
    targets = [facts.targets[i] for i in dict.fromkeys(group[0].targets)]
    second = len(group[0].targets) == 2
    if share is None:
        rough = any(facts.is_rough(choice.quantity, choice.targets[0]) for choice in group)
        share = SECOND if second else ROUGH if rough else SMOOTH
    names = [choice.quantity for choice in group]
    rows = _rows(facts, names)
    stencil, share = _stencil(facts, second, targets, share)
    steps = [step_of(target, share) for target in targets]
    given = [shifted(facts.simulation, targets, _times(point, steps)) for point in stencil.points]
    weights = [jnp.asarray(each, jnp.float64) for each in (stencil.weights, stencil.rough)]
    ids = _some_ids(facts)
    mesh = facts.program.mesh
    run = Request(ChunkProgram(facts.program, rows), (facts.inputs, ids), mesh)
    shapes = on_mesh([count for _, count in rows], ids.shape, facts.simulation.precision, mesh)
    given_shapes = (shapes,) * len(given), *weights
    added = Request(Weighted(len(given)), given_shapes, mesh, (ROWS, REPLICATED, REPLICATED))

    def simulate(run, add, ids, given=given):
        return add(tuple(run(inputs, ids)[0] for inputs in given), *weights)

    finer = None
    if is_ordinary_and_adaptive(facts.simulation):
        tighter = [with_tighter_tolerances(inputs, facts.simulation.precision) for inputs in given]
        finer = functools.partial(simulate, given=tighter)
    found = tuple((choice, q) for q, choice in enumerate(group))
    counts = tuple(count for _, count in rows) * 3
    return _Part((run, added), simulate, counts, found, (), float(len(given)), finer, share)


def _stencil(facts: Facts, second: bool, targets: list[Target], share: float) -> tuple[Stencil, float]:
    """Where to run, all within the ranges of parameters and initial values, and the step as a share."""
    ways: list[tuple[int, ...]] = [(0,) * len(targets), *itertools.product((1, -1), repeat=len(targets))]
    if isinstance(facts.simulation.grid, JumpGrid) and any(target.value == 0 for target in targets):
        ways = ways[1:]  # a rate of 0 has nothing below, which ranges do not tell of a network in the file
    for size in (share, share / 10, share / 100):
        steps = [step_of(target, size) for target in targets]
        for sides in ways:
            if len(targets) == 2:
                stencil = mixed_difference(steps, (sides[0], sides[1]))
            else:
                stencil = (second_difference if second else first_difference)(steps[0], sides[0])
            if all(admitted(facts.simulation, targets, _times(point, steps)) for point in stencil.points):
                return stencil, size
    labels = " and ".join(f"{target.label} = {target.value:g}" for target in targets)
    raise InputError(
        f"sensitivity: no finite differences in {labels}: a step of {share / 100:.2%} to either side leaves "
        "the range of a parameter or an initial value; choose a value further inside"
    )


def _times(point: tuple[float, ...], steps: list[float]) -> list[float]:
    return [m * h for m, h in zip(point, steps, strict=True)]


def _rows(facts: Facts, names: list[str]) -> tuple[tuple[str, int], ...]:
    rows = quantity_rows(facts.simulation)
    return tuple((name, rows[name]) for name in names)


def _some_ids(facts: Facts):
    plan = _chunks(facts.simulation)
    return as_device_ids(0, plan.leaves, plan.lanes, facts.program.mesh)


def _chunks(simulation: Simulation):
    devices = path_mesh(simulation.devices).devices
    values = 4 * sum(quantity_rows(simulation).values())
    steps = 4 * planned_steps(simulation.grid)
    most = MOST_PATHS if devices.flat[0].platform != "cpu" else IN_CACHE * devices.size
    return plan_chunks(simulation.paths, steps, values, devices.size, simulation.chunk, most)


def _requests(simulation: Simulation, part: _Part) -> tuple[Request, ...]:
    """The programs of a part, and the one that averages what they give."""
    plan, mesh = _chunks(simulation), path_mesh(simulation.devices)
    dtype = simulation.precision if len(part.requests) == 1 else "float64"
    arrays = on_mesh(part.counts, (plan.leaves, plan.lanes), dtype, mesh)
    return *part.requests, Request(MomentsReduction(part.counts, mesh), (arrays, np.int64(0)))


def _run(
    simulation: Simulation, part: _Part, progress: Callable[[int], None] | None
) -> tuple[Found, list[np.ndarray] | None, float]:
    plan, mesh = _chunks(simulation), path_mesh(simulation.devices)
    ids = as_device_ids(0, plan.leaves, plan.lanes, mesh)
    reduction = MomentsReduction(part.counts, mesh)
    (*programs, reduce), seconds = compiled(*_requests(simulation, part))

    def simulate(ids):
        return part.simulate(*programs, ids)

    found = average(simulate, reduce, reduction, simulation.paths, plan, mesh, progress)
    errors = None
    if part.finer is not None:
        present = np.arange(ids.size) < simulation.paths
        both = part.simulate(*programs, ids), part.finer(*programs, ids)
        coarse, fine = ([np.asarray(x).reshape(len(x), -1)[:, present] for x in each] for each in both)
        errors = [np.abs(np.mean(a - b, axis=1)) for a, b in zip(coarse, fine, strict=True)]
    return found, errors, seconds


def _is_weighted(part: _Part) -> bool:
    """Whether it weighs values with a derivative of a density, which is infinite where there is no noise."""
    return any(choice.method in ("smoothing", "score", "mixed") for choice, _ in part.found)


def _share(progress: Progress | None, paths: int, done: float, weight: float) -> Callable[[int], None] | None:
    if progress is None:
        return None
    return lambda count: progress(min(paths, round(paths * (done + weight * count / paths))), paths)


def _failure(simulation: Simulation, part: _Part, found: Found) -> Exception:
    """Why a path has no derivative: its values are not finite, or they are and the derivative is not."""
    paths = ", ".join(str(x) for x in found.failed[:3])
    if _is_weighted(part) and isinstance(simulation.grid, JumpGrid):
        return NumericalError(
            f"path {paths}: there is no score: a rate of zero changes, or an event does, and the path is "
            "impossible at other values. Set sensitivity.method: finite_differences"
        )
    if _is_weighted(part):
        return NumericalError(
            f"path {paths}: the weight is not finite: the noise vanishes where the path is looked at, and "
            "there is no density to differentiate. Set sensitivity.method: finite_differences, or "
            "`ensemble: {failures: exclude}`"
        )
    error = failed_paths(simulation, found.failed)
    if "not finite" in str(error).split(".")[0]:
        return NumericalError(
            f"path {paths}: the values are finite and a derivative is not. Set sensitivity.method: "
            "finite_differences, or `ensemble: {failures: exclude}`"
        )
    return error
