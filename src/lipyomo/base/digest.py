"""Digests of numbers and files, by which a checkpoint or a file of rows names what it is about."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from lipyomo.base.system.memory import CACHED


def array_digest(arrays: Iterable[npt.ArrayLike]) -> str:
    """SHA-256 of numbers, whatever the shapes of the arrays."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.asarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """SHA-256 of a file."""
    with path.open("rb") as stream:
        return rest_digest(stream)


def rest_digest(stream: BinaryIO) -> str:
    """SHA-256 of what is left to read."""
    digest = hashlib.sha256()
    while block := stream.read(CACHED):
        digest.update(block)
    return digest.hexdigest()
