"""Networks of other groups, which are not part of the project: one loader for all who compare."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lipyomo import Box, Network

if TYPE_CHECKING:  # earlier versions, with which this one is compared, have it elsewhere
    from lipyomo.base.arrays import FloatArray

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared"
"""Where such networks are looked for: ``reference/NAME.npz`` below it."""


@dataclass(frozen=True)
class Reference:
    """A network with what came along.

    Attributes
    ----------
    network : Network
    arrays : dict of str to ndarray
        All arrays of the file: weights ``W0``, ``b0``, ...; some have ``lo``, ``hi`` and ``c``.
    """

    network: Network
    arrays: dict[str, FloatArray]

    @property
    def box(self) -> Box:
        """The box that the file names.

        Raises
        ------
        KeyError
            If it names none.
        """
        return Box(self.arrays["lo"], self.arrays["hi"])

    @property
    def functional(self) -> FloatArray:
        """The functional that the file names; all ones if it names none."""
        return self.arrays.get("c", np.ones(self.network.output_dim))


def load_reference(path: Path) -> Reference:
    """Read a ``.npz`` file of weights ``W0``, ``b0``, ``W1``, ... (rows are units)."""
    with np.load(path) as file:
        arrays = {key: np.asarray(file[key], dtype=np.float64) for key in file.files}
    layers = range(sum(key.startswith("W") for key in arrays))
    network = Network.from_arrays(
        [arrays[f"W{i}"] for i in layers],
        [arrays[f"b{i}"].ravel() for i in layers],
        name=path.stem,
    )
    return Reference(network, arrays)
