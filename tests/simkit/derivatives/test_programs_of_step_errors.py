"""How step errors of derivatives are computed: by which programs, and to the same bits however they run."""

import io

import numpy as np
import pytest
from derivative_examples import FEW_STEPS, requests_of_study, rows

import simkit
from simkit.derivatives import DerivativeProgram, levels
from simkit.derivatives.other_steps import on_steps
from simkit.derivatives.table import print_table
from simkit.ensemble import ChunkProgram
from simkit.ensemble.step_bias import step_levels


@pytest.mark.more
def test_the_mean_has_the_step_bias_of_a_run():
    changes = {"sensitivity.of": ["square"], "sensitivity.wrt": ["r"], "sensitivity.second": None}
    result, run = simkit.sensitivity(FEW_STEPS, overrides=changes), simkit.run(FEW_STEPS)
    for suffix in ("bias", "bias_stderr"):
        assert result[f"square_{suffix}"].item() == pytest.approx(run[f"square_{suffix}"].item(), rel=1e-3)
    file = io.StringIO()
    print_table(result, file)
    assert f"step bias {result['square_bias'].item():.2f}"[:14] in file.getvalue()


def requests_of_one(**overrides):
    """The programs that a study of one derivative requests, which are not compiled."""
    changes = {"sensitivity.of": ["square"], "sensitivity.wrt": ["r"], "sensitivity.second": None}
    return requests_of_study(FEW_STEPS, changes | overrides)


def test_the_step_bias_of_a_mean_needs_no_program_of_its_own():
    requests = requests_of_one()
    assert not any(isinstance(request.program, ChunkProgram) for request in requests)
    assert len([request for request in requests if isinstance(request.program, DerivativeProgram)]) == 3


def test_code_is_made_quickly_for_levels_of_few_paths_alone():
    for steps, paths, quick in ((8, 2048, [False, True, True]), (800, 10**6, [False] * 3)):
        requests = requests_of_one(**{"time.steps": steps, "ensemble.paths": paths})
        assert [x.quick for x in requests if isinstance(x.program, DerivativeProgram)] == quick


@pytest.mark.slow
@pytest.mark.user_code
def test_step_errors_do_not_depend_on_how_code_is_made(monkeypatch):
    """But for the last digit of normals in float32, which a compiler may round in one way or another."""
    changes = {"sensitivity.of": ["square"], "sensitivity.wrt": ["r"], "sensitivity.second": None}
    quick = rows(simkit.sensitivity(FEW_STEPS, overrides=changes))["square", "r"]
    monkeypatch.setattr(levels, "FEW_PATH_STEPS", 0)
    full = rows(simkit.sensitivity(FEW_STEPS, overrides=changes))["square", "r"]
    for key in ("derivative", "stderr"):
        assert quick[key] == full[key]
    for key in ("bias", "bias_stderr"):
        assert quick[key] == pytest.approx(full[key], rel=1e-6)


def test_an_exact_distribution_has_no_step_error():
    changes = {"solver": "ExactSampling", "sensitivity.of": ["call"], "sensitivity.second": None}
    result = simkit.sensitivity(FEW_STEPS, overrides=changes)
    assert not [name for name in result if "bias" in name or "step_error" in name]


@pytest.mark.user_code
@pytest.mark.more
def test_a_run_that_sees_fewer_exact_states_binds_the_rows_that_it_saves():
    """Else differences on it, of other values of the targets, would be on another grid than its program."""
    simulation = simkit.load(
        {
            "model": {"type": "OrnsteinUhlenbeck", "theta": 1.0, "mu": 0.5, "sigma": 1.0},
            "initial": {"X": 0.0},
            "time": {"t1": 1.0, "steps": 64},
            "solver": "ExactSampling",
            "ensemble": {"paths": 64},
            "save": {"points": 2},
            "observe": {"area": "integral(X)"},
        }
    )
    others = [on_steps(simulation, level) for level in step_levels.levels(simulation)]
    assert len(others) == 2
    for other in others:
        assert other.bind({}).grid.rows == other.grid.rows == 3


@pytest.mark.slow
@pytest.mark.user_code
def test_bits_do_not_depend_on_threads_devices_and_chunks():
    changes = {
        "ensemble": {"paths": 60_000, "seed": 3},
        "sensitivity": {"wrt": ["S", "sigma"], "of": ["digital"]},
    }
    results = [
        simkit.sensitivity(FEW_STEPS | changes, overrides=overrides)
        for overrides in (
            {"ensemble.devices": 1, "ensemble.threads": 1},
            {"ensemble.devices": 1, "ensemble.threads": 2},
            {"ensemble.devices": 2, "ensemble.chunk": 5000},
        )
    ]
    for name in ("bias", "derivative_bias", "derivative_bias_stderr", "derivative_tail_index"):
        for other in results[1:]:
            np.testing.assert_array_equal(
                other[f"digital_{name}"].values, results[0][f"digital_{name}"].values
            )
