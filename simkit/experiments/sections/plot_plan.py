"""From the `plot` section to the names that the picture shows."""

from simkit.config.diagnostics import Diagnostics, SettingError
from simkit.config.documents import KeyPath
from simkit.config.settings import Plot
from simkit.ensemble.simulation import ObservableInfo, Picture
from simkit.experiments.sections.model_plan import ModelPlan
from simkit.suggestions import did_you_mean, shown


def plan_plot(
    section: Plot | None,
    plan: ModelPlan | None,
    observables: dict[str, ObservableInfo],
    diagnostics: Diagnostics,
) -> Picture:
    """What the picture shows; an error for each name of which there is nothing over time."""
    if section is None or plan is None:
        return Picture()
    single = [(("plot", "over_time", i), name) for i, name in enumerate(section.over_time or ())]
    raw = diagnostics.written("plot").get("portrait")
    flat = isinstance(raw, list) and raw and isinstance(raw[0], str)
    for i, pair in enumerate(section.portrait or ()):
        single += [(("plot", "portrait", *(() if flat else (i,)), j), name) for j, name in enumerate(pair)]
    for path, name in single:
        with diagnostics.collecting():
            _check(path, name, plan, observables)
    pairs = tuple((a, b) for a, b in section.portrait or ())
    return Picture(tuple(section.over_time or ()), pairs)


def _check(path: KeyPath, name: str, plan: ModelPlan, observables) -> None:
    if name in plan.variables:
        return
    if name not in observables:
        hint = did_you_mean(name, [*plan.variables, *observables])
        raise SettingError(path, f"nothing is called {shown(name)}{hint}")
    elif observables[name].at != "each":
        message = f"{name} is evaluated at the end only; give it as {name}: {{value: …, at: each}}"
        raise SettingError(path, message)
