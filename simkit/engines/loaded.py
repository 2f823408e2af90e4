"""From a file to its experiment, or to all of its variants, ready to run whatever they simulate."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simkit.config.documents import Document
from simkit.config.overrides import Overrides, opened
from simkit.config.settings.places import is_particles
from simkit.engines.engine import AbstractEngine, Progress, Target
from simkit.engines.finished import INPUTS, contents
from simkit.errors import InputError
from simkit.experiments.constants import remark_unused
from simkit.experiments.variants import build_each, labelled, together
from simkit.garbage import seldom_collected
from simkit.machine.memory import failures_named
from simkit.machine.own_modules import remembered_code
from simkit.records.same_run import of_this_machine
from simkit.results.provenance import as_yaml

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Loaded:
    """Simulations by the names of variants, and the engine that runs them.

    That of an experiment without variants has the name "".
    """

    engine: AbstractEngine
    each: dict[str, Any]

    @property
    def output(self) -> Path | None:
        """Where the file says that the dataset goes."""
        output = self.engine.experiment(next(iter(self.each.values()))).output
        return None if output is None else Path(output)

    @property
    def remarks(self) -> list[str]:
        """What should be said of the file, though it can run, with the place of each."""
        documents = {name: self.engine.experiment(one).document for name, one in self.each.items()}
        file = next(iter(documents.values())).name
        remarks = {name: document.remarks for name, document in documents.items()}
        return list(dict.fromkeys(remarks[""])) if "" in remarks else labelled(file, remarks, len(remarks))

    @property
    def remarks_here(self) -> list[str]:
        """The remarks for a task that no cluster serves."""
        clusters = (getattr(self.engine.experiment(one), "cluster", None) for one in self.each.values())
        unused = "cluster: is for whole runs by `simkit run` and `simkit sweep`; all paths are simulated here"
        return [*self.remarks, *([unused] if any(clusters) else [])]

    @property
    def shorter(self) -> str:
        """What a user can do where the run takes too long."""
        texts = [self.engine.shorter(one) for one in self.each.values()]
        return f"what makes it shorter: {'; or '.join(dict.fromkeys(texts))}"

    def check_target(self, target: Target) -> None:
        """Raise `InputError` where the file for the results cannot hold all of them."""
        self.engine.check_target(self.each, target)

    def sized(self) -> "Loaded":
        """The same with the numbers of paths that targets take, which pilot runs find."""
        with failures_named(self.engine.lighter):
            return Loaded(self.engine, {**self.engine.sized(self.each)})

    def pilot(self) -> "Loaded":
        """The same without the files that a run writes beside its dataset."""
        return Loaded(self.engine, {name: self.engine.pilot(one) for name, one in self.each.items()})

    def files(self, target: Target) -> list[Path]:
        """The files that a run writes: its dataset, and what the engine writes beside it."""
        beside = {file for one in self.each.values() for file in self.engine.files(one)}
        return [*([] if target is None else [Path(target)]), *sorted(beside)]

    def identity(self, task: str) -> dict[str, str] | None:
        """What a record of a `task`, such as a run, must agree in; `None` if there is no resuming it."""
        texts = {name: self.engine.identity(one) for name, one in self.each.items()}
        known = {f"variant {name}" if name else "experiment": x for name, x in texts.items() if x is not None}
        if len(known) < len(texts):
            return None
        return {"task": task} | known | of_this_machine() | remembered_code()

    @property
    def configuration(self) -> dict[str, Any]:
        """The experiment as plain data, or one for all variants."""
        each = {name: self.engine.experiment(one) for name, one in self.each.items()}
        return each[""].resolved() if "" in each else together(each)

    @property
    def inputs(self) -> dict[str, str]:
        """Digests of own code and of files that the configuration only names."""
        files = [self.engine.inputs(one) for one in self.each.values()]
        return remembered_code() | {name: digest for each in files for name, digest in each.items()}

    def contents(self, task: str) -> dict[str, str]:
        """What a finished output of a `task` must agree in."""
        return contents(task, self.configuration, self.inputs)

    def with_inputs(self, dataset: "xr.Dataset") -> "xr.Dataset":
        """The dataset with the digests of its inputs, if there are any."""
        return dataset.assign_attrs({INPUTS: as_yaml(self.inputs)}) if self.inputs else dataset

    def check_files(self, target: Target, overwrite: bool) -> None:
        """Raise `OutputError` where files that a run writes beside its dataset may not be replaced."""
        self.engine.check_files(self.each, target, overwrite)

    @property
    def keeps_unresolved(self) -> bool:
        """Whether figures that are no result, as steps are too long, are shown without a warning."""
        return self.engine.keeps_unresolved(self.each)

    def run(self, progress: Progress | None = None, parts: list[Any] | None = None) -> "xr.Dataset":
        """Run, or join `parts`, and label the results; no dataset is written.

        Raises what `AbstractEngine.run` raises.
        """
        with failures_named(self.engine.lighter), seldom_collected():
            return self.with_inputs(self.engine.run(self.each, progress, parts))

    def run_part(self, part: Any, progress: Progress | None = None) -> list[Any]:
        """What a part of all paths gives, of each simulation in order. Raises what `run` raises."""
        with failures_named(self.engine.lighter):
            return self.engine.run_part(self.each, part, progress)

    def differentiate(self, progress: Progress | None = None) -> "xr.Dataset":
        """Find the sensitivities, and label them; nothing is written.

        Raises `InputError` where variants ask for other derivatives, and what the runs raise, by variant.
        """
        sections = self._sections()
        first = next(iter(sections))
        for name, section in sections.items():
            for key in ("wrt", "of", "second", "check"):
                own, others = getattr(section, key, None), getattr(sections[first], key, None)
                if own != others:
                    raise InputError(
                        f"variant {name}: has sensitivity.{key}: {own}, and {first} has {others}; give both "
                        "the same, or make files of them"
                    )

        def one(simulation: Any, progress: Progress | None) -> "xr.Dataset":
            section = self.engine.experiment(simulation).sensitivity
            return self.engine.differentiate(simulation, section, progress)

        with failures_named(self.engine.lighter):
            result = self.engine.one_by_one(self.each, one, progress)
        if "" in result:
            return self.with_inputs(result[""])
        from simkit.results.variant_dataset import side_by_side

        dataset = side_by_side(result).assign_attrs(configuration=as_yaml(self.configuration))
        return self.with_inputs(dataset)

    def _sections(self) -> dict[str, Any]:
        """The section `sensitivity` of each variant. Raises `InputError` for those without one."""
        sections = {name: self.engine.experiment(one).sensitivity for name, one in self.each.items()}
        missing = [name for name, section in sections.items() if section is None]
        if missing:
            example = self.engine.parameter
            text = (
                "sensitivity: is missing; say what to differentiate with respect to, as in "
                f"sensitivity: {{wrt: [{example}]}}, or --wrt {example}"
            )
            some = len(missing) < len(sections)
            raise InputError([f"variant {name}: {text}" for name in missing] if some else text)
        return sections


def load_each(source: Any, overrides: Overrides = (), chosen: Iterable[str] | None = None) -> Loaded:
    """Read, check and build an experiment, or all variants of one.

    `overrides` change the file, before the variants do. `chosen` are the names of variants wanted. Raises one
    `InputError` with every error in every variant wanted; what is wrong with the file itself is reported
    once. Raises it too where the results of variants do not fit into one dataset.
    """
    document = opened(source, overrides)
    engine = engine_of(document)
    remark_unused(document)
    each = build_each(document, None if chosen is None else list(chosen), engine.build, engine.root())
    return Loaded(engine, engine.fitted(each))


def engine_of(document: Document) -> AbstractEngine:
    """What runs the experiment in a document."""
    if is_particles(document.data):
        from simkit.engines.particles import ParticleEngine

        return ParticleEngine()
    from simkit.engines.paths import PathEngine

    return PathEngine()
