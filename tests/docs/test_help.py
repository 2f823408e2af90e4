"""In a notebook public names are completed before they are loaded, and `help()` shows what a user needs."""

import inspect
import pydoc
import rlcompleter
import subprocess
import sys

import pytest
import simkit_physics
import simkit_solvers
from test_public_examples import PACKAGES, THINGS, ids

import simkit
from simkit import transforms

FIRST = {
    "simkit": ("run", "sensitivity", "plot_dataset", "transforms"),
    "simkit_solvers": ("integrate", "simulate_particles", "EulerMaruyama"),
    "simkit.studies": ("sobol_indices",),
}


@pytest.mark.parametrize("package", FIRST)
def test_names_are_listed_before_they_are_loaded(package):
    program = (
        f"import sys, {package} as module; names = dir(module); "
        "assert 'jax' not in sys.modules and 'xarray' not in sys.modules; print(*names)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(FIRST[package]) <= set(shown.stdout.split())


@pytest.mark.parametrize("package", PACKAGES)
def test_all_public_names_are_completed(package):
    names = {name for known, name in THINGS if known == package}
    assert names <= set(dir(sys.modules[package]))


@pytest.mark.parametrize(
    ("name", "meant"), [("plot", "plot_dataset"), ("read", "read_dataset"), ("sensitivities", "sensitivity")]
)
def test_a_name_that_is_not_there_leads_to_the_one_meant(name, meant):
    with pytest.raises(AttributeError, match=rf"^simkit has no '{name}'; did you mean '{meant}'\?$"):
        getattr(simkit, name)
    assert not hasattr(simkit, "zzz")


def test_a_prompt_completes_them():
    space = {"simkit": simkit, "simkit_solvers": simkit_solvers, "transforms": transforms}
    completer = rlcompleter.Completer(space)
    assert completer.complete("simkit.ru", 0) == "simkit.run("
    assert completer.complete("simkit_solvers.simulate_p", 0) == "simkit_solvers.simulate_particles("
    assert completer.complete("transforms.hessian_", 0) == "transforms.hessian_vector_product("


@pytest.mark.parametrize("key", [key for key, thing in THINGS.items() if inspect.isfunction(thing)], ids=ids)
def test_a_function_is_no_wrapper(key):
    """Name, module and source are those of the function itself, so that its signature and file are shown."""
    thing = THINGS[key]
    assert thing.__name__ == key[1]
    assert "*args, **kwargs" not in str(inspect.signature(thing))
    assert f"def {key[1]}(" in inspect.getsource(thing)


def test_the_signature_of_run_is_shown():
    assert list(inspect.signature(simkit.run).parameters) == [
        *("source", "overrides", "variants", "out", "overwrite", "progress")
    ]
    shown = pydoc.plain(pydoc.render_doc(simkit.run))
    assert "Run an experiment and return its labelled results" in shown.splitlines()[3]
    assert ">>> result = simkit.run(experiment" in shown


@pytest.mark.parametrize("name", ["GBM", "Lorenz63", "Merton"])
def test_help_of_a_model_begins_with_its_equation(name):
    shown = pydoc.plain(pydoc.render_doc(getattr(simkit_physics, name))).splitlines()
    call, equation = shown[3], shown[5]
    assert call.startswith(f" |  {name}(")
    assert "$" in equation
