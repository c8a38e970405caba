"""The plot of a comparison: values on a log axis, guarantees by marker and colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lipyomo.analyses.compare.run import Row, reference_interval
from lipyomo.base.errors import ProblemError
from lipyomo.base.pictures import (
    HEURISTIC,
    INK,
    LOWER,
    TRUTH,
    UPPER,
    entitle,
    mathematics,
    new_figure,
    plain_decades,
    plain_name,
    save_figure,
    tidy,
)

_STYLES: dict[str, tuple[str, str, str]] = {
    "exact": ("D", INK, "exact"),
    "upper": ("<", UPPER, "upper bound"),
    "lower": (">", LOWER, "lower bound"),
    "heuristic": ("o", HEURISTIC, "heuristic"),
}


def _draw_rows(axes: Any, rows: Sequence[Row]) -> None:
    """Plot one horizontal line for each method, ordered by value."""
    shown = [row for row in rows if row.value is not None and row.value > 0]
    shown.sort(key=lambda row: (-(row.value or 0.0), row.method))
    for place, row in enumerate(shown):
        marker, colour, _ = _STYLES[row.guarantee]
        value = row.value or 0.0
        text = f"{value:.4g}"
        if row.is_open:
            ends = [end for end in (row.lower, row.upper) if 0 < end < math.inf]
            axes.plot(ends, [place] * len(ends), color=colour, linewidth=2, marker="|", zorder=2)
            text = f"[{row.lower:.4g}, {row.upper:.4g}], open"
        else:
            axes.plot(value, place, marker=marker, color=colour, markersize=7, zorder=3)
            if row.error:
                text += f"  ({row.error:+.1%})"
        axes.annotate(
            text,
            (value, place),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color="#444444",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
        )
    axes.set_yticks(range(len(shown)), [row.method for row in shown])
    axes.set_xscale("log")
    values = [row.value for row in shown if row.value]
    if values:
        # room for the numbers on the right
        low, high = min(values), max(values)
        low = min([low, *(row.lower for row in shown if row.is_open and row.lower > 0)])
        axes.set_xlim(low / 1.15, high * max((high / low) ** 0.35, 1.6))
    plain_decades(axes.xaxis)
    axes.set_ylim(len(shown) - 0.3, -0.7)
    tidy(axes, ("top", "right", "left"), axis="x", which="both")
    axes.tick_params(axis="y", length=0)


def plot_rows(rows: Sequence[Row], path: Path) -> None:
    """Plot the values of all methods on a log axis, with a panel for each network.

    Markers of lower bounds point right and those of upper bounds left, towards the truth.  Exact
    methods are diamonds, or open intervals if they were stopped; heuristics are circles.  The
    shaded band, or the line, is the best interval of all methods.

    Parameters
    ----------
    rows : sequence of Row
    path : Path
        Its suffix determines the format (png, pdf, svg).

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    ProblemError
        If there is nothing to plot, or the format is unknown.
    OutputError
        If the file cannot or must not be written.
    """
    panels: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        panels.setdefault((row.network, row.norms), []).append(row)
    counts = [
        sum(1 for row in panel if row.value is not None and row.value > 0)
        for panel in panels.values()
    ]
    if not any(counts):
        raise ProblemError("there is nothing to draw: no method gave a positive value")
    heights = [max(count, 1) * 0.3 + 0.5 for count in counts]
    figure = new_figure(7.5, sum(heights) + 0.9)
    grid = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axes, ((network, norms), panel) in zip(grid, panels.items(), strict=True):
        _draw_rows(axes, panel)
        lower, upper = reference_interval(panel)
        if lower > 0 and math.isfinite(upper):
            axes.axvspan(lower, upper, color=TRUTH, alpha=0.15, linewidth=0)
            axes.axvline(lower, color=TRUTH, linewidth=1.0)
        entitle(axes, f"{plain_name(network)}, {mathematics(norms)}")
        axes.set_xlabel("Lipschitz constant", fontsize=9)
    used = [style for key, style in _STYLES.items() if any(row.guarantee == key for row in rows)]
    handles = [
        figure.axes[0].plot([], [], marker=marker, color=colour, linestyle="none")[0]
        for marker, colour, _ in used
    ]
    figure.legend(
        handles,
        [label for _, _, label in used],
        loc="outside lower center",
        ncols=len(used),
        frameon=False,
        fontsize=9,
    )
    save_figure(figure, path)
