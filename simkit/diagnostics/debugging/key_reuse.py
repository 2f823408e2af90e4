"""Whether any random word is used twice: in a run's own noise, and in a model that draws by `jax.random`."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
from jax.errors import KeyReuseError
from simkit_solvers.loops.step import stepper_for
from simkit_solvers.methods.jump.jump_method import JumpNoise, Jumps
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.schedule import as_solved, within
from simkit_solvers.random.brownian_tree import BrownianTree
from simkit_solvers.random.draws import Draw
from simkit_solvers.random.generator import seed_key
from simkit_solvers.random.noise import AbstractNoise, CounterNoise, Purpose

from simkit.diagnostics.debugging.random_words import Word, draws, following
from simkit.diagnostics.inspection.operation_graph import step_of
from simkit.distributions.distribution import AbstractDrawn
from simkit.ensemble.flat import Operation, nothing, traced, union
from simkit.ensemble.initial import draw_initial, fixed_value
from simkit.ensemble.simulation import Simulation
from simkit.ensemble.stepping import Events, StochasticAdaptiveSteps, StochasticFixedSteps

PATHS = (0, 1, 2, 65_537)
STEPS = 8  # from each of three places, two of them side by side as in the loop
STARTS = (0, 8, 1024)
BLOCKS = 4  # of the words that a step may take any number of
INTERVALS = 3  # of adaptive steps, with two levels of halves each

Labelled = Iterator[tuple[str, frozenset[Word]]]
Driver = Callable[..., AbstractNoise]


@dataclasses.dataclass(frozen=True)
class KeyReport:
    """How many values were checked, made of how many words; `reused` says which share one."""

    values: int
    words: int
    reused: tuple[str, ...]


def check_keys(simulation: Simulation, driver: Driver = CounterNoise.of) -> KeyReport:
    """Repeat the draws of a run, for some paths and steps, and find what is not independent.

    Initial values, normals, areas and other variates of paths 0, 1, 2 and 65 537 in steps 0 … 15 and 1024 …
    1031 (events, or places in the tree of adaptive steps) must share no word of the generator. `driver` is
    another source of noise on a fixed grid. A model's own `jax.random` keys are checked by jax
    (`debug_key_reuse`), and must change from step to step and from path to path.

    >>> import simkit
    >>> simulation = simkit.load({
    ...     "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    ...     "initial": {"S": 100.0},
    ...     "time": {"t1": 1.0, "steps": 16},
    ...     "ensemble": {"paths": 1000},
    ... })
    >>> simkit.check_keys(simulation).reused
    ()
    """
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        seen: dict[Word, str] = {}
        reused: dict[str, None] = {}
        count = 0
        for label, words in _drawn(simulation, driver):
            count += 1
            for word in sorted(words):
                first = seen.setdefault(word, label)
                if first != label:
                    reused[f"{first} and {label} share a random word"] = None
        return KeyReport(count, len(seen), (*reused, *_own_keys(simulation)))


def _drawn(simulation: Simulation, driver: Driver) -> Labelled:
    """What a run draws: what each value is, and its words."""
    key = seed_key(simulation.seed)
    kinds = [_initial(simulation)]
    match simulation.stepping:
        case Events():
            kinds.append(_events(simulation))
        case StochasticAdaptiveSteps():
            kinds += _tree(simulation)
        case StochasticFixedSteps():
            kinds.append(_steps(simulation, driver))
    for labels, drawn, places in kinds:
        follow = following(drawn, key, jnp.uint32(0), *(jnp.uint32(n) for n in places[0]))
        for path in PATHS:
            for place in places:
                result = follow(key, jnp.uint32(path), *(jnp.uint32(n) for n in place))
                for label, words in zip(labels(*place), result, strict=True):
                    yield f"path {path}, {label}", words


# Names of what is drawn at a place, a function of key, path and place that draws it, and the places.
Kind = tuple[Callable[..., list[str]], Callable[..., Any], list[tuple[int, ...]]]


def _initial(simulation: Simulation) -> Kind:
    start = {
        name: x if isinstance(x, AbstractDrawn) else fixed_value(x) for name, x in simulation.initial.items()
    }
    float64_normals, dtype = simulation.normals == "float64", jnp.dtype(simulation.precision)

    def drawn(key, path):
        return list(draw_initial(start, key, path, dtype, float64_normals).values())

    return lambda: [f"initial {name}" for name in start], drawn, [()]


def _steps(simulation: Simulation, driver: Driver) -> Kind:
    problem: Any = simulation.problem
    stepper, names = stepper_for(simulation.solver), problem.Noise._fields
    float64_normals = simulation.normals == "float64"
    purposes = [Purpose.TRANSITION] if stepper.variates else []
    purposes += [Purpose.JUMPS] if isinstance(problem, AbstractJumpDiffusion) else []
    kinds = ("W", "H", "K")[: stepper.areas + 1]

    def drawn(key, path, first):
        noise = driver(key, path, float64_normals)
        result: list[Any] = []
        for draw in noise.draws(len(names), stepper.areas, first, STEPS):
            result += [z for kind in draw[: len(kinds)] for z in kind]
        for purpose in purposes:
            for parts in noise.words(purpose, first, STEPS):
                result += [list(words.block(n)) for words in parts[:1] for n in range(BLOCKS)]
        return result

    def labels(start):
        steps = range(start, start + STEPS)
        normals = [f"step {k}, {kind} of {name}" for k in steps for kind in kinds for name in names]
        return normals + [
            f"step {k}, word {n} for {purpose.name.lower()}"
            for purpose in purposes
            for k in steps
            for n in range(2 * BLOCKS)
        ]

    return labels, drawn, [(start,) for start in STARTS]


def _tree(simulation: Simulation) -> list[Kind]:
    problem: Any = simulation.problem
    areas, n = stepper_for(simulation.solver).areas, len(problem.Noise._fields)
    float64_normals = simulation.normals == "float64"
    zeros = tuple(jnp.zeros((), jnp.float64) for _ in range(n))
    whole = Draw(zeros, *(zeros if areas > i else () for i in (0, 1)))

    def root(key, path, interval):
        return BrownianTree.of(key, path, float64_normals).root(n, areas, interval)

    def left(key, path, interval, level, index):
        halves = BrownianTree.of(key, path, float64_normals).halves(whole, interval, level, index)
        return halves[0].W  # the right half is made of the same words

    normals = (areas + 1) * n
    places = [(i, level, j) for i in range(INTERVALS) for level in range(3) for j in range(2**level)]
    return [
        (lambda i: [f"interval {i}, normal {c}" for c in range(normals)], root, [(i,) for i in range(STEPS)]),
        (
            lambda i, level, j: [f"interval {i}, part {j} of {2**level}, normal {c}" for c in range(n)],
            left,
            places,
        ),
    ]


def _events(simulation: Simulation) -> Kind:
    grid: Any = simulation.grid
    dtype = jnp.dtype(simulation.precision)
    t0, span = jnp.asarray(grid.t0, dtype), jnp.asarray(grid.span, dtype)
    network: Any = as_solved(within(simulation.problem, t0, t0 + span))
    method = simulation.solver
    y = network.State(*(jnp.int32(fixed_value(value)) for value in simulation.initial.values()))

    def proposed(key, path, index):
        jumps = Jumps(network, JumpNoise.of(key, path), t0, span)
        state = method.init(jumps, y)
        ahead = method.propose(jumps, y, state, method.draw(jumps, y, state, index))
        return sum(jnp.sum(jnp.asarray(x, jnp.float64)) for x in jax.tree.leaves((ahead.tau, ahead.change)))

    return lambda index: [f"event {index}"], proposed, [(index,) for index in range(STEPS)]


def _own_keys(simulation: Simulation) -> Iterator[str]:
    """What is wrong with the keys that a model makes for itself."""
    inputs, _, step = step_of(simulation)
    values = [value for _, _, value in inputs]
    program, _ = traced(step, values)
    sources: list[frozenset[str]] = []  # the kinds of inputs of each operation that draws

    def united(operation: Operation, given: list) -> list:
        result = union(operation, given)
        sources.extend(result[:1] if draws(operation) else ())
        return result

    program.follow([frozenset([kind]) for kind, _, _ in inputs], nothing, united)
    for kinds in sources:
        if not kinds & {"noise", "variable", "time"}:
            yield "the model draws by jax.random with the same key at every step of every path"
        elif not kinds & {"noise", "variable"}:
            yield "the model draws by jax.random with the same keys on every path"
    try:
        with jax.debug_key_reuse(True):
            jax.jit(step)(values)
    except KeyReuseError as error:
        yield f"the model uses a jax.random key twice in a step: {str(error).splitlines()[0]}"
