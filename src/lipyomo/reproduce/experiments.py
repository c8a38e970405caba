"""Which methods each table and figure runs, and what the paper printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lipyomo.reproduce.cases import (
    architectures,
    histogram_nets,
    many_classes,
    mnist_balls,
    random_nets,
    snapshots,
    synthetic_nets,
)
from lipyomo.reproduce.records import Case, Entry

Printed = dict[str, dict[str, str]]


@dataclass(frozen=True)
class Experiment:
    """One table or figure.

    Attributes
    ----------
    title : str
    cases, entries : callable
        Given whether the run is quick.
    seconds : tuple of float
        Time limit of one run: quick and full.
    printed : dict
        Relative errors as the paper printed them, by group and label.
    """

    title: str
    cases: Callable[[bool], list[Case]]
    entries: Callable[[bool], list[Entry]]
    seconds: tuple[float, float]
    printed: Printed = field(default_factory=dict)


def _clever(quick: bool) -> dict[str, int]:
    return {"batches": 100, "batch_size": 256} if quick else {}


def _estimators(quick: bool) -> list[Entry]:
    """The methods of Tables 1, 2 and 3; the exact value comes from either exact method."""
    return [
        Entry("RandomLB", "random_lb"),
        Entry("CLEVER", "clever", _clever(quick)),
        Entry("LipMIP", "mip"),
        Entry("Branch and bound", "bnb"),
        Entry("LipLP", "lp"),
        Entry("FastLip", "fastlip"),
        Entry("LipSDP", "lipsdp"),
        Entry("SeqLip", "seqlip"),
        Entry("NaiveUB", "naive", {"norms": "paper"}),
    ]


def _relaxed(quick: bool) -> list[Entry]:
    """LipMIP(x %) stops at (upper - lower) / lower = x, here a gap relative to the upper end."""
    rows = [Entry("LipLP", "lp")]
    for percent in (100, 10, 1):
        share = percent / 100.0
        rows.append(Entry(f"LipMIP({percent}%)", "mip", gap=share / (1.0 + share)))
    return [*rows, Entry("LipMIP", "mip"), Entry("Branch and bound", "bnb")]


def _along_training(quick: bool) -> list[Entry]:
    """Figures 1 and 6: all estimators on the plain training, the exact value on all schemes."""
    plain = ("ce",)
    return [
        Entry("Exact", "bnb"),
        Entry("RandomLB", "random_lb", groups=plain),
        Entry("CLEVER", "clever", _clever(quick), groups=plain),
        Entry("LipLP", "lp", groups=plain),
        Entry("FastLip", "fastlip", groups=plain),
        Entry("LipSDP", "lipsdp", groups=plain),
        Entry("SeqLip", "seqlip", groups=plain),
    ]


def _over_architectures(quick: bool) -> list[Entry]:
    return [
        Entry("Exact", "bnb"),
        Entry("RandomLB", "random_lb"),
        Entry("LipLP", "lp"),
        Entry("FastLip", "fastlip"),
        Entry("LipSDP", "lipsdp"),
        Entry("SeqLip", "seqlip"),
        Entry("NaiveUB", "naive", {"norms": "paper"}),
    ]


def _robustness(quick: bool) -> list[Entry]:
    return [
        Entry("Naive", "pairwise", groups=("pairs",)),
        Entry("MIPCrossLip(i)", "mipcrosslip", groups=("pairs",)),
        Entry("CrossLip(i)", "crosslip", groups=("cross(i)",)),
        Entry("Branch and bound", "bnb"),
    ]


def _labelled(names: str, errors: str) -> dict[str, str]:
    return dict(zip(names.split(), errors.split(), strict=True))


_ORDER = "RandomLB CLEVER LipMIP LipLP FastLip LipSDP SeqLip NaiveUB"

EXPERIMENTS: dict[str, Experiment] = {
    "table1": Experiment(
        "Accuracy and time, linf inputs",
        lambda quick: (
            mnist_balls(quick, "linf", 0.1, "MNIST")
            + synthetic_nets(quick, "linf", (10, 20, 30, 20, 2))
        ),
        _estimators,
        (30.0, 600.0),
        printed={
            "MNIST": _labelled(
                _ORDER, "-41.96% -36.97% 0.00% +39.39% +63.41% +113.92% +119.53% +212.68%"
            ),
            "Synthetic": _labelled(
                _ORDER, "-32.68% +28.45% 0.00% +362.43% +388.14% +39.07% +98.98% +996.96%"
            ),
        },
    ),
    "table2": Experiment(
        "Accuracy and time, l1 inputs, unit cube",
        lambda quick: random_nets(quick, "l1") + synthetic_nets(quick, "l1", (10, 20, 30, 2)),
        _estimators,
        (30.0, 600.0),
        printed={
            "Random": _labelled(
                "RandomLB CLEVER LipMIP FastLip LipLP LipSDP SeqLip NaiveUB",
                "-30.43% -13.00% 0.00% 167.55% 167.55% 559.97% 773.38% 3121.51%",
            ),
            "Synthetic": _labelled(
                "RandomLB CLEVER LipMIP FastLip LipLP LipSDP SeqLip NaiveUB",
                "-29.27% 0.00% 4.18% 156.67% 156.67% 432.47% 674.84% 11979.62%",
            ),
        },
    ),
    "table3": Experiment(
        "Accuracy and time, l1 inputs, MNIST l1 balls",
        lambda quick: (
            mnist_balls(quick, "l1", 0.1, "Radius 0.1")
            + mnist_balls(quick, "l1", 0.2, "Radius 0.2")
        ),
        _estimators,
        (30.0, 600.0),
        printed={
            "Radius 0.1": _labelled(
                "RandomLB CLEVER LipMIP FastLip LipLP NaiveUB LipSDP SeqLip",
                "-44.25% -38.31% 0.00% +43.45% +43.45% +961.31% +16147.15% +16559.65%",
            ),
            "Radius 0.2": _labelled(
                "RandomLB CLEVER LipMIP FastLip LipLP NaiveUB LipSDP SeqLip",
                "-35.08% -27.24% 0.00% +32.66% +32.66% +891.10% +14526.92% +14917.94%",
            ),
        },
    ),
    "table4": Experiment(
        "LipMIP stopped early",
        lambda quick: (
            random_nets(quick, "linf") + synthetic_nets(quick, "linf", (10, 20, 30, 20, 2))
        ),
        _relaxed,
        (30.0, 600.0),
        printed={
            "Random": _labelled(
                "LipLP LipMIP(100%) LipMIP(10%) LipMIP(1%) LipMIP",
                "+462.26% +91.98% +9.37% +0.72% 0.00%",
            ),
            "Synthetic": _labelled(
                "LipLP LipMIP(100%) LipMIP(10%) LipMIP(1%) LipMIP",
                "+389.80% +69.91% +8.75% +0.57% 0.00%",
            ),
        },
    ),
    "table5": Experiment(
        "Robustness of 100 classes",
        many_classes,
        _robustness,
        (40.0, 1800.0),
        printed={
            "pairs": {"Naive": "0.00%", "MIPCrossLip(i)": "+441.14%"},
            "cross(i)": {"CrossLip(i)": "+441.14%"},
        },
    ),
    "figure1": Experiment(
        "Estimates during training, linf inputs",
        lambda quick: snapshots(quick, "linf"),
        _along_training,
        (30.0, 600.0),
    ),
    "figure5": Experiment(
        "Estimates for other widths and depths", architectures, _over_architectures, (30.0, 600.0)
    ),
    "figure6": Experiment(
        "Estimates during training, l1 inputs",
        lambda quick: snapshots(quick, "l1"),
        _along_training,
        (30.0, 600.0),
    ),
    "figure7": Experiment(
        "Constants of random networks",
        histogram_nets,
        lambda quick: [Entry("Exact", "bnb", here=True)],
        (30.0, 60.0),
    ),
}
