"""Studies of derivatives as a whole: variants, what the command prints and writes, and the same bits."""

import json

import numpy as np
import pytest
from command import simkit_command
from derivative_examples import EXACT, STEPS

import simkit
from simkit import InputError, NumericalError


@pytest.mark.user_code
@pytest.mark.slow
def test_bits_do_not_depend_on_chunks():
    whole, cut = (
        simkit.sensitivity(STEPS, ["sigma"], overrides={"ensemble.paths": 8192, "ensemble.chunk": chunk})
        for chunk in (8192, 2048)
    )
    for name in ("digital_derivative", "digital_derivative_stderr", "digital_mean"):
        assert np.array_equal(whole[name], cut[name])


@pytest.mark.more
def test_variants_have_sensitivities_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    variants = {"usual": None, "calm": {"model.sigma": 0.1}}
    whole = EXACT | {
        "ensemble": {"paths": 4096, "seed": 5},
        "sensitivity": {"wrt": ["S", "sigma"], "of": ["call"]},
    }
    alone = simkit.sensitivity(whole, overrides={"model.sigma": 0.1})
    dataset = simkit.sensitivity(whole | {"variants": variants})
    calm = dataset.sel(variant="calm")
    assert np.array_equal(calm["call_derivative"], alone["call_derivative"])
    assert list(calm["parameter_value"].values) == [100.0, 0.1]
    assert not np.array_equal(calm["call_derivative"], dataset["call_derivative"].sel(variant="usual"))

    (tmp_path / "e.yaml").write_text(json.dumps(whole | {"variants": variants}))
    result = simkit_command("sensitivity", "e.yaml", "--json", "--out", "e.zarr")
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)["variants"]
    assert list(content) == ["usual", "calm"]
    shown = content["calm"]["quantities"]["call"]["derivatives"]["sigma"]["derivative"]
    assert shown == float(alone["call_derivative"][1])
    assert (tmp_path / "e.png").exists()
    result = simkit_command("sensitivity", "e.yaml", "--variant", "calm", "--set", "output=o.zarr")
    assert "ExactSampling, calm" in result.stdout
    assert result.stderr == (
        "note: nothing is written: output: o.zarr is for the dataset of `simkit run`, and --out PATH writes "
        "the derivatives\n"
    )
    assert not (tmp_path / "o.zarr").exists()
    assert "usual" not in result.stdout

    for arguments in (("--set", "sensitivity=null"), ("--wrt", "nothing"), ("--set", "sensitivity.of=[no]")):
        result = simkit_command("sensitivity", "e.yaml", "--set", "output=o.zarr", *arguments)
        assert result.exit_code == 2
        assert "nothing is written" not in result.stderr, arguments

    incompatible = {"usual": None, "calm": {"sensitivity.wrt": ["S"]}}
    with pytest.raises(InputError, match=r"variant calm: has sensitivity\.wrt: \['S'\], and usual has"):
        simkit.sensitivity(whole | {"variants": incompatible})


@pytest.mark.user_code
@pytest.mark.slow
@pytest.mark.parametrize("method", ["score", pytest.param("pathwise", marks=pytest.mark.slow)])
def test_bits_do_not_depend_on_what_is_saved(method):
    """Of two noises and derivatives in several arrays, where blocks are as short as they can be."""
    experiment = {
        "model": {"type": "Heston", "mu": 0.05, "kappa": 2.0, "theta": 0.04, "xi": 0.1, "rho": -0.7},
        "initial": {"S": 100.0, "v": 0.04},
        "time": {"t1": 1.0, "steps": 12},
        "ensemble": {"paths": 300, "seed": 3},
        "observe": {"up": "S > 100" if method == "score" else "S"},
        "sensitivity": {"wrt": ["mu", "xi"], "of": ["up"], "method": method},
    }
    results = [
        simkit.sensitivity(experiment, overrides={"save.points": points})["up_derivative"].values
        for points in (1, 4, 12)
    ]
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0], results[2])


@pytest.mark.more
def test_command_prints_and_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.yaml").write_text(json.dumps(EXACT))
    arguments = ["sensitivity", "e.yaml", "--json", "--out", "e.zarr"]
    result = simkit_command(*arguments)
    assert result.exit_code == 0, result.output
    content = json.loads(result.stdout)
    row = content["quantities"]["call"]["derivatives"]["S"]
    assert row["estimator"] == "pathwise"
    assert row["elasticity"] == pytest.approx(6.1, rel=0.05)
    mean = content["quantities"]["call"]
    relative = row["stderr"] / row["derivative"] + mean["stderr"] / mean["mean"]
    assert row["elasticity_stderr"] == pytest.approx(row["elasticity"] * relative)
    assert (tmp_path / "e.zarr").exists()
    assert (tmp_path / "e.png").exists()
    again = simkit_command(*arguments)
    assert again.exit_code == 4
    shown = simkit_command("sensitivity", "e.yaml", "--quiet", "--set", "sensitivity=null")
    assert shown.exit_code == 2
    assert "sensitivity: is missing" in shown.output


@pytest.mark.more
def test_no_path_at_all_is_no_table():
    lost = {
        "model": {"ode": {"x": "sqrt(-1 - k*x**2)"}, "parameters": {"k": 1.0}},
        "initial": {"x": 0.0},
        "time": {"t1": 1.0, "steps": 2},
        "ensemble": {"paths": 3, "failures": "exclude"},
        "sensitivity": {"wrt": ["k"]},
    }
    with pytest.raises(NumericalError, match=r"^of 3 paths none has finite values and derivatives"):
        simkit.sensitivity(lost)
