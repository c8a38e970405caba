"""The style of all pictures: colours, axes, labels, formulas in titles, files.

matplotlib (extra ``[plot]``) is imported when a figure is created.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lipyomo.base.errors import ProblemError
from lipyomo.base.system.extras import require
from lipyomo.base.system.outputs import picture, shown, written

INK, QUIET = "#1b1b1b", "#7f8c8d"
LOWER, UPPER, HEURISTIC, TRUTH = "#1f6fb2", "#c0392b", "#d68910", "#2e8b57"
"""Colours of lower bounds, upper bounds, heuristic estimates, and best known values."""

_LINE = 11.0
"""Vertical distance of two labels, in points."""

_FILES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "pdf": ({"pdf.fonttype": 42}, {"CreationDate": None}),
    "svg": ({"svg.hashsalt": "lipyomo"}, {"Date": None}),
}
"""Settings and metadata of vector files: text stays text, equal pictures give equal files."""


def new_figure(width: float, height: float) -> Any:
    """Return an empty matplotlib figure, without pyplot's global state.

    Parameters
    ----------
    width, height : float
        Inches.

    Raises
    ------
    MissingExtra
        If matplotlib is not installed.
    """
    kind = require("matplotlib.figure", "drawing").Figure
    return kind(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, path: Path) -> None:
    """Write a figure; the suffix names the format.

    Raises
    ------
    ProblemError
        If the format is unknown.
    OutputError
        If the file cannot or must not be written.
    """
    import matplotlib

    form = Path(path).suffix[1:]
    settings, metadata = _FILES.get(form, ({}, {}))
    with written(path, picture(path)) as stream, matplotlib.rc_context(settings):
        try:
            figure.savefig(stream, dpi=150, format=form, metadata=metadata)
        except ValueError as error:
            raise ProblemError(f"cannot draw the figure {shown(path)}: {error}") from None


def tidy(axes: Any, bare: Sequence[str] = ("top", "right"), **grid: Any) -> None:
    """Draw a light grid behind the lines, and hide the frame on the `bare` sides."""
    axes.grid(color="#e3e3e3", linewidth=0.6, **grid)
    axes.set_axisbelow(True)
    for side in bare:
        axes.spines[side].set_visible(False)


def entitle(axes: Any, title: str) -> None:
    """Set the title of a panel, aligned to the left."""
    axes.set_title(title, loc="left", fontsize=10)


def plain_decades(axis: Any) -> None:
    """Put ticks at 1, 2 and 5 times powers of ten on a logarithmic axis, as plain numbers."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    low, high = axis.get_view_interval()
    steps = (1.0, 2.0, 5.0) if high / low < 300 else (1.0,)
    axis.set_major_locator(LogLocator(base=10.0, subs=steps))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, place: f"{value:g}"))


class Label(NamedTuple):
    """A text at the right end of a line."""

    value: float
    text: str
    colour: str


def label_ends(axes: Any, right: float, labels: Sequence[Label]) -> None:
    """Write labels at the right ends of lines, without overlaps.

    Parameters
    ----------
    axes : Axes
        With final limits and scale.
    right : float
        Right end of the lines.
    labels : sequence of Label
    """
    wanted = sorted(labels, key=lambda label: label.value)
    scale = 72.0 / axes.figure.dpi
    ends = [scale * float(axes.transData.transform((right, label.value))[1]) for label in wanted]
    for label, end, place in zip(wanted, ends, _apart(ends), strict=True):
        axes.annotate(
            label.text,
            (right, label.value),
            xytext=(6, place - end),
            textcoords="offset points",
            va="center",
            fontsize=9,
            color=label.colour,
            annotation_clip=False,
        )


def _apart(places: Sequence[float]) -> list[float]:
    """Move ascending positions as little as needed to separate neighbours by a line.

    Positions that overlap form a block around their mean; overlapping blocks are merged.
    """
    blocks: list[list[float]] = []  # middle, number
    for place in places:
        blocks.append([place, 1])
        while len(blocks) > 1:
            (low, few), (high, many) = blocks[-2:]
            if high - low >= _LINE * (few + many) / 2:
                break
            blocks[-2:] = [[(low * few + high * many) / (few + many), few + many]]
    return [
        middle + _LINE * (place - (count - 1) / 2)
        for middle, count in blocks
        for place in range(int(count))
    ]


_NORMS = {
    "linf": r"\ell_\infty",
    "l1": r"\ell_1",
    "l2": r"\ell_2",
    "|.|": r"|\cdot|",
    "functional": r"|c \cdot f|",
}


def mathematics(norms: str) -> str:
    """Convert two norms such as ``linf -> cross(3)`` to a formula for matplotlib.

    Text behind the norms, such as ``, wrt 0, 3``, is kept.
    """
    pair, comma, rest = norms.partition(", ")
    words = pair.split(" -> ")
    if len(words) != 2:
        return norms
    return r"$" + r" \to ".join(map(_formula, words)) + r"$" + comma + rest


def in_words(domain: str) -> str:
    """Convert the powers of a domain such as ``box [0, 1]^4`` to formulas for matplotlib."""
    powers = re.sub(r"(\[[^\]]*\])\^(\d+)", r"$\1^{\2}$", domain)
    return re.sub(r"R\^(\d+)", r"$\\mathbb{R}^{\1}$", powers)


def plain_name(text: str) -> str:
    """Escape a name for matplotlib, which reads formulas between two dollars."""
    return text.replace("$", r"\$")


def _formula(norm: str) -> str:
    if norm in _NORMS:
        return _NORMS[norm]
    cross = re.fullmatch(r"cross(?:\((\d+)\))?", norm)
    if cross:
        return rf"\times_{{{cross[1]}}}" if cross[1] else r"\times"
    return rf"\mathrm{{{re.sub(r'[^0-9A-Za-z]+', ' ', norm).strip()}}}"


def window(first: float, last: float) -> tuple[float, float]:
    """Return limits of a time axis from `first` to `last`, with room for labels at the right."""
    span = max(last - first, 0.05 * last, 1e-3)
    return max(first - 0.03 * span, 0.0), last + 0.25 * span


def drawable(values: Sequence[float]) -> list[float]:
    """Return the values that can be drawn on a logarithmic axis: positive and finite."""
    return [value for value in values if 0 < value < math.inf]
