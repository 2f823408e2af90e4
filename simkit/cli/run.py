"""`simkit run`: from a file to a table, a dataset and a picture."""

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from simkit.cli.failures import end_on_unresolved, leave_at_once, print_json, reported, warn
from simkit.cli.options import (
    AsJson,
    ChosenVariants,
    ClusterAddress,
    DeviceCount,
    DryRun,
    ExperimentFile,
    Memory,
    NoPlot,
    Out,
    Overrides,
    Overwrite,
    Quiet,
    Threads,
    with_options,
)
from simkit.cli.outputs import Outputs
from simkit.cli.prepare import prepare
from simkit.cli.resuming import MaxTime, Resume, Resuming
from simkit.cli.typer_app import app
from simkit.errors import InputError, OutputError
from simkit.progress import counted, duration, progress_bar, short_count
from simkit.suggestions import called

if TYPE_CHECKING:
    import xarray as xr

    from simkit.engines.loaded import Loaded


MUCH = 10**9  # bytes of memory, of which a run says that it takes them
LOST = "nothing but the table is kept: to keep the results give --out FILE.zarr, or output: in the file"


@app.command()
def run(
    experiment: ExperimentFile,
    overrides: Overrides = None,
    variant: ChosenVariants = None,
    out: Out = None,
    no_plot: NoPlot = False,
    overwrite: Overwrite = False,
    resume: Resume = False,
    max_time: MaxTime = None,
    threads: Threads = None,
    devices: DeviceCount = None,
    memory: Memory = None,
    cluster: ClusterAddress = None,
    part: Annotated[
        str | None,
        typer.Option(
            metavar="K/N",
            help="Run one of N parts of the paths, and write it beside the dataset, for `simkit merge`.",
            show_default=False,
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    dry_run: DryRun = False,
) -> None:
    """Run an experiment: print a table with error bars, write the dataset and a picture next to it."""
    with reported(as_json):
        prepare(quiet)
        from simkit.engines.loaded import load_each

        loaded = load_each(
            experiment,
            with_options(overrides, cluster, threads=threads, memory=memory, devices=devices),
            variant,
        )
        how = Execution(out, no_plot, overwrite, resume, max_time, quiet, as_json, dry_run)
        if part is None:
            how.run(loaded, "run", loaded.engine.table)
        else:
            how.run_part(loaded, part)


@dataclasses.dataclass(frozen=True)
class Execution:
    """How a command runs an experiment: the options that say where results go and how much is said."""

    out: Path | None
    no_plot: bool
    overwrite: bool
    resume: bool
    max_time: float | None
    quiet: bool
    as_json: bool
    dry_run: bool

    def run(
        self,
        loaded: "Loaded",
        task: str,
        table: Callable[[], ModuleType],
        labelled: Callable[["xr.Dataset"], "xr.Dataset"] = lambda dataset: dataset,
        parts: list[Any] | None = None,
    ) -> None:
        """Run, and show and write what `labelled` makes of the dataset, or estimate what that takes.

        `table` imports the module with `print_table` and `summary`; runs of another `task` cannot be resumed.
        Paths are those of `parts`, if given.
        """
        from simkit.results.storage import check_place

        target = self.out or loaded.output
        warn(() if self.quiet else loaded.remarks)
        loaded.check_target(target)
        if self.dry_run:
            if target:
                check_place(target)
            _print_estimate(loaded.sized(), task, target, self.as_json)
            return
        resuming = Resuming(target, self.resume, self.overwrite, self.max_time, self.quiet)
        if resuming.is_complete(
            loaded.files(target), lambda: loaded.contents(task), table, self.as_json, _unresolved(loaded)
        ):
            return
        replace = resuming.may_replace()
        outputs = Outputs.checked(target, self.no_plot, replace, self.quiet, self.as_json)
        loaded.check_files(target, replace)
        outputs.import_meanwhile()
        with outputs.claimed(loaded.files(target)), resuming.recorded(loaded.identity(task)):
            loaded = loaded.sized()
            if not self.quiet:
                _say_memory(loaded)
            lost, shown = "" if target else LOST, not (self.quiet or self.as_json)
            with progress_bar(shown, loaded.engine.counted, lost, loaded.shorter) as progress:
                dataset = loaded.run(progress, parts)
            result = labelled(dataset)
            outputs.show(result, table())
            if not self.quiet:
                _warn_of_failures(dataset)
            outputs.deliver(result, table(), compile_s=float(dataset.attrs["compile_s"]))
        end_on_unresolved(_unresolved(loaded)(dataset), not shown)

    def run_part(self, loaded: "Loaded", text: str) -> None:
        """Run a part of the paths, and write what it gives beside the dataset."""
        from simkit.cluster.parts import PART, EnsemblePart, check_part, write_part
        from simkit.records.record_file import exists, record_of
        from simkit.results.claims import claimed
        from simkit.results.storage import check_place

        part = EnsemblePart.of(text)
        target, identity = self.out or loaded.output, loaded.identity("run") or {}
        loaded.engine.check_parts()
        if target is None:
            raise InputError(
                "--part: is written beside a dataset: give --out FILE.zarr, or output: in the file"
            )
        if self.dry_run:
            raise InputError("--dry-run: is for the whole run; leave --part out")

        def say(line: str) -> None:
            warn(() if self.quiet else [line])

        warn(() if self.quiet else loaded.remarks_here)
        loaded.check_target(target)
        check_place(target)
        file = part.file_of(target)
        resuming = Resuming(file, self.resume, self.overwrite, self.max_time, self.quiet)
        if self.resume and not self.overwrite and file.exists() and not exists(record_of(file)):
            check_part(file, identity, part)
            say(f"{file}: is complete already")  # as when an array is submitted again
            if self.as_json:
                print_json({"output": str(file)})
            return
        if not resuming.may_replace() and file.exists():
            raise OutputError(f"{file}: exists already; to replace it use --overwrite")
        with claimed([file], say), resuming.recorded({**identity, PART: str(part)}):
            with progress_bar(not (self.quiet or self.as_json), loaded.engine.counted) as progress:
                states = loaded.run_part(part, progress)
            write_part(file, identity, part, states)
        if self.as_json:
            print_json({"output": str(file)})
        elif not self.quiet:
            print(f"wrote {file}; `simkit merge` joins all {part.count} parts", file=sys.stderr)


def _unresolved(loaded: "Loaded") -> Callable[["xr.Dataset"], list[str]]:
    """What gives of a dataset the figures that are no result, unless the experiment accepts them."""

    def of(dataset: "xr.Dataset") -> list[str]:
        from simkit.results.step_notes import all_unresolved
        from simkit.results.swept import unfolded

        return [] if loaded.keeps_unresolved else all_unresolved(unfolded(dataset))

    return of


def _say_memory(loaded: "Loaded") -> None:
    """Say how much memory a run takes that takes much."""
    needed = max(loaded.engine.size(one)["memory_bytes"] for one in loaded.each.values())
    if needed >= MUCH:
        print(f"note: takes about {short_count(needed)}B of memory in addition to jax", file=sys.stderr)


def _print_estimate(loaded: "Loaded", task: str, target: Path | None, as_json: bool) -> None:
    from simkit.engines.pilot import Pilot

    each = {name: loaded.engine.size(simulation) for name, simulation in loaded.each.items()}
    if not as_json:
        texts = {name: loaded.engine.size_text(sizes) for name, sizes in each.items()}
        if task == "sweep" and len({*texts.values()}) == 1:
            texts = {"": f"{counted(len(texts), 'point')}, each: {next(iter(texts.values()))}"}
        for name, text in texts.items():
            print(f"{called(name)}: {text}" if name else text, flush=True)
    offers = {name: loaded.engine.offers(simulation) for name, simulation in loaded.each.items()}.get("", {})
    if not as_json:
        _print_offers(offers)
    pilot = Pilot(loaded)
    if as_json:
        more = {"seconds": pilot.seconds, "output": target and str(target)}
        ways = {name: {"paths": paths, "seconds": seconds} for name, (paths, seconds) in offers.items()}
        more |= {"variance_reduction": ways} if ways else {}
        print_json(each.get("", {"variants": each}) | more)
    elif pilot.seconds is None:
        print(f"how long it takes is not known: {pilot.why}")
    else:
        print(f"{duration(pilot.seconds)} on this machine" + ("" if target else f"; {LOST}"))
    if pilot.busy:
        leave_at_once(0)


def _print_offers(offers: dict[str, tuple[int, float]]) -> None:
    """Say what the target takes by each way, and which takes least time."""
    if len(offers) < 2:
        return
    cheapest = min(offers, key=lambda name: offers[name][1])
    print("the target takes, by ensemble.variance_reduction, driver or method:")
    for name, (paths, seconds) in offers.items():
        mark = ", the cheapest" if name == cheapest else ""
        print(f"  {name}: {counted(paths, 'path')}, about {seconds:.2g} s{mark}", flush=True)


def _warn_of_failures(dataset: "xr.Dataset") -> None:
    from simkit.results.variants import each_variant

    for name, one in each_variant(dataset).items():
        failed, paths = int(one.attrs.get("failed_paths", 0)), int(one.attrs["paths"])
        if failed:
            variant = f" of variant {name}" if name else ""
            print(
                f"warning: {failed:,} of {paths:,} paths{variant} failed and are left out; the figures are "
                "those of the others, and biased if failing goes with what is averaged",
                file=sys.stderr,
            )
