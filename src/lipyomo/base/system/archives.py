"""Numpy's files, read without executing any code in them."""

from __future__ import annotations

import tokenize
import zipfile
import zlib
from os import PathLike

import numpy as np

DAMAGED = (
    *(OSError, EOFError, ValueError, RuntimeError),  # OSError: a place before the beginning
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)
"""Exceptions of numpy and Python for files that are of another kind, truncated or corrupted."""


def read_arrays(path: str | PathLike[str]) -> np.ndarray | dict[str, np.ndarray]:
    """Read the array of a ``.npy`` file, or the arrays of an ``.npz`` file by name.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is no such file, or corrupted.
    """
    with open(path, "rb") as stream:
        try:
            held = np.load(stream, allow_pickle=False)
            return held if isinstance(held, np.ndarray) else dict(held)
        except DAMAGED as error:
            raise ValueError("this is no file of numpy, or a damaged one") from error
