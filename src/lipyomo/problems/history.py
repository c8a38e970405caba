"""Plot of the lower and upper bound over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from lipyomo.base.decimals import down, up
from lipyomo.base.pictures import (
    INK,
    LOWER,
    QUIET,
    UPPER,
    Label,
    drawable,
    entitle,
    in_words,
    label_ends,
    mathematics,
    new_figure,
    plain_name,
    save_figure,
    tidy,
    window,
)
from lipyomo.problems.problem import LipschitzProblem


class DrawnResult(Protocol):
    """The part of a `lipyomo.Result` that is drawn."""

    @property
    def lower(self) -> float:
        """The attained lower bound."""

    @property
    def upper(self) -> float:
        """The proved upper bound."""

    @property
    def method(self) -> str:
        """The method of the result."""

    @property
    def seconds(self) -> float:
        """Seconds since the start of the run."""

    @property
    def history(self) -> Sequence[tuple[float, float, float]]:
        """Rows of seconds, lower and upper bound."""

    @property
    def is_exact(self) -> bool:
        """Whether both bounds agree."""


def history_of(result: DrawnResult) -> list[tuple[float, float, float]]:
    """Return rows of seconds, lower and upper bound, including the final one."""
    return [*result.history, (result.seconds, result.lower, result.upper)]


def draw_interval(axes: Any, result: DrawnResult) -> None:
    """Draw both bounds over seconds, and shade the area between them.

    Trivial bounds (a lower bound of 0, an infinite upper bound) are not drawn.
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
        axes.fill_between(times, lows, highs, step="post", color=QUIET, alpha=0.18, linewidth=0)


def _top(rows: Sequence[tuple[float, float, float]]) -> float:
    """Return the upper limit of the axis of values.

    Upper bounds before the first lower bound, which can be many times larger, may exceed it.
    """
    both = [row for row in rows if len(drawable(row[1:])) == 2]
    return 1.08 * max(drawable([end for row in both or rows for end in row[1:]]), default=1.0)


def _ends(result: DrawnResult) -> list[Label]:
    """Return labels of the final bounds, rounded outwards."""
    if result.is_exact:
        return [Label(result.upper, f"{result.lower:.7g} (exact)", INK)]
    ends = [Label(result.lower, down(result.lower, 5), LOWER)] if result.lower > 0 else []
    if math.isfinite(result.upper):
        ends.append(Label(result.upper, up(result.upper, 5), UPPER))
    return ends


def figure_of(result: DrawnResult, title: str = "", norms: str = "") -> Any:
    """Return a matplotlib figure of lower and upper bounds over seconds.

    The time axis starts at the first known bound.

    Parameters
    ----------
    result : DrawnResult
    title : str, optional
        The name of the method is appended.
    norms : str, optional
        As returned by `LipschitzProblem.describe_norms`.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    """
    figure = new_figure(6.4, 4.0)
    axes = figure.subplots()
    draw_interval(axes, result)
    tidy(axes)
    axes.set_xlabel("seconds")
    axes.set_ylabel(f"Lipschitz constant, {mathematics(norms)}" if norms else "Lipschitz constant")
    entitle(axes, f"{title}: {result.method}" if title else result.method)
    if axes.lines:
        axes.legend(frameon=False)
    rows = history_of(result)
    axes.set_ylim(0.0, _top(rows))
    last = rows[-1][0]
    axes.set_xlim(*window(min((row[0] for row in rows if drawable(row[1:])), default=last), last))
    figure.draw_without_rendering()  # labels need the final positions of the axes
    label_ends(axes, last, _ends(result))
    return figure


def plot_history(result: DrawnResult, problem: LipschitzProblem, path: Path) -> None:
    """Draw lower and upper bounds over seconds into `path`; the suffix names the format.

    Raises
    ------
    ProblemError
        If the format is unknown or the file cannot be written.
    """
    sizes = "-".join(map(str, problem.network.sizes))
    title = f"{plain_name(problem.network.name)} ({sizes}), {in_words(problem.domain.describe())}"
    save_figure(figure_of(result, title, problem.describe_norms()), path)
