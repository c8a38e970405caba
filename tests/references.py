"""Networks of other groups, which are not part of the project, as ``.npz`` files of weights."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.network import Network
from lipyomo.problems.domains import Box


@dataclass(frozen=True)
class Reference:
    """A network with all arrays of its file; some hold a box (`lo`, `hi`), some a functional."""

    network: Network
    arrays: dict[str, FloatArray]

    @property
    def box(self) -> Box:
        return Box(self.arrays["lo"], self.arrays["hi"])

    @property
    def functional(self) -> FloatArray:
        return self.arrays.get("c", np.ones(self.network.output_dim))


def load_reference(path: Path) -> Reference:
    """Read weights ``W0``, ``b0``, ``W1``, ..., whose rows are units."""
    with np.load(path) as file:
        arrays = {name: np.asarray(file[name], dtype=np.float64) for name in file.files}
    depth = sum(name.startswith("W") for name in arrays)
    weights = [arrays[f"W{i}"] for i in range(depth)]
    biases = [arrays[f"b{i}"].ravel() for i in range(depth)]
    return Reference(Network.from_arrays(weights, biases, name=path.stem), arrays)
