"""A picture of the interval over time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from lipyomo.decimals import down, up
from lipyomo.problem import LipschitzProblem
from lipyomo.result import Result

LOWER, UPPER = "#1f6fb2", "#c0392b"


def history_of(result: Result) -> list[tuple[float, float, float]]:
    """Rows of seconds, lower and upper end, the last one final."""
    return [*result.history, (result.seconds, result.lower, result.upper)]


def draw_interval(axes: Any, result: Result) -> None:
    """Draw both ends over seconds, and shade what lies between them.

    An end that nobody claimed (a lower end of 0, an infinite upper end) is not drawn.
    """
    rows = history_of(result)
    for column, name, colour in ((1, "lower", LOWER), (2, "upper", UPPER)):
        points = [(row[0], row[column]) for row in rows if 0 < row[column] < math.inf]
        if not points:
            continue
        times, values = zip(*points, strict=True)
        axes.step(times, values, where="post", color=colour, linewidth=1.6, label=name)
        axes.plot(times[-1], values[-1], marker="o", markersize=4, color=colour)
    shaded = [row for row in rows if row[1] > 0 and row[2] < math.inf]
    if len(shaded) > 1:
        times, lows, highs = zip(*shaded, strict=True)
        axes.fill_between(times, lows, highs, step="post", color="#7f8c8d", alpha=0.18, linewidth=0)


def _label_ends(axes: Any, result: Result) -> None:
    """Write the final values at the right."""
    last = history_of(result)[-1][0]
    if result.is_exact:
        ends = [(result.upper, f"{result.lower:.7g} (exact)", 0, "#1b1b1b")]
    else:
        ends = [(result.lower, down(result.lower, 5), -1, LOWER)] if result.lower > 0 else []
        if math.isfinite(result.upper):
            ends.append((result.upper, up(result.upper, 5), 1, UPPER))
    for value, text, side, colour in ends:
        axes.annotate(
            text,
            (last, value),
            xytext=(6, 5 * side),
            textcoords="offset points",
            va={-1: "top", 0: "center", 1: "bottom"}[side],
            color=colour,
            fontsize=9,
            annotation_clip=False,
        )


def plot_history(result: Result, problem: LipschitzProblem, path: Path) -> None:
    """Draw lower and upper ends over seconds into `path`; the suffix names the format.

    Raises
    ------
    ProblemError
        If the format is unknown or the file cannot be written.
    """
    from lipyomo.compare.plot import new_figure, save_figure, tidy

    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    draw_interval(axes, result)
    _label_ends(axes, result)
    tidy(axes)
    axes.set_xlabel("seconds")
    axes.set_ylabel(f"Lipschitz constant, {problem.describe_norms()}")
    axes.set_title(f"{problem.network.name}: {result.method}", loc="left", fontsize=10)
    if axes.lines:
        axes.legend(frameon=False)
    tops = [value for row in history_of(result) for value in row[1:] if 0 < value < math.inf]
    axes.set_ylim(0.0, 1.08 * max(tops, default=1.0))
    axes.set_xlim(0.0, 1.22 * max(history_of(result)[-1][0], 1e-3))
    save_figure(figure, path)
