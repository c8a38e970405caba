"""Pictures of maps: the constant and the gap side by side, as heat maps."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lipyomo.analyses.maps.cells import Cells
from lipyomo.analyses.maps.page import write_page
from lipyomo.analyses.maps.result import CellMap
from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.errors import ProblemError
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE
from lipyomo.base.pictures import INK, entitle, mathematics, new_figure, plain_name, save_figure
from lipyomo.networks.naming import called
from lipyomo.problems.result import Status

SAMPLES = 400
"""Sample points along each axis for drawing kinks."""

COLOURS = "viridis"
"""Colour map with monotone lightness, readable in grey."""

GREYS = "Greys"
"""Colour map of gaps: white for none."""


class Plane(NamedTuple):
    """The two inputs in which cells differ.

    Attributes
    ----------
    axes : ndarray of int, shape (2,)
    fixed : ndarray, shape (d,) or None
        The values of the other inputs, if these are fixed.
    """

    axes: IntArray
    fixed: FloatArray | None


def plane_of(cells: Cells) -> Plane:
    """Return the plane in which a map can be drawn.

    Raises
    ------
    ProblemError
        If cells do not differ in exactly two inputs.
    """
    lower, upper = cells.lower, cells.upper
    if cells.grid is not None:
        axes = np.array(cells.grid.axes)
    else:
        same = (lower == lower[:1]).all(axis=0) & (upper == upper[:1]).all(axis=0)
        axes = np.flatnonzero(~same)
    if axes.size != 2:
        raise ProblemError(
            f"a picture has two axes, and these cells differ in {axes.size} inputs.  Remedy: "
            "divide two inputs, and fix the others or let them range"
        )
    others = np.setdiff1d(np.arange(cells.dimension), axes)
    still = (lower[:, others] == upper[:, others]).all()
    return Plane(axes, lower[0].copy() if still else None)


def plot_map(found: CellMap, path: str | PathLike[str]) -> None:
    """Draw a map of two divided axes; ``.html`` makes a page with the values of each cell.

    Raises
    ------
    LipyomoError
        If it cannot be drawn, or the file cannot be written.
    """
    plane, where = plane_of(found.cells), Path(path)
    if where.suffix == ".html":
        write_page(found, plane.axes, where)
        return
    figure = new_figure(10.4, 4.4)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True)
    draw_panel(left, found, plane, found.constant_upper, mathematics(found.what))
    draw_kinks(left, found, plane)
    draw_witness(left, found, plane)
    name = "gap between the ends (%)"
    gaps = 100.0 * found.gaps
    largest = float(gaps.max())  # for exact cells it may be due to rounding alone
    limits = 0.0, largest if largest > 100.0 * EXACT_TOLERANCE else 1.0
    draw_panel(right, found, plane, gaps, name, limits, GREYS)
    entitle(left, plain_name(f"{found.problem.network.name}: upper ends"))
    if (found.status == Status.EXACT.value).all():
        right.text(0.5, 0.5, "every cell is exact", transform=right.transAxes, ha="center")
    entitle(right, f"gap: at most {largest:.2g} %")
    save_figure(figure, where)


def draw_panel(
    axes: Any,
    found: CellMap,
    plane: Plane,
    values: FloatArray,
    name: str,
    limits: tuple[float, float] | None = None,
    colours: str = COLOURS,
) -> None:
    """Draw a heat map of one value per cell, with its colour bar.

    Parameters
    ----------
    axes : Axes
    found : CellMap
    plane : Plane
    values : ndarray, shape (n,)
        Cells with infinite values stay white.
    name : str
        Label of the colour bar.
    limits : (float, float), optional
        Range of the colours; by default from zero to the largest value.
    colours : str, optional
        Name of a colour map.
    """
    shown = np.where(np.isfinite(values), values, np.nan)
    top = float(np.nanmax(shown, initial=0.0))
    low, high = limits or (0.0, top or 1.0)
    first, second = plane.axes
    cells = found.cells
    if cells.grid is not None:
        image = shown.reshape(cells.grid.shape).T
        drawn = axes.pcolormesh(
            *cells.grid.edges, image, cmap=colours, vmin=low, vmax=high, rasterized=True
        )
    else:
        from matplotlib.collections import PolyCollection

        x = cells.lower[:, first], cells.upper[:, first]
        y = cells.lower[:, second], cells.upper[:, second]
        corners = np.stack(
            [np.stack([x[i], y[j]], axis=1) for i, j in ((0, 0), (1, 0), (1, 1), (0, 1))], axis=1
        )
        drawn = PolyCollection(list(corners), array=shown, cmap=colours, linewidths=0.0)
        drawn.set_clim(low, high)
        axes.add_collection(drawn)
        axes.autoscale_view()
    axes.figure.colorbar(drawn, ax=axes, label=name)
    names = found.problem.network.input_names
    axes.set_xlabel(plain_name(called(int(first), names)))
    axes.set_ylabel(plain_name(called(int(second), names)))


def draw_kinks(axes: Any, found: CellMap, plane: Plane) -> None:
    """Draw the kinks of units, from samples; nothing if other inputs vary."""
    network, cells = found.problem.network, found.cells
    if plane.fixed is None:
        return
    lower, upper = cells.lower.min(axis=0)[plane.axes], cells.upper.max(axis=0)[plane.axes]
    x, y = (np.linspace(a, b, SAMPLES) for a, b in zip(lower, upper, strict=True))
    points = np.repeat(plane.fixed[None], SAMPLES * SAMPLES, axis=0)
    points[:, plane.axes] = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    for layer, z in zip(network.hidden, network.preactivations(points), strict=True):
        for unit in np.flatnonzero(layer.kinked):
            level = z[:, unit].reshape(SAMPLES, SAMPLES)
            if level.min() < 0 < level.max():
                axes.contour(x, y, level, levels=[0.0], colors="white", linewidths=0.4, alpha=0.7)


def draw_witness(axes: Any, found: CellMap, plane: Plane) -> None:
    """Mark the point that attains the largest lower end."""
    x, y = found.place[plane.axes]
    low, _ = found.largest
    star = {"marker": "*", "markersize": 11, "color": "white", "markeredgecolor": INK}
    axes.plot(x, y, linestyle="", clip_on=False, zorder=5, **star)
    right, above = axes.transAxes.inverted().transform(axes.transData.transform((x, y))) > 0.5
    axes.annotate(  # towards the middle, where there is room
        f"{low:.5g}",
        (x, y),
        xytext=(-7 if right else 7, -7 if above else 7),
        textcoords="offset points",
        horizontalalignment="right" if right else "left",
        verticalalignment="top" if above else "bottom",
        fontsize=9,
        color=INK,
        bbox={"boxstyle": "round,pad=0.15", "facecolor": "white", "alpha": 0.8, "linewidth": 0},
    )
