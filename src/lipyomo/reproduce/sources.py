"""The networks of the paper's experiments: drawn, loaded from ``models/``, or trained."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from lipyomo.errors import ProblemError
from lipyomo.network import FloatArray, Network
from lipyomo.training import (
    LeadersData,
    TrainedNetwork,
    he_network,
    leaders_dataset,
    train_classifier,
)

PLANE = (2, 20, 40, 20, 2)
PENALTIES = {
    "ce": (0.0, 0.0, 0.0),
    "l1": (1e-4, 0.0, 0.0),
    "l2": (0.0, 1e-3, 0.0),
    "fgsm": (0.0, 0.0, 0.1),
}
"""Training schemes of Figures 1 and 6: l1 and l2 penalties and FGSM step (appendix F.2)."""


def models_folder() -> Path:
    """The folder ``models`` of the project.

    Raises
    ------
    ProblemError
        If this is an installation without it.
    """
    folder = Path(__file__).resolve().parents[3] / "models"
    if not (folder / "provenance.json").exists():
        raise ProblemError(
            f"the project's networks are not in '{folder}'.  Remedy: run this from a clone of the "
            "project, installed with pip install -e ."
        )
    return folder


@lru_cache(maxsize=8)
def shipped(name: str) -> Network:
    """A network of ``models/``, such as ``plane/ce_1000``."""
    from lipyomo.onnx import load

    return load(models_folder() / f"{name}.onnx")


def random_network(sizes: Sequence[int], seed: int) -> Network:
    """A random network with He initialisation."""
    weights, biases = he_network(sizes, seed)
    return Network.from_arrays(weights, biases, name=f"random{sizes[0]}_s{seed}")


@lru_cache(maxsize=4)
def synthetic_data(dim: int, points: int, leaders: int, classes: int) -> LeadersData:
    """The "leaders" data set of appendix F.1, seed 0."""
    return leaders_dataset(dim, points, leaders, classes, seed=0)


@lru_cache(maxsize=32)
def synthetic_network(sizes: tuple[int, ...], seed: int, epochs: int) -> Network:
    """A network trained on 2,000 points with 20 leaders and 2 classes (appendix F.2)."""
    data = synthetic_data(sizes[0], 2000, 20, 2)
    trained = train_classifier(sizes, data.points, data.labels, epochs=epochs, seed=seed)
    return trained.network(name=f"synthetic{len(sizes)}_s{seed}")


@lru_cache(maxsize=8)
def plane_series(scheme: str, epochs: tuple[int, ...]) -> TrainedNetwork:
    """Snapshots of a plane network during training with one scheme (appendix F.2)."""
    data = synthetic_data(2, 256, 20, 2)
    l1, l2, fgsm = PENALTIES[scheme]
    return train_classifier(
        PLANE,
        data.points,
        data.labels,
        epochs=max(epochs),
        batch_size=32,
        snapshots=epochs,
        l1=l1,
        l2=l2,
        fgsm=fgsm,
    )


@lru_cache(maxsize=32)
def architecture(hidden: tuple[int, ...]) -> Network:
    """A plane network of other widths and depths (appendix F.3, Figure 5)."""
    data = synthetic_data(2, 300, 10, 2)
    trained = train_classifier((2, *hidden, 2), data.points, data.labels, epochs=200, batch_size=32)
    return trained.network(name="plane_" + "-".join(map(str, hidden)))


def random_centers(dim: int, count: int, seed: int) -> FloatArray:
    """Uniform points of the unit cube, shape (count, dim)."""
    return np.random.default_rng(seed).random((count, dim))
