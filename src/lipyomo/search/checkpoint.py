"""Checkpoints: the state of a search in one file of plain arrays, replaced in one step.

The file is NumPy's ``.npz`` without pickled objects: what the pipeline encodes, and the engine's
own numbers.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from lipyomo.errors import LipyomoError
from lipyomo.search.protocol import Arrays

VERSION = 5


class CheckpointError(LipyomoError):
    """A checkpoint cannot be written, read, or belongs to another problem."""


@dataclass(frozen=True)
class Checkpoint:
    """A file that a search writes now and then, and may go on from.

    Attributes
    ----------
    path : Path
    problem : str
        A digest of what is searched: the file of another problem is refused.
    """

    path: Path
    problem: str

    def save(self, arrays: Arrays) -> None:
        """Write the file; one that is there stays whole until the new one is.

        Raises
        ------
        CheckpointError
            If it cannot be written.
        """
        draft = self.path.with_name(self.path.name + ".part")
        head = {"version": np.array(VERSION), "problem": np.array(self.problem)}
        data: dict[str, Any] = head | arrays
        try:
            with draft.open("wb") as file:
                np.savez(file, **data)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(self.path)
        except OSError as error:
            raise CheckpointError(
                f"the checkpoint '{self.path}' cannot be written ({error.strerror}).  Remedy: a "
                "folder that exists, is writable and has room"
            ) from None

    def load(self) -> Arrays:
        """Read the file.

        Raises
        ------
        CheckpointError
            If it is no checkpoint, or one of another problem.
        """
        try:
            with np.load(self.path, allow_pickle=False) as file:
                data = {name: file[name] for name in file.files}
            version, owner = int(data.pop("version")), str(data.pop("problem"))
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise CheckpointError(
                f"'{self.path}' is no checkpoint of a search ({error}).  Remedy: leave out "
                "--resume to begin anew"
            ) from None
        if version != VERSION:
            raise CheckpointError(f"'{self.path}' was written by another version of lipyomo")
        if owner != self.problem:
            raise CheckpointError(
                f"the checkpoint '{self.path}' belongs to another network, domain or norm.  "
                "Remedy: give the same problem, or another file"
            )
        return data
