"""The networks of the paper's experiments: drawn, loaded from ``models/``, or trained."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

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
    """The folder ``models`` of the project: below the working directory, or beside the source.

    Raises
    ------
    ProblemError
        If it is in neither place.
    """
    places = (Path.cwd(), Path(__file__).resolve().parents[3])
    for place in places:
        if (place / "models" / "provenance.json").exists():
            return place / "models"
    raise ProblemError(
        f"the project's networks are not in '{places[0] / 'models'}'.  Remedy: run this in a clone "
        "of the project"
    )


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
def synthetic_data(
    dim: int, points: int, leaders: int, classes: int, separation: float = 0.0, seed: int = 0
) -> LeadersData:
    """The "leaders" data set of appendix F.1."""
    return leaders_dataset(dim, points, leaders, classes, min_separation=separation, seed=seed)


def many_class_data() -> LeadersData:
    """The data that ``leaders100`` was trained on (appendix F.3)."""
    return synthetic_data(8, 2000, 200, 100, 0.3)


@lru_cache(maxsize=32)
def synthetic_network(sizes: tuple[int, ...], seed: int, epochs: int) -> Network:
    """A network trained on 2,000 points with 20 leaders and 2 classes (appendix F.2).

    Data and initial weights are drawn from `seed`; ``synthetic10`` is the one of seed 0.
    """
    data = synthetic_data(sizes[0], 2000, 20, 2, seed=seed)
    trained = train_classifier(sizes, data.points, data.labels, epochs=epochs, seed=seed)
    return trained.network(name=f"synthetic{len(sizes)}_s{seed}")


@lru_cache(maxsize=8)
def plane_series(scheme: str, epochs: tuple[int, ...]) -> TrainedNetwork:
    """Snapshots of a plane network during training with one scheme (appendix F.2)."""
    data = synthetic_data(2, 256, 20, 2, 0.04)
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


@lru_cache(maxsize=32)
def digit_network(folder: Path, seed: int) -> Network:
    """A newly trained MNIST 1-against-7 network (appendix F.2) from the idx files in `folder`."""
    images, labels, batch = ones_and_sevens(folder)
    sizes = (784, 20, 20, 20, 2)
    trained = train_classifier(
        sizes, images, labels, epochs=10, l1=1e-5, batch_size=batch, seed=seed
    )
    return trained.network(name=f"mnist17_new{seed}")


def ones_and_sevens(folder: Path) -> tuple[NDArray[np.float32], NDArray[np.int64], int]:
    """The 1s and 7s of MNIST's training set if it is there, else of its test set.

    Returns
    -------
    images : ndarray of float32, shape (n, 784)
        Grey values in [0, 1].
    labels : ndarray of int64, shape (n,)
        0 for a one, 1 for a seven.
    batch_size : int
        128; 16 for the test set, which gives about as many steps of Adam.

    Raises
    ------
    ProblemError
        If the files are missing or damaged.
    """
    stems = [stem for stem in ("train", "t10k") if all(p.exists() for p in _idx(folder, stem))]
    if not stems:
        raise ProblemError(
            f"'{folder}' holds no MNIST.  Remedy: name the folder of train-images-idx3-ubyte.gz "
            "and train-labels-idx1-ubyte.gz, or of the t10k files"
        )
    paths, batch = _idx(folder, stems[0]), 128 if stems[0] == "train" else 16
    try:
        raw = [gzip.decompress(path.read_bytes()) for path in paths]
        grey = np.frombuffer(raw[0], dtype=np.uint8, offset=16).reshape(-1, 784)
        digits = np.frombuffer(raw[1], dtype=np.uint8, offset=8)
        kept = np.isin(digits, (1, 7))
        return (
            grey[kept].astype(np.float32) / np.float32(255),
            (digits[kept] == 7).astype(np.int64),
            batch,
        )
    except (OSError, EOFError, ValueError, IndexError, zlib.error) as error:
        raise ProblemError(f"'{paths[0]}' is not a file of MNIST: {error}") from None


def _idx(folder: Path, stem: str) -> list[Path]:
    return [folder / f"{stem}-{part}-ubyte.gz" for part in ("images-idx3", "labels-idx1")]
