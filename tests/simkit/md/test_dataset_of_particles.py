"""What the dataset says of a run besides its numbers."""

from types import SimpleNamespace

import numpy as np
import pytest
from md_examples import fluid

import simkit
from simkit.md.dataset import _forces_text
from simkit.md.table import closing_lines

NEVER = 2**32 - 1


@pytest.mark.parametrize(
    ("replicas", "text"),
    [
        ([(1, NEVER), (1, NEVER)], ""),
        ([(1, NEVER)], ""),
        ([(4, 25), (1, NEVER)], ", renewed every 40.0 steps (at least 25)"),
        ([(5, 30), (5, 12)], ", renewed every 20.0 steps (at least 12)"),
        ([(5, 0), (5, 12)], ", renewed every 20.0 steps (at least 12)"),
    ],
)
def test_how_often_lists_were_renewed_is_said_of_those_that_were(replicas, text):
    """A list that was never renewed, or made again at once as it was too small, says nothing."""
    result = SimpleNamespace(
        forces={"forces": "clusters", "skin": 0.3},
        replicas=[SimpleNamespace(renewals=n, fewest_steps=fewest) for n, fewest in replicas],
        simulation=SimpleNamespace(run=SimpleNamespace(steps=100), paths=len(replicas)),
    )
    assert _forces_text(result) == f"clusters: skin 0.3{text}"


@pytest.mark.more
def test_the_largest_force_after_a_minimisation_is_told():
    """It is that at the start of what follows."""
    stages = {"minimise": {"solver": "FIRE", "steps": 20}}
    system = {"random": {"count": 40, "density": 0.3, "least_distance": 0.7}}
    run = simkit.run(fluid(system=system, stages=stages, observe={"U": "potential_energy"}, time__steps=0))
    largest = np.max(np.linalg.norm(run["force"].values, axis=-1))
    assert run.attrs["largest_force_after_minimise"] == pytest.approx(largest, rel=1e-9)
    assert f"largest force after the stage minimise: {largest:.3g}" in closing_lines(run)
