"""A picture of certified accuracy over the radius."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from lipyomo.certification.report import RobustnessReport
from lipyomo.errors import LipyomoError, MissingExtra

DPI = 150


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
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingExtra("matplotlib", "plot", "A picture") from None
    figure = Figure(figsize=(6, 4), layout="constrained")
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
    try:
        figure.savefig(path, dpi=DPI)
    except (OSError, ValueError) as error:
        raise LipyomoError(f"--plot: cannot write '{path}': {error}") from None
