"""The operations of one step, from what the step reads to the state after it."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from simkit_solvers.loops.step import stepper_for
from simkit_solvers.methods.registry import in_calculus_of
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.schedule import as_solved, within
from simkit_solvers.random.draws import Draw
from simkit_solvers.random.generator import Words
from simkit_solvers.random.noise import Purpose, StepWords

from simkit.diagnostics.inspection.graph import Graph, Kind, Node
from simkit.diagnostics.inspection.named import labelled_numbers
from simkit.ensemble.flat import Constant, Flat, Operation, traced
from simkit.ensemble.simulation import Simulation

CHAINED = 80  # nodes above which a chain of operations is drawn as one
LONGEST_CHAIN = 3
PASSED = frozenset(
    ["convert_element_type", "broadcast_in_dim", "reshape", "squeeze", "copy", "copy_p", "stop_gradient"]
)
SIGNS = {
    "add": "+",
    "sub": "−",
    "mul": "×",
    "div": "÷",
    "pow": "^",
    "lt": "<",
    "le": "≤",
    "gt": ">",
    "ge": "≥",
}
SIGNS |= {"eq": "=", "ne": "≠", "and": "and", "or": "or", "add_any": "+"}
WORDS = {"select_n": "where", "sqrt": "√", "neg": "−", "max": "max", "min": "min", "log1p": "log1p"}

StepInputs = list[tuple[Kind, str, Any]]
Step = tuple[StepInputs, list[str], Callable]


def operation_graph(simulation: Simulation) -> Graph:
    """What one step computes, calls written out; of what only changes shape or precision nothing is shown.

    On a fixed grid and for adaptive stochastic steps it is the solver's step, for adaptive ordinary equations
    the right-hand side, for a network event by event its propensities. Where there are more than 80 nodes,
    chains of operations on one value are drawn as one; where these are more than 80 too, as in a method of
    many stages, it is one evaluation of the equation.
    """
    with jax.enable_x64(True):
        result = _operations(*step_of(simulation))
        return result if len(result.nodes) <= CHAINED else _operations(*equation_of(simulation))


def _operations(inputs: StepInputs, outputs: list[str], function: Callable) -> Graph:
    program, _ = traced(function, [value for _, _, value in inputs])
    names = [Node(f"{kind} {name}", name, kind) for kind, name, _ in inputs]
    result = _graph(program, names, outputs)
    return result if len(result.nodes) <= CHAINED else _chained(result)


def equation_of(simulation: Simulation) -> Step:
    """Inputs, outputs and function of one evaluation of the equation: drift, and noise times increments."""
    problem = simulation.problem
    inputs, parts = _start(simulation, problem)
    ones = {f"d{name}": jnp.ones((), simulation.precision) for name in problem.Noise._fields}
    inputs += _given("noise", ones)

    def equation(given):
        return simulation.stepping.terms(*parts(given))

    return inputs, simulation.stepping.term_names, equation


def in_solvers_calculus(simulation: Simulation) -> Any:
    """The problem as the solver integrates it."""
    problem = simulation.problem
    return in_calculus_of(simulation.solver, problem) if simulation.convert else problem


def step_of(simulation: Simulation) -> Step:
    """Inputs with kind, name and a value, names of the outputs, and a function of a list of the inputs."""
    if simulation.stepping.whole or simulation.stepping.exact_by == "tolerances":
        return equation_of(simulation)
    problem, stepper = in_solvers_calculus(simulation), stepper_for(simulation.solver)
    inputs, parts = _start(simulation, problem)
    inputs += _given("time", {"dt": jnp.ones((), simulation.precision)})
    components = problem.Noise._fields
    kinds = [
        f"{kind} of {name}"
        for kind in ("normal", "area", "second area")[: stepper.areas + 1]
        for name in components
    ]
    inputs += _given("noise", dict.fromkeys(kinds, jnp.ones((), jnp.float32)))
    if stepper.variates:
        inputs += _given("noise", dict.fromkeys(("random key a", "random key b", "step"), jnp.uint32(1)))

    def step(given):
        model, y, t, (dt, *normals) = parts(given)
        c = len(components)
        drawn = [tuple(normals[i * c : (i + 1) * c]) for i in range(stepper.areas + 1)]
        words = ()
        if stepper.variates:
            a, b, k = normals[-3:]
            words = (StepWords(Words(a, b), k, jnp.uint32(int(Purpose.TRANSITION))),)
        draw = Draw(drawn[0], *(drawn[i] if i < len(drawn) else () for i in (1, 2)), words)
        during = as_solved(within(model, t, t + dt))
        return stepper.step(during, t, dt, y, draw, stepper.init(during, t, dt, y))[0]

    return inputs, [f"{name} after the step" for name in problem.State._fields], step


def _start(simulation: Simulation, problem: AbstractODE) -> tuple[StepInputs, Callable]:
    """Parameters, state and time as inputs, and what makes of them a model, a state, a time and the rest."""
    dtype = jnp.dtype(simulation.precision)
    names, numbers, rebuilt = labelled_numbers(problem, dtype)
    fields, one = problem.State._fields, jnp.ones((), dtype)
    inputs = _given("parameter", dict(zip(_distinct(names), numbers, strict=True)))
    inputs += _given("variable", dict.fromkeys(fields, one)) + _given("time", {"t": one})
    n, v = len(names), len(fields)

    def parts(given):
        return rebuilt(given[:n]), problem.State(*given[n : n + v]), given[n + v], given[n + v + 1 :]

    return inputs, parts


def _given(kind: Kind, values: Mapping[str, Any]) -> StepInputs:
    return [(kind, name, value) for name, value in values.items()]


def _distinct(names: list[str]) -> list[str]:
    """Names of which none is there twice."""
    return [
        name if names.count(name) == 1 else f"{name} {names[:i].count(name)}" for i, name in enumerate(names)
    ]


def _graph(program: Flat, inputs: list[Node], outputs: list[str]) -> Graph:
    """Only what the outputs depend on."""
    nodes: list[Node] = []
    edges: list[tuple[str, str]] = []
    numbers = {operation: number for number, operation in enumerate(program.operations)}

    def drawn(operation: Operation, given: list[str | Constant]) -> list[str | Constant]:
        """What only changes shape or precision is what it reads, everything else a node."""
        if operation.name in PASSED and len(given) == 1 and len(operation.outputs) == 1:
            return given
        node = Node(f"operation {numbers[operation]}", _label(operation, given), "operation")
        nodes.append(node)
        edges.extend((x, node.name) for x in given if isinstance(x, str))
        return [node.name for _ in operation.outputs]

    ends = [Node(f"next {name}", name, "next") for name in outputs]
    results = program.follow([node.name for node in inputs], Constant, drawn)
    edges += [(x, node.name) for node, x in zip(ends, results, strict=True) if isinstance(x, str)]
    needed = {node.name for node in ends}
    for source, target in reversed(edges):  # in the order in which they are computed
        if target in needed:
            needed.add(source)
    nodes = [node for node in (*inputs, *nodes, *ends) if node.name in needed]
    return Graph.of(nodes, [(a, b) for a, b in edges if b in needed])


def _label(operation: Operation, given: list[str | Constant]) -> str:
    shown = [_shown(x.value) if isinstance(x, Constant) else "·" for x in given]
    if operation.name in ("integer_pow", "square"):
        return f"·^{operation.equation.params.get('y', 2)}"
    if operation.name in SIGNS and len(shown) == 2:
        sign = SIGNS[operation.name]
        return sign if shown == ["·", "·"] else f" {sign} ".join(shown)
    word = WORDS.get(operation.name, operation.name)
    return f"{word}({', '.join(shown)})" if any(x != "·" for x in shown) else word


def _shown(value: Any) -> str:
    if np.ndim(value):
        return f"[{np.size(value)} numbers]"
    number = np.asarray(value)[()]
    return str(number) if number.dtype.kind in "biu" else f"{float(number):.4g}"


def _chained(graph: Graph) -> Graph:
    """The graph with chains of operations, each read by the next alone, as one node."""
    after: dict[str, list[str]] = {}
    before: dict[str, list[str]] = {}
    for a, b in graph.edges:
        after.setdefault(a, []).append(b)
        before.setdefault(b, []).append(a)
    kinds = {node.name: node.kind for node in graph.nodes}
    head: dict[str, str] = {}
    labels: dict[str, list[str]] = {}
    for node in graph.nodes:
        own = before.get(node.name, [])
        joins = node.kind == "operation" and len(own) == 1 and kinds[own[0]] == "operation"
        joins = joins and after[own[0]] == [node.name]
        head[node.name] = head[own[0]] if joins else node.name
        labels.setdefault(head[node.name], []).append(node.label)
    nodes = [
        Node(node.name, _chain_label(labels[node.name]), node.kind)
        for node in graph.nodes
        if head[node.name] == node.name
    ]
    return Graph.of(nodes, [(head[a], head[b]) for a, b in graph.edges if head[a] != head[b]])


def _chain_label(labels: list[str]) -> str:
    if len(labels) <= LONGEST_CHAIN:
        return " › ".join(labels)
    return f"{labels[0]} › … {len(labels) - 2} more … › {labels[-1]}"
