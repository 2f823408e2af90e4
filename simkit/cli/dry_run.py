"""`simkit run --dry-run`: how much work a run would be, and how much memory and disk it would take."""

from simkit.doctor import available_memory
from simkit.progress import short_count
from simkit.simulation import Simulation

STATISTICS = 6  # of each saved value: mean, its error, variance, least, greatest; and perhaps an exact mean
HISTOGRAM = 301  # of each quantity: counts, centres and edges of a hundred bins


def estimate(simulation: Simulation) -> dict[str, int]:
    """Counts and bytes. Memory is what a chunk's saved rows and the stored paths take, without jax itself."""
    from simkit.ensemble import IN_FLIGHT, SAMPLES, chunk_plan, quantity_rows
    from simkit.paths import path_mesh

    devices = int(path_mesh(simulation.devices).devices.size)
    plan = chunk_plan(simulation, devices)
    rows = quantity_rows(simulation)
    values = sum(rows.values())
    width = 8 if simulation.precision == "float64" else 4
    statistics = 8 * (values * (STATISTICS + 2 * len(simulation.quantiles)) + len(rows) * HISTOGRAM)
    stored = min(max(simulation.stored_paths, SAMPLES), simulation.paths) * values * width
    in_flight = min(plan.count, IN_FLIGHT) * plan.paths * values * width
    return {
        "paths": simulation.paths,
        "steps": simulation.grid.steps,
        "path_steps": simulation.paths * simulation.grid.steps,
        "saved_times": simulation.grid.rows,
        "devices": devices,
        "chunks": plan.count,
        "paths_per_chunk": plan.paths,
        "memory_bytes": in_flight + stored,
        "output_bytes": statistics + stored,
    }


def estimate_text(sizes: dict[str, int]) -> str:
    """The estimate as lines for a person."""
    counts = {key: f"{value:,}" for key, value in sizes.items()}
    memory, output = (short_count(sizes[key]) for key in ("memory_bytes", "output_bytes"))
    available = available_memory()
    warning = ""
    if available is not None and sizes["memory_bytes"] > available:
        warning = (
            f"\nwarning: that is more than the {short_count(available)}B of memory that are available: store "
            "fewer paths (save.paths) or save fewer times (save.points)"
        )
    return (
        f"{counts['paths']} paths x {counts['steps']} steps, {short_count(sizes['path_steps'])} path-steps\n"
        f"saved times: {counts['saved_times']}\n"
        f"chunks: {counts['chunks']} of {counts['paths_per_chunk']} paths, devices: {counts['devices']}\n"
        f"about {memory}B of memory beside jax itself, {output}B of output before compression{warning}"
    )
