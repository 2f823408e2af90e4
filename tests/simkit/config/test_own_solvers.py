"""A solver of one's own that returns no state is refused by name, before anything runs."""

import diffrax
import jax
import pytest
from simkit_solvers import SOLVERS, AbstractOneStep, Orders, SolverInfo

from simkit import InputError, load


class Joined(AbstractOneStep, diffrax.AbstractItoSolver):
    """Euler–Maruyama, which takes the state for an array: + joins the fields of two states."""

    mistaken = True

    def advance(self, terms, t0, t1, y0, args):
        drift, noise = (part.vf_prod(t0, y0, args, part.contr(t0, t1)) for part in terms.terms)
        if self.mistaken:
            return y0 + drift + noise
        return jax.tree.map(lambda y, f, g: y + f + g, y0, drift, noise)


class Added(Joined):
    mistaken = False


def loaded(solver, monkeypatch):
    info = SolverInfo(solver, "x", calculus="ito", strong=Orders(1.0, 0.5, 0.5), weak=Orders(1.0, 1.0, 1.0))
    monkeypatch.setitem(SOLVERS, solver.__name__, info)
    model = {"type": "GBM", "mu": 0.05, "sigma": 0.2}
    time = {"t1": 1, "steps": 4}
    return load({"model": model, "initial": {"S": 1}, "solver": solver.__name__, "time": time})


def test_a_step_must_return_a_state(monkeypatch):
    with pytest.raises(InputError, match=r"^solver: Joined: a step must return a state like y0, a GBMState"):
        loaded(Joined, monkeypatch)
    assert isinstance(loaded(Added, monkeypatch).solver, Added)
