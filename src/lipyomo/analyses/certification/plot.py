"""Plots of reports: certified accuracy over the radius, and ranges of slopes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lipyomo.analyses.certification.monotone import MonotoneReport
from lipyomo.analyses.certification.report import RobustnessReport
from lipyomo.base.arrays import FloatArray
from lipyomo.base.decimals import LISTED
from lipyomo.base.pictures import LOWER, QUIET, entitle, new_figure, save_figure, tidy


def plot_curves(reports: Mapping[str, RobustnessReport], path: Path) -> None:
    """Plot certified accuracy over the radius, and above it the accuracy under attacks.

    Parameters
    ----------
    reports : mapping of str to RobustnessReport
        One curve for each name; the area between certified and attacked accuracy is shaded.
    path : Path
        Its suffix determines the format.

    Raises
    ------
    LipyomoError
        If matplotlib is missing, the format is unknown, or the file cannot be written.
    """
    figure = new_figure(6, 4)
    axes = figure.subplots()
    steps = {name: _steps(report) for name, report in reports.items()}
    end = 1.05 * max((radii[-1] for radii in steps.values()), default=1.0) or 1.0
    for number, (name, report) in enumerate(reports.items()):
        colour = LOWER if len(reports) == 1 else f"C{number}"
        radii = np.append(steps[name], end)
        beyond = np.nextafter(radii, np.inf)  # the values up to the next step
        inner = 100 * report.certified_accuracy(beyond)
        outer = np.maximum(inner, 100 * report.attacked_accuracy(radii))
        axes.step(radii, inner, where="post", color=colour, label=f"{name}: certified")
        axes.fill_between(
            radii,
            inner,
            outer,
            step="post",
            color=colour,
            alpha=0.2,
            linewidth=0,
            label="neither certified nor attacked",
        )
    for place, radius in enumerate(
        sorted({report.radius for report in reports.values() if report.radius is not None})
    ):
        label = "radius that was asked for" if place == 0 else None
        axes.axvline(radius, color=QUIET, linewidth=1.0, linestyle=":", label=label)
    axes.set_xlabel("radius")
    axes.set_ylabel("accuracy (%)")
    axes.set_xlim(0.0, end)
    axes.set_ylim(0.0, 102.0)
    axes.legend(frameon=False, fontsize=9)
    tidy(axes)
    save_figure(figure, path)


def _steps(report: RobustnessReport) -> FloatArray:
    """Return radii at which one of the accuracies changes, from 0 up to twice the radius."""
    most = 2 * max(report.radii, default=0.0)
    known = [0.0]
    for row in report.rows:
        known += [row.certified_radius, min(row.adversarial_radius, most)]
    return np.unique([radius for radius in known if np.isfinite(radius)])


def plot_slopes(report: MonotoneReport, path: Path) -> None:
    """Plot ranges of the least slope, with a panel for each input and rows sorted by slope.

    Up to `LISTED` rows are labelled by their indices in the data.

    Parameters
    ----------
    report : MonotoneReport
    path : Path
        Its suffix determines the format.

    Raises
    ------
    LipyomoError
        If matplotlib is missing, the format is unknown, or the file cannot be written.
    """
    groups: dict[str, list[tuple[float, float, int]]] = {}
    for row in report.rows:
        known = [end for end in (row.slope_lower, row.slope_upper) if end is not None]
        if known:
            title = f"{row.name or f'input {row.input}'}, {row.wanted}"
            groups.setdefault(title, []).append((known[0], known[-1], row.row))
    figure = new_figure(1.0 + 2.6 * max(len(groups), 1), 3.2)
    panels = figure.subplots(1, max(len(groups), 1), squeeze=False)[0]
    for axes, (title, ranges) in zip(panels, groups.items(), strict=False):
        low, high, rows = zip(*sorted(ranges), strict=True)
        places = range(len(rows))
        axes.vlines(places, low, high, color=LOWER, linewidth=1.5)
        axes.plot(places, low, ".", color=LOWER, markersize=4)
        axes.axhline(0.0, color=QUIET, linewidth=0.8)
        entitle(axes, title)
        if len(rows) <= LISTED:
            axes.set_xticks(places, [str(row) for row in rows], fontsize=8)
        else:
            axes.xaxis.get_major_locator().set_params(integer=True)
        axes.set_xlabel("row" if len(rows) <= LISTED else "number of rows with smaller slopes")
        tidy(axes)
    panels[0].set_ylabel("least slope")
    save_figure(figure, path)
