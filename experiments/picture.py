"""The picture of the README: an interval that closes, beside what other methods say.

    python -m experiments picture --out docs/pictures/closing.png

One network of ``models/``, one domain; branch and bound is drawn over time, the others by their one
number: FastLip, LipSDP, bound propagation (`interval`) and the product of the layers' norms.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import lipyomo
from experiments.reference import ROOT
from lipyomo.history import draw_interval, history_of
from lipyomo.pictures import (
    INK,
    QUIET,
    Label,
    in_words,
    label_ends,
    mathematics,
    new_figure,
    plain_decades,
    save_figure,
    tidy,
)

OTHERS = {
    "fastlip": ("FastLip", "#8e44ad"),
    "interval": ("bound propagation", "#d68910"),
    "lipsdp": ("LipSDP", "#16a085"),
    "random_lb": ("random points", QUIET),
}
WIDTH, HEIGHT = 7.2, 3.9


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
    plain_decades(axes.xaxis)
    plain_decades(axes.yaxis)
    axes.set_xlabel("seconds")
    axes.set_ylabel("Lipschitz constant")
    domain, norms = in_words(box.describe()), mathematics(problem.describe_norms())
    sizes = "-".join(map(str, net.sizes))
    axes.set_title(f"{network} ({sizes}), {domain}, {norms}", loc="left", fontsize=10)
    axes.legend(frameon=False, loc=(0.02, 0.58), fontsize=9)
    figure.draw_without_rendering()
    label_ends(axes, right, labels)
    save_figure(figure, out)


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments picture", description="Draw the picture of the README."
    )
    parser.add_argument("--network", default="random16_s0", help="a file of models/")
    parser.add_argument("--time-limit", type=float, default=300.0, metavar="S")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures" / "closing.png")
    options = parser.parse_args(words)
    draw(options.network, options.out, options.time_limit)
