"""MNIST's idx files: Y. LeCun, C. Cortes and C. J. C. Burges, CC BY-SA 3.0."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lipyomo.base.errors import ProblemError


def _files(folder: Path, stem: str) -> list[Path]:
    return [folder / f"{stem}-{part}-ubyte.gz" for part in ("images-idx3", "labels-idx1")]


def has_mnist(folder: Path, stem: str) -> bool:
    """Whether images and labels of ``train`` or ``t10k`` are there."""
    return all(path.exists() for path in _files(folder, stem))


def read_mnist(folder: Path, stem: str) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Images and digits of the training set (``train``) or the test set (``t10k``).

    Returns
    -------
    images : ndarray of float32, shape (n, 784)
        Grey values in [0, 1], row by row.
    digits : ndarray of int64, shape (n,)

    Raises
    ------
    ProblemError
        If the files are missing or damaged.
    """
    images, digits = _files(folder, stem)
    try:
        raw = [gzip.decompress(path.read_bytes()) for path in (images, digits)]
        grey = np.frombuffer(raw[0], dtype=np.uint8, offset=16).reshape(-1, 784)
        labels = np.frombuffer(raw[1], dtype=np.uint8, offset=8).astype(np.int64)
        if len(grey) != len(labels):
            raise ValueError(f"{len(grey)} images, {len(labels)} labels")
    except FileNotFoundError:
        raise ProblemError(
            f"'{folder}' holds no MNIST.  Remedy: name the folder of {images.name} and "
            f"{digits.name}"
        ) from None
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise ProblemError(f"'{images}' is not a file of MNIST: {error}") from None
    return grey.astype(np.float32) / np.float32(255), labels


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


def held_out(folder: Path, digits: tuple[int, ...]) -> Split:
    """Images of some digits in the test set, every fourth of them held out.

    Only the *test* set (10,000 images) is used, both to train and to test.

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


def ones_and_sevens(folder: Path) -> tuple[NDArray[np.float32], NDArray[np.int64], int]:
    """The 1s and 7s of MNIST's training set if it is there, else of its test set.

    Returns
    -------
    images : ndarray of float32, shape (n, 784)
    labels : ndarray of int64, shape (n,)
        0 for a one, 1 for a seven.
    batch_size : int
        128; 16 for the test set, which gives about as many steps of Adam.
    """
    stem = "train" if has_mnist(folder, "train") else "t10k"
    images, digits = read_mnist(folder, stem)
    kept = np.isin(digits, (1, 7))
    return images[kept], (digits[kept] == 7).astype(np.int64), 128 if stem == "train" else 16
