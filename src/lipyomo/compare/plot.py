"""A picture of a comparison: values on a log axis, guarantees by marker and colour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lipyomo.compare.rows import Row, reference_interval
from lipyomo.errors import MissingExtra, ProblemError
from lipyomo.outputs import picture, shown, written

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


def plain_decades(axis: Any) -> None:
    """Ticks at 1, 2 and 5 times powers of ten, as plain numbers, on a logarithmic axis."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = axis.get_view_interval()
    steps = (1.0, 2.0, 5.0) if high / low < 300 else (1.0,)
    axis.set_major_locator(LogLocator(base=10.0, subs=steps))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))


def tidy(axes: Any, bare: Sequence[str] = ("top", "right"), **grid: Any) -> None:
    """A light grid behind the lines, no frame on the `bare` sides."""
    axes.grid(color="#e3e3e3", linewidth=0.6, **grid)
    axes.set_axisbelow(True)
    for side in bare:
        axes.spines[side].set_visible(False)


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure; the suffix names the format.

    Raises
    ------
    ProblemError
        If the format is unknown.
    OutputError
        If the file cannot or must not be written.
    """
    with written(path, picture(path)) as stream:
        try:
            figure.savefig(stream, dpi=150, format=Path(path).suffix[1:])
        except ValueError as error:
            raise ProblemError(f"cannot draw the figure {shown(path)}: {error}") from None


def _draw_rows(axes: Any, rows: Sequence[Row]) -> None:
    """One horizontal line a method, ordered by value."""
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
    """Draw the values of all methods on a log axis, one panel a network.

    Lower bounds point right, upper bounds left, at the truth; exact methods are diamonds, or their
    open interval where they were stopped; heuristics are circles.  The shaded band, or the
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
        If there is nothing to draw, or the format is unknown.
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
