"""The examples in the READMEs of rooms: one more closed form, statistic, observable, command, solver, …"""

import math
import os
import re
import shutil
import subprocess
import sys
from typing import ClassVar
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from checkout import ROOT
from derivative_examples import last
from scipy.stats import norm
from simkit_physics import GBM
from simkit_solvers import CoarsenedNoise, CounterNoise, Grid, States, integrate, seed_key
from typer.testing import CliRunner

import simkit
from simkit import CLOSED_FORMS, InputError
from simkit.cli import app
from simkit.ensemble.reducers import STATISTICS, Label, Moments, statistic
from simkit.expressions.functions import NUMERIC, Function
from simkit.md.functions import FUNCTIONS
from simkit.md.quantities import QUANTITIES
from simkit.results.statistics_csv import write_statistics


def blocks(readme: str) -> list[str]:
    """The Python blocks of a README."""
    return re.findall(r"```python\n(.*?)```", (ROOT / readme).read_text("utf-8"), re.S)


def defined_by(readme: str, first: int | None = None) -> dict:
    """What those blocks, or the first of them, define."""
    names: dict = {"__name__": "example"}
    exec(compile("\n".join(blocks(readme)[:first]), readme, "exec"), names)
    return names


@pytest.mark.parametrize(
    ("room", "block", "folder", "imported", "entered"),
    [
        ("closed_forms", 0, "closed_forms", "gbm_second_moment", "CLOSED_FORMS"),
        ("functionals", 0, "functionals", "SquaredIncrements", "FUNCTIONALS"),
        ("ensemble", 0, "ensemble/reducers", "Negative", "STATISTICS"),
        ("md", 1, "md/functions", "AxisEnergies", "FUNCTIONS"),
    ],
)
def test_a_block_of_an_example_works_as_a_file_of_its_room(room, block, folder, imported, entered, tmp_path):
    copy = shutil.copytree(ROOT / "simkit", tmp_path / "simkit", ignore=shutil.ignore_patterns("__pycache__"))
    (copy / folder / "example.py").write_text(blocks(f"simkit/{room}/README.md")[block], "utf-8")
    module, init = f"simkit.{folder.replace('/', '.')}", copy / folder / "__init__.py"
    own = f"\nfrom {module}.example import {imported}"
    init.write_text(init.read_text("utf-8").replace("\nfrom ", f"{own}\nfrom ", 1), "utf-8")
    code = f"import {module} as room; assert room.{imported} in room.{entered}.values(); print(room.__file__)"
    packages = {"PYTHONPATH": os.pathsep.join(map(str, [tmp_path, ROOT / "solvers", ROOT / "physics"]))}
    command = [sys.executable, "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=os.environ | packages)
    assert run.stdout.strip() == str(init), run.stderr


def test_a_closed_form_of_ones_own_is_the_exact_value_of_a_run():
    with mock.patch.dict(CLOSED_FORMS):
        dataset = defined_by("simkit/closed_forms/README.md")["dataset"]
        assert "gbm_second_moment" in CLOSED_FORMS
    assert last(dataset, "square_stderr") < 0.02 * last(dataset, "square_mean")
    assert abs(last(dataset, "square_z")) < 5


def test_a_command_of_ones_own_runs_and_reports_errors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "command_of_ones_own.py").write_text(blocks("simkit/cli/README.md")[0], "utf-8")
    with mock.patch.object(app, "registered_commands", [*app.registered_commands]):
        command = ["--import", "command_of_ones_own", "steps"]
        result = CliRunner().invoke(app, [*command, str(ROOT / "examples/gbm.yaml")])
        assert (result.exit_code, result.stdout.strip()) == (0, "252"), result.output
        missing = CliRunner().invoke(app, [*command, "none.yaml"])
        assert missing.exit_code == 4
    assert CliRunner().invoke(app, ["steps", "none.yaml"]).exit_code == 2


def test_a_statistic_of_ones_own_is_in_the_results_of_a_run(tmp_path):
    with mock.patch.dict(STATISTICS):
        dataset = defined_by("simkit/ensemble/README.md")["dataset"]
        write_statistics(dataset, tmp_path / "table.csv")
        header, *lines = (tmp_path / "table.csv").read_text("utf-8").splitlines()
    decay = math.exp(-1)
    exact = norm.cdf(0, 0.5 * (1 - decay), math.sqrt((1 - decay**2) / 2))
    stderr = last(dataset, "X_negative_stderr")
    assert abs(stderr / math.sqrt(exact * (1 - exact) / 4096) - 1) < 0.05
    assert abs(last(dataset, "X_negative") - exact) < 5 * stderr
    assert dataset.X_negative.dims == ("time",)
    assert dataset.X_negative.attrs["units"] == "1"
    column = header.split(",").index("negative")
    assert float(lines[-1].split(",")[column]) == last(dataset, "X_negative")


def test_two_statistics_cannot_have_a_figure_of_the_same_name():
    class Twice(Moments):
        name = "twice"
        labels: ClassVar = {"mean": Label("mean of {}")}

    with mock.patch.dict(STATISTICS), pytest.raises(ValueError, match="figure 'mean' already; rename it"):
        statistic(Twice)


def test_an_observable_of_ones_own_has_its_exact_mean():
    dataset = defined_by("simkit/observe/README.md")["dataset"]
    assert dataset.straddle_mean.dims == ("time",)
    paths = math.exp(-0.05) * np.abs(dataset.S_path[:, -1] - 100)
    np.testing.assert_allclose(dataset.straddle_path[:, -1], paths, rtol=1e-12)
    assert 0.1 < last(dataset, "straddle_stderr") < 0.25
    assert abs(last(dataset, "straddle_z")) < 5


def test_a_quantity_of_ones_own_is_measured_and_refused_where_it_means_nothing(tmp_path):
    with mock.patch.dict(QUANTITIES):
        names = defined_by("simkit/md/README.md", 1)
        dataset, experiment = names["dataset"], names["experiment"]
        parts = float(dataset.E_mean) + float((dataset.P_path * dataset.V_path).mean())
        assert float(dataset.H_mean) == pytest.approx(parts, rel=1e-12)
        brownian = {"type": "BrownianDynamics", "temperature": 1.2, "friction": 1.0}
        (tmp_path / "pair.xyz").write_text("2\n\nA 0 0 0\nA 1 1 0\n", "utf-8")
        pair = {"file": str(tmp_path / "pair.xyz"), "box": {"free": True}, "velocities": {"temperature": 1.2}}
        for change, reason in (
            ({"solver": brownian}, "enthalpy needs velocities"),
            ({"system": pair}, "enthalpy needs a periodic box"),
        ):
            with pytest.raises(InputError, match=reason):
                simkit.run(experiment | change)


def test_a_function_of_molecular_dynamics_of_ones_own_is_measured_and_described():
    with mock.patch.dict(QUANTITIES), mock.patch.dict(FUNCTIONS):
        names = defined_by("simkit/md/README.md")
        dataset, experiment = names["dataset"], names["experiment"]
        described = CliRunner().invoke(app, ["describe", "axis_energies"]).stdout
        with pytest.raises(InputError, match=r"axis_energies.evry: .*did you mean 'every'"):
            simkit.run(experiment | {"observe": {"along": {"axis_energies": {"evry": 10}}}})
    assert dataset.along.dims == ("axis",)
    assert float(dataset.along.sum()) == pytest.approx(float(dataset.K_mean), rel=1e-12)
    assert "observe: {x: {axis_energies: {every: 10}}}" in described
    with pytest.raises(InputError, match="axis_energies: unknown key"):
        simkit.run(experiment | {"observe": {"along": {"axis_energies": {}}}})


def test_a_function_that_does_not_say_where_it_jumps_is_not_differentiated_along_paths():
    """A rounded price has no slope on any path, and its mean has."""
    with mock.patch.dict(NUMERIC, rounded=Function(1, np.round, jnp.round, "nearest whole number")):
        dataset = simkit.sensitivity(
            {
                "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
                "initial": {"S": 100.0},
                "solver": "ExactSampling",
                "time": {"t1": 1.0, "steps": 1},
                "ensemble": {"paths": 4096, "devices": 1},
                "observe": {"whole": "rounded(S)"},
                "sensitivity": {"wrt": ["S"]},
            }
        )
    error = last(dataset, "whole_derivative_stderr")
    assert 0 < error < 0.2
    assert abs(last(dataset, "whole_derivative") - math.exp(0.05)) < 5 * error


def test_a_function_of_ones_own_is_one_of_the_formula_language():
    with mock.patch.dict(NUMERIC):
        dataset = defined_by("simkit/expressions/README.md")["dataset"]
    assert 0.001 < last(dataset, "root_stderr") < 0.01
    assert abs(last(dataset, "root_z")) < 5


@pytest.mark.more
def test_a_solver_of_ones_own_has_the_order_that_its_record_states():
    """On Brownian paths whose sums are those of the finest run; of GBM the mean of a step is known too."""
    names = defined_by("solvers/README.md")
    solver, info = names["LieSplitting"](), names["LIE_SPLITTING"]
    model, start = GBM(mu=0.5, sigma=0.7), GBM.State(S=1.0)

    def ends(coarsening):
        steps = 256 // coarsening
        grid = Grid(t0=0.0, dt=1 / steps, steps=steps, every=steps)

        def end(path):
            noise = CoarsenedNoise(CounterNoise.of(seed_key(0), path), coarsening)
            return integrate(model, solver, start, grid, noise, States())["S"][-1]

        return np.asarray(jax.jit(jax.vmap(end))(jnp.arange(2048, dtype=jnp.uint32)))

    finest, *coarse = (ends(coarsening) for coarsening in (1, 8, 32))
    near, far = (np.sqrt(np.mean((each - finest) ** 2)) for each in coarse)
    assert math.log(far / near, 4) == pytest.approx(info.strong.of("scalar"), abs=0.1)
    one_step = ends(256)
    assert np.mean(one_step) == pytest.approx(1 + model.mu, abs=5 * np.std(one_step) / 64)
    np.testing.assert_allclose(np.std(one_step), 1.5 * model.sigma, rtol=0.1)
