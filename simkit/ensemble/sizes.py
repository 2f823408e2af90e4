"""How much work a run would be, and how much memory and disk it would take."""

from collections.abc import Mapping
from typing import Any

from simkit_solvers.problems.schedule import schedule_of

from simkit.ensemble.chunks import COPIES, JAX, Chunks
from simkit.ensemble.simulation import Simulation
from simkit.errors import InputError
from simkit.machine.memory import available_memory
from simkit.observe.time_functions import given_events
from simkit.progress import counted, short_count

# Of each saved value: mean, variance, their errors, least, greatest, and perhaps an exact mean.
STATISTICS, PER_QUANTILE = 7, 3
LIGHTER = (
    "store fewer paths (save.paths), save fewer times (save.points), or work on fewer paths at a time "
    "(ensemble.chunk)"
)
HISTOGRAM = 301  # of each quantity: counts, centres and edges of a hundred bins


def estimate(simulation: Simulation) -> dict[str, Any]:
    """Counts and bytes. Memory is what the saved rows of the chunks at work, or the dates of the paths that
    find a policy of early exercise, and the stored paths take, without jax itself.
    """
    return _estimate(simulation) | {"memory_available_bytes": available_memory()}


def _estimate(simulation: Simulation) -> dict[str, Any]:
    from simkit.ensemble.chunk_program import marked_events, quantity_rows
    from simkit.ensemble.early_exercise.exercise_sample import option_groups
    from simkit.ensemble.run import chunk_plan
    from simkit.ensemble.work import most_in_memory, workers_of

    workers = workers_of(simulation)
    plan = chunk_plan(simulation)
    rows = quantity_rows(simulation)
    values = sum(rows.values())
    width = 8 if simulation.precision == "float64" else 4
    of_path = values * width + marked_events(simulation) * simulation.grid.rows
    statistics = 8 * (
        values * (STATISTICS + PER_QUANTILE * len(simulation.quantiles)) + len(rows) * HISTOGRAM
    )
    stored = min(simulation.stored_paths, simulation.paths) * of_path
    fitted = 0
    for group in option_groups(simulation):
        dates = sum(option.dates * (2 + len(option.basis)) for option in group.exercises.values())
        intervals = sum(len(rows) for _, rows in group.rows)
        fitted += 8 * (group.shared.paths * dates + group.martingale_paths * intervals)
    in_flight = min(plan.count, most_in_memory(len(workers))) * plan.paths * of_path
    events = given_events(schedule_of(simulation.problem), simulation.time_unit)
    copies = COPIES if workers[0].platform == "cpu" else 1
    return {
        "paths": simulation.paths,
        **simulation.stepping.size(simulation.paths),
        "saved_times": simulation.grid.rows,
        **({"events": events} if events else {}),
        "devices": len({*workers}),
        "threads": len(workers),
        "chunks": plan.count,
        "paths_per_chunk": plan.paths,
        "memory_bytes": max(copies * in_flight, fitted) + stored,
        "stored_bytes": stored,
        "output_bytes": statistics + stored,
    }


def check_memory(simulations: Mapping[str, Simulation], in_file: bool = False) -> None:
    """Raise `InputError` where the results, of variants all, are more than the memory there is.

    That is what is available, and what the experiment says that it may take. Stored paths that are `in_file`
    take none.
    """
    sizes = [_estimate(simulation) for simulation in simulations.values()]
    stored = sum(each["stored_bytes"] for each in sizes)
    needed = (0 if in_file else stored) + max(each["memory_bytes"] - each["stored_bytes"] for each in sizes)
    available = available_memory()
    if available is not None and needed > available:
        raise InputError(
            f"save: takes about {short_count(needed)}B of memory, and {short_count(available)}B are "
            f"available; {LIGHTER}"
        )
    _refuse(next(iter(simulations.values())).memory, needed)


def check_chunks(simulation: Simulation, plan: Chunks, values: int, besides: int = 0) -> None:
    """Raise `InputError` where the chunks at work are more than the experiment says that it may take.

    Their paths keep so many values each, and what else there is takes so many bytes `besides`.
    """
    from simkit.ensemble.work import most_in_memory, workers_of

    workers = workers_of(simulation)
    if workers[0].platform == "cpu":
        at_work = min(plan.count, most_in_memory(len(workers)))
        _refuse(simulation.memory, COPIES * 8 * values * plan.paths * at_work + besides)


def _refuse(allowed: int | None, needed: int) -> None:
    if allowed is not None and JAX + needed > allowed:
        raise InputError(
            f"ensemble.memory: {short_count(allowed)}B are too little: jax takes {short_count(JAX)}B, and "
            f"this run {short_count(needed)}B besides; allow more, use fewer threads, or {LIGHTER}"
        )


def estimate_text(sizes: dict[str, Any]) -> str:
    """The estimate as lines for a person."""
    counts = {key: f"{value:,}" for key, value in sizes.items() if isinstance(value, int)}
    steps = f"{counted(sizes['paths'], 'path')} x "
    if "levels" in sizes:
        each = [f"{x['paths']:,} x {counted(x['steps'], sizes['unit'])}" for x in sizes["levels"]]
        steps = f"levels: {', '.join(each)}; {short_count(sizes['path_steps'])} path-{sizes['unit']}s in all"
        if jumping := sizes["many_ends"]:
            steps += f", with many ends of the last step for {', '.join(jumping)}"
    elif sizes["steps"] is None and "rtol" not in sizes:
        steps += f"at most {counts['max_steps']} events or leaps"
    elif sizes["steps"] is None:
        steps += (
            f"at most {counts['max_steps']} adaptive steps, rtol {sizes['rtol']:g}, atol {sizes['atol']:g}"
        )
    else:
        work = "path-step" if sizes["path_steps"] == 1 else "path-steps"
        steps += f"{counted(sizes['steps'], 'step')}, {short_count(sizes['path_steps'])} {work}"
    memory, output = (short_count(sizes[key]) for key in ("memory_bytes", "output_bytes"))
    available = sizes["memory_available_bytes"]
    warning = ""
    if available is not None and sizes["memory_bytes"] > available:
        warning = (
            f"\nwarning: a run would be refused: that is more than the {short_count(available)}B of memory "
            f"that are available: {LIGHTER}"
        )
    events = f"events: {sizes['events']}\n" if "events" in sizes else ""
    return (
        f"{steps}\n"
        f"saved times: {counts['saved_times']}\n{events}"
        f"chunks: {counts['chunks']} of {counts['paths_per_chunk']} paths, devices: {counts['devices']}, "
        f"threads: {counts['threads']}\n"
        f"about {memory}B of memory in addition to jax, {output}B of output before compression{warning}"
    )
