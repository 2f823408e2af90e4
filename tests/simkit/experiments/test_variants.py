"""Variants of an experiment: each is the file with settings changed, and all meet the same noise."""

import io
import json
import math

import jax.monitoring
import numpy as np
import pytest
from typer.testing import CliRunner

import simkit
from simkit import InputError, NumericalError, load, plot_dataset, read_dataset
from simkit.cli import app
from simkit.engines.loaded import load_each
from simkit.experiments.variants import load_one
from simkit.results.table import print_table, with_error
from simkit.results.variant_dataset import combined
from simkit.results.variants import one_variant

TEXT = """\
constants: {K: 1.0}
model:
  sde: {x: {drift: m*x, noise: {W: s*x}}}
  parameters: {m: 0.1, s: 0.3}
initial: {x: 1.0}
time: {t1: 1.0, steps: 8}
ensemble: {paths: 2000, seed: 4}
save: {paths: all, points: 2}
observe:
  gain: {value: maximum(x - K, 0), exact: K}
variants:
  base:
  fast: {model.parameters.m: 0.2}
  wide:
    model: {parameters: {s: 0.4}}
    constants: {K: 1.1}
    observe: {gain: {exact: null}}
"""
CHANGES = {
    "base": {},
    "fast": {"model.parameters.m": 0.2},
    "wide": {"model.parameters.s": 0.4, "constants.K": 1.1, "observe.gain": "maximum(x - K, 0)"},
}

compilations = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: compilations.append(event) if "backend_compile" in event else None
)


def with_variants(text):
    """The experiment with other variants, which begin at line 11."""
    return TEXT[: TEXT.index("variants")] + text


@pytest.fixture(scope="module")
def compiled_for_others():
    simkit.run(TEXT, variants=["base"])
    before = len(compilations)
    simkit.run(TEXT)
    return len(compilations) - before


@pytest.fixture(scope="module")
def together(compiled_for_others):
    return simkit.run(TEXT)


@pytest.mark.user_code
@pytest.mark.more
def test_each_variant_is_the_file_with_its_settings_changed():
    together = simkit.run(TEXT)  # by the code of users, as each alone
    assert list(together["variant"].values) == list(CHANGES)
    plain = TEXT[: TEXT.index("variants")]
    for name, changes in CHANGES.items():
        alone, one = simkit.run(plain, overrides=changes), one_variant(together, name)
        differences = {key for key in one.data_vars if "_difference" in key}
        assert {*one.data_vars} - differences == {*alone.data_vars}
        for key in alone.data_vars:
            np.testing.assert_array_equal(alone[key].values, one[key].values, err_msg=key)
            assert alone[key].attrs == one[key].attrs
        assert alone.attrs.keys() == one.attrs.keys()
        assert (
            load(one.attrs["configuration"]).experiment.resolved()
            == load(alone.attrs["configuration"]).experiment.resolved()
        )


@pytest.mark.more
def test_variants_that_differ_in_numbers_compile_once(compiled_for_others):
    assert compiled_for_others == 0


def test_differences_are_those_of_the_same_paths(together):
    ends = together["x_path"].values[:, :, -1]
    pairs = ends - ends[0]
    np.testing.assert_allclose(together["x_difference"], pairs.mean(1), atol=1e-13)
    np.testing.assert_allclose(together["x_difference_stderr"], pairs.std(1, ddof=1) / math.sqrt(2000))
    fast = together.sel(variant="fast")
    exact = (1 + 0.2 / 8) ** 8 - (1 + 0.1 / 8) ** 8
    assert abs(float(fast["x_difference"]) - exact) < 5 * float(fast["x_difference_stderr"])
    assert float(fast["x_difference_stderr"]) < 0.1 * float(fast["x_stderr"][-1])
    assert (together["x_difference"][0], together["x_difference_stderr"][0]) == (0, 0)


def test_the_error_of_a_difference_is_that_of_all_paths(monkeypatch):
    """Also where its spread is that of the first ones alone."""
    several = {"ensemble.paths": 6000, "ensemble.chunk": 2048, "save.paths": 0}
    whole = simkit.run(TEXT, overrides=several)
    monkeypatch.setattr("simkit.engines.paths.PAIRED", 2048)
    some = simkit.run(TEXT, overrides=several)
    for name in ("x", "gain"):
        ratio = (some[f"{name}_difference_stderr"] / whole[f"{name}_difference_stderr"]).values[1:]
        np.testing.assert_allclose(ratio, 1, atol=0.15)
        assert np.all(ratio != 1)


def test_where_paths_failed_only_whole_pairs_are_compared(together):
    each = {name: one_variant(together, name) for name in ("base", "wide")}
    each["wide"].attrs["failed_paths"] = 500
    ends = {name: {key: each[name][f"{key}_path"].values for key in ("gain",)} for name in each}
    ends = {name: {**ends[name], "x": each[name]["x_path"].values[:, -1].copy()} for name in each}
    ends["wide"]["x"][:500] = np.nan
    result = combined(each, ends, "")
    pairs = ends["wide"]["x"][500:] - ends["base"]["x"][500:]
    assert float(result["x_difference"][1]) == pytest.approx(pairs.mean())
    assert float(result["x_difference_stderr"][1]) == pytest.approx(pairs.std(ddof=1) / math.sqrt(1500))


def test_the_configuration_repeats_all_variants(together):
    again = simkit.run(together.attrs["configuration"])
    for key in together.data_vars:
        np.testing.assert_array_equal(again[key].values, together[key].values, err_msg=key)


def test_an_exact_value_of_some_variants_is_missing_in_the_others(together):
    assert np.isfinite(together["gain_exact"].values).tolist() == [True, True, False]
    assert "gain_exact" not in one_variant(together, "wide")


def test_chosen_variants_keep_their_order_and_their_numbers(together):
    result = simkit.run(TEXT, variants=["wide", "base"])
    assert list(result["variant"].values) == ["base", "wide"]
    np.testing.assert_array_equal(result["x_path"][1], together["x_path"][2])


def test_a_changed_section_is_replaced_where_there_was_a_value_and_merged_where_there_were_keys():
    text = with_variants(
        "variants:\n"
        "  distribution: {initial: {x: {uniform: [1, 2]}}}\n"
        "  solver: {solver: {type: Milstein}}\n"
        "  item: {save.quantiles: [0.1, 0.9], time: {steps: null, rtol: 1e-3, atol: 1e-3}, solver: SRIW1}\n"
    )
    distribution, solver, item = (load_one(text, variant=name) for name in ("distribution", "solver", "item"))
    assert distribution.experiment.resolved()["initial"]["x"] == {"uniform": [1.0, 2.0]}
    assert solver.experiment.solver.type == "Milstein"
    assert item.experiment.time.steps is None
    assert item.experiment.save.quantiles == [0.1, 0.9]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "variants: {a: {model.parameters.m: oops}, b: }",
            r"^<text>:11:36: variant a: model\.parameters\.m: unk",
        ),
        (
            "variants:\n  a: {}\n  b:\n    time: {t1: -1}",
            r"^<text>:14:16: variant b: time\.t1: must be after",
        ),
        (
            "variants: {a: {modle.s: 1}, b: {}}",
            r"^<text>:11:16: variant a: modle: unknown key; did you mean 'm",
        ),
        ("variants: {a: {observe.gain.valu: 1}, b: }", r"11:16: variant a: observe\.gain\.valu: unknown key"),
        (
            "variants: {a: {constants.K.k: 1}, b: }",
            r"11:16: variant a: constants\.K\.k: constants\.K is a single",
        ),
        (
            "variants: {a: {constants.K: 1, constants: {K: 2}}}",
            r"variants\.a\.constants\.K: constants\.K is set t",
        ),
        (
            "variants: {a: {output: a.nc}}",
            r"<text>:11:16: variants\.a\.output: output is that of all variants",
        ),
        ("variants: {a: 3}", r"<text>:11:15: variants\.a: must be a mapping of settings, got 3"),
        ("variants: [a]", r"<text>:11:11: variants: must be a mapping of names to settings, got \['a'\]"),
        ("variants: {}", r"<text>:11:11: variants: must be a mapping"),
        ("variants: {' a': {}}", r"must be a name of at most 40 characters"),
    ],
)
def test_errors_name_the_variant_and_the_place(text, message):
    with pytest.raises(InputError, match=message) as caught:
        load_each(with_variants(text + "\n"))
    assert len(caught.value.problems) == 1


class TestWhatEveryVariantSets:
    text = with_variants("variants: {low: {constants.K: 1}, high: {constants: {K: 2}}}\n")

    def test_an_option_that_changes_nothing_is_refused(self):
        message = r"^override constants\.K: changes nothing, since every variant sets it; change it in"
        for value in ("9", "[1, 2]"):
            with pytest.raises(InputError, match=message):
                load_each(self.text, f"constants.K={value}")
        with pytest.raises(InputError, match=r"override constants\.K: changes nothing"):
            load_each(TEXT, "constants.K=9", chosen=["wide"])

    def test_an_option_that_one_variant_keeps_is_not(self):
        values = [x.experiment.constants["K"] for x in load_each(TEXT, "constants.K=9").each.values()]
        assert values == [9, 9, 1.1]

    def test_an_option_reaches_into_a_variant(self):
        with pytest.raises(
            InputError, match=r"^variant low: override variants\.low\.modl\.a: modl: unknown key"
        ):
            load_each(self.text, ["variants.low.modl.a=1"])
        options = ["variants.low.constants.K=8", "variants.high.constants.K=9"]
        assert [x.experiment.constants["K"] for x in load_each(self.text, options).each.values()] == [8, 9]

    @pytest.mark.parametrize("inside", ["{constants.K: [1, 2]}", "{constants: {K: [1, 2]}}"])
    def test_what_is_wrong_in_an_option_for_a_whole_variant_is_not_placed_in_the_file(self, inside):
        with pytest.raises(InputError, match=r"^variant low: override variants\.low: constants\.K: must be"):
            load_each(self.text, [f"variants.low={inside}"])

    def test_a_value_that_cannot_be_read_is_refused_though_no_variant_keeps_it(self):
        text = self.text.replace("{K: 1.0}", "{K: [10, 20]}")
        with pytest.raises(InputError, match=r"^<text>:1:16: constants\.K: must be a number or an"):
            load_each(text)


def test_an_error_of_the_file_is_reported_once_and_of_no_variant():
    with pytest.raises(InputError) as caught:
        load_each(TEXT.replace("m*x", "q*x"))
    (problem,) = caught.value.problems
    assert "variant" not in problem


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ensemble.paths: 500", r"variant b: has another number of paths: 500, and a has 2000"),
        ("observe.gain.at: each", r"variant b: has the observables: gain \(each\), and a has gain \(end\)"),
        ("observe.loss: -x", r"variant b: has the observables: gain \(end\), loss \(end\), and a"),
        ("model.sde.y: -y, initial.y: 1", r"variant b: has the variables: x, y, and a has x"),
        ("time.t1: 2", r"variant b: runs from 0 to 2, and a from 0 to 1"),
        ("save.quantiles: [0.1, 0.9]", r"variant b: has the quantiles: 0\.1, 0\.9, and a has 0\.05, "),
        ("save.points: 4", r"variant b: has another number of saved times: 5, and a has 3"),
        (
            "observe.gain: {value: x + 2, early_exercise: {dates: 2}}",
            r"variant b: has the dates of exercise: 2 of gain, and a has none",
        ),
    ],
)
def test_results_that_do_not_fit_together_are_refused_before_the_run(change, message):
    with pytest.raises(InputError, match=message):
        load_each(with_variants(f"variants: {{a: , b: {{{change}}}}}\n"))


def test_other_steps_and_another_solver_fit_together():
    text = "variants: {a: , b: {time.steps: 16}, c: {solver: Milstein}, d: {precision: float32}}\n"
    assert list(load_each(with_variants(text)).each) == list("abcd")


def test_names_that_are_not_there():
    with pytest.raises(InputError, match=r"there is no variant 'fats'; did you mean 'fast'\?"):
        load_each(TEXT, chosen=["fats"])
    with pytest.raises(InputError, match=r"^<text>: there .* has no variants; leave 'fast' out, or add"):
        load_each(with_variants(""), chosen=["fast"])
    with pytest.raises(InputError, match=r"<text>:11:1: variants: there are several experiments here"):
        load(TEXT)


def test_nothing_is_written_when_one_variant_fails(tmp_path):
    text = with_variants("variants: {good: , bad: {model.parameters.m: 1e200}}\n")
    with pytest.raises(NumericalError, match=r"^variant bad: path 0: x = "):
        simkit.run(text, out=tmp_path / "all.nc")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_from_the_file_to_table_dataset_and_picture(together, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.yaml").write_text(TEXT)
    result = CliRunner().invoke(app, ["run", "study.yaml", "--out", "study.nc", "--json"])
    content = json.loads(result.stdout)
    assert content["variants"].keys() == CHANGES.keys()
    for name, figures in content["variants"].items():
        for key in ("mean", "difference", "difference_stderr"):
            wanted = np.atleast_1d(together.sel(variant=name)[f"x_{key}"])[-1]
            assert figures["state"]["x"][key] == pytest.approx(wanted)
    assert (tmp_path / "study.png").stat().st_size > 10_000
    dataset = read_dataset("study.nc")
    for name in CHANGES:
        assert one_variant(dataset, name).attrs["failed_paths"] == 0
    figure = plot_dataset(dataset)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == list(CHANGES)
    first = figure.axes[0].get_lines()
    for line, name in zip(first, CHANGES, strict=True):
        np.testing.assert_array_equal(line.get_ydata(), together.sel(variant=name)["x_mean"])
    assert len({line.get_color() for line in first}) == 3

    go_on = {"x": {"file": "study.nc", "variant": "fast"}}
    one = load(with_variants(""), {"initial": json.dumps(go_on), "ensemble.seed": 5})
    assert one.experiment.ensemble.paths == 2000
    with pytest.raises(
        InputError, match=r"study\.nc holds several variants; name one for each variable, .*variant: base"
    ):
        load(with_variants(""), {"initial": "{file: study.nc}", "ensemble.seed": 5})


def test_the_table_has_a_row_for_each_quantity_and_variant_in_a_hundred_columns(together):
    file = io.StringIO()
    print_table(together, file)
    lines = file.getvalue().splitlines()
    rows = [line.split("│")[2].strip() for line in lines if line.startswith("│")]
    assert rows == [*CHANGES] * 2
    assert max(map(len, lines)) <= 100
    fast = next(line for line in lines if "fast" in line)
    assert f"{float(together['gain_difference'][1]):.5f}" in fast
    assert lines[-1].startswith("3 variants × 2,000 paths × 8 steps in")


@pytest.mark.parametrize("chosen", [["base", "fast", "wide"], ["wide"]])
def test_each_variant_shows_its_step_bias(together, chosen):
    """Also where only some are run: with `--variant`."""
    file = io.StringIO()
    print_table(together.sel(variant=chosen), file)
    rows = [line for line in file.getvalue().splitlines() if line.startswith("│")]
    assert len(rows) == 2 * len(chosen)
    for name, row in zip(chosen, rows, strict=False):
        one = together.sel(variant=name)
        assert f" {with_error(float(one['gain_bias']), float(one['gain_bias_stderr']), 2)} " in row


def test_validate_and_dry_run_see_every_variant(tmp_path):
    file = tmp_path / "study.yaml"
    file.write_text(TEXT)
    runner = CliRunner()
    assert runner.invoke(app, ["validate", str(file)]).stdout.count(": valid (") == 3
    one = runner.invoke(app, ["validate", str(file), "--variant", "fast", "--json"])
    assert [*json.loads(one.stdout)["variants"]] == ["fast"]
    sizes = runner.invoke(app, ["run", str(file), "--dry-run", "--json"])
    assert [each["path_steps"] for each in json.loads(sizes.stdout)["variants"].values()] == [16_000] * 3
    wrong = runner.invoke(app, ["validate", str(file), "--set", "variants.fast.time.steps=0"])
    assert wrong.exit_code == 2
    assert "variant fast: " in wrong.stderr
