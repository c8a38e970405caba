"""Robustness: certified accuracy by method and training, exact constants by activation, cost.

Usage::

    python -m experiments robustness curves      [--images 4] [--out FOLDER] [--mnist FOLDER]
    python -m experiments robustness activations [--seeds 3]
    python -m experiments robustness decided     [--images 200] [--exact 10] [--shared FOLDER]
    python -m experiments robustness sweep       [--images 1000]

- ``curves``: MNIST 1 against 7, the networks of the LipMIP paper trained plainly, with an l1 and an
  l2 penalty and on FGSM examples; certified accuracy against the linf radius by every method.
  Writes ``robustness.png`` into FOLDER.
- ``activations``: networks of the plane trained alike but for their units; exact constants.
- ``decided``: the shipped 1-against-7 networks on images of MNIST's test set, and ``m100x2`` of
  FOLDER/scale if it is there: decided share and CPU seconds a point; the first points also by the
  exact model.
- ``sweep``: balls on one worker and on two: wall seconds, and CPU seconds of parent and workers.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from experiments import colours
from experiments.mnist import read_mnist
from experiments.recipes import DIGITS
from experiments.reference import ROOT, SHARED
from experiments.training import leaders_dataset, train_classifier
from experiments.training.loop import fit, import_torch
from lipyomo import (
    Box,
    LipschitzProblem,
    Network,
    RobustnessReport,
    ball,
    from_torch,
    load,
    solve,
    sweep,
)
from lipyomo.analyses.certification import (
    Classifier,
    PointSettings,
    RobustnessRow,
    RobustnessVerdict,
    certify_point,
)
from lipyomo.base.arrays import FloatArray
from lipyomo.base.pictures import QUIET, entitle, new_figure, save_figure, tidy

VALID = (0.0, 1.0)
RADII = (0.02, 0.05, 0.1, 0.15, 0.2)
START = 0.1
"""Radius at which the search for certified radii begins."""

TRAINING: dict[str, dict[str, Any]] = {
    "plain": {},
    "l1 penalty": {"l1": 1e-4},
    "l2 penalty": {"l2": 1e-3},
    "FGSM": {"fgsm": 0.1},
}
TITLES = {"l1 penalty": r"$\ell_1$ penalty", "l2 penalty": r"$\ell_2$ penalty"}
GLOBAL = {"naive": {}, "lipsdp": {"slopes": "global"}}
"""Methods that give one constant for all points, with their options."""

METHODS_OF: dict[str, tuple[str, ...]] = {
    "fastlip": ("fastlip",),
    "crown": ("crown",),
    "exact constants": ("crown", "bnb"),
    "margins": ("margins",),
    "exact model": ("margins", "exact"),
}
COLOUR_OF = {
    "naive": colours.NAIVE,
    "lipsdp": colours.LIPSDP,
    "fastlip": colours.FASTLIP,
    "crown": colours.CROWN,
    "exact constants": colours.LP,
    "margins": colours.MARGINS,
    "exact model": colours.EXACT,
}


def test_digits(folder: Path) -> tuple[FloatArray, np.ndarray]:
    """The 1s and 7s of MNIST's test set; labels 0 for a one."""
    images, digits = read_mnist(folder, "t10k")
    kept = np.isin(digits, (1, 7))
    return images[kept].astype(np.float64), (digits[kept] == 7).astype(np.int64)


# -- certified accuracy ----------------------------------------------------------------------------


def curves(options: argparse.Namespace) -> None:
    """The table and the figure of certified accuracy."""
    images, labels = test_digits(options.mnist)
    held = np.arange(len(images)) % 4 == 0
    picked = np.concatenate(
        [np.flatnonzero(held & (labels == y))[: options.images] for y in (0, 1)]
    )
    figure = new_figure(9.0, 6.4)
    panels = figure.subplots(2, 2, sharex=True, sharey=True).ravel()
    heads = "".join(f"{radius:>7g}" for radius in RADII)
    print(f"{'training':12} {'method':16}{heads} {'mean radius':>12} {'CPU s a point':>14}")
    for axes, (name, penalties) in zip(panels, TRAINING.items(), strict=True):
        train = partial(train_classifier, DIGITS, epochs=10, batch_size=16, seed=0)
        trained = train(images[~held], labels[~held], **penalties)
        classifier = Classifier(trained.network(), "linf", VALID)
        right = float((classifier.predict(images[held]) == labels[held]).mean())
        title = f"{TITLES.get(name, name)}: {100 * right:.1f} % of held-out images are right"
        entitle(axes, title)
        radii = np.linspace(0.0, 0.3, 301)
        for method, report, seconds in _methods(
            classifier, images[picked], labels[picked], options.time_limit
        ):
            share = 100 * report.certified_accuracy(RADII)
            mean = np.mean([row.certified_radius for row in report.rows])
            shares = "".join(f"{value:7.0f}" for value in share)
            print(f"{name:12} {method:16}{shares} {mean:12.4f} {seconds:14.3f}", flush=True)
            shown = 100 * report.certified_accuracy(radii)
            axes.step(radii, shown, label=method, color=COLOUR_OF[method], lw=1.3)
        attacked = 100 * report.attacked_accuracy(radii)
        axes.step(radii, attacked, label="no attack found", color=QUIET, lw=0.9, ls=":")
        tidy(axes)
    for axes in panels[2:]:
        axes.set_xlabel(r"radius ($\ell_\infty$)")
    for axes in panels[::2]:
        axes.set_ylabel("certified accuracy (%)")
    lines = panels[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside lower center", ncols=4, frameon=False, fontsize=9)
    save_figure(figure, options.out / "robustness.png")


def _methods(
    classifier: Classifier, images: FloatArray, labels: np.ndarray, time_limit: float
) -> Iterator[tuple[str, RobustnessReport, float]]:
    """Each method's report, and its CPU seconds a point (global constants: for all points)."""
    c = np.array([1.0, -1.0])
    for method, given in GLOBAL.items():
        cpu = time.process_time()
        problem = LipschitzProblem(classifier.network, classifier.clip, functional=c)
        constant = solve(problem, method, options=given, attain=False).upper
        values = classifier.network.forward(images) @ c * np.where(labels == 0, 1.0, -1.0)
        rows = [
            RobustnessRow(
                k,
                label=int(y),
                certified_radius=max(float(margin), 0.0) / constant,
                verdict=RobustnessVerdict.ROBUST if margin > 0 else RobustnessVerdict.MISCLASSIFIED,
            )
            for k, (y, margin) in enumerate(zip(labels, values, strict=True))
        ]
        yield method, RobustnessReport(START, tuple(rows)), _each(cpu, len(images))
    for method, methods in METHODS_OF.items():
        cpu = time.process_time()
        settings = PointSettings(START, methods, time_limit=time_limit)
        report = _certified(classifier, images, labels, settings)
        yield method, report, _each(cpu, len(images))


def _each(start: float, count: int) -> float:
    return (time.process_time() - start) / count


def _certified(
    classifier: Classifier, images: FloatArray, labels: np.ndarray, settings: PointSettings
) -> RobustnessReport:
    rows = [
        certify_point(classifier, x, int(y), settings, k)
        for k, (x, y) in enumerate(zip(images, labels, strict=True))
    ]
    return RobustnessReport(settings.radius, tuple(rows))


# -- activations -----------------------------------------------------------------------------------

PLANE = (2, 20, 20, 2)


def _units() -> dict[str, Callable[[], Any]]:
    torch = import_torch()

    class Abs(torch.nn.Module):  # type: ignore[name-defined]
        def forward(self, x: Any) -> Any:
            return x.abs()

    return {
        "ReLU": torch.nn.ReLU,
        "LeakyReLU 0.01": lambda: torch.nn.LeakyReLU(0.01),
        "LeakyReLU 0.1": lambda: torch.nn.LeakyReLU(0.1),
        "LeakyReLU 0.3": lambda: torch.nn.LeakyReLU(0.3),
        "hard tanh": torch.nn.Hardtanh,
        "abs": Abs,
    }


def activations(options: argparse.Namespace) -> None:
    """Exact constants of networks that differ in their units alone."""
    torch = import_torch()
    print(f"{'units':16} {'accuracy':>9} {'exact constants of f_0 - f_1, linf, unit square':50}")
    for name, unit in _units().items():
        found, right = [], []
        for seed in range(options.seeds):
            data = leaders_dataset(2, 256, 20, 2, min_separation=0.04, seed=seed)
            torch.manual_seed(seed)
            layers: list[Any] = []
            for inputs, outputs in pairwise(PLANE):
                layers += [torch.nn.Linear(inputs, outputs), unit()]
            module = torch.nn.Sequential(*layers[:-1])
            points = torch.tensor(np.asarray(data.points), dtype=torch.float32)
            labels = torch.tensor(np.asarray(data.labels), dtype=torch.int64)
            loss = torch.nn.functional.cross_entropy
            generator = torch.Generator().manual_seed(seed)
            fit(module, points, labels, loss, generator, epochs=300, batch_size=32)
            network = from_torch(module)
            right.append(float((network.forward(data.points).argmax(1) == data.labels).mean()))
            problem = LipschitzProblem(network, Box(0.0, 1.0, 2), functional=[1.0, -1.0])
            found.append(solve(problem, time_limit=120))
        shown = ", ".join(f"{r.upper:.1f}" + ("" if r.is_exact else " (open)") for r in found)
        print(f"{name:16} {100 * np.mean(right):8.1f}% {shown}", flush=True)


# -- decided points --------------------------------------------------------------------------------


def decided(options: argparse.Namespace) -> None:
    """Decided share and cost on many images; no contradiction with the exact model."""
    images, labels = test_digits(options.mnist)
    cases: list[tuple[str, Network, FloatArray, np.ndarray, float, int]] = []
    for seed in range(3):
        network = load(ROOT / "models" / f"mnist17_s{seed}.onnx")
        cases.append((f"mnist17_s{seed}", network, images, labels, 0.02, options.images))
    wide = options.shared / "scale" / "m100x2.onnx"
    if wide.exists():
        ten, digits = read_mnist(options.mnist, "t10k")
        count = min(100, options.images)
        cases.append(("m100x2", load(wide), ten.astype(np.float64), digits, 2 / 255, count))
    for name, network, points, classes, radius, count in cases:
        classifier = Classifier(network, "linf", VALID)
        settings = PointSettings(radius, time_limit=options.time_limit)
        report = _certified(classifier, points[:count], classes[:count], settings)
        found = report.summary()
        by = ", ".join(f"{key} {n}" for key, n in found["decided by"].items())
        seconds = [row.seconds for row in report.rows]
        print(
            f"{name:12} radius {radius:.4f}: {len(report.rows)} points, {report.decided:.1%} "
            f"decided ({by}), median {np.median(seconds):.3f} s, most {max(seconds):.2f} s",
            flush=True,
        )
        _against_model(classifier, report, points, classes, settings, options.exact)


def _against_model(
    classifier: Classifier,
    report: RobustnessReport,
    points: FloatArray,
    classes: np.ndarray,
    settings: PointSettings,
    count: int,
) -> None:
    """Verdicts of the exact model on the points that were hardest to decide."""
    right = [row for row in report.rows if row.verdict is not RobustnessVerdict.MISCLASSIFIED]
    hardest = sorted(right, key=lambda row: abs(row.certified_radius - settings.radius))[:count]
    alone = replace(settings, methods=("exact",), radii=False, time_limit=60.0)
    pairs: Counter[str] = Counter()
    for row in hardest:
        k = row.index
        again = certify_point(classifier, points[k], int(classes[k]), alone, k)
        same = "agrees" if again.verdict is row.verdict else "contradicts"
        if RobustnessVerdict.OPEN in (row.verdict, again.verdict):
            same = "open"
        pairs[same] += 1
    said = ", ".join(f"{n} {word}" for word, n in pairs.items())
    print(f"{'':12} exact model on the {len(hardest)} hardest: {said}", flush=True)


# -- sweeps ----------------------------------------------------------------------------------------


def sweeps(options: argparse.Namespace) -> None:
    """One worker against two, and what the parent itself costs."""
    images, _ = test_digits(options.mnist)
    network = load(ROOT / "models" / "mnist17_s0.onnx")
    problems = [
        LipschitzProblem(network, ball(x, 0.01, "linf", VALID), functional=[1.0, -1.0])
        for x in images[: options.images]
    ]
    walls, answers = [], []
    for workers in (1, 2):
        before, wall = os.times(), time.monotonic()
        rows = sorted(sweep(problems, "bnb", workers=workers), key=lambda row: row.index)
        walls.append(time.monotonic() - wall)
        after = os.times()
        answers.append([row.result and (row.result.lower, row.result.upper) for row in rows])
        parent = after.user + after.system - before.user - before.system
        children = after.children_user + after.children_system
        children -= before.children_user + before.children_system
        print(
            f"{workers} worker{'s' * (workers > 1)}: {len(rows)} balls, wall {walls[-1]:.1f} s, "
            f"CPU of parent {parent:.1f} s, of workers {children:.1f} s",
            flush=True,
        )
    same = "equal" if answers[0] == answers[1] else "DIFFERENT"
    print(f"speed-up {walls[0] / walls[1]:.2f}, {same} answers, load {os.getloadavg()[0]:.1f}")


PARTS = {"curves": curves, "activations": activations, "decided": decided, "sweep": sweeps}


def main(words: Sequence[str]) -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments robustness",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("part", choices=tuple(PARTS))
    parser.add_argument("--images", type=int, help="4 a class, 200 or 1000")
    parser.add_argument("--seeds", type=int, default=3, help="networks of each kind")
    parser.add_argument("--exact", type=int, default=10, help="points for the exact model")
    parser.add_argument("--time-limit", type=float, help="seconds a point (60; decided: 10)")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    parser.add_argument("--shared", type=Path, default=SHARED)
    parser.add_argument("--mnist", type=Path, help="default: data/mnist below --shared")
    options = parser.parse_args(words)
    options.mnist = options.mnist or options.shared / "data" / "mnist"
    if options.images is None:
        options.images = {"curves": 4, "decided": 200}.get(options.part, 1000)
    if options.time_limit is None:
        options.time_limit = 10.0 if options.part == "decided" else 60.0
    PARTS[options.part](options)
