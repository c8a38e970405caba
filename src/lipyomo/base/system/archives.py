"""Files that numpy has written, read without running anything that is in them."""

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
"""What numpy and Python raise where such a file is another one, cut short, or changed."""


def read_arrays(path: str | PathLike[str]) -> np.ndarray | dict[str, np.ndarray]:
    """The array of a ``.npy`` file, or those of an ``.npz`` file by name.

    Raises
    ------
    OSError
        If the file cannot be opened.
    ValueError
        If it is no such file, or damaged.
    """
    with open(path, "rb") as stream:
        try:
            held = np.load(stream, allow_pickle=False)
            return held if isinstance(held, np.ndarray) else dict(held)
        except DAMAGED as error:
            raise ValueError("this is no file of numpy, or a damaged one") from error
