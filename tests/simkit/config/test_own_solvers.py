"""A solver of one's own that returns no state is refused by name, before anything runs."""

import diffrax
import jax
import jax.numpy as jnp
import pytest
from simkit_physics import GBM, MODELS
from simkit_solvers import SOLVERS, AbstractODE, AbstractOneStep, Orders, SolverInfo

from simkit import InputError, load

RETURNED = {
    "Joined: a step must return a state like y0, a GBMState, got a tuple": lambda y0, change: y0 + change,
    "Joined: a step fails: TypeError: can't multiply": lambda y0, change: y0 * 1.5,
    "Joined: a step fails: AttributeError: .* 'x'": lambda y0, change: y0.x,
    "Joined: a step fails: `if`, .* need a concrete value; write jnp.where": lambda y0, change: (
        y0 if y0.S > 0 else change
    ),
    "Joined: a step must return a state like y0, got one of the shapes": lambda y0, change: jax.tree.map(
        lambda y: jnp.stack([y, y]), y0
    ),
}


class Joined(AbstractOneStep, diffrax.AbstractItoSolver):
    """Euler–Maruyama with a mistake at its end."""

    def advance(self, terms, t0, t1, y0, args):
        drift, noise = (part.vf_prod(t0, y0, args, part.contr(t0, t1)) for part in terms.terms)
        return self.sum(y0, jax.tree.map(lambda f, g: f + g, drift, noise))

    @staticmethod
    def sum(y0, change):
        return jax.tree.map(lambda y, dy: y + dy, y0, change)


def loaded(monkeypatch, **changes):
    info = SolverInfo(Joined, "x", calculus="ito", strong=Orders(1.0, 0.5, 0.5), weak=Orders(1.0, 1.0, 1.0))
    monkeypatch.setitem(SOLVERS, "Joined", info)
    model = {"type": "GBM", "mu": 0.05, "sigma": 0.2}
    time = {"t1": 1, "steps": 4}
    return load({"model": model, "initial": {"S": 1}, "solver": "Joined", "time": time} | changes)


@pytest.mark.parametrize("message", RETURNED)
def test_a_step_must_return_a_state(message, monkeypatch):
    assert isinstance(loaded(monkeypatch).solver, Joined)
    monkeypatch.setattr(Joined, "sum", staticmethod(RETURNED[message]))
    with pytest.raises(InputError, match=f"^solver: {message}"):
        loaded(monkeypatch)


def test_a_record_that_contradicts_its_class_is_refused():
    """An Itô method taken for one of Stratonovich's would have a mean that is wrong, without a word."""
    orders = {"strong": Orders(1.0, 0.5, 0.5), "weak": Orders(1.0, 1.0, 1.0)}
    with pytest.raises(ValueError, match=r"of Joined: has calculus 'stratonovich', .* give calculus='ito'"):
        SolverInfo(Joined, "x", calculus="stratonovich", **orders)
    with pytest.raises(ValueError, match=r"of Joined: calculus must be one of ito, .*, got 'Ito'"):
        SolverInfo(Joined, "x", calculus="Ito", **orders)


def test_a_record_of_what_is_no_solver_is_refused():
    class Unfinished(AbstractOneStep):
        """Without a step."""

    with pytest.raises(ValueError, match=r"^SolverInfo of Unfinished: the class lacks advance"):
        SolverInfo(Unfinished, "x", order=1)
    with pytest.raises(ValueError, match=r"^SolverInfo of Heun: order must be .* whole number, got 'one'"):
        SolverInfo(diffrax.Heun, "x", order="one")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"^SOLVERS\['Unfinished'\]: must be the record of a class, as in "):
        SOLVERS["Unfinished"] = Unfinished  # pyright: ignore[reportArgumentType]


def test_a_step_with_other_arguments_is_told_what_they_are(monkeypatch):
    monkeypatch.setattr(Joined, "advance", lambda self, terms, t0, y0: y0)
    message = (
        r"^solver: Joined: a step fails: advance takes \(terms, t0, y0\); write advance\(self, terms, t0, t1,"
    )
    with pytest.raises(InputError, match=message):
        loaded(monkeypatch)


def test_a_solver_of_simkit_keeps_its_name(monkeypatch):
    """One of one's own may be entered again, as from a cell of a notebook that is run twice."""

    class Heun(diffrax.Heun):
        """Another."""

    with pytest.raises(ValueError, match=r"SOLVERS\['Heun'\]: is the name of a solver of simkit too"):
        SOLVERS["Heun"] = SolverInfo(Heun, "x", order=2)
    for order in (1, 2):
        again = type("Again", (diffrax.Heun,), {"__doc__": "x", "__module__": __name__})
        monkeypatch.setitem(SOLVERS, "Again", SolverInfo(again, "x", order=order))
    assert SOLVERS["Again"].order == 2


def test_without_initial_values_nothing_is_tried(monkeypatch):
    with pytest.raises(InputError, match=r"^initial\.S: is missing"):
        loaded(monkeypatch, initial={})


class Sound(AbstractODE):
    State = GBM.State

    def drift(self, t, y):
        return y


class Faulty(Sound):
    def drift(self, t, y):
        return y.S


def test_a_faulty_model_is_refused_after_a_sound_one(monkeypatch):
    """What is known of one structure is known of no other."""
    for model in (Sound, Faulty):
        monkeypatch.setitem(MODELS, model.__name__, model)
    loaded(monkeypatch, model={"type": "Sound"}, solver="Tsit5")
    with pytest.raises(InputError, match=r"^model\.type: Faulty\.drift: must return a GBMState"):
        loaded(monkeypatch, model={"type": "Faulty"}, solver="Tsit5")
