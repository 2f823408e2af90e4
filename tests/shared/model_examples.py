"""Every registered model at its documented example, for the tests that run over all of them."""

import jax
import jax.numpy as jnp
from simkit_solvers import AbstractJumpDiffusion, AbstractReactionNetwork, AbstractSDE, ChemicalLangevin


def build(model, dtype=None):
    """The documented example: python floats, or arrays of a dtype."""
    return model(**{k: v if dtype is None else jnp.asarray(v, dtype) for k, v in model.example.items()})


def state(model, dtype=jnp.float64, factor=1.0):
    return model.State(**{k: jnp.asarray(v * factor, dtype) for k, v in model.example_initial.items()})


def increments(model, dtype=jnp.float64):
    fields = model.Noise._fields
    return model.Noise(*(jnp.asarray(0.3 - 0.5 * i, dtype) for i in range(len(fields))))


def time(dtype=jnp.float64):
    return jnp.asarray(0.7, dtype)


def functions(model):
    """Drift and, where there are, noise and jump with fixed random numbers, of (problem, y).

    Of a reaction network also the drift and the noise of its Langevin equation, which have its propensities.
    """
    coefficients = {"drift": lambda p, y: p.drift(time(y[0].dtype), y)}
    if issubclass(model, AbstractReactionNetwork):
        coefficients["langevin"] = lambda p, y: ChemicalLangevin(p).drift(time(y[0].dtype), y)
        coefficients["langevin noise"] = lambda p, y: ChemicalLangevin(p).noise(
            time(y[0].dtype), y, increments(ChemicalLangevin(p), y[0].dtype)
        )
    if issubclass(model, AbstractSDE):
        coefficients["noise"] = lambda p, y: p.noise(time(y[0].dtype), y, increments(model, y[0].dtype))
    if issubclass(model, AbstractJumpDiffusion):
        coefficients["jump"] = lambda p, y: p.jump(time(y[0].dtype), y, jnp.asarray(-0.2, y[0].dtype))
    return coefficients


def columns(problem, y):
    """g_k(y) as the columns of a (variables, noises) array; of an ordinary equation there are none."""
    if not problem.stochastic:
        return jnp.zeros((len(y), 0))
    units = problem.Noise(*jnp.eye(len(problem.Noise._fields)))
    return jnp.stack(jax.vmap(lambda dW: problem.noise(time(), y, dW))(units))
