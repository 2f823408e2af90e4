"""From a file and the values of some of its keys to an experiment at each combination of them."""

import dataclasses
import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from simkit.config.diagnostics import Diagnostics, key_text
from simkit.config.documents import Document, KeyPath, parse_value
from simkit.config.overrides import Overrides, opened, replace_key
from simkit.config.python_data import PythonData
from simkit.config.settings.sweep import MOST, Sweep, swept_values
from simkit.engines.engine import OF_NO_EFFECT
from simkit.engines.loaded import Loaded, engine_of
from simkit.errors import InputError
from simkit.experiments.constants import remark_unused, unused
from simkit.experiments.experiment import SWEEP, VARIANTS
from simkit.experiments.variants import OF_THE_FILE, build_changed
from simkit.results.swept import Axes, coordinate_texts, folded, value_text
from simkit.suggestions import did_you_mean, shown

if TYPE_CHECKING:
    import xarray as xr

MANY = 1000  # points, which take some seconds to read


@dataclasses.dataclass(frozen=True)
class LoadedSweep:
    """The experiment at each point of a sweep, ready to run, and the values of its keys."""

    points: Loaded
    axes: Axes

    def labelled(self, dataset: "xr.Dataset") -> "xr.Dataset":
        """The dataset of all points with a dimension for each key."""
        return folded(dataset, self.axes)


def load_sweep(
    source: Any,
    overrides: Overrides = (),
    over: str | Mapping[str, Any] | None = None,
    side_by_side: bool = False,
    label: str = "over",
    note: Callable[[str], None] = lambda line: None,
) -> LoadedSweep:
    """Read, check and build an experiment at each point of its section `sweep`.

    `over`, which messages call `label`, stands in place of `sweep.over`. `note` says how many points there
    are where reading them takes seconds. Raises one `InputError` with every
    error at every point; what is wrong at all of them is reported once.
    """
    if isinstance(over, str):
        over = read_over([over], label)
    elif over is not None and not isinstance(over, Mapping):
        raise InputError(
            f"{label}: must be keys with their values, as in {{'model.sigma': [0.1, 0.2]}}, got {shown(over)}"
        )
    document = opened(source, overrides)
    if over is not None:
        over = {key: _as_list(values) for key, values in over.items()}
        _replace_over(document, over, label)
    if side_by_side and isinstance(document.data.get(SWEEP), dict):
        document.data[SWEEP]["zip"] = True
    engine = engine_of(document)
    place = f"{document.name}: " if document.name else ""
    if VARIANTS in document.data:
        raise InputError(
            f"{place}variants: a sweep takes one experiment; leave them out: --set variants=null"
        )
    if document.data.get(SWEEP) is None:
        raise InputError(
            f"{place}sweep: is missing; say which values of which keys, as in --over KEY=0.1:0.5:9, "
            "or in the file sweep: {over: {KEY: [0.1, 0.2]}}"
        )
    try:
        settings = Sweep.model_validate(document.data[SWEEP])
    except ValidationError:
        engine.build(document)  # raises what is wrong, with its place
        raise
    axes = _axes(settings, place)
    remark_unused(document)
    _refuse_idle(document, axes, place)
    if len(axes.points) >= MANY:
        note(f"note: reading {len(axes.points):,} points")
    why = "the sweep varies it; leave it out, here or in the sweep"
    each = build_changed(document, _changes(document, axes), engine.build, engine.root(), why)
    return LoadedSweep(Loaded(engine, engine.fitted(each)), axes)


def _as_list(values: Any) -> Any:
    """The list that an array or a range of Python is; anything else is itself."""
    return list(values) if isinstance(values, range) else getattr(values, "tolist", lambda: values)()


def _refuse_idle(document: Document, axes: Axes, place: str) -> None:
    """Raise `InputError` for what no expression uses: all points would be the same."""
    written = Diagnostics(document, with_text=False).written
    problems = [
        f"{place}sweep.over: {key}: no expression uses it, so that all points would be the same"
        f"{did_you_mean(name, [other for other in written(*section) if other != name])}"
        for key in axes.over
        for *section, name in [key.split(".")]
        if unused(document, [(*section, name)])
    ]
    if problems:
        raise InputError(problems)


def read_over(texts: Iterable[str], label: str = "--over") -> dict[str, Any]:
    """The keys and values of texts such as `model.sigma=0.1:0.5:9` or `solver=EulerMaruyama,Milstein`.

    Messages call them `label`.
    """
    over: dict[str, Any] = {}
    for text in texts:
        key, sign, values = map(str.strip, text.partition("="))
        if not sign or not key or not values:
            raise InputError(
                f"{label} {shown(text)}: expected KEY=VALUES, as in model.sigma=0.1:0.5:9 or "
                "solver=EulerMaruyama,Milstein"
            )
        if key in over:
            raise InputError(f"{label} {key}: is given twice; give all of its values at once")
        range_ = re.fullmatch(r"(\d*\.?\d+)\s*(?:-|\.{2,3}|to)\s*(\d*\.?\d+)", values)
        if range_ and float(range_[1]) < float(range_[2]):
            raise InputError(
                f"{label} {key}: a range is first:last:count, as in {range_[1]}:{range_[2]}:9, and a list "
                f"{range_[1]},{range_[2]}; got {values}"
            )
        if re.fullmatch(r"[-+.\w\s]+(:[-+.\w\s]+)+", values):  # a range, or what was meant for one
            over[key] = values
            continue
        listed = parse_value(f"[{values}]", f"{label} {key}").data
        over[key] = listed[0] if len(listed) == 1 and isinstance(listed[0], list) else listed
    return over


def _replace_over(document: Document, over: Mapping[str, Any], label: str) -> None:
    python = PythonData()
    given = python.mapping(over)
    problems = [f"{_where(label, path)}: {text}" for _, path, text in python.diagnostics]
    for key, values in given.items():
        try:
            given[key] = swept_values(values)
        except ValueError as error:
            problems.append(f"{label} {key}: {error}")
    if problems:
        raise InputError(problems)
    replace_key(document, (SWEEP,), {"over": given})
    document.options |= {(SWEEP, "over", key): f"{label} {key}" for key in given}


def _where(label: str, path: KeyPath) -> str:
    """What messages call a value of `over`, or `over` itself."""
    return f"{label} {key_text((*str(path[0]).split('.'), *path[1:]))}" if path else label


def _axes(settings: Sweep, place: str) -> Axes:
    problems = []
    paths = {key: tuple(key.split(".")) for key in settings.over}
    for key, path in paths.items():
        where = f"{place}sweep.over: {key}"
        if not all(path):
            problems.append(f"{where}: must be a key such as model.sigma")
        elif path[0] in OF_THE_FILE:
            problems.append(f"{where}: is the same at all points, and cannot be swept")
        elif path[0] == "cluster" or (path[0] == "ensemble" and path[-1] in OF_NO_EFFECT):
            problems.append(
                f"{where}: says how to compute, so that all points would be the same; give it once, as in "
                f"--set {key}={value_text(settings.over[key][0])}"
            )
        elif any(key != other and path[: len(its)] == its for other, its in paths.items()):
            problems.append(f"{where}: is swept twice")
        texts = coordinate_texts(settings.over[key])
        repeated = next((text for text in texts if texts.count(text) > 1), None)
        if repeated is not None and not settings.zip:
            problems.append(f"{where}: has the value {repeated} twice")
    sizes = {key: len(values) for key, values in settings.over.items()}
    if settings.zip and len({*sizes.values()}) > 1:
        counts = ", ".join(f"{size} of {key}" for key, size in sizes.items())
        problems.append(
            f"{place}sweep.zip: takes lists of one length, side by side; here there are {counts}; leave zip "
            "out for all combinations"
        )
    if not settings.zip and math.prod(sizes.values()) > MOST:
        problems.append(
            f"{place}sweep.over: has {math.prod(sizes.values()):,} combinations, and {MOST:,} are the "
            "most; take fewer values, or zip: true to go through the lists side by side"
        )
    if problems:
        raise InputError(problems)
    return Axes(settings.over, settings.zip)


def _changes(document: Document, axes: Axes) -> dict[str, dict[KeyPath, tuple[Any, KeyPath]]]:
    """What each point changes: for each key its value and the place of that in the document."""
    result = {}
    for name, point in zip(axes.names, axes.points, strict=True):
        result[name] = {
            tuple(key.split(".")): (values[i], _place(document, key, i))
            for (key, values), i in zip(axes.over.items(), point, strict=True)
        }
    return result


def _place(document: Document, key: str, i: int) -> KeyPath:
    """Where a value stands: in a list by itself, in a range with all others."""
    place = (SWEEP, "over", key)
    return (*place, i) if (*place, i) in document.values else place
