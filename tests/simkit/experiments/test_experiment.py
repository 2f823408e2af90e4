"""Loading: defaults, overrides, the resolved configuration, the schema."""

import functools

import equinox as eqx
import jax
import jsonschema
import numpy as np
import pytest
import yaml
from checkout import EXAMPLES
from simkit_physics import MODELS, DoubleWellLangevin, is_sized
from simkit_solvers import SOLVERS, make_solver, parameters_of

import simkit
from simkit import InputError, experiment_schema, load
from simkit.config import read_document
from simkit.config.settings import Ensemble
from simkit.derivatives.chunks import chunks_of
from simkit.distributions import Normal
from simkit.ensemble.run import chunk_plan
from simkit.experiments import assembly
from simkit.experiments.indexed_names import indexed_names, pair_names
from simkit.experiments.variants import load_one
from simkit.studies.plan import load_uncertain

FILES = sorted(path for path in EXAMPLES.glob("*.yaml") if path.stem != "uncertainty")

GBM = """
constants: {r: 0.05, K: 100.0}        # names for use anywhere below; differentiable and sweepable
model: {type: GBM, mu: r, sigma: 0.2}
initial: {S: 100.0}                   # a number, an expression, or a distribution such as {normal: [100, 1]}
solver: EulerMaruyama                 # or {type: ..., option: ...}
time: {t1: 1.0, steps: 252}           # fixed grid
ensemble: {paths: 100000, seed: 42}
precision: float64                    # the default; float32 on request
save: {points: 12}                    # statistics at 12 equally spaced times after t0, and at t0: 13 rows
observe:
  call: {value: exp(-r*t) * maximum(S - K, 0), exact: black_scholes_call(S=100, K=K, r=r, sigma=0.2, T=1)}
  asian: exp(-r*t) * maximum(mean(S) - K, 0)      # at the end, unless {value: ..., at: each}
output: gbm.zarr
"""


def comparable(simulation):
    """Everything in a simulation that can be compared."""
    leaves, tree = jax.tree.flatten((simulation.problem, simulation.observer, simulation.grid))
    fields = {k: v for k, v in vars(simulation).items() if k not in ("run", "bind", "experiment")}
    fields |= {"solver": simulation.solver, "initial": simulation.initial}
    return [np.asarray(leaf).tolist() for leaf in leaves], str(tree), str(fields)


ENSEMBLE = {
    "paths": 20_000,
    "seed": 7,
    "chunk": 3000,
    "devices": 2,
    "threads": 3,
    "memory": "3GB",
    "failures": "exclude",
    "normals": "float64",
}


def test_every_setting_of_an_ensemble_reaches_its_run():
    """But for what is about several runs, and about means alone. A chunk is of whole leaves."""
    others = {"couple", "method", "unresolved", "target", "variance_reduction", "driver", "scramblings"}
    assert ENSEMBLE.keys() | others == Ensemble.model_fields.keys()
    built = load(GBM, overrides={f"ensemble.{key}": value for key, value in ENSEMBLE.items()})
    assert {key: getattr(built, key) for key in ENSEMBLE} == ENSEMBLE | {"memory": 3 * 10**9}
    assert [plan(built).paths for plan in (chunk_plan, chunks_of)] == [4096, 4096]


@pytest.mark.parametrize("overrides", ["model.sigma=0.3", ["model.sigma=0.3"], {"model.sigma": 0.3}], ids=str)
def test_overrides_come_as_a_text_several_or_a_mapping(overrides):
    assert load(GBM, overrides=overrides).experiment.model.__pydantic_extra__["sigma"] == 0.3


def test_the_experiment_of_the_manual():
    built = load(GBM)
    assert (type(built.problem).__name__, built.problem.mu, built.problem.sigma) == ("GBM", 0.05, 0.2)
    assert (built.grid.steps, built.grid.every, built.grid.rows, built.grid.dt) == (252, 21, 13, 1 / 252)
    assert built.initial == {"S": 100.0}
    assert type(built.solver).__name__ == "EulerMaruyama"
    assert (built.paths, built.seed, built.precision, built.normals) == (100_000, 42, "float64", "float32")
    assert built.observables["call"].exact == pytest.approx(10.4505835721856, rel=1e-13)
    assert built.observables["asian"].description == "exp(-r*t) * maximum(mean(S) - K, 0)"
    assert built.observer.constants == {"r": 0.05, "K": 100.0}
    assert built.experiment.output == "gbm.zarr"


def simulations(path):
    """The simulation of a file, or those of its variants, each by itself."""
    names = read_document(path).data.get("variants", [None])
    return [load_one(path, variant=name) for name in names]


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_what_is_resolved_builds_the_same_simulation(path):
    for simulation in simulations(path):
        resolved = simulation.experiment.resolved()
        assert resolved["solver"]["type"]
        assert resolved["ensemble"]["paths"] > 0
        again = load(yaml.safe_dump(resolved, sort_keys=False))
        assert again.experiment.resolved() == resolved
        assert comparable(again) == comparable(simulation)


@functools.cache
def the_validator():
    schema = experiment_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_examples_and_what_they_resolve_to_fit_the_schema(path):
    validator = the_validator()
    validator.validate(read_document(path).data)
    for simulation in simulations(path):
        validator.validate(simulation.experiment.resolved())


def test_a_study_and_what_it_resolves_to_fit_the_schema():
    validator = the_validator()
    path = EXAMPLES / "uncertainty.yaml"
    validator.validate(read_document(path).data)
    validator.validate(load_uncertain(path).resolved())
    gbm = read_document(GBM).data
    validator.validate(gbm | {"model": {"type": "GBM", "mu": {"normal": [0, 1]}, "sigma": 0.2}})
    for wrong in ({"norml": [0, 1]}, {"normal": [0, 1], "uniform": [0, 1]}, {"normal": {"men": 0}}):
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(gbm | {"constants": {"r": wrong}})


@pytest.mark.parametrize(
    "wrong",
    [
        "model.sgima=1",
        "time.stpes=3",
        "save.foo=1",
        "foo=1",
        "solver=Eulr",
        "model.type=GBN",
        "observe.call.xact=1",
    ],
)
def test_the_schema_refuses_unknown_names(wrong):
    key, value = wrong.split("=")
    data = read_document(GBM).data
    *parents, last = key.split(".")
    place = data
    for part in parents:
        place = place[part]
    place[last] = value
    with pytest.raises(jsonschema.ValidationError):
        the_validator().validate(data)


def test_every_key_of_the_schema_is_described():
    missing = []

    def walk(schema, place):
        for name, spec in schema.get("properties", {}).items():
            if not spec.get("description") and "$ref" not in spec:
                missing.append(f"{place}.{name}")

    schema = experiment_schema()
    walk(schema, "")
    for name, definition in schema["$defs"].items():
        walk(definition, name)
        if not definition.get("description"):
            missing.append(name)
    assert missing == []


def test_the_schema_has_every_parameter_with_its_range():
    definitions = experiment_schema()["$defs"]
    for name, model in MODELS.items():
        short = {key.rstrip("0123456789") for key in parameters_of(model) if key[-1].isdigit()}
        known = parameters_of(model)
        short = {key for key in short if indexed_names(key, known) or pair_names(key, known)}
        size = {"size"} if is_sized(model) else set()
        assert set(definitions[name]["properties"]) == {"type", *parameters_of(model), *short, *size}
    assert definitions["GBM"]["properties"]["sigma"]["minimum"] == 0


def minimal(**changes):
    source = {
        "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
        "initial": {"S": 100},
        "time": {"t1": 1, "steps": 4},
    }
    return source | changes


LINEAR = {"ode": {"x": "-x"}}


def test_defaults():
    sde = load(minimal())
    assert (type(sde.solver).__name__, sde.paths, sde.grid.rows) == ("EulerMaruyama", 10_000, 2)
    assert (sde.seed, sde.failures, sde.stored_paths, sde.chunk, sde.devices) == (0, "stop", 20, None, None)
    assert sde.quantiles == (0.05, 0.25, 0.5, 0.75, 0.95)
    ode = load(minimal(model=LINEAR, initial={"x": 1}))
    assert (type(ode.solver).__name__, ode.paths) == ("Tsit5", 1)
    spread = load(minimal(model=LINEAR, initial={"x": {"uniform": [0, 1]}}))
    assert spread.paths == 10_000
    heun = {"sde": {"x": {"noise": {"W": "x"}}}, "calculus": "stratonovich"}
    assert type(load(minimal(model=heun, initial={"x": 1})).solver).__name__ == "EulerHeun"
    wells = {"type": "DoubleWellLangevin", **DoubleWellLangevin.example}
    start = DoubleWellLangevin.example_initial
    assert type(load(minimal(model=wells, initial=start)).solver).__name__ == "BAOAB"


def test_constants_may_be_used_everywhere():
    source = minimal(
        constants={"a": 2, "b": "a/4", "c": "exp(b) + pi"},
        model={"type": "GBM", "mu": "b - 1", "sigma": "b"},
        initial={"S": {"normal": ["a*10", "b"]}},
        time={"t0": "-a", "t1": "a", "steps": 4},
        observe={"x": {"value": "S*c", "exact": "c*a"}},
    )
    built = load(source)
    assert (built.problem.mu, built.problem.sigma) == (-0.5, 0.5)
    assert built.initial == {"S": Normal(20.0, 0.5)}
    assert (built.grid.t0, built.grid.dt) == (-2.0, 1.0)
    assert built.observables["x"].exact == 2 * built.constants["c"]


def test_exact_values_follow_parameters_and_the_end_time():
    observe = {"x": {"value": "S", "exact": "gbm_mean(S=100, mu=mu, T=t) + 0*sigma"}}
    built = load(minimal(observe=observe), ["model.mu=0.1", "time.t1=2"])
    assert built.observables["x"].exact == pytest.approx(122.14027581601698, rel=1e-14)


def test_a_parameter_may_have_the_name_of_the_constant_that_it_is():
    source = minimal(constants={"sigma": 0.3}, observe={"x": "S*sigma"})
    source["model"]["sigma"] = "sigma"
    assert load(source).problem.sigma == 0.3


def test_overrides_win_over_the_file(tmp_path):
    path = tmp_path / "gbm.yaml"
    path.write_text(GBM)
    overrides = ["model.sigma=0.3", ("constants.K", "90"), "observe.asian.at=each", "save.paths=all"]
    built = load(path, overrides)
    assert built.problem.sigma == 0.3
    assert built.constants["K"] == 90
    assert built.observables["asian"].at == "each"
    assert built.stored_paths == 100_000


def test_whole_numbers_may_be_written_as_floats():
    assert load(minimal(ensemble={"paths": 1e6})).experiment.ensemble.paths == 1_000_000


def test_solver_options():
    built = load(minimal(model=LINEAR, initial={"x": 1}, solver={"type": "Kvaerno3", "rtol": 1e-7}))
    assert built.solver.root_finder.rtol == 1e-7


def test_loading_finds_errors_of_an_experiment_changed_by_hand():
    experiment = load(minimal()).experiment
    changed = experiment.model_copy(update={"initial": {}})
    with pytest.raises(InputError, match=r"initial\.S: is missing"):
        load(changed.resolved())


@pytest.mark.parametrize("take", [simkit.load, simkit.run])
def test_an_experiment_is_built_once(monkeypatch, take):
    built = []
    planned = assembly.plan_observables
    monkeypatch.setattr(assembly, "plan_observables", lambda *given: built.append(given) or planned(*given))
    take(minimal(ensemble={"paths": 64, "devices": 1}))
    assert len(built) == 1


def test_a_run_is_bound_to_its_own_constants():
    simulation = load(GBM)
    assert eqx.tree_equal(simulation.bind({}), simulation.run)
    moved = simulation.bind({"r": 0.1}, {"model.sigma": 0.05, "time.t1": 1.0})
    assert (moved.problem.mu, moved.problem.sigma) == (0.1, 0.25)
    assert (moved.grid.dt * 252, moved.initial, moved.solver) == (2.0, {"S": 100.0}, simulation.solver)
    with pytest.raises(KeyError, match=r"nothing is called 'model.nu'; there are: r, K, model.mu"):
        simulation.bind({"model.nu": 1.0})


def file_with(solver):
    """A file whose model the solver fits, every option of the solver set to another value than its own."""
    info = SOLVERS[solver]
    name = {"ExactSampling": "GBM", "AndersenQE": "Heston"}.get(solver)
    if info.langevin:
        name = "DoubleWellLangevin"
    if "jump" in info.problem:
        name = "ImmigrationDeath"
    if name is not None:
        model, initial = {"type": name, **MODELS[name].example}, MODELS[name].example_initial
    elif "ode" in info.problem:
        model, initial = {"ode": {"x": "v", "v": "-sin(x)"}}, {"x": 0.4, "v": 0.1}
    else:
        model, initial = {"sde": {"x": {"drift": "-x", "noise": {"W": 0.5}}}}, {"x": 0.4}
    options = {key: 1e-3 if value is None else 2 * value for key, value in info.options.items()}
    time = {"t1": 1.0} if "jump" in info.problem else {"t1": 1.0, "steps": 4}
    return {"model": model, "initial": dict(initial), "time": time, "solver": {"type": solver, **options}}


@pytest.mark.parametrize("name", SOLVERS)
def test_a_solver_comes_back_from_the_file(name):
    """Each with its options, and again from the resolved configuration that a dataset keeps."""
    given = file_with(name)
    wanted = make_solver(name, {key: value for key, value in given["solver"].items() if key != "type"})
    assert not SOLVERS[name].options or wanted != make_solver(name)
    simulation = load(yaml.safe_dump(given))
    assert simulation.solver == wanted
    assert load(yaml.safe_dump(simulation.experiment.resolved())).solver == wanted
