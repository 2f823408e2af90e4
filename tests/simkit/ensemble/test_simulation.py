"""A run as a program and its numbers; what a simulation says of itself."""

import dataclasses

import equinox as eqx
import jax
import pytest
from ensemble_examples import gbm
from simkit_physics import GBM

from simkit import load
from simkit.ensemble.simulation import StepCounts, experiment_of

EXPERIMENT = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "time": {"t1": 1.0, "steps": 4},
    "observe": {"gain": "S - 100"},
}


def test_a_program_and_its_numbers_are_together_the_run():
    run = gbm(8, 12, every=4).run
    program, numbers = run.split()
    assert not [leaf for leaf in jax.tree.leaves(program) if isinstance(leaf, float)]
    assert sorted(map(float, jax.tree.leaves(numbers))) == [0.0, 0.05, 1 / 12, 0.2, 100.0]
    for name in ("problem", "observer", "grid"):
        whole = eqx.combine(getattr(program, name), getattr(numbers, name))
        assert eqx.tree_equal(whole, getattr(run, name)), name
    assert program.solver is run.solver
    assert numbers.solver is None


def test_runs_that_differ_in_numbers_alone_are_one_program():
    run = gbm(8, 12).run
    program, _ = run.split()
    other, _ = run._replace(problem=GBM(mu=0.1, sigma=0.3), initial={"S": 50.0}).split()
    assert eqx.tree_equal(program, other)
    longer, _ = gbm(8, 24).run.split()
    assert not eqx.tree_equal(program, longer)


def test_only_a_simulation_from_a_file_has_an_experiment_and_observables():
    simulation = load(EXPERIMENT)
    assert experiment_of(simulation).observe.keys() == {"gain"}
    assert [each.name for each in simulation.observed] == ["gain"]
    by_hand = dataclasses.replace(gbm(8, 4), experiment=None)
    assert by_hand.observed == ()
    with pytest.raises(ValueError, match=r"^a simulation made by hand .*; use one from `simkit.load`$"):
        experiment_of(by_hand)


def test_rejected_steps_are_steps_too():
    assert StepCounts(accepted_mean=3.5, accepted_max=5, rejected_mean=0.25, rejected_max=2).mean == 3.75
