"""How far every estimator is from the truth, on the networks of ``models/``: one report.

    python -m experiments report --out report

writes ``report.pdf`` (the picture and the tables), ``report.md``, ``gaps.svg`` and
``report.csv`` (every run).  The truth is the exact constant by branch and bound; a problem that it
leaves open is named and left out.  Families: networks that were not trained, classifiers of the
plane, MNIST balls, small trained networks, smooth ones.
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

import lipyomo
from experiments.reference import ROOT
from lipyomo import Box, LipschitzProblem, ball
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
from lipyomo.methods.registry import methods

MODELS = ROOT / "models"
IMAGES = 3
RADIUS = 0.1
ESTIMATORS = (
    "naive", "seqlip", "fastlip", "lp", "interval", "crown", "eclipse", "lipsdp", "sdp", "hr1",
    "hr2", "local_search", "clever", "random_lb",
)  # fmt: skip
COLOURS = {"upper": UPPER, "lower": LOWER, "heuristic": HEURISTIC}
BELOW = 1e-6
"""Relative distance from the truth from which on a value counts as below it."""


@dataclass(frozen=True)
class Measured:
    """One estimator on one problem.

    Attributes
    ----------
    family, problem, method, guarantee : str
    truth : float
        The exact constant.
    value : float
        NaN if the method refused the problem.
    seconds : float
        CPU seconds.
    """

    family: str
    problem: str
    method: str
    guarantee: str
    truth: float
    value: float
    seconds: float

    @property
    def ratio(self) -> float:
        """The value over the truth."""
        return self.value / self.truth


def problems() -> Iterator[tuple[str, str, LipschitzProblem]]:
    """Families, names and problems; norm linf of the inputs."""
    for name in ("random10_s0", "random10_s1", "random10_s2", "random16_s0", "random16_s1"):
        yield "not trained", name, _cube(name)
    for path in sorted((MODELS / "plane").glob("*.onnx")):
        yield "classifiers of the plane", path.stem, _cube(f"plane/{path.stem}")
    images = np.load(MODELS / "mnist17_images.npz")["images"].reshape(-1, 784)
    for seed in range(3):
        network = lipyomo.load(MODELS / f"mnist17_s{seed}.onnx")
        for image in range(IMAGES):
            around = ball(images[image], RADIUS)
            problem = LipschitzProblem(network, around, functional=[1.0, -1.0])
            yield "MNIST balls", f"mnist17_s{seed}, image {image}", problem
    iris = lipyomo.load(MODELS / "iris.onnx")
    for label in range(3):
        problem = LipschitzProblem(iris, Box(0.0, 8.0, 4), margin=label)
        yield "small, trained", f"iris, margin of {label}", problem
    yield "small, trained", "synthetic10", _cube("synthetic10")
    for name, family in (
        ("exchanger", "small, trained"),
        ("exchanger_tanh", "smooth"),
        ("exchanger_silu", "smooth"),
    ):
        network = lipyomo.load(MODELS / f"{name}.onnx")
        for part, (low, high) in enumerate(((0.2, 1.8), (1.8, 3.4), (3.4, 5.0))):
            box = Box([low, 0.0], [high, 0.95])
            yield family, f"{name}, part {part}", LipschitzProblem(network, box)


def _cube(name: str) -> LipschitzProblem:
    network = lipyomo.load(MODELS / f"{name}.onnx")
    functional = [1.0, -1.0] if network.output_dim == 2 else None
    return LipschitzProblem(network, Box(0.0, 1.0, network.input_dim), functional=functional)


def measure(time_limit: float, only: Sequence[str]) -> tuple[list[Measured], list[str]]:
    """Every estimator on every problem whose truth is found in time; and the names of the others.

    Parameters
    ----------
    time_limit : float
        Seconds for each run.
    only : sequence of str
        Families; all if empty.
    """
    rows, open_ = [], []
    table = methods()
    for family, name, problem in problems():
        if only and family not in only:
            continue
        exact = lipyomo.solve(problem, "bnb", time_limit=time_limit)
        print(f"{family}: {name}: {exact.lower:.8g} {exact.status}", file=sys.stderr, flush=True)
        if not exact.is_exact:
            open_.append(f"{name} [{exact.lower:.4g}, {exact.upper:.4g}]")
            continue
        for method in ESTIMATORS:
            began, value = time.process_time(), math.nan
            if table[method].refusal(problem) is None:
                found = lipyomo.solve(problem, method, time_limit=time_limit, attain=False)
                value = found.value
            seconds = time.process_time() - began
            guarantee = str(table[method].guarantee)
            rows.append(Measured(family, name, method, guarantee, exact.lower, value, seconds))
    return rows, open_


def summary(rows: Sequence[Measured]) -> list[tuple[str, ...]]:
    """A head, and a row for each method.

    In each family the median of value over truth, and the one that is farthest from one; how
    often the value is below the truth; the median of the seconds.
    """
    families = list(dict.fromkeys(row.family for row in rows))
    table = [("method", "guarantee", *families, "below the truth", "CPU s")]
    for method in ESTIMATORS:
        mine = [row for row in rows if row.method == method and not math.isnan(row.value)]
        if not mine:
            continue
        cells = [_spread([row.ratio for row in mine if row.family == each]) for each in families]
        below = sum(row.ratio < 1 - BELOW for row in mine)
        seconds = f"{statistics.median(row.seconds for row in mine):.2g}"
        counts = f"{below} of {len(mine)}"
        table.append((method, mine[0].guarantee, *cells, counts, seconds))
    return table


def _spread(ratios: Sequence[float]) -> str:
    """Median and, in brackets, the ratio that is farthest from one; empty for none."""
    if not ratios:
        return ""
    worst = max(ratios, key=lambda ratio: abs(math.log(max(ratio, 1e-300))))
    return f"{statistics.median(ratios):.3g} ({worst:.3g})"


def draw(rows: Sequence[Measured]) -> Any:
    """A point for each run: its value over the truth, on a logarithmic axis, by estimator."""
    shown = [row for row in rows if row.value > 0]
    names = [name for name in ESTIMATORS if any(row.method == name for row in shown)]
    figure = new_figure(7.2, 0.9 + 0.36 * len(names))
    axes = figure.subplots()
    families = list(dict.fromkeys(row.family for row in shown))
    spread = np.linspace(-0.26, 0.26, len(families)) if len(families) > 1 else [0.0]
    marks = "osD^vP"
    for place, (family, shift) in enumerate(zip(families, spread, strict=True)):
        mine = [row for row in shown if row.family == family]
        axes.scatter(
            [row.ratio for row in mine],
            [names.index(row.method) + shift for row in mine],
            s=13,
            marker=marks[place % len(marks)],
            color=[COLOURS[row.guarantee] for row in mine],
            alpha=0.75,
            linewidths=0,
        )
        axes.scatter([], [], s=18, marker=marks[place % len(marks)], color=INK, label=family)
    axes.axvline(1.0, color=INK, linewidth=1.0)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xscale("log")
    plain_decades(axes.xaxis)
    axes.set_xlabel("value / exact constant (red: upper bounds, blue: lower, orange: estimates)")
    count = len({row.problem for row in rows})
    entitle(axes, rf"Estimators of {count} local Lipschitz constants, $\ell_\infty$ inputs")
    tidy(axes, ("top", "right", "left"), axis="x", which="both")
    figure.legend(loc="outside lower center", ncols=len(families), frameon=False, fontsize=8)
    return figure


def markdown(table: Sequence[tuple[str, ...]]) -> str:
    """The summary as a table of Markdown."""
    head, *rows = table
    lines = ["| " + " | ".join(head) + " |", "|---|---|" + "---:|" * (len(head) - 2)]
    lines += ["| " + " | ".join((f"`{row[0]}`", *row[1:])) + " |" for row in rows]
    return "\n".join(lines)


def write(rows: Sequence[Measured], open_: Sequence[str], out: Path) -> str:
    """Write all files into the folder `out`, and give the table of Markdown."""
    from matplotlib.backends.backend_pdf import PdfPages

    out.mkdir(parents=True, exist_ok=True)
    with (out / "report.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Measured)])
        writer.writeheader()
        writer.writerows(asdict(row) for row in rows)
    table = summary(rows)
    said = f"Left out, as their constants were not found in time: {', '.join(open_) or 'none'}."
    (out / "report.md").write_text(f"{markdown(table)}\n\n{said}\n", encoding="utf-8")
    figure = draw(rows)
    save_figure(figure, out / "gaps.svg")
    with PdfPages(out / "report.pdf", metadata={"CreationDate": None}) as pages:
        pages.savefig(figure)
        pages.savefig(_page(table, said))
    return markdown(table)


WIDE = 150
"""Characters of a line of text on a page."""


def _page(table: Sequence[tuple[str, ...]], said: str) -> Any:
    """The table, and what is left out, on a page of A4, landscape."""
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in table
    ]
    lines[1:1] = ["-" * len(lines[0])]
    legend = (
        "Value over the exact constant: median (the one farthest from 1) in each family; how often "
        "it is below the truth; median CPU seconds.  What is too large for the time limit gives "
        "the bound of cheaper methods."
    )
    figure = new_figure(11.69, 8.27)
    text = "\n".join([*textwrap.wrap(legend, WIDE), "", *lines, "", *textwrap.wrap(said, WIDE)])
    figure.text(0.04, 0.94, text, family="monospace", fontsize=8, va="top", linespacing=1.7)
    return figure


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments report", description="Every estimator against the truth."
    )
    parser.add_argument("--time-limit", type=float, default=60.0, metavar="S", help="of each run")
    parser.add_argument("--only", nargs="*", default=[], metavar="FAMILY", help="these families")
    parser.add_argument("--out", type=Path, default=Path("report"), help="folder (report)")
    options = parser.parse_args(words)
    new_figure(1.0, 1.0)  # says that matplotlib is missing before minutes of computing
    print(write(*measure(options.time_limit, options.only), options.out))
