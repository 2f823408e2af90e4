"""What depends on what, by the names of the model: constants, parameters, noises, variables, observables."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from simkit_solvers.problems.jump_diffusion import AbstractJumpDiffusion
from simkit_solvers.problems.problem import AbstractODE
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import schedule_of

from simkit.diagnostics.inspection.graph import Graph, Kind, Node
from simkit.diagnostics.inspection.named import labelled_numbers
from simkit.ensemble.flat import Flat, influences, traced
from simkit.ensemble.simulation import Simulation
from simkit.functionals.functional import AbstractFunctional
from simkit.observe.observable import Observable
from simkit.observe.observer import Observer
from simkit.observe.time_functions import event_names

OF_EVENTS = ("constant ", "event ")  # how the names of numbers begin that belong to events


class _Draft:
    """The nodes and edges so far."""

    def __init__(self):
        self.nodes: dict[str, Node] = {}
        self.edges: dict[tuple[str, str], None] = {}

    def node(self, kind: Kind, name: str, label: str | None = None) -> str:
        """The name of a node in the graph, which is added if missing."""
        full = f"{kind} {name}"
        self.nodes.setdefault(full, Node(full, label or name, kind))
        return full

    def edge(self, source: str, target: str) -> None:
        """Add an edge, if missing."""
        self.edges[source, target] = None


def model_graph(simulation: Simulation) -> Graph:
    """The graph of a model and its observables, edges by the data dependence of their jaxprs.

    A variable stands twice: as it is before a step, and after it. Between them stand the terms of its
    equation (drift, noise, jumps, or the reactions of a network simulated event by event). Observables see
    the variables after the step, and those that events set after these. An event has edges from what its
    condition and its new values depend on.
    """
    with jax.enable_x64(True):
        draft = _Draft()
        for name in simulation.problem.State._fields:
            draft.node("variable", name)
        equations = _equations(draft, simulation)
        _events(draft, equations)
        _constants(draft, simulation)
        if isinstance(simulation.observer, Observer):
            for observable in simulation.observer.observables:
                _observable(draft, simulation, observable)
        return Graph.of(draft.nodes.values(), draft.edges)


class _Equations:
    """The terms of a model's equations, each with edges from what it depends on by its jaxpr."""

    def __init__(self, draft: _Draft, problem: AbstractODE):
        names, self.numbers, self.rebuilt = labelled_numbers(problem, jnp.float64)
        for name in names:
            if not name.startswith(OF_EVENTS):
                draft.node("parameter", name)
        self.draft, self.problem = draft, problem
        self.fields = problem.State._fields
        self.sources = [name if name.startswith(OF_EVENTS) else f"parameter {name}" for name in names]
        self.sources += [f"variable {name}" for name in self.fields] + ["time t"]

    def depend(self, targets: list[str], function: Callable, others: tuple[str, ...] = ()) -> list[str]:
        """The targets, with edges from what `function(problem, t, y, others)`, one value each, depends on."""
        program = self._traced(function, others)
        for target, result in zip(targets, influences(program), strict=True):
            for i in sorted(result):
                self.draft.edge(self._source(i, others), target)
        return targets

    def happen(self, name: str, number: int) -> list[str]:
        """The node of an event with its edges, and the variables that it sets."""
        node = self.draft.node("event", name, f"event {name}")

        def after(problem, t, y, z):
            schedule = schedule_of(problem)
            assert schedule is not None
            event = schedule.events[number]
            holds = event.holds(problem, t, y).astype(t.dtype)
            return holds, *event.change(problem, t, y)

        program = self._traced(after)
        holds, *values = zip(program.outputs, influences(program), strict=True)
        before = program.inputs[len(self.numbers) :]
        changed = {
            field: read
            for field, old, (new, read) in zip(self.fields, before, values, strict=False)
            if new is not old
        }
        for i in sorted(frozenset.union(holds[1], *changed.values())):
            self.draft.edge(self._source(i).replace("variable ", "next ", 1), node)
        return list(changed)

    def _traced(self, function: Callable, others: tuple[str, ...] = ()) -> Flat:
        one, t = jnp.ones((), jnp.float64), jnp.zeros((), jnp.float64)

        def values(numbers, y, t, z):
            problem = self.rebuilt(numbers)
            return function(problem, t, problem.State(*y), z)

        return traced(values, self.numbers, [one for _ in self.fields], t, [one for _ in others])[0]

    def _source(self, number: int, others: tuple[str, ...] = ()) -> str:
        """The node of an input, which is added if it is seldom used."""
        name = [*self.sources, *others][number]
        kind, _, own = name.partition(" ")
        return self.draft.node(kind, own) if kind in ("time", "constant") else name

    def terms(self, kind: str) -> list[str]:
        """The nodes of a term that each variable has."""
        return [self.draft.node("term", f"{kind} of {name}") for name in self.fields]


def _equations(draft: _Draft, simulation: Simulation) -> _Equations:
    """The parameters, and the terms between each variable before and after a step."""
    problem = simulation.problem
    equations = _Equations(draft, problem)
    after = {name: draft.node("next", name, f"{name} after the step") for name in equations.fields}
    for name in equations.fields:
        draft.edge(f"variable {name}", after[name])
    if isinstance(problem, AbstractReactionNetwork) and simulation.stepping.whole:
        _reactions(draft, equations, problem, after)
        return equations
    targets = equations.depend(equations.terms("drift"), lambda p, t, y, z: p.drift(t, y))
    if problem.stochastic:
        noises = tuple(draft.node("noise", f"d{name}") for name in problem.Noise._fields)
        terms = equations.terms("noise")
        targets += equations.depend(terms, lambda p, t, y, z: p.noise(t, y, p.Noise(*z)), noises)
    if isinstance(problem, AbstractJumpDiffusion):
        targets += _jumps(draft, equations)
    for target in targets:
        if any(end == target for _, end in draft.edges) or target.startswith("term drift"):
            draft.edge(target, after[target.rpartition(" of ")[2]])
    for kind, driver in (("noise", "noise d"), ("jump", "term jump")):
        _drop_undriven(draft, [f"term {kind} of {name}" for name in equations.fields], driver)
    return equations


def _events(draft: _Draft, equations: _Equations) -> None:
    """The events at the end of a step, and the variables after them."""
    for number, name in enumerate(event_names(schedule_of(equations.problem))):
        for field in equations.happen(name, number):
            settled = draft.node("settled", field, f"{field} after events")
            draft.edge(f"next {field}", settled)
            draft.edge(f"event {name}", settled)


def _reactions(
    draft: _Draft, equations: _Equations, network: AbstractReactionNetwork, after: dict[str, str]
) -> None:
    targets = [draft.node("term", f"rate of {name}") for name in network.reactions]
    equations.depend(targets, lambda p, t, y, z: p.propensities(t, y))
    for target, reaction in zip(targets, network.reactions.values(), strict=True):
        for name, change in reaction.change.items():
            if change:
                draft.edge(target, after[name])


def _jumps(draft: _Draft, equations: _Equations) -> list[str]:
    """The terms by which variables jump."""
    rate, size = draft.node("term", "jump rate"), draft.node("term", "jump size")
    equations.depend([rate], lambda p, t, y, z: p.intensity(t, y))
    drawn = draft.node("noise", "jumps", "random jumps")
    equations.depend(
        [size], lambda p, t, y, z: sum(jnp.sum(x) for x in jax.tree.leaves(p.marks(t))) + z[0], (drawn,)
    )
    return equations.depend(
        equations.terms("jump"), lambda p, t, y, z: p.jump(t, y, z[0] + z[1]), (rate, size)
    )


def _drop_undriven(draft: _Draft, terms: list[str], driver: str) -> None:
    """Remove the noise or jumps of variables that have none: terms without an edge from their driver."""
    for term in terms:
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
        return f"settled {name}" if f"settled {name}" in draft.nodes else f"next {name}"
    if name == "t":
        return draft.node("time", "t")
    if f"parameter {name}" in draft.nodes or name not in simulation.constants:
        return draft.node("parameter", name)
    return draft.node("constant", name)
