"""`simkit uncertainty`: which of the uncertain parameters matter, and what they do to the output."""

from pathlib import Path

from simkit.cli.failures import print_json, reported
from simkit.cli.options import AsJson, ExperimentFile, NoPlot, Out, Overrides, Overwrite, Quiet
from simkit.cli.picture import check_picture
from simkit.cli.run import draw, write
from simkit.progress import progress_bar
from simkit.xla_flags import prefer_wide_vectors


def uncertainty(
    experiment: ExperimentFile,
    overrides: Overrides = None,
    out: Out = None,
    no_plot: NoPlot = False,
    overwrite: Overwrite = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Study an experiment whose parameters are distributions: which of them matter, and how much."""
    with reported(as_json):
        prefer_wide_vectors()
        from simkit.uncertainty.experiments import build_uncertain, study_experiment
        from simkit.uncertainty.plan import load_uncertain

        loaded = load_uncertain(experiment, overrides or [])
        simulation = build_uncertain(loaded)
        named = loaded.experiment.output
        target = out or (Path(named) if named else None)
        if target:
            from simkit.storage import check_output

            check_output(target, overwrite)
        picture = target.with_suffix(".png") if target and not no_plot else None
        if picture:
            check_picture(picture, overwrite)
        with progress_bar(enabled=not (quiet or as_json)) as progress:
            dataset = study_experiment(loaded, simulation, progress)
        if not (quiet or as_json):
            from simkit.uncertainty.table import print_table

            print_table(dataset)
        if target:
            write(dataset, target, overwrite, quiet)
        if picture:
            picture = draw(dataset, picture, quiet)
        if as_json:
            from simkit.uncertainty.table import summary

            written = {"output": target and str(target), "picture": picture and str(picture)}
            print_json(summary(dataset) | written)
