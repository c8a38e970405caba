"""The pictures of the glossary and of the tutorial: regions with a witness, and unit balls.

    python -m experiments glossary --out docs/pictures

The network of the tutorial is the one that the page's own lines make.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import lipyomo
from experiments.reference import ROOT
from lipyomo.base.pictures import entitle, new_figure, save_figure
from lipyomo.primal.regions import interior_point

BOUND, ATTAINED = "#c0392b", "#1f6fb2"
PIXELS = 600


def _glossary(axes: Any) -> None:
    network = lipyomo.load(ROOT / "models" / "plane" / "ce_0250.onnx")
    functional = [1.0, -1.0]
    square = lipyomo.Box(0.0, 1.0, 2)
    _regions(axes, lipyomo.LipschitzProblem(network, square, functional=functional), functional)
    axes.set_xlabel("$x_1$")
    axes.set_ylabel("$x_2$")
    entitle(axes, r"$\Vert\nabla (f_0 - f_1)(x)\Vert_1$: one shade a region")


def _tutorial(axes: Any) -> None:
    """The policy that the first lines of docs/tutorial.md train, with its examples."""
    page = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```$", page.split("## 4.")[0], re.MULTILINE | re.DOTALL)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        for block in blocks:
            if ">>>" not in block:
                exec(compile(block, "docs/tutorial.md", "exec"), names)
    _regions(axes, names["problem"], [1.0])
    axes.plot(*names["states"].T, ".", color="#1b1b1b", markersize=2.5)
    axes.set_xlabel("angle")
    axes.set_ylabel("velocity")
    entitle(axes, r"$\Vert\nabla f(x)\Vert_1$ of the policy, and the examples")


def _regions(axes: Any, problem: lipyomo.LipschitzProblem, functional: Sequence[float]) -> None:
    """The gradient's norm over a square, and the middle of the witness's region."""
    network, domain = problem.network, problem.domain
    assert isinstance(domain, lipyomo.Box)
    result = lipyomo.solve(problem)
    assert result.witness is not None
    (left, low), (right, high) = domain.lower, domain.upper
    places = (np.arange(PIXELS) + 0.5) / PIXELS
    grid = np.meshgrid(left + (right - left) * places, low + (high - low) * places)
    gradients = network.gradients(np.stack(grid, -1).reshape(-1, 2), np.array(functional))
    norms = np.abs(gradients).sum(axis=1).reshape(PIXELS, PIXELS)
    shown = axes.imshow(
        norms, origin="lower", extent=(left, right, low, high), cmap="Blues", vmin=0
    )
    inside = interior_point(network, domain, result.witness.pattern)
    assert inside is not None
    x, margin = inside.x, inside.margin
    axes.plot(*x, marker="o", markersize=4, color=BOUND)
    axes.add_patch(_circle(x, margin))
    axes.annotate(
        f"witness: {result.lower:.4g}, margin {margin:.2g}",
        x,
        xytext=(-60, 22),
        textcoords="offset points",
        fontsize=9,
        color=BOUND,
        arrowprops={"arrowstyle": "-", "color": BOUND, "linewidth": 0.8},
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 1.5},
    )
    axes.locator_params(nbins=5)
    axes.figure.colorbar(shown, ax=axes, shrink=0.85)


def _circle(center: np.ndarray, radius: float) -> Any:
    from matplotlib.patches import Circle

    return Circle((center[0], center[1]), radius, fill=False, edgecolor=BOUND, linewidth=1.2)


BALLS = {
    r"$\ell_\infty$": ([(1, 1), (-1, 1), (-1, -1), (1, -1)], [(1, 0), (0, 1), (-1, 0), (0, -1)]),
    r"$\ell_1$": ([(1, 0), (0, 1), (-1, 0), (0, -1)], [(1, 1), (-1, 1), (-1, -1), (1, -1)]),
    "cross": (
        [(1, 0), (1, 1), (0, 1), (-1, 0), (-1, -1), (0, -1)],
        [(1, 0), (0, 1), (-1, 1), (-1, 0), (0, -1), (1, -1)],
    ),
}
"""Corners of the unit ball and of the dual ball in the plane."""


def _balls(panels: Any) -> None:
    """The unit ball of a norm of two outputs, and its dual ball, side by side in one panel."""
    from matplotlib.patches import Polygon

    round_ = [(np.cos(a), np.sin(a)) for a in np.linspace(0, 2 * np.pi, 120, endpoint=False)]
    balls = {**BALLS, r"$\ell_2$": (round_, round_)}
    for axes, name in zip(
        panels, (r"$\ell_\infty$", r"$\ell_1$", r"$\ell_2$", "cross"), strict=True
    ):
        unit, dual = balls[name]
        axes.add_patch(Polygon(unit, facecolor=ATTAINED, alpha=0.18, edgecolor=ATTAINED))
        axes.add_patch(Polygon(dual, fill=False, edgecolor=BOUND, linewidth=1.6, linestyle="--"))
        if len(dual) < 10:
            axes.plot(*np.array(dual, dtype=float).T, "o", color=BOUND, markersize=4)
        axes.set_xlim(-1.25, 1.25)
        axes.set_ylim(-1.25, 1.25)
        axes.set_aspect("equal")
        entitle(axes, name)
        axes.set_xticks([-1, 0, 1])
        axes.set_yticks([-1, 0, 1])
        axes.grid(color="#e3e3e3", linewidth=0.6)
        axes.set_axisbelow(True)
    handles = [
        panels[0].plot([], [], color=ATTAINED, linewidth=6, alpha=0.4)[0],
        panels[0].plot([], [], color=BOUND, linewidth=1.6, linestyle="--", marker="o")[0],
    ]
    panels[0].figure.legend(
        handles,
        ["unit ball", "dual ball with its vertices"],
        loc="outside lower center",
        ncols=2,
        frameon=False,
        fontsize=9,
    )


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments glossary", description="Draw the pictures of the glossary."
    )
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    options = parser.parse_args(words)
    for name, draw in (("glossary_regions", _glossary), ("tutorial_domain", _tutorial)):
        figure = new_figure(5.4, 4.4)
        draw(figure.subplots())
        save_figure(figure, options.out / f"{name}.png")
    figure = new_figure(8.0, 2.6)
    _balls(figure.subplots(1, 4))
    save_figure(figure, options.out / "glossary_balls.png")
