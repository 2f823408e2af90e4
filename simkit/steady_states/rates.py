"""The rates of change of a model as a function of its state, with their derivatives, in float64."""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import jaxpr_as_fun
from simkit_solvers.numerics.traced import reads
from simkit_solvers.problems.problem import AbstractODE, variables_of
from simkit_solvers.problems.reaction_network import AbstractReactionNetwork
from simkit_solvers.problems.schedule import model_in, model_of, schedule_of

from simkit.derivatives.targets import numbers_at
from simkit.distributions.distribution import TRACED, AbstractDrawn
from simkit.ensemble.initial import fixed_value
from simkit.ensemble.simulation import Run, Simulation
from simkit.ensemble.without_value import Undefined, undefined_in
from simkit.errors import InputError
from simkit.observe.observer import Observer
from simkit.steady_states.sizes import typical_sizes

REMEDY = "give --at TIME (in Python at=TIME) to freeze them at one time"


PROBES = 64  # of a few, all may happen to be rounded hardly at all
NEAR = 1e-3  # how far, relative to a variable, probes of rounding are from a state


class Rates:
    """The rates of change $f(y)$ of a model at a fixed time: the drift, or the rate equation of a network.

    Of a stochastic equation they are the drift in the model's own calculus, without jumps. `start` are the
    initial values: of distributions the medians, of values for each path the first. Call it, and everything
    it gives, within `jax.enable_x64(True)`.
    """

    def __init__(self, simulation: Simulation, at: float | None = None):
        """Raises `InputError` where the model depends on time and `at` does not freeze that."""
        self.simulation = simulation
        self.problem: Any = model_in(simulation.problem)
        self.names: tuple[str, ...] = self.problem.State._fields
        self.time = float(np.asarray(simulation.grid.times)[0]) if at is None else at
        self.start = np.asarray([fixed_value(simulation.initial[name]) for name in self.names], float)
        self._refuse_time(at)
        self.frozen = at is not None
        self._static = simulation.run.split()[0]
        self._rates = jax.jit(lambda y: self._at({}, y))
        self._each = jax.jit(jax.vmap(lambda y: self._at({}, y)))
        self._jacobian = jax.jit(jax.jacfwd(lambda y: self._at({}, y)))

    def __call__(self, y: np.ndarray) -> np.ndarray:
        return np.asarray(self._rates(y))

    def undefined(self, y: np.ndarray) -> Undefined | None:
        """What has no value at a state where a rate of change is not finite."""
        return undefined_in(self._rates, y)

    def each(self, states: np.ndarray) -> np.ndarray:
        """The rates of change of states, a row each."""
        return np.asarray(self._each(states))

    def rounding(self, y: np.ndarray) -> np.ndarray:
        """What rounding makes of the rates near a state, also where large terms cancel.

        They are compared with the same in float32, where rounding is as much larger as its unit, and where
        one operation follows another: compiled into one they may round much less than in float64.
        """
        unit = np.finfo(float).eps / np.finfo(np.float32).eps
        near = NEAR * np.random.default_rng(0).uniform(-1, 1, (PROBES, len(y)))
        with np.errstate(over="ignore"):
            probes = (y * (1 + near)).astype(np.float32)
        off = abs(self.each(probes.astype(float)) - np.asarray(self._single(probes)[0], float))
        return 2 * unit * np.where(np.isfinite(off), off, 0.0).max(0)

    @functools.cached_property
    def _single(self) -> Callable:
        """The rates of `PROBES` states in float32, each operation by itself."""
        each = jax.vmap(lambda y: self._at({}, y, jnp.float32))
        shape = jax.ShapeDtypeStruct((PROBES, len(self.names)), jnp.float32)
        return jaxpr_as_fun(jax.make_jaxpr(each)(shape))

    def jacobian(self, y: np.ndarray) -> np.ndarray:
        r"""$\partial f / \partial y$."""
        return np.asarray(self._jacobian(y))

    def slopes(self, names: Sequence[str], y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        r"""$\partial_\theta f$ and $\partial_\theta y_0$ for targets by name, a column each."""
        by_rate, by_start = self._slopes(tuple(names), y)
        return np.asarray(by_rate), np.asarray(by_start)

    def observed(self, y: np.ndarray) -> dict[str, float]:
        """The observables that the state alone determines."""
        return dict(zip(self.observables, np.asarray(self._observed({}, y)).tolist(), strict=True))

    def observed_slopes(self, names: Sequence[str], y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The derivatives of observables in the state, and in targets by name, a column each."""
        by_state, by_target = self._observed_slopes(tuple(names), y)
        return np.asarray(by_state), np.asarray(by_target)

    @functools.cached_property
    def observables(self) -> tuple[str, ...]:
        """The names of the observables that the state alone determines."""
        return tuple(
            each.name
            for each in self.simulation.observed
            if not each.functionals and each.exercise is None and not self._changes(each.name)
        )

    @functools.cached_property
    def scale(self) -> np.ndarray:
        """Typical sizes of the variables."""
        times = np.asarray(self.simulation.grid.times, float)
        return typical_sizes(self, self.jacobian, self.rounding, self.start, float(times[-1] - times[0]))

    @property
    def least(self) -> np.ndarray:
        """The least value that each variable may have, of a species 0; -inf where there is none."""
        model = model_of(self.problem)
        bounds = [quantity.at_least for quantity in variables_of(model).values()]
        floor = 0.0 if isinstance(model, AbstractReactionNetwork) else -np.inf
        return np.asarray([floor if bound is None else bound for bound in bounds])

    def _at(self, values: Mapping[str, Any], y: Any, dtype: Any = jnp.float64) -> jax.Array:
        problem = jax.tree.map(lambda x: jnp.asarray(x, dtype), self._run(values).problem)
        return _stacked(problem, self.time, y, dtype)

    def _run(self, values: Mapping[str, Any]) -> Run:
        """The run with these values of targets, its problem as the model was written."""
        numbers = numbers_at(self.simulation, dict(values))
        whole = eqx.combine(numbers._replace(initial=None, key=None), self._static)
        return whole._replace(problem=model_in(whole.problem), initial=numbers.initial)

    @functools.cached_property
    def _slopes(self):
        @functools.partial(jax.jit, static_argnums=0)
        def slopes(names, y):
            def moved(values):
                run = self._run(dict(zip(names, values, strict=True)))
                start = jnp.stack([_number(run.initial[name]) for name in self.names])
                return _stacked(run.problem, self.time, y), start

            return jax.jacfwd(moved)(self._targets(names))

        return slopes

    @functools.cached_property
    def _observed_slopes(self):
        @functools.partial(jax.jit, static_argnums=0)
        def slopes(names, y):
            def of(y, values):
                return self._observed(dict(zip(names, values, strict=True)), y)

            return jax.jacfwd(of, (0, 1))(y, self._targets(names))

        return slopes

    def _targets(self, names: Sequence[str]) -> jax.Array:
        """The values of targets."""
        return jnp.asarray([float(self.simulation.targets[name]) for name in names], jnp.float64)

    def _observed(self, values: Mapping[str, Any], y: Any) -> jax.Array:
        return self._values(self.observables, values, self.time, y)

    def _values(self, names: Sequence[str], values: Mapping[str, Any], time: Any, y: Any) -> jax.Array:
        run = self._run(values)
        observer = run.observer
        if not names or not isinstance(observer, Observer):
            return jnp.zeros(0)
        state, t = _state(run.problem, y), jnp.asarray(time, jnp.float64)
        own = observer.only(names)
        row = own.row(run.problem, own.init(run.problem, t, state), t, state)
        return jnp.stack([jnp.asarray(row[name], jnp.float64) for name in names])

    def _changes(self, name: str) -> bool:
        """Whether an observable depends on a time that nothing has frozen."""
        return not self.frozen and reads(
            lambda t: self._values((name,), {}, t, self.start), jnp.float64(self.time)
        )

    def _refuse_time(self, at: float | None) -> None:
        schedule = schedule_of(self.problem)
        times = np.asarray(self.simulation.grid.times)
        if at is not None:
            if schedule is not None and not times[0] <= at <= times[-1]:
                raise InputError(
                    f"time: curves are known for t = {times[0]:g} to {times[-1]:g}, the time of the run, and "
                    f"not at {at:g}; freeze them at another time, or run for longer (time.t1)"
                )
            return
        if schedule is not None and schedule.events:
            raise InputError(
                f"events: they change the state, so that it may never rest; {REMEDY}, which leaves the "
                "events out"
            )
        if schedule is not None and schedule.parameters:
            names = ", ".join(schedule.parameters)
            raise InputError(
                f"curves: {names} of the model changes with time, so that there is no steady state; {REMEDY}"
            )
        state = _state(self.problem, self.start)
        if reads(lambda t: self.problem.drift(t, state), jnp.float64(self.time)):
            raise InputError(
                f"model: its equations depend on the time t, so that there is no steady state; {REMEDY}"
            )


def _state(problem: AbstractODE, y: Any, dtype: Any = jnp.float64) -> Any:
    return problem.State(*jnp.asarray(y, dtype))


def _stacked(problem: AbstractODE, time: Any, y: Any, dtype: Any = jnp.float64) -> jax.Array:
    rates = problem.drift(jnp.asarray(time, dtype), _state(problem, y, dtype))
    return jnp.stack([jnp.asarray(rate, dtype) for rate in rates])


def _number(initial: Any) -> jax.Array:
    """The initial value of `fixed_value`, traced ones too."""
    if isinstance(initial, AbstractDrawn):
        return jnp.asarray(initial.quantile(jnp.asarray(0.5), TRACED))
    return jnp.reshape(jnp.asarray(initial), -1)[0]
