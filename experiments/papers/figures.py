"""The figures: series over epochs or sizes, and histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments import colours
from experiments.papers.records import Record
from lipyomo.base.pictures import INK, LOWER, TRUTH, UPPER, entitle, new_figure, save_figure, tidy

_LINES = {
    "NaiveUB": (colours.NAIVE, "upper"),
    "SeqLip": (colours.SEQLIP, "heuristic"),
    "FastLip": (colours.FASTLIP, "upper"),
    "LipLP": (colours.LP, "upper"),
    "LipSDP": (colours.LIPSDP, "upper"),
    "LipSDP, own norm, local": (colours.LOCAL_LIPSDP, "upper"),
    "Exact": (colours.EXACT, ""),
    "CLEVER": (colours.CLEVER, "heuristic"),
    "RandomLB": (colours.RANDOM, "lower"),
}
"""Colour and guarantee, about from the largest to the smallest."""

_DASHES = {"": "-", "upper": "-", "lower": ":", "heuristic": "--"}
_SCHEMES = {
    "ce": ("no penalty", INK),
    "l1": (r"$\ell_1$ penalty", LOWER),
    "l2": (r"$\ell_2$ penalty", UPPER),
    "fgsm": ("FGSM", TRUTH),
}


def _series(records: Sequence[Record], group: str, label: str) -> tuple[list[float], list[float]]:
    points = sorted(
        (record.x, record.value)
        for record in records
        if (record.group, record.label) == (group, label) and math.isfinite(record.value)
    )
    return [x for x, _ in points], [value for _, value in points]


def _tidy(axes: Any, title: str, x: str, y: str) -> None:
    entitle(axes, title)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    tidy(axes)


def _constant(norm: str) -> str:
    """Axis label: networks have no units, so neither has their constant."""
    inputs, dual = {"linf": (r"\infty", "1"), "l1": ("1", r"\infty")}[norm]
    return rf"$L^{{{inputs}}}$: largest $\ell_{{{dual}}}$ norm of the gradient"


def _estimators(axes: Any, records: Sequence[Record], group: str) -> None:
    """One line an estimator, the exact value in black."""
    for label, (colour, guarantee) in _LINES.items():
        x, y = _series(records, group, label)
        if x:
            axes.plot(
                x,
                y,
                color=colour,
                linestyle=_DASHES[guarantee],
                linewidth=1.3 if guarantee else 2.2,
                marker="." if len(x) < 15 else None,
                label=f"{label} ({guarantee})" if guarantee else label,
            )
    lower = [(r.x, r.lower) for r in records if (r.group, r.label) == (group, "Exact")]
    open_ = [r.x for r in records if (r.group, r.label) == (group, "Exact") and not r.exact]
    if open_:
        low = sorted(lower)
        upper = _series(records, group, "Exact")[1]
        axes.fill_between(
            [x for x, _ in low],
            [v for _, v in low],
            upper,
            color=INK,
            alpha=0.2,
            label="not closed in the time limit",
        )
    axes.set_yscale("log")


def _legend(figure: Any, axes: Any) -> None:
    """One legend for all panels, below them: the lines fill the panels."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False, fontsize=8)


def draw_training(records: Sequence[Record], path: Path, norm: str) -> None:
    """Figures 1 and 6: estimators on the plain training, and the exact value of all schemes."""
    figure = new_figure(10.0, 4.8)
    left, right = figure.subplots(1, 2)
    _estimators(left, records, "ce")
    _tidy(left, "estimators, cross-entropy alone", "epoch", _constant(norm))
    for group, (name, colour) in _SCHEMES.items():
        x, y = _series(records, group, "Exact")
        if x:
            right.plot(x, y, color=colour, marker=".", label=name)
    _legend(figure, left)
    right.legend(frameon=False, fontsize=8)
    _tidy(right, "exact constant, by training scheme", "epoch", _constant(norm))
    right.set_ylim(bottom=0.0)
    save_figure(figure, path)


def draw_architectures(records: Sequence[Record], path: Path) -> None:
    """Figure 5: estimators over width and over depth."""
    from matplotlib.ticker import MaxNLocator

    figure = new_figure(10.0, 4.8)
    for axes, group in zip(figure.subplots(1, 2), ("width", "depth"), strict=True):
        _estimators(axes, records, group)
        _tidy(axes, f"estimators over {group}", f"{group} C", _constant("linf"))
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _legend(figure, axes)
    save_figure(figure, path)


def draw_histograms(records: Sequence[Record], path: Path) -> None:
    """Figure 7: histograms of both constants, with the spread relative to the mean."""
    import numpy as np

    figure = new_figure(10.0, 3.6)
    for axes, group in zip(figure.subplots(1, 2), ("l1", "linf"), strict=True):
        values = [r.value for r in records if r.group == group and math.isfinite(r.value)]
        if values:
            bins = max(8, min(60, round(math.sqrt(len(values)) * 1.5)))
            axes.hist(values, bins=bins, color=LOWER, edgecolor="white", linewidth=0.4)
            spread = float(np.std(values) / np.mean(values))
            title = f"{len(values)} random networks, standard deviation {spread:.0%} of the mean"
            _tidy(axes, title, _constant(group), "networks")
    save_figure(figure, path)


def draw(name: str, records: Sequence[Record], path: Path) -> None:
    """Draw the figure called `name`."""
    if name == "figure5":
        draw_architectures(records, path)
    elif name == "figure7":
        draw_histograms(records, path)
    else:
        draw_training(records, path, "linf" if name == "figure1" else "l1")
