"""The pictures of the gallery of the documentation: one of every ``--plot``.

    python -m experiments gallery

draws them into ``docs/pictures``, from networks of ``models/``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import lipyomo
from experiments.reference import ROOT
from lipyomo.analyses.certification.plot import plot_curves, plot_slopes
from lipyomo.analyses.compare import compare, plot_rows, with_errors
from lipyomo.base.pictures import new_figure
from lipyomo.methods.registry import methods
from lipyomo.problems.history import plot_history

MODELS = ROOT / "models"
IMAGES = 12


def interval_and_methods(out: Path, time_limit: float) -> None:
    """An interval over time, and all methods side by side."""
    network = lipyomo.load(MODELS / "random10_s0.onnx")
    problem = lipyomo.LipschitzProblem(network, lipyomo.Box(0.0, 1.0, network.input_dim))
    plot_history(lipyomo.solve(problem, "bnb"), problem, out / "gallery_time.png")
    able = [name for name, method in methods().items() if method.refusal(problem) is None]
    rows = with_errors(list(compare(problem, able, time_limit)))
    plot_rows(rows, out / "gallery_compare.png")


def rows_of_data(out: Path, time_limit: float) -> None:
    """Certified accuracy of a classifier, and least slopes of a surrogate."""
    network = lipyomo.load(MODELS / "mnist17_s0.onnx")
    images = np.load(MODELS / "mnist17_images.npz")["images"].reshape(-1, 784)[:IMAGES]
    report = lipyomo.certify_robustness(
        network, images, radius=0.05, clip=(0.0, 1.0), time_limit=time_limit
    )
    plot_curves({"mnist17_s0": report}, out / "gallery_certify.png")
    surrogate = lipyomo.load(MODELS / "exchanger.onnx")
    points = np.random.default_rng(0).uniform([0.5, 0.1], [4.5, 0.8], (IMAGES, 2))
    slopes = lipyomo.check_monotone(surrogate, points, 0.1, increasing=[0], decreasing=[1])
    plot_slopes(slopes, out / "gallery_monotone.png")


def main(words: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m experiments gallery", description="Draw the pictures of the gallery."
    )
    parser.add_argument("--time-limit", type=float, default=20.0, metavar="S", help="of each run")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    options = parser.parse_args(words)
    new_figure(1.0, 1.0)  # says that matplotlib is missing before a minute of computing
    interval_and_methods(options.out, options.time_limit)
    rows_of_data(options.out, options.time_limit)
