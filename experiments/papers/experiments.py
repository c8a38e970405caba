"""Which methods each table and figure runs, and what the paper printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from experiments.papers.cases import (
    Scope,
    architectures,
    histogram_nets,
    many_classes,
    mnist_balls,
    random_nets,
    snapshots,
    synthetic_nets,
)
from experiments.papers.records import Case, Entry
from experiments.papers.tables import Printed


@dataclass(frozen=True)
class Experiment:
    """One table or figure.

    Attributes
    ----------
    title : str
    cases : callable
        Lists the problems of a `Scope`.
    entries : callable
        Lists the methods, given whether the run is quick.
    seconds : tuple of float
        Time limit of one run: quick and full.
    printed, times : mapping
        Relative errors and mean seconds as the paper printed them, by group and label.
    """

    title: str
    cases: Callable[[Scope], list[Case]]
    entries: Callable[[bool], list[Entry]]
    seconds: tuple[float, float]
    printed: Printed = field(default_factory=dict)
    times: Printed = field(default_factory=dict)


_LIPSDP = Entry("LipSDP", "lipsdp", {"slopes": "global"}, spectral=True)
"""As the paper runs it: global, in the l2 norm, times sqrt(d)."""


def _clever(quick: bool) -> dict[str, int]:
    return {"batches": 100, "batch_size": 256} if quick else {}


def _estimators(quick: bool) -> list[Entry]:
    """The methods of Tables 1, 2 and 3; the exact value comes from either exact method."""
    return [
        Entry("RandomLB", "random_lb"),
        Entry("CLEVER", "clever", _clever(quick)),
        Entry("LipMIP", "mip"),
        Entry("Branch and bound", "bnb"),
        Entry("LipLP", "lp", formulation="adjoint", bounds="interval"),
        Entry("LipLP, best bounds", "lp"),
        Entry("FastLip", "fastlip"),
        _LIPSDP,
        Entry("LipSDP, own norm, local", "lipsdp"),
        Entry("SeqLip", "seqlip"),
        Entry("NaiveUB", "naive", {"norms": "paper"}),
    ]


def _relaxed(quick: bool) -> list[Entry]:
    """LipMIP(x %) stops at (upper - lower) / lower = x, here a gap relative to the upper end."""
    rows = [Entry("LipLP", "lp", formulation="adjoint", bounds="interval")]
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
        Entry("LipLP", "lp", groups=plain, formulation="adjoint", bounds="interval"),
        Entry("FastLip", "fastlip", groups=plain),
        Entry("LipSDP", "lipsdp", {"slopes": "global"}, groups=plain, spectral=True),
        Entry("LipSDP, own norm, local", "lipsdp", groups=plain),
        Entry("SeqLip", "seqlip", groups=plain),
    ]


def _over_architectures(quick: bool) -> list[Entry]:
    return [
        Entry("Exact", "bnb"),
        Entry("RandomLB", "random_lb"),
        Entry("LipLP", "lp", formulation="adjoint", bounds="interval"),
        Entry("FastLip", "fastlip"),
        _LIPSDP,
        Entry("LipSDP, own norm, local", "lipsdp"),
        Entry("SeqLip", "seqlip"),
        Entry("NaiveUB", "naive", {"norms": "paper"}),
    ]


def _robustness(quick: bool) -> list[Entry]:
    return [
        Entry("Naive", "pairwise", {"method": "bnb"}, groups=("pairs",)),
        Entry("MIPCrossLip(i)", "mipcrosslip", groups=("pairs",)),
        Entry("CrossLip(i)", "crosslip", groups=("cross(i)",)),
        Entry("Branch and bound", "bnb"),
    ]


def _labelled(names: str, errors: str) -> dict[str, str]:
    return dict(zip(names.split(), errors.split(), strict=True))


_ORDER = "RandomLB CLEVER LipMIP LipLP FastLip LipSDP SeqLip NaiveUB"
_ORDER2 = "RandomLB CLEVER LipMIP FastLip LipLP LipSDP SeqLip NaiveUB"
_ORDER3 = "RandomLB CLEVER LipMIP FastLip LipLP NaiveUB LipSDP SeqLip"
_ORDER4 = "LipLP LipMIP(100%) LipMIP(10%) LipMIP(1%) LipMIP"

EXPERIMENTS: dict[str, Experiment] = {
    "table1": Experiment(
        "Accuracy and time, linf inputs",
        lambda scope: (
            mnist_balls(scope, "linf", 0.1, "MNIST")
            + synthetic_nets(scope, "linf", (10, 20, 30, 20, 2))
        ),
        _estimators,
        (8.0, 600.0),
        printed={
            "MNIST": _labelled(
                _ORDER, "-41.96% -36.97% 0.00% +39.39% +63.41% +113.92% +119.53% +212.68%"
            ),
            "Synthetic": _labelled(
                _ORDER, "-32.68% +28.45% 0.00% +362.43% +388.14% +39.07% +98.98% +996.96%"
            ),
        },
        times={
            "MNIST": _labelled(_ORDER, "0.334 20.574 69.187 0.226 0.002 20.570 0.022 0.000"),
            "Synthetic": _labelled(_ORDER, "0.297 1.849 38.844 0.030 0.001 2.704 0.016 0.000"),
        },
    ),
    "table2": Experiment(
        "Accuracy and time, l1 inputs, unit cube",
        lambda scope: random_nets(scope, "l1") + synthetic_nets(scope, "l1", (10, 20, 30, 2)),
        _estimators,
        (8.0, 600.0),
        printed={
            "Random": _labelled(
                _ORDER2,
                "-30.43% -13.00% 0.00% 167.55% 167.55% 559.97% 773.38% 3121.51%",
            ),
            "Synthetic": _labelled(
                _ORDER2,
                "-29.27% 0.00% 4.18% 156.67% 156.67% 432.47% 674.84% 11979.62%",
            ),
        },
        times={
            "Random": _labelled(_ORDER2, "0.238 1.442 18.825 0.001 0.018 2.624 0.007 0.000"),
            "Synthetic": _labelled(_ORDER2, "0.301 55.847 1.873 0.028 0.001 2.705 0.015 0.000"),
        },
    ),
    "table3": Experiment(
        "Accuracy and time, l1 inputs, MNIST",
        lambda scope: (
            mnist_balls(scope, "l1", 0.1, "Radius 0.1")
            + mnist_balls(scope, "l1", 0.2, "Radius 0.2")
        ),
        _estimators,
        (8.0, 600.0),
        printed={
            "Radius 0.1": _labelled(
                _ORDER3,
                "-44.25% -38.31% 0.00% +43.45% +43.45% +961.31% +16147.15% +16559.65%",
            ),
            "Radius 0.2": _labelled(
                _ORDER3,
                "-35.08% -27.24% 0.00% +32.66% +32.66% +891.10% +14526.92% +14917.94%",
            ),
        },
        times={
            "Radius 0.1": _labelled(_ORDER3, "0.330 6.855 4.550 0.001 0.229 0.000 18.184 0.013"),
            "Radius 0.2": _labelled(_ORDER3, "0.325 23.010 4.292 0.233 0.002 0.000 20.161 0.021"),
        },
    ),
    "table4": Experiment(
        "LipMIP stopped early",
        lambda scope: (
            random_nets(scope, "linf") + synthetic_nets(scope, "linf", (10, 20, 30, 20, 2))
        ),
        _relaxed,
        (8.0, 600.0),
        printed={
            "Random": _labelled(
                _ORDER4,
                "+462.26% +91.98% +9.37% +0.72% 0.00%",
            ),
            "Synthetic": _labelled(
                _ORDER4,
                "+389.80% +69.91% +8.75% +0.57% 0.00%",
            ),
        },
        times={
            "Random": _labelled(_ORDER4, "0.017 132.988 355.974 357.620 362.533"),
            "Synthetic": _labelled(_ORDER4, "0.032 14.690 50.931 59.969 60.123"),
        },
    ),
    "table5": Experiment(
        "Robustness of 100 classes",
        many_classes,
        _robustness,
        (40.0, 600.0),
        printed={
            "pairs": {"Naive, least pair": "0.00%", "MIPCrossLip(i)": "+441.14%"},
            "cross(i)": {"CrossLip(i)": "+441.14%"},
        },
        times={
            "pairs": {"Naive": "97.698", "MIPCrossLip(i)": "6.987"},
            "cross(i)": {"CrossLip(i)": "6.156"},
        },
    ),
    "figure1": Experiment(
        "Estimates during training, linf inputs",
        lambda scope: snapshots(scope, "linf"),
        _along_training,
        (8.0, 600.0),
    ),
    "figure5": Experiment(
        "Estimates for other widths and depths", architectures, _over_architectures, (8.0, 600.0)
    ),
    "figure6": Experiment(
        "Estimates during training, l1 inputs",
        lambda scope: snapshots(scope, "l1"),
        _along_training,
        (8.0, 600.0),
    ),
    "figure7": Experiment(
        "Constants of random networks",
        histogram_nets,
        lambda quick: [Entry("Exact", "bnb")],
        (8.0, 60.0),
    ),
}
