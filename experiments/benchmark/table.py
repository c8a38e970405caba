"""The table and the picture of the benchmark: what estimators say as a share of the truth."""

from __future__ import annotations

import math
import statistics
from pathlib import Path

from experiments.benchmark.instances import read_estimates, read_instances, read_truth
from experiments.benchmark.tools import ESTIMATORS, guarantee_of
from lipyomo.base.pictures import (
    HEURISTIC,
    INK,
    LOWER,
    UPPER,
    entitle,
    new_figure,
    plain_decades,
    save_figure,
    tidy,
)

COLOURS = {"upper": UPPER, "lower": LOWER, "heuristic": HEURISTIC}


def shares() -> dict[str, dict[str, list[float]]]:
    """Values over exact constants, by tool and family."""
    truth, estimates = read_truth(), read_estimates()
    found: dict[str, dict[str, list[float]]] = {tool: {} for tool in ESTIMATORS}
    for one in read_instances():
        known = truth.get(one.name)
        if known is None or not known.is_exact or known.lower <= 0:
            continue
        for tool, (value, _) in estimates.get(one.name, {}).items():
            if value is not None and math.isfinite(value) and tool in found:
                found[tool].setdefault(one.family, []).append(value / known.upper)
    return found


def table_of() -> str:
    """Medians by family as Markdown; empty where a method takes none of a family."""
    found = shares()
    families = list(dict.fromkeys(one.family for one in read_instances()))
    lines = [f"| method | {' | '.join(families)} | least, largest |"]
    lines.append("|---" * (len(families) + 2) + "|")
    for tool in ESTIMATORS:
        every = [value for values in found[tool].values() for value in values]
        if not every:
            continue
        cells = [
            f"{statistics.median(found[tool][f]):.3g}" if f in found[tool] else "" for f in families
        ]
        ends = f"{min(every):.3g}, {max(every):.3g}"
        lines.append(f"| {tool} ({guarantee_of(tool)}) | {' | '.join(cells)} | {ends} |")
    return "\n".join(lines)


def draw(path: Path) -> None:
    """A point for each family and estimator: the median share of the truth."""
    found = shares()
    names = [tool for tool in ESTIMATORS if found[tool]]
    families = list(dict.fromkeys(one.family for one in read_instances()))
    figure = new_figure(7.2, 0.9 + 0.34 * len(names))
    axes = figure.subplots()
    for place, family in enumerate(families):
        shift = 0.5 * (place / max(len(families) - 1, 1) - 0.5)
        mine = [(names.index(tool), found[tool][family]) for tool in names if family in found[tool]]
        marker = "osD^vPX<>*"[place % 10]
        axes.scatter(
            [statistics.median(values) for _, values in mine],
            [row + shift for row, _ in mine],
            s=16,
            marker=marker,
            color=[COLOURS[guarantee_of(names[row])] for row, _ in mine],
            linewidths=0,
        )
        axes.scatter([], [], s=18, marker=marker, color=INK, label=family)
    axes.axvline(1.0, color=INK, linewidth=1.0)
    axes.set_yticks(range(len(names)), names)
    axes.set_xscale("log")
    plain_decades(axes.xaxis)
    axes.set_xlabel("estimate / exact constant, median of a family")
    axes.invert_yaxis()
    axes.legend(loc="upper right", frameon=False, fontsize=8)
    tidy(axes)
    entitle(axes, "Estimators of local Lipschitz constants against the truth")
    save_figure(figure, path)
