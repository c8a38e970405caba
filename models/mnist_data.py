"""The few images of MNIST that are shipped.

MNIST is by Y. LeCun, C. Cortes and C. J. C. Burges and is licensed under CC BY-SA 3.0
(https://creativecommons.org/licenses/by-sa/3.0/).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.mnist import Split

ATTRIBUTION = (
    "MNIST test set, Y. LeCun, C. Cortes, C. J. C. Burges, CC BY-SA 3.0 "
    "(https://creativecommons.org/licenses/by-sa/3.0/); selected, flattened, scaled to [0, 1]"
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
