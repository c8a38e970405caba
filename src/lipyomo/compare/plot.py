"""A picture of a comparison: values on a log axis, guarantees by marker and colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lipyomo.compare.rows import Row, reference_interval
from lipyomo.errors import MissingExtra, ProblemError

_STYLES: dict[str, tuple[str, str, str]] = {
    "exact": ("D", "#1b1b1b", "exact"),
    "upper": ("<", "#c0392b", "upper bound"),
    "lower": (">", "#1f6fb2", "lower bound"),
    "heuristic": ("o", "#d68910", "heuristic"),
}


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib figure, without pyplot's global state.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot", "drawing") from None
    return Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure; the suffix names the format.

    Raises
    ------
    ProblemError
        If the format is unknown or the file cannot be written.
    """
    try:
        figure.savefig(path, dpi=160)
    except (OSError, ValueError) as error:
        raise ProblemError(f"cannot write the figure '{path}': {error}") from None


def _draw_rows(axes: Any, rows: Sequence[Row]) -> None:
    """One horizontal line a method, ordered by value."""
    shown = [row for row in rows if row.value is not None and row.value > 0]
    shown.sort(key=lambda row: (-(row.value or 0.0), row.method))
    for place, row in enumerate(shown):
        marker, colour, _ = _STYLES[row.guarantee]
        ends = [end for end in (row.lower, row.upper) if end > 0 and math.isfinite(end)]
        if row.guarantee == "exact" and len(ends) == 2 and ends[1] > ends[0] * 1.000_01:
            axes.plot(ends, [place, place], color=colour, linewidth=2, zorder=2)
        axes.plot(row.value, place, marker=marker, color=colour, markersize=7, zorder=3)
        text = f"{row.value:.4g}"
        if row.error:
            text += f"  ({row.error:+.1%})"
        axes.annotate(
            text,
            (row.value, place),
            xytext=(9, 0),
            textcoords="offset points",
            va="center",
            fontsize=8,
            color="#444444",
        )
    axes.set_yticks(range(len(shown)), [row.title for row in shown])
    axes.set_xscale("log")
    values = [row.value for row in shown if row.value]
    if values:
        # room for the numbers on the right
        low, high = min(values), max(values)
        axes.set_xlim(low / 1.15, high * max((high / low) ** 0.35, 1.6))
    axes.set_ylim(len(shown) - 0.3, -0.7)
    axes.grid(axis="x", which="both", color="#e3e3e3", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.tick_params(axis="y", length=0)


def plot_rows(rows: Sequence[Row], path: Path) -> None:
    """Draw the values of all methods on a log axis, one panel a network.

    Lower bounds point right, upper bounds left, at the truth; exact methods are diamonds (with the
    interval as a line where they ran out of time), heuristics circles.  The shaded band, or the
    line, is the best interval of all methods.

    Parameters
    ----------
    rows : sequence of Row
    path : Path
        The suffix names the format (png, pdf, svg).

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    ProblemError
        If there is nothing to draw or the file cannot be written.
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
            axes.axvspan(lower, upper, color="#2e8b57", alpha=0.15, linewidth=0)
            axes.axvline(lower, color="#2e8b57", linewidth=1.0)
        axes.set_title(f"{network}, {norms}", fontsize=10, loc="left")
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
