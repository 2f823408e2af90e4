"""Derivatives of the means of a simulation, each with its standard error.

`sensitivity("gbm.yaml")` is what `simkit sensitivity gbm.yaml` does and returns the labelled results.
"""

import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from simkit.config.diagnostics import placed
from simkit.config.documents import Document
from simkit.config.option import Option
from simkit.config.overrides import Overrides, opened
from simkit.config.settings import ParticleSensitivity
from simkit.config.settings.places import is_particles
from simkit.derivatives.study import find_sensitivities
from simkit.ensemble.simulation import Simulation, experiment_of
from simkit.errors import InputError, NumericalError, UnresolvedWarning
from simkit.experiments.variants import keeps_unresolved, load_variants
from simkit.md.experiment import load_particle_variants
from simkit.results.provenance import provenance

if TYPE_CHECKING:
    import xarray as xr

    from simkit.md.simulation import ParticleSimulation

    Studied = Simulation | ParticleSimulation


def sensitivity(
    source: str | os.PathLike | Mapping[str, Any],
    wrt: str | Iterable[str] | None = None,
    *,
    overrides: Overrides = (),
    variants: Iterable[str] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> "xr.Dataset":
    r"""The derivatives $\partial_\theta E[f]$ of an experiment, each with its standard error.

    `source` and `overrides` are as those of `simkit.run`; `wrt` is a name or names to differentiate with
    respect to, in place of the experiment's `sensitivity.wrt`. An experiment with variants gives one dataset
    of all, or of those named in `variants`, with a dimension `variant`. In molecular dynamics derivatives are
    those of averages at constant temperature, from fluctuations. Raises `InputError` that lists every
    error, or says why the requested estimator would be wrong, and `NumericalError` when a path or
    its derivative becomes NaN or infinite. Warns with `UnresolvedWarning` of means and derivatives that steps
    are too long for, unless the experiment says `ensemble: {unresolved: keep}`. Nothing is written.
    """
    given: list[Any] = []
    if isinstance(overrides, Mapping):
        given += [(str(key), value) for key, value in overrides.items()]
    else:
        given += [overrides] if isinstance(overrides, str) else overrides
    if wrt is not None:
        names = [wrt] if isinstance(wrt, str) else wrt
        given.append(Option(f"sensitivity.wrt=[{', '.join(map(str, names))}]", "wrt"))
    loaded = load_studied(opened(source, given), None if variants is None else list(variants))
    dataset = run_studies(loaded, progress)
    from simkit.derivatives.table import all_unresolved  # after the run, as xarray

    notes = [] if keeps_all(loaded) else all_unresolved(dataset)
    if notes:
        warnings.warn("\n".join(notes), UnresolvedWarning, stacklevel=2)
    return dataset


def load_studied(document: Document, chosen: Collection[str] | None) -> "Studied | Mapping[str, Studied]":
    """The simulation in a document, of paths or of particles, or those of its variants."""
    if is_particles(document.data):
        return load_particle_variants(document, (), chosen)
    return load_variants(document, (), chosen)


def keeps_all(loaded: "Studied | Mapping[str, Studied]") -> bool:
    """Whether figures that are no result are shown without a warning; of particles there are none."""
    each = loaded.values() if isinstance(loaded, Mapping) else [loaded]
    return all(not isinstance(one, Simulation) or keeps_unresolved(one) for one in each)


def run_studies(
    loaded: "Studied | Mapping[str, Studied]", progress: Callable[[int, int], None] | None = None
) -> "xr.Dataset":
    """Find the sensitivities of an experiment, or of its variants, and label them; nothing is written.

    Raises `InputError` where variants ask for other derivatives, and a `NumericalError` names the variant.
    """
    if not isinstance(loaded, Mapping):
        return _run_study(loaded, progress)
    sections = {name: sensitivity_section(simulation) for name, simulation in loaded.items()}
    first = next(iter(sections))
    for name, section in sections.items():
        for key in ("wrt", "of", "second", "check"):
            own, others = getattr(section, key, None), getattr(sections[first], key, None)
            if own != others:
                raise InputError(
                    f"variant {name}: has sensitivity.{key}: {own}, and {first} has {others}; give both the "
                    "same, or make files of them"
                )
    total, done = sum(map(_work, loaded.values())), 0
    result = {}
    for name, simulation in loaded.items():

        def progressed(paths, _, before=done):
            if progress is not None:
                progress(before + paths, total)

        try:
            result[name] = _run_study(simulation, progressed)
        except InputError as error:
            raise InputError([f"variant {name}: {problem}" for problem in error.problems]) from error
        except NumericalError as error:
            raise NumericalError(f"variant {name}: {error}") from error
        done += _work(simulation)
    from simkit.results.variant_dataset import side_by_side

    return side_by_side(result)


def _work(simulation: "Studied") -> int:
    """What progress counts: paths, or steps of particles."""
    return simulation.paths if isinstance(simulation, Simulation) else simulation.all_steps


def sensitivity_section(simulation: "Studied") -> Any:
    """The section of the experiment. Raises `InputError` where there is none."""
    of_paths = isinstance(simulation, Simulation)
    section = (experiment_of(simulation) if of_paths else simulation.experiment).sensitivity
    if section is None:
        example = "sigma" if of_paths else "epsilon"
        raise InputError(
            "sensitivity: is missing; say what to differentiate with respect to, as in "
            f"sensitivity: {{wrt: [{example}]}}, or --wrt {example}"
        )
    return section


def _run_study(simulation: "Studied", progress: Callable[[int, int], None] | None = None) -> "xr.Dataset":
    section = sensitivity_section(simulation)
    if not isinstance(simulation, Simulation):
        return _run_averages(simulation, section, progress)
    experiment = experiment_of(simulation)
    with placed(experiment.document):
        study = find_sensitivities(simulation, section, progress)
    from simkit.derivatives.result import to_dataset  # imports xarray, which a command does meanwhile

    return to_dataset(simulation, study, provenance(experiment.resolved()))


def _run_averages(
    simulation: "ParticleSimulation",
    section: ParticleSensitivity,
    progress: Callable[[int, int], None] | None,
) -> "xr.Dataset":
    from simkit.derivatives.particles.study import find_derivatives

    with placed(simulation.experiment.document):
        study = find_derivatives(simulation, section, progress)
    from simkit.derivatives.particles.result import to_average_dataset

    return to_average_dataset(study, provenance(simulation.experiment.resolved()))
