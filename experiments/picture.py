"""The pictures of the README: an interval that closes, and a map of local constants.

    python -m experiments picture --out docs/pictures

``closing.png``: one network of ``models/``, one domain; branch and bound is drawn over time, others
by their one number: FastLip, LipSDP, bound propagation (`interval`) and random points.
``map.png``: the constants of the cells of a grid, of a ReLU and of a tanh network that were trained
on the same data, with the same colours.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import lipyomo
from experiments.colours import CROWN, FASTLIP, LIPSDP
from experiments.reference import ROOT
from lipyomo.analyses.maps.plot import draw_panel, plane_of
from lipyomo.base.pictures import (
    INK,
    QUIET,
    Label,
    entitle,
    in_words,
    label_ends,
    mathematics,
    new_figure,
    plain_decades,
    save_figure,
    tidy,
)
from lipyomo.problems.history import draw_interval, history_of

OTHERS = {
    "fastlip": ("FastLip", FASTLIP),
    "interval": ("bound propagation", CROWN),
    "lipsdp": ("LipSDP", LIPSDP),
    "random_lb": ("random points", QUIET),
}
WIDTH, HEIGHT = 7.2, 3.9


def draw_map(out: Path, cells: int) -> None:
    """The surrogates of the heat exchanger, with ReLU and with tanh units."""
    found = []
    for name in ("exchanger", "exchanger_tanh"):
        network = lipyomo.load(ROOT / "models" / f"{name}.onnx")
        problem = lipyomo.LipschitzProblem(network, lipyomo.Box([0.2, 0.0], [5.0, 0.95]))
        found.append(lipyomo.map_cells(problem, (cells, cells), gap=0.001))
    top = max(float(each.constant_upper.max()) for each in found)
    figure = new_figure(WIDTH, 3.2)
    for axes, each, units in zip(figure.subplots(1, 2), found, ("ReLU", "tanh"), strict=True):
        name = "" if units == "ReLU" else f"constant, {mathematics(each.problem.describe_norms())}"
        draw_panel(axes, each, plane_of(each.cells), each.constant_upper, name, (0.0, top))
        axes.set_xlabel("transfer units")
        axes.set_ylabel("ratio of capacities" if units == "ReLU" else "")
        entitle(axes, f"{units}: local constants of {cells**2:,} cells")
        print(f"{units}: {each.largest}, {sorted(set(each.status))}, {each.seconds:.2f} s")
    save_figure(figure, out)


def draw(network: str, out: Path, time_limit: float) -> None:
    """Solve and draw."""
    net = lipyomo.load(ROOT / "models" / f"{network}.onnx")
    functional = [1.0, -1.0] if net.output_dim == 2 else None
    box = lipyomo.Box(0.0, 1.0, net.input_dim)
    problem = lipyomo.LipschitzProblem(net, box, functional=functional)
    result = lipyomo.solve(problem, "bnb", time_limit=time_limit)
    figure = new_figure(WIDTH, HEIGHT)
    axes = figure.subplots()
    draw_interval(axes, result)
    tidy(axes)
    rows = history_of(result)
    first = min((row[0] for row in rows if row[1] > 0 and row[2] < math.inf), default=0.01)
    left, right = max(0.95 * first, 1e-3), max(result.seconds, 2 * first)
    labels = []
    for name, (title, colour) in OTHERS.items():
        found = lipyomo.solve(problem, name, attain=False)
        value = found.lower if name == "random_lb" else found.upper
        axes.plot([left, right], [value, value], color=colour, linewidth=1.4, linestyle="--")
        labels.append(Label(value, f"{title} {value:.4g}", colour))
        print(f"{name}: {value:.7g} after {found.seconds:.2f} s")
    print(f"bnb: [{result.lower:.9g}, {result.upper:.9g}] {result.status}, {result.seconds:.1f} s")
    middle = result.upper if result.is_exact else 0.5 * (result.lower + result.upper)
    said = f"{result.lower:.6g}, exact" if result.is_exact else "lipyomo, still open"
    labels.append(Label(middle, said, INK))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(left, right)
    axes.set_ylim(0.85 * min(labels).value, 1.3 * max(labels).value)
    plain_decades(axes.xaxis)
    plain_decades(axes.yaxis)
    axes.set_xlabel("seconds")
    axes.set_ylabel("Lipschitz constant")
    domain, norms = in_words(box.describe()), mathematics(problem.describe_norms())
    sizes = "-".join(map(str, net.sizes))
    entitle(axes, f"{network} ({sizes}), {domain}, {norms}")
    axes.legend(frameon=False, loc=(0.45, 0.07), ncols=2, fontsize=9)
    figure.draw_without_rendering()
    label_ends(axes, right, labels)
    save_figure(figure, out)


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments picture", description="Draw the pictures of the README."
    )
    parser.add_argument("--network", default="random16_s0", help="a file of models/")
    parser.add_argument("--time-limit", type=float, default=300.0, metavar="S")
    parser.add_argument("--cells", type=int, default=96, metavar="N", help="N x N cells of the map")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    options = parser.parse_args(words)
    draw(options.network, options.out / "closing.png", options.time_limit)
    draw_map(options.out / "map.png", options.cells)
