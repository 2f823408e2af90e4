"""What depends on what, by the names of the model: constants, parameters, noises, variables, observables."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.problem import AbstractSDE
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import schedule_of

from simkit.diagnostics.inspection.flat import influences, traced
from simkit.diagnostics.inspection.graph import Graph, Kind, Node
from simkit.diagnostics.inspection.named import labelled_numbers
from simkit.ensemble.simulation import Simulation
from simkit.functionals.functional import AbstractFunctional
from simkit.observe.observables import Observable, Observer


class _Draft:
    """Nodes and edges while they are found."""

    def __init__(self):
        self.nodes: dict[str, Node] = {}
        self.edges: dict[tuple[str, str], None] = {}

    def node(self, kind: Kind, name: str, label: str | None = None) -> str:
        """The name in the graph of a node, which is made unless it is there."""
        full = f"{kind} {name}"
        self.nodes.setdefault(full, Node(full, label or name, kind))
        return full

    def edge(self, source: str, target: str) -> None:
        """An edge, once."""
        self.edges[source, target] = None


def model_graph(simulation: Simulation) -> Graph:
    """The graph of a model and its observables, edges by the data dependence of their jaxprs.

    A variable stands twice: as it is before a step, and after it. Between them stand the terms of its
    equation (drift, noise, jumps, or the reactions of a network simulated event by event). Observables look
    at the variables after the step. Events at given times are not shown.
    """
    with jax.enable_x64(True):
        draft = _Draft()
        for name in simulation.problem.State._fields:
            draft.node("variable", name)
        _equations(draft, simulation)
        _constants(draft, simulation)
        if isinstance(simulation.observer, Observer):
            for observable in simulation.observer.observables:
                _observable(draft, simulation, observable)
        return Graph.of(draft.nodes.values(), draft.edges)


def _equations(draft: _Draft, simulation: Simulation) -> None:
    problem = simulation.problem
    names, numbers, rebuilt = labelled_numbers(problem, jnp.float64)
    fields = problem.State._fields
    one = jnp.ones((), jnp.float64)
    y = problem.State(*(one for _ in fields))
    t = jnp.zeros((), jnp.float64)
    given = [draft.node("parameter", name) for name in names if not name.startswith("event ")]
    given = [f"parameter {name}" for name in names] + [f"variable {name}" for name in fields] + ["time t"]

    def depend(targets: list[str], function: Callable, others: tuple[str, ...] = ()) -> None:
        """Edges to each target from what its part of the function depends on, besides `others`."""
        extra = [one for _ in others]
        program, _ = traced(lambda n, y, t, z: function(rebuilt(n), y, t, z), numbers, y, t, extra)
        for target, result in zip(targets, influences(program), strict=True):
            for i in sorted(result):
                name = [*given, *others][i]
                if name == "time t":
                    draft.node("time", "t")
                draft.edge(name, target)

    def terms(kind: str, wanted=fields) -> list[str]:
        return [draft.node("term", f"{kind} of {name}") for name in wanted]

    after = {name: draft.node("next", name, f"{name} after the step") for name in fields}
    for name in fields:
        draft.edge(f"variable {name}", after[name])
    if isinstance(problem, AbstractReactionNetwork) and simulation.grid.has_events:
        reactions = list(problem.reactions)
        targets = [draft.node("term", f"rate of {name}") for name in reactions]
        depend(targets, lambda p, y, t, z: p.propensities(t, y))
        for target, each in zip(targets, problem.reactions.values(), strict=True):
            for name, change in each.change.items():
                if change:
                    draft.edge(target, after[name])
        return
    targets = terms("drift")
    depend(targets, lambda p, y, t, z: p.drift(t, y))
    if isinstance(problem, AbstractSDE):
        noises = tuple(draft.node("noise", f"d{name}") for name in problem.Noise._fields)
        targets += terms("noise")
        depend(targets[len(fields) :], lambda p, y, t, z: p.noise(t, y, p.Noise(*z)), noises)
    if isinstance(problem, AbstractJumpDiffusion):
        rate, size = draft.node("term", "jump rate"), draft.node("term", "jump size")
        depend([rate], lambda p, y, t, z: p.intensity(t, y))
        drawn = draft.node("noise", "jumps", "random jumps")
        depend(
            [size], lambda p, y, t, z: sum(jnp.sum(x) for x in jax.tree.leaves(p.marks(t))) + z[0], (drawn,)
        )
        jumped = terms("jump")
        depend(jumped, lambda p, y, t, z: p.jump(t, y, z[0] + z[1]), (rate, size))
        targets += jumped
    for target in targets:
        if any(end == target for _, end in draft.edges) or target.startswith("term drift"):
            draft.edge(target, after[target.rpartition(" of ")[2]])
    for kind in ("noise", "jump"):  # a variable without
        for name in fields:
            term, driver = f"term {kind} of {name}", {"noise": "noise d", "jump": "term jump"}[kind]
            sources = [a for a, b in draft.edges if b == term]
            if term in draft.nodes and not any(a.startswith(driver) for a in sources):
                del draft.nodes[term]
                draft.edges = {e: None for e in draft.edges if term not in e}


def _constants(draft: _Draft, simulation: Simulation) -> None:
    """Edges from the constants of the file to the parameters that are computed from them."""
    if simulation.bind is None or not simulation.constants or schedule_of(simulation.problem) is not None:
        return
    bind = simulation.bind

    def parameters(constants):
        return labelled_numbers(bind(constants).problem, jnp.float64)[1]

    names = list(simulation.constants)
    given = {name: jnp.asarray(value, jnp.float64) for name, value in simulation.constants.items()}
    program, _ = traced(parameters, given)
    order = sorted(names)  # as jax flattens a dictionary
    labels, _, _ = labelled_numbers(simulation.problem, jnp.float64)
    for label, result in zip(labels, influences(program), strict=True):
        for i in sorted(result):
            draft.edge(draft.node("constant", order[i]), f"parameter {label}")


def _observable(draft: _Draft, simulation: Simulation, observable: Observable) -> None:
    target = draft.node("observable", observable.name)
    functionals = {
        functional: _functional(draft, simulation, functional) for functional in observable.functionals
    }
    for expression in observable.expressions:
        for source in _read(draft, simulation, expression, functionals):
            draft.edge(source, target)


def _functional(draft: _Draft, simulation: Simulation, functional: AbstractFunctional) -> str:
    """The node of a path functional, with its edges."""
    node = draft.node("functional", functional.text)
    for part in functional.arguments:
        for source in _read(draft, simulation, part, {}):
            draft.edge(source, node)
    return node


def _read(
    draft: _Draft, simulation: Simulation, expression, functionals: dict[AbstractFunctional, str]
) -> list[str]:
    """The nodes that an expression depends on."""
    names = sorted(expression.names)
    used = [each for each in expression.functionals if each in functionals]
    one = jnp.ones((), jnp.float64)

    def value(named, seen):
        environment: dict[Any, Any] = dict(zip(names, named, strict=True))
        environment |= dict(zip(used, seen, strict=True))
        return jnp.asarray(expression(environment), jnp.float64)

    program, _ = traced(value, [one for _ in names], [one for _ in used])
    sources = [_source(draft, simulation, name) for name in names] + [functionals[each] for each in used]
    return [sources[i] for i in sorted(influences(program)[0])]


def _source(draft: _Draft, simulation: Simulation, name: str) -> str:
    if name in simulation.problem.State._fields:
        return f"next {name}"
    if name == "t":
        return draft.node("time", "t")
    if f"parameter {name}" in draft.nodes or name not in simulation.constants:
        return draft.node("parameter", name)
    return draft.node("constant", name)
