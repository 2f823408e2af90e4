"""Policies of early exercise: how they are fitted, and what is taken by them on a path."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from exercise_examples import experiment
from user_code import user_jit

from simkit import InputError, load
from simkit.ensemble.early_exercise.longstaff_schwartz import fit_policy, with_policies
from simkit.expressions import compile_expression
from simkit.observe.exercise import Exercise, Policy, polynomials

pytestmark = pytest.mark.more


def test_the_policy_knows_nothing_of_the_paths_it_is_priced_on():
    """Fitted on few paths it looks good on those, and is worth less than the option elsewhere."""
    rng = np.random.default_rng(1)
    dates, gains, losses = 20, [], []
    step = 0.25 / math.sqrt(dates)
    going_on = user_jit(lambda policy, j, x: policy.continuation(j, [x]))
    for _ in range(20):
        few, many = (
            100 * np.exp(np.cumsum(step * rng.standard_normal((dates, n)) - step**2 / 2, axis=0))
            for n in (400, 20_000)
        )
        exercise = Exercise(tuple(range(1, dates + 1)), dates, (compile_expression("S", ["S"]),), 4, 400)
        fit = fit_policy("put", exercise, np.maximum(100 - few, 0), few[None])
        payoff, held = np.zeros(many.shape[1]), np.ones(many.shape[1], bool)
        for j in range(dates):
            value = np.maximum(100 - many[j], 0)
            now = held & (value > 0) & (value >= np.asarray(going_on(fit.policy, j, many[j])))
            payoff[now], held[now] = value[now], False
        # Without interest waiting costs nothing, so that the option is worth the European put.
        best = np.maximum(100 - many[-1], 0).mean()
        gains.append(fit.mean - np.maximum(100 - few[-1], 0).mean())
        losses.append(payoff.mean() - best)
    assert np.mean(gains) > 3 * np.std(gains) / math.sqrt(20)
    assert np.mean(losses) < -3 * np.std(losses) / math.sqrt(20)


@pytest.mark.user_code
def test_policy_is_the_same_for_every_ensemble():
    """It depends on seed and experiment, not on how many paths are priced, nor on how many devices."""
    simulation = load(experiment({"dates": 2, "paths": 8192}, time={"t1": 1.0, "steps": 16}))
    larger = dataclasses.replace(simulation, paths=100_000)
    one = with_policies(simulation)[1]["put"]
    two = dataclasses.replace(simulation, devices=2)
    for other in (with_policies(s)[1]["put"] for s in (larger, two)):
        assert jax.tree.all(jax.tree.map(np.array_equal, one.policy, other.policy))
    reseeded = with_policies(dataclasses.replace(simulation, seed=4))[1]["put"]
    assert reseeded.mean != one.mean


@pytest.mark.parametrize("basis", [["x"], ["x", "2*x + 1"], ["x", "3"]], ids=str)
def test_regression_finds_a_polynomial(basis):
    """Also among functions that coincide; beyond the paths it is that of the outermost one."""
    x = np.random.default_rng(0).uniform(2, 5, 3000)
    future = 1 + 2 * x - x**2 / 2 + x**3 / 7
    functions = {"x": x, "2*x + 1": 2 * x + 1, "3": np.full_like(x, 3)}
    given = np.stack([np.stack([functions[text]] * 2) for text in basis])
    exercise = Exercise((1, 2), 2, tuple(compile_expression(text, ["x"]) for text in basis), 3, len(x))
    fit = fit_policy("put", exercise, np.stack([np.full_like(x, 1e-9), future]), given)
    at = np.array([2.1, 3.3, 4.9])
    values = {"x": at, "2*x + 1": 2 * at + 1, "3": np.full_like(at, 3)}
    result = fit.policy.continuation(0, [jnp.asarray(values[text]) for text in basis])
    np.testing.assert_allclose(result, 1 + 2 * at - at**2 / 2 + at**3 / 7, rtol=1e-9)
    assert fit.fraction.tolist() == [0, 1]
    assert fit.policy.continuation(1, [values[text] for text in basis]) == pytest.approx(0)
    if basis == ["x"]:
        edge, beyond = (fit.policy.continuation(0, [v]) for v in (x.max(), 1e3))
        assert edge == beyond


def test_polynomials_are_orthonormal_up_to_scale():
    """Under the normal distribution, in two variables, by Gauss's rule."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(12)
    u, v = (a.ravel() for a in np.meshgrid(nodes, nodes))
    w = np.outer(weights, weights).ravel() / (2 * math.pi)
    terms = np.stack([np.broadcast_to(p, u.shape) for p in polynomials([u, v], 4)])
    assert len(terms) == math.comb(6, 2)
    gram = (terms * w) @ terms.T
    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-9)


@pytest.mark.slow
def test_derivatives_of_what_is_taken():
    """At a fixed policy it moves with the state at the date: forwards, in reverse, and in float32 too."""
    simulation = load(experiment({"dates": 2}, time={"t1": 1.0, "steps": 4}))
    never = np.array([[np.inf], [0.0]])
    blank, one = np.zeros((2, 1)), np.ones((2, 1))
    for numbers, step in ((never, 4), (blank, 2)):
        coefficients = np.concatenate([numbers, np.zeros((2, 4))], axis=1)
        policy = Policy(coefficients, blank, one, -9 * one, 9 * one, degree=4)
        observer = dataclasses.replace(simulation.observer, policies={"put": policy})
        problem = simulation.problem

        def payoff(x, observer=observer, problem=problem):
            x = jnp.asarray(x)
            y = [problem.State(x=x * (1 - k / 100)) for k in range(5)]
            acc = observer.init(problem, x * 0, y[0])
            for k in range(1, 5):
                acc = observer.update(problem, acc, jnp.uint32(k), x * 0 + k / 4, y[k], x * 0 + 0.25)
            return observer.row(problem, acc, x * 0 + 1, y[4])["put"]

        scale = 1 - step / 100
        value = math.exp(-0.05 * step / 4) * (100 - math.exp(4.5 * scale))
        slope = -math.exp(-0.05 * step / 4) * scale * math.exp(4.5 * scale)
        low = jax.tree.map(jnp.float32, (observer, problem))
        result = jax.jit(
            lambda x, payoff=payoff, low=low: (
                payoff(x),
                jax.jacfwd(payoff)(x),
                jax.grad(payoff)(x),
                payoff(jnp.float32(4.5), *low),
            )
        )(4.5)
        np.testing.assert_allclose(result[:3], [value, slope, slope], rtol=1e-14)
        np.testing.assert_allclose(result[3], value, rtol=3e-5)
        assert result[3].dtype == jnp.float32


def test_what_is_not_a_number_is_taken_rather_than_passed_over():
    simulation = load(experiment(None, observe={"put": {"value": "log(x)", "early_exercise": {"dates": 1}}}))
    blank, one = np.zeros((1, 1)), np.ones((1, 1))
    policy = Policy(np.zeros((1, 5)), blank, one, blank, one, degree=4)
    observer = dataclasses.replace(simulation.observer, policies={"put": policy})
    y, zero = simulation.problem.State(x=jnp.asarray(-1.0)), jnp.asarray(0.0)
    acc = observer.init(simulation.problem, zero, y)
    acc = observer.update(simulation.problem, acc, jnp.uint32(10), zero, y, zero)
    assert jnp.isnan(observer.row(simulation.problem, acc, zero, y)["put"])


def test_without_a_policy_there_is_no_value():
    simulation = load(experiment({"dates": 5}))
    problem, y = simulation.problem, simulation.problem.State(x=jnp.asarray(4.5))
    acc = simulation.observer.init(problem, 0.0, y)
    with pytest.raises(ValueError, match=r"^put: early exercise takes a policy; run the ensemble"):
        simulation.observer.update(problem, acc, jnp.uint32(1), jnp.asarray(0.1), y, jnp.asarray(0.1))


def test_too_few_paths_in_the_money():
    x = np.linspace(1, 2, 100)
    exercise = Exercise((1, 2, 3), 3, (compile_expression("x", ["x"]),), 4, 100)
    nothing, little = np.zeros((3, 100)), np.zeros((3, 100))
    little[:, :30] = 1.0
    for values, most in ((nothing, 0), (little, 30)):
        with pytest.raises(
            InputError, match=rf"^observe\.put\.early_exercise: of 100 paths at most {most} would"
        ):
            fit_policy("put", exercise, values, np.stack([x] * 3)[None])
    little[1, :60] = 0.5  # enough at one date, where going on is worth 1 to half of them
    fit = fit_policy("put", exercise, little, np.stack([x] * 3)[None])
    assert fit.fraction[0] == 0
    assert np.isinf(fit.policy.continuation(0, [1.5]))
