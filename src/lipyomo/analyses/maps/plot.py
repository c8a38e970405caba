"""Pictures of maps: the constant and the gap side by side as heat maps, or an HTML page.

The page is self-contained, and shows the values of the cell under the pointer.
"""

from __future__ import annotations

import json
import math
from html import escape
from os import PathLike
from pathlib import Path
from string import Template
from typing import Any, NamedTuple

import numpy as np

from lipyomo.analyses.maps.cells import Cells
from lipyomo.analyses.maps.result import CellMap
from lipyomo.base.arrays import FloatArray, IntArray
from lipyomo.base.decimals import down, up
from lipyomo.base.errors import ProblemError
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE
from lipyomo.base.pictures import INK, entitle, mathematics, new_figure, plain_name, save_figure
from lipyomo.base.system.outputs import starting, written
from lipyomo.networks.naming import called
from lipyomo.problems.result import Status

MOST = 250_000
"""Most cells of a page, which contains the values of each."""

START = "<!doctype html>\n<!-- a map of lipyomo -->\n"

PAGE = starting("a page with a map", START.encode())

TEMPLATE = Path(__file__).with_name("page.html")
"""The page, with names for what is filled in; its colours are those of matplotlib's viridis."""

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


def write_page(found: CellMap, axes: IntArray, path: Path) -> None:
    """Write the page of a map in the plane of two inputs.

    Ends are rounded outwards to the digits shown.

    Raises
    ------
    ProblemError
        If the map has too many cells.
    OutputError
        If the file cannot or must not be written.
    """
    if len(found) > MOST:
        raise ProblemError(
            f"a page holds at most {MOST} cells, not {len(found)}.  Remedy: a picture (.png, .pdf)"
        )
    low, high = found.lower[:, axes].T.tolist(), found.upper[:, axes].T.tolist()
    columns = (
        *(low[0], high[0], low[1], high[1]),
        map(down, found.constant_lower.tolist()),
        (up(end) if math.isfinite(end) else "inf" for end in found.constant_upper.tolist()),
        found.gaps.tolist(),
        (end if math.isfinite(end) else None for end in found.constant_upper.tolist()),
        found.status.tolist(),
        ([float(f"{x:.9g}") for x in point] for point in found.witness.tolist()),
    )
    data = {
        "left": min(low[0]),
        "right": max(high[0]),
        "bottom": min(low[1]),
        "top": max(high[1]),
        "names": [called(axis, found.problem.network.input_names) for axis in axes.tolist()],
        "place": found.place[axes].tolist(),
        "cells": list(zip(*columns, strict=True)),
    }
    constants = found.of == "constants"
    about = found.problem.describe_norms() if constants else found.what
    title = f"{found.problem.network.name}: {about}"
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    page = Template(TEMPLATE.read_text(encoding="utf-8")).substitute(
        title=escape(title),
        summary=escape(found.summary()).replace("\n", "<br>"),
        data=text,
        one="constant" if constants else "value",
        what="Lipschitz constant" if constants else "size of the value",
    )
    with written(path, PAGE) as stream:
        stream.write(page.encode())
