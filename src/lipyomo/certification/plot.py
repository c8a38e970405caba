"""Pictures of reports: certified accuracy over the radius, and ranges of slopes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lipyomo.certification.monotone import MonotoneReport
from lipyomo.certification.report import RobustnessReport
from lipyomo.compare.plot import new_figure, save_figure, tidy


def plot_curves(reports: Mapping[str, RobustnessReport], path: Path) -> None:
    """Draw certified accuracy against the radius, with what attacks leave above it.

    Parameters
    ----------
    reports : mapping of str to RobustnessReport
        One curve a name; between what is certified and what no attack reached the curve is shaded.
    path : Path
        The suffix names the format.

    Raises
    ------
    LipyomoError
        If matplotlib is missing, the format is unknown, or the file cannot be written.
    """
    figure = new_figure(6, 4)
    axes = figure.subplots()
    ends = [
        max(row.certified_radius, min(row.adversarial_radius, 2 * report.radius))
        for report in reports.values()
        for row in report.rows
    ]
    radii = np.linspace(0.0, 1.05 * max(ends, default=1.0), 400)
    for number, (name, report) in enumerate(reports.items()):
        colour = f"C{number}"
        inner = 100 * report.certified_accuracy(radii)
        outer = 100 * report.attacked_accuracy(radii)
        axes.plot(radii, inner, color=colour, label=f"{name}, certified")
        axes.fill_between(radii, inner, np.maximum(inner, outer), color=colour, alpha=0.2, lw=0)
        axes.axvline(report.radius, color="0.5", lw=0.8, ls=":")
    axes.set_xlabel("radius")
    axes.set_ylabel("accuracy (%)")
    axes.set_xlim(0.0, float(radii[-1]))
    axes.set_ylim(0.0, 102.0)
    axes.legend()
    tidy(axes)
    save_figure(figure, path)


def plot_slopes(report: MonotoneReport, path: Path) -> None:
    """Draw the range of the least slope, one panel an input, rows in the order of the slopes.

    Parameters
    ----------
    report : MonotoneReport
    path : Path
        The suffix names the format.

    Raises
    ------
    LipyomoError
        If matplotlib is missing, the format is unknown, or the file cannot be written.
    """
    groups: dict[str, list[tuple[float, float]]] = {}
    for row in report.rows:
        known = [end for end in (row.slope_lower, row.slope_upper) if end is not None]
        if known:
            title = f"input {row.input}, {row.wanted}"
            groups.setdefault(title, []).append((known[0], known[-1]))
    figure = new_figure(1.0 + 2.6 * max(len(groups), 1), 3.2)
    panels = figure.subplots(1, max(len(groups), 1), squeeze=False)[0]
    for axes, (title, ranges) in zip(panels, groups.items(), strict=False):
        low, high = np.array(sorted(ranges)).T
        places = np.arange(len(low))
        axes.vlines(places, low, high, color="C0", lw=1.5)
        axes.plot(places, low, ".", color="C0", markersize=4)
        axes.axhline(0.0, color="0.4", lw=0.8)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("rows, by slope")
        tidy(axes)
    panels[0].set_ylabel("least slope")
    save_figure(figure, path)
