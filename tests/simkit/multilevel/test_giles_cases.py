"""Published cases: with which power of the step variances fall, and that levels add up without a bias.

References: Giles (2008), Improved multilevel Monte Carlo convergence using the Milstein scheme,
doi:10.1007/978-3-540-74496-2_20; Giles & Szpruch (2014), Antithetic multilevel Monte Carlo estimation for
multi-dimensional SDEs without Lévy area simulation, doi:10.1214/13-AAP957.
"""

import dataclasses

import jax
import numpy as np
import pytest
import yaml
from command import simkit_command

import simkit
from simkit.functionals import FUNCTIONALS
from simkit.functionals.functional import Moment
from simkit.multilevel.level_paths import LevelPaths, levels_on
from simkit.multilevel.level_rates import rate_of

GBM = {
    "model": {"type": "GBM", "mu": 0.05, "sigma": 0.2},
    "initial": {"S": 100.0},
    "solver": "Milstein",
    "time": {"t1": 1.0, "steps": 4},
    "ensemble": {"method": "multilevel", "target": {"total_error": 0.1}, "seed": 1},
}
HESTON = {
    **GBM,
    "model": {"type": "Heston", "mu": 0.05, "kappa": 2.0, "theta": 0.04, "xi": 0.3, "rho": -0.7},
    "initial": {"S": 100.0, "v": 0.04},
}
AREA = {  # Clark & Cameron's: Y is a Lévy area, but for a smooth function of the end
    **GBM,
    "model": {"sde": {"X": {"drift": 0, "noise": {"W1": 1.0}}, "Y": {"drift": 0, "noise": {"W2": "X"}}}},
    "initial": {"X": 0.0, "Y": 0.0},
}
PAYOFFS = {
    "european": "maximum(S - 100, 0)",
    "asian": "maximum(integral(S) - 100, 0)",
}
LOOKBACK = {"lookback": "S - min(S)"}  # at dates, the ends of the coarsest steps


def levels_of(experiment, observe):
    return levels_on(simkit.load({**experiment, "observe": observe}))


def figures(paths):
    """Of each quantity mean, standard error, variance and its error."""
    with jax.enable_x64(True):
        statistics = paths.averages().statistics
    n = int(statistics["n"])
    for place, name in enumerate(paths.levels.orders):
        mean, variance, error = (
            float(statistics[f"{place}_{key}"][-1]) for key in ("mean", "variance", "variance_stderr")
        )
        yield name, np.array([mean, np.sqrt(variance / n), variance, error])


def betas(experiment, observe, levels=range(2, 7), paths=8192):
    ladder = levels_of(experiment, observe)
    by_level = [dict(figures(LevelPaths.of(ladder, level, paths))) for level in levels]
    return {name: rate_of(*np.array([each[name][2:] for each in by_level]).T) for name in observe}


def means(ladder, level, coarse, paths=65536):
    """Of each quantity the mean on one side of a level's difference, and its error."""
    both = LevelPaths.of(ladder, level, paths)
    grids = tuple(each for each in both.grids if (each.draws_per_step > 1) == coarse)
    own = dataclasses.replace(both, grids=grids)
    return {name: (abs(x[0]), x[1]) for name, x in figures(own)}


CASES = {
    "GBM": (GBM, PAYOFFS | LOOKBACK, dict.fromkeys(PAYOFFS | LOOKBACK, 2.0)),
    "digital": (GBM, {"digital": "S > 100", "call": "maximum(S - 100, 0)"}, {"digital": 1.5, "call": 2.0}),
    "barrier": (GBM, {"barrier": "maximum(S - 100, 0) * no_touch(log(S/95), 0.2)"}, {"barrier": 1.5}),
    "Heston barrier": (
        HESTON,
        {"barrier": "maximum(S - 100, 0) * no_touch(S - 90, S*sqrt(maximum(v, 0)))"},
        {"barrier": 1.5},
    ),
    "Heston": (HESTON, PAYOFFS, dict.fromkeys(PAYOFFS, 2.0)),
    "area": (AREA, {"square": "Y**2", "kink": "abs(Y - 0.3)"}, {"square": 2.0, "kink": 1.5}),
}


@pytest.mark.more
@pytest.mark.parametrize(("experiment", "observe", "beta"), CASES.values(), ids=CASES)
def test_variances_fall_as_published(experiment, observe, beta):
    """Or faster, while the first levels are not yet powers."""
    for name, rate in betas(experiment, observe).items():
        assert beta[name] - 0.2 - 2 * rate.stderr < rate.rate < beta[name] + 0.4, name


@pytest.mark.more
@pytest.mark.parametrize(("experiment", "observe", "beta"), CASES.values(), ids=CASES)
def test_the_finer_paths_of_a_level_have_the_means_of_the_coarser_ones_of_the_next(experiment, observe, beta):
    ladder = levels_of(experiment, observe)
    for level in (1, 3):
        finer, coarser = means(ladder, level, False), means(ladder, level + 1, True)
        for name, (mean, error) in finer.items():
            assert abs(mean - coarser[name][0]) < 5 * np.hypot(error, coarser[name][1]), name


@pytest.mark.more
def test_what_is_left_out_of_a_step_is_left_out_of_the_average_of_the_exchanged_paths_too():
    """A Lévy area is off by as much on one as on the other, the other way: nothing is left but rounding."""
    ladder = levels_of(AREA, {})
    (_, area) = figures(LevelPaths.of(ladder, 2, 1024))
    assert area[1][2] < 1e-12
    plain = dataclasses.replace(both := LevelPaths.of(ladder, 2, 1024), grids=(both.grids[0], both.grids[-1]))
    (_, area) = figures(plain)
    assert area[1][2] > 1e-3
    assert ladder.costs(())[:3] == [4, 2 * 8 + 4, 2 * 16 + 8]


def test_a_bridge_through_its_middle_is_on_average_the_bridge():
    bridge = FUNCTIONALS["no_touch"]((lambda at: at["x"], lambda at: at["s"]))
    z = np.linspace(-8, 8, 4001)
    start, end = ({"x": np.float64(x), "s": np.float64(0.4)} for x in (0.3, 0.2))
    state = bridge.begin(Moment(start, np.float64))
    whole = bridge.add(state, Moment(end, np.float64, 1, 0.25))[0]
    through = bridge.add(state, Moment(end, np.float64, 1, 0.25, 1, z))[0]
    average = np.trapezoid(np.asarray(through) * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi), z)
    assert average == pytest.approx(float(whole), abs=1e-5)


@pytest.mark.more
@pytest.mark.parametrize("how", [{"chunk": 700}, {"threads": 1}, {"devices": 2}], ids=str)
def test_bits_of_several_finer_paths_and_ends_do_not_depend_on_chunks_threads_and_devices(how):
    observe = {"digital": "S > 100"}
    both = ({**HESTON, "ensemble": HESTON["ensemble"] | each} for each in ({}, how))
    one, other = (dict(figures(LevelPaths.of(levels_of(each, observe), 2, 2000))) for each in both)
    for name, values in one.items():
        assert np.array_equal(values, other[name]), name


@pytest.mark.more
def test_a_dry_run_and_the_table_say_what_has_many_ends(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    target = {"target": {"total_error": 0.01}}
    experiment = GBM | {"observe": {"digital": "S > 100"}, "ensemble": GBM["ensemble"] | target}
    (tmp_path / "a.yaml").write_text(yaml.safe_dump(experiment))
    told = " ".join(simkit_command("run", "a.yaml", "--dry-run").stdout.split())
    assert "path-steps in all, with many ends of the last step for digital" in told
    table = " ".join(simkit_command("run", "a.yaml").stdout.split())
    assert "levels average many ends of the last step, since the value jumps there: digital" in table


def test_there_is_one_end_where_nothing_jumps_or_events_have_their_steps():
    dose = {"events": {"dose": {"at": 0.5, "set": {"S": "S + 1"}}}}
    assert levels_of(GBM, {"call": "maximum(S - 100, 0)"}).costs(())[1] == 12
    assert levels_of(GBM | dose, {"digital": "S > 100"}).costs(())[1] == 12
    assert levels_of(GBM, {"digital": "S > 100"}).costs(())[1] == 12 + 2 * 6
    assert levels_of(HESTON, {"digital": "S > 100"}).costs(())[1] == 20 + 3 * 6
    assert levels_of(GBM, {"digital": "S > 100"}).many_ends == ["digital"]
