"""The box with its particles at the end of a run, projected along its shortest side."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from simkit.md.plots.time_rows import labelled, noted
from simkit.results.plots.plot_layout import COLOURS, GREY

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes

MOST = 40_000  # particles that are drawn: the nearest
PALE = 0.8  # how much of its colour the farthest particle has lost
VECTOR = 4000  # particles: more are drawn as pixels in a picture of lines, too
CORNERS = np.array([(a, b, c) for a in (0, 1) for b in (0, 1) for c in (0, 1)])
EDGES = [(i, j) for i in range(8) for j in range(i) if abs(CORNERS[i] - CORNERS[j]).sum() == 1]


class _View(NamedTuple):
    """Axes of the picture, from left to right and upwards; the viewer looks along the third from its end."""

    across: int
    up: int
    depth: int

    @classmethod
    def of(cls, extents: np.ndarray) -> "_View":
        """Along the shortest side, of equal ones the last; the longer of the others lies flat."""
        depth = 2 - int(np.argmin(extents[::-1]))
        across, up = sorted((axis for axis in range(3) if axis != depth), key=lambda a: -extents[a])
        return cls(across, up, depth)


def draw_box(axes: "Axes", dataset: "xr.Dataset") -> None:
    """Particles as large as they are, in the colour of their species or, if all are of one, of their speed.

    What is farther away is paler, and behind what is nearer.
    """
    from matplotlib.collections import EllipseCollection

    dataset = dataset.isel(path=0)
    position = dataset["end_position"].values
    corners = CORNERS @ dataset["box_vectors"].values if "box_vectors" in dataset else None
    view = _View.of(np.ptp(position if corners is None else corners, axis=0))
    if corners is not None:
        _outline(axes, corners, view)
    depth = position[:, view.depth]
    order = np.argsort(depth, kind="stable")[-MOST:]
    nearness = (depth[order] - depth.min()) / (np.ptp(depth) or 1.0)
    colours = _colours(axes, dataset)[order]
    colours = 1 - (1 - colours) * (1 - PALE * (1 - nearness[:, None]))
    diameter = _diameters(dataset)[order]
    spheres = EllipseCollection(
        diameter,
        diameter,
        np.zeros(len(order)),
        units="xy",
        offsets=position[order][:, [view.across, view.up]],
        offset_transform=axes.transData,
        facecolors=colours,
        edgecolors=0.55 * colours,
        linewidths=0.4 if len(order) <= VECTOR else 0.2,
        rasterized=len(order) > VECTOR,
    )
    axes.add_collection(spheres)
    everything = position if corners is None else np.concatenate([position, corners])
    for axis, limits in ((view.across, axes.set_xlim), (view.up, axes.set_ylim)):
        low, high = (
            everything[:, axis].min() - diameter.max() / 2,
            everything[:, axis].max() + diameter.max() / 2,
        )
        limits(low, high)
    _finish(axes, dataset, view, len(order), len(position))


def _finish(axes: "Axes", dataset: "xr.Dataset", view: _View, shown: int, count: int) -> None:
    axes.set_aspect("equal", adjustable="box")
    axes.grid(visible=False)
    unit, names = str(dataset["end_position"].attrs["units"]), "xyz"
    axes.set_xlabel(labelled(names[view.across], unit))
    axes.set_ylabel(labelled(names[view.up], unit))
    when = f"at the {'end' if int(dataset.attrs['steps']) else 'start'}, along {names[view.depth]}"
    first = ", first replica" if int(dataset.attrs["paths"]) > 1 else ""
    noted(axes, f"particles {when}{first}" + (f", the nearest {shown:,}" if shown < count else ""))


def _outline(axes: "Axes", corners: np.ndarray, view: _View) -> None:
    """The edges of the box: behind the particles, and those of its front face before them."""
    height = corners[:, view.depth]
    front = height > height.min() + 0.5 * np.ptp(height)
    for i, j in EDGES:
        before = front[i] and front[j]
        axes.plot(
            corners[[i, j], view.across],
            corners[[i, j], view.up],
            color="black" if before else GREY,
            linewidth=1.2 if before else 0.8,
            zorder=3 if before else 0.5,
        )


def _colours(axes: "Axes", dataset: "xr.Dataset") -> np.ndarray:
    """The colour of each particle, with a legend of species or a scale of speeds."""
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize, to_rgb

    names, kinds = dataset.attrs["species"].split(), dataset["particle_species"].values
    palette = np.array([to_rgb(colour) for colour in COLOURS])
    if len(names) > 1:
        for i, name in enumerate(names):
            axes.plot([], [], "o", color=COLOURS[i % len(COLOURS)], label=name)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1.06), ncols=len(names), frameon=False, fontsize=9)
        return palette[kinds % len(palette)]
    if "end_velocity" not in dataset:
        return np.tile(palette[0], (len(kinds), 1))
    speed = np.linalg.norm(dataset["end_velocity"].values, axis=1)
    scale = Normalize(0, float(np.percentile(speed, 99)) or 1.0)
    mapped = ScalarMappable(scale, colormaps["plasma"])
    bar = axes.figure.colorbar(mapped, ax=axes, shrink=0.7, aspect=25, extend="max")
    bar.set_label(labelled("speed", str(dataset["end_velocity"].attrs["units"])))
    return mapped.to_rgba(speed)[:, :3]


def _diameters(dataset: "xr.Dataset") -> np.ndarray:
    """The diameter of each particle: σ of its species, or where there is none the distance of neighbours."""
    kinds = dataset["particle_species"].values
    if "diameter" in dataset:
        return dataset["diameter"].values[kinds]
    from scipy.spatial import KDTree

    near = KDTree(dataset["end_position"].values).query(dataset["end_position"].values, k=2)[0][:, 1]
    return np.full(len(kinds), float(np.median(near)))
