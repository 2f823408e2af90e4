"""What commands and Python functions ask of whatever an experiment simulates."""

import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from simkit.config.documents import Document
from simkit.config.settings.places import Root
from simkit.errors import InputError, NumericalError, SimkitError
from simkit.suggestions import called

if TYPE_CHECKING:
    import xarray as xr

Built = TypeVar("Built")
Made = TypeVar("Made")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]  # of what is done, and all of it
Target = str | os.PathLike | None

OF_NO_EFFECT = ("threads", "chunk", "memory", "devices")  # keys of `ensemble`, on the bits of a run


class AbstractEngine(ABC, Generic[Built]):
    """How experiments of one kind are built, checked, measured, run and differentiated.

    `each` are simulations by the names of variants; that of an experiment without variants has the name "".
    """

    counted: ClassVar[str]  # what progress counts
    parameter: ClassVar[str]  # a number that experiments have, for an example
    lighter: ClassVar[str]  # what a user can do where memory is short

    @abstractmethod
    def build(self, document: Document) -> Built:
        """The simulation of a document without variants. Raises `InputError` that lists every error."""

    @abstractmethod
    def root(self) -> Root:
        """The sections of a document."""

    @abstractmethod
    def fitted(self, each: dict[str, Built]) -> dict[str, Built]:
        """The simulations. Raises `InputError` unless the results of all variants fit into one dataset."""

    @abstractmethod
    def experiment(self, simulation: Built) -> Any:
        """The sections that a simulation was built from."""

    @abstractmethod
    def work(self, simulation: Built) -> int:
        """How much progress counts until a simulation is done."""

    @abstractmethod
    def about(self, simulation: Built) -> dict[str, Any]:
        """What a simulation is, in a few words: for `simkit validate`."""

    @abstractmethod
    def summary(self, simulation: Built) -> str:
        """The same on one line."""

    def sized(self, each: Mapping[str, Built]) -> Mapping[str, Built]:
        """The simulations with their numbers of paths, where a pilot run finds these."""
        return each

    def offers(self, simulation: Built) -> dict[str, tuple[int, float]]:
        """By name the ways to reach a target, each with its paths and their seconds."""
        return {}

    @abstractmethod
    def size(self, simulation: Built) -> dict[str, Any]:
        """Steps, bytes of memory and bytes on disk: for `--dry-run`."""

    @abstractmethod
    def size_text(self, sizes: dict[str, Any]) -> str:
        """What `size` gives, as lines of text."""

    @abstractmethod
    def shorter(self, simulation: Built) -> str:
        """What a user can do where a run takes too long."""

    @abstractmethod
    def run(
        self,
        each: Mapping[str, Built],
        progress: Progress | None = None,
        parts: "list[Any] | None" = None,
    ) -> "xr.Dataset":
        """Run the simulations, or make one of their `parts`, and label the results; no dataset is written.

        Raises `NumericalError`, which names the variant, and `InputError` where there is too little memory.
        """

    @abstractmethod
    def check_parts(self) -> None:
        """Raise `InputError` unless there are parts of what is simulated."""

    @abstractmethod
    def run_part(self, each: Mapping[str, Built], part: Any, progress: Progress | None = None) -> list[Any]:
        """What a part of all paths gives of each simulation, in plain data. Raises what `run` raises."""

    @abstractmethod
    def differentiate(
        self, simulation: Built, section: Any, progress: Progress | None = None
    ) -> "xr.Dataset":
        """The derivatives that the section `sensitivity` asks for; nothing is written."""

    @abstractmethod
    def table(self) -> ModuleType:
        """The module with `print_table` and `summary` of a run's dataset; it imports what a run does not."""

    def check_target(self, each: Mapping[str, Built], target: Target) -> None:
        """Raise `InputError` where the file for the results cannot hold all of them."""

    def identity(self, simulation: Built) -> str | None:
        """A text that differs where the results would; `None` of what cannot be resumed."""
        return None

    def inputs(self, simulation: Built) -> dict[str, str]:
        """Digests of the files that the configuration of a simulation only names."""
        return {}

    def pilot(self, simulation: Built) -> Built:
        """The simulation without the files that a run writes beside its dataset."""
        return simulation

    def files(self, simulation: Built) -> list[Path]:
        """The files that a run writes beside its dataset, by the names that were given."""
        return []

    def check_files(self, each: Mapping[str, Built], target: Target, overwrite: bool) -> None:
        """Raise `OutputError` where files that a run writes beside its dataset may not be replaced."""

    def keeps_unresolved(self, each: Mapping[str, Built]) -> bool:
        """Whether figures that are no result, as steps are too long, are shown without a warning."""
        return True

    def one_by_one(
        self,
        each: Mapping[str, Built],
        run: Callable[[Built, Progress | None], Made],
        progress: Progress | None,
        finish: Callable[[Built, Made], Result] = lambda simulation, made: made,
    ) -> dict[str, Result]:
        """What `finish` makes of what `run` gives of each simulation; errors name the variant.

        One is finished in another thread while the next one runs, since that is work of one core. `progress`
        is that of all.
        """
        if "" in each:
            return {"": finish(each[""], run(each[""], progress))}
        total, done = sum(map(self.work, each.values())), 0
        results: dict[str, Result] = {}
        before: tuple[str, Future] | None = None

        def collect() -> None:
            if before is not None:
                name, future = before
                with _named(name):
                    results[name] = future.result()

        thread = ThreadPoolExecutor(1, thread_name_prefix="simkit")
        try:
            for name, simulation in each.items():
                try:
                    with _named(name):
                        made = run(simulation, progress and _beginning_at(done, total, progress))
                except SimkitError:
                    collect()  # what is wrong there comes first
                    raise
                collect()
                before = name, thread.submit(finish, simulation, made)
                done += self.work(simulation)
            collect()
        finally:
            thread.shutdown(wait=False, cancel_futures=True)
        return results


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """Within it errors name the variant."""
    try:
        yield
    except InputError as error:
        raise InputError([f"{called(name)}: {problem}" for problem in error.problems]) from error
    except NumericalError as error:
        raise NumericalError(f"{called(name)}: {error}") from error


def _beginning_at(before: int, total: int, progress: Progress) -> Progress:
    """Progress of one variant as that of all."""
    return lambda done, _: progress(before + done, total)
