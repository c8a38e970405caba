"""MNIST's test set as the training scripts use it, and the few images that are shipped.

Only the *test* set (10,000 images) is used, both to train and to test: every fourth image of the
classes in question is held out. MNIST is by Y. LeCun, C. Cortes and C. J. C. Burges and is licensed
under CC BY-SA 3.0 (https://creativecommons.org/licenses/by-sa/3.0/).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.mnist import read_mnist

ATTRIBUTION = (
    "MNIST test set, Y. LeCun, C. Cortes, C. J. C. Burges, CC BY-SA 3.0 "
    "(https://creativecommons.org/licenses/by-sa/3.0/); selected, flattened, scaled to [0, 1]"
)


@dataclass(frozen=True)
class Split:
    """Images for training and held-out images.

    Attributes
    ----------
    images, held_images : ndarray of float32, shape (n, 784)
        Grey values in [0, 1], row by row.
    labels, held_labels : ndarray of int64, shape (n,)
        Position of the digit in the list of digits that was asked for.
    held_indices : ndarray of int64
        Position of the held-out images in MNIST's test set.
    digits : tuple of int
        The digits.
    """

    images: NDArray[np.float32]
    labels: NDArray[np.int64]
    held_images: NDArray[np.float32]
    held_labels: NDArray[np.int64]
    held_indices: NDArray[np.int64]
    digits: tuple[int, ...]


def load(folder: Path, digits: tuple[int, ...]) -> Split:
    """Read the test set's two files and hold out every fourth image of the given digits.

    Parameters
    ----------
    folder : Path
        Where ``t10k-images-idx3-ubyte.gz`` and ``t10k-labels-idx1-ubyte.gz`` are.
    digits : tuple of int
        Which digits to keep; their order numbers the classes.

    Returns
    -------
    Split
        Training and held-out images.
    """
    grey, labels = read_mnist(folder, "t10k")
    kept = np.flatnonzero(np.isin(labels, digits))
    held = np.arange(len(kept)) % 4 == 0
    classes = np.array([digits.index(label) for label in labels[kept]], dtype=np.int64)
    grey = grey[kept]
    return Split(
        grey[~held], classes[~held], grey[held], classes[held], kept[held].astype(np.int64), digits
    )


def sample(split: Split, per_class: int) -> NDArray[np.int64]:
    """Rows of the first held-out images of every class, whatever a network thinks of them.

    Parameters
    ----------
    split : Split
        The data.
    per_class : int
        How many images of each class.

    Returns
    -------
    ndarray of int64
        Rows of `Split.held_images`, in the order of the test set.
    """
    rows = [
        np.flatnonzero(split.held_labels == label)[:per_class] for label in range(len(split.digits))
    ]
    return np.sort(np.concatenate(rows))


def ship(split: Split, per_class: int, path: Path) -> NDArray[np.int64]:
    """Write a sample of held-out images beside the models.

    Parameters
    ----------
    split : Split
        The data.
    per_class : int
        How many images of each class.
    path : Path
        The ``.npz`` file; it holds ``images`` (n, 784) float32 in [0, 1], ``labels`` (classes),
        ``digits`` (digit of each class), ``index`` (position in MNIST's test set), ``attribution``.

    Returns
    -------
    ndarray of int64
        The rows of `Split.held_images` that were written.
    """
    rows = sample(split, per_class)
    np.savez_compressed(
        path,
        images=split.held_images[rows],
        labels=split.held_labels[rows],
        digits=np.array(split.digits),
        index=split.held_indices[rows],
        attribution=np.array(ATTRIBUTION),
    )
    return rows
