"""Digests of arrays and files, by which checkpoints and row files identify their inputs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from lipyomo.base.system.memory import CACHED


def array_digest(arrays: Iterable[npt.ArrayLike]) -> str:
    """Return the SHA-256 of the arrays' entries, regardless of shapes."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.asarray(array, dtype="<f8").tobytes())
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as stream:
        return rest_digest(stream)


def rest_digest(stream: BinaryIO) -> str:
    """Return the SHA-256 of the rest of a stream."""
    digest = hashlib.sha256()
    while block := stream.read(CACHED):
        digest.update(block)
    return digest.hexdigest()
