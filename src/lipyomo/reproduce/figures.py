"""The figures: series over epochs or sizes, and histograms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lipyomo.compare.plot import new_figure, save_figure
from lipyomo.reproduce.records import Record

_COLOURS = {
    "Exact": "#1b1b1b",
    "RandomLB": "#1f6fb2",
    "CLEVER": "#d68910",
    "LipLP": "#c0392b",
    "FastLip": "#8e44ad",
    "LipSDP": "#16a085",
    "SeqLip": "#7f8c8d",
    "NaiveUB": "#b7950b",
}
_SCHEMES = {
    "ce": ("no penalty", "#1b1b1b"),
    "l1": ("l1 weights", "#1f6fb2"),
    "l2": ("l2 weights", "#c0392b"),
    "fgsm": ("FGSM", "#16a085"),
}


def _series(records: Sequence[Record], group: str, label: str) -> tuple[list[float], list[float]]:
    points = sorted(
        (record.x, record.value)
        for record in records
        if (record.group, record.label) == (group, label) and math.isfinite(record.value)
    )
    return [x for x, _ in points], [value for _, value in points]


def _tidy(axes: Any, title: str, label: str) -> None:
    axes.set_title(title, fontsize=10, loc="left")
    axes.set_xlabel(label, fontsize=9)
    axes.grid(color="#e3e3e3", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)


def _estimators(axes: Any, records: Sequence[Record], group: str) -> None:
    """One line an estimator, the exact value in black."""
    for label, colour in _COLOURS.items():
        x, y = _series(records, group, label)
        if x:
            width = 2.2 if label == "Exact" else 1.2
            axes.plot(x, y, color=colour, linewidth=width, marker=".", label=label)
    axes.set_yscale("log")
    axes.legend(frameon=False, fontsize=8)


def draw_training(records: Sequence[Record], path: Path, norm: str) -> None:
    """Figures 1 and 6: estimators on the plain training, and the exact value of all schemes."""
    figure = new_figure(10.0, 4.2)
    left, right = figure.subplots(1, 2)
    _estimators(left, records, "ce")
    _tidy(left, f"estimates of L^{norm} during training", "epoch")
    for group, (name, colour) in _SCHEMES.items():
        x, y = _series(records, group, "Exact")
        if x:
            right.plot(x, y, color=colour, marker=".", label=name)
    right.legend(frameon=False, fontsize=8)
    _tidy(right, f"exact L^{norm} by training scheme", "epoch")
    right.set_ylim(bottom=0.0)
    save_figure(figure, path)


def draw_architectures(records: Sequence[Record], path: Path) -> None:
    """Figure 5: estimators over width and over depth."""
    figure = new_figure(10.0, 4.2)
    for axes, group in zip(figure.subplots(1, 2), ("width", "depth"), strict=True):
        _estimators(axes, records, group)
        _tidy(axes, f"estimates by {group}", f"{group} C")
    save_figure(figure, path)


def draw_histograms(records: Sequence[Record], path: Path) -> None:
    """Figure 7: histograms of both constants, with the spread relative to the mean."""
    import numpy as np

    figure = new_figure(10.0, 3.6)
    for axes, group in zip(figure.subplots(1, 2), ("l1", "linf"), strict=True):
        values = [r.value for r in records if r.group == group and math.isfinite(r.value)]
        if values:
            bins = max(8, min(60, round(math.sqrt(len(values)) * 1.5)))
            axes.hist(values, bins=bins, color="#1f6fb2", edgecolor="white", linewidth=0.4)
            spread = float(np.std(values) / np.mean(values))
            title = f"L^{group}: {len(values)} networks, spread {spread:.0%} of the mean"
            _tidy(axes, title, f"L^{group}")
    save_figure(figure, path)


def draw(name: str, records: Sequence[Record], path: Path) -> None:
    """Draw the figure called `name`."""
    if name == "figure5":
        draw_architectures(records, path)
    elif name == "figure7":
        draw_histograms(records, path)
    else:
        draw_training(records, path, "linf" if name == "figure1" else "l1")
