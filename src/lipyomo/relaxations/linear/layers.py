"""What is known of the pre-activations of a network."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray
from lipyomo.networks.network import Layer
from lipyomo.networks.phases import Phases, count_open

Entry = TypeVar("Entry", bound=np.generic)


def by_layer(layers: Sequence[Layer], units: npt.NDArray[Entry]) -> list[npt.NDArray[Entry]]:
    """An array of all units (..., N), layer by layer."""
    ends = np.cumsum([0, *(layer.units for layer in layers)]).tolist()
    return [units[..., a:b] for a, b in pairwise(ends)]


@dataclass(frozen=True)
class LayerBounds:
    """Bounds of all pre-activations.

    Attributes
    ----------
    lower, upper : list of ndarray, shapes (n_i,)
        One pair a hidden layer; infinite where nothing is known.
    relaxation : str
        The tightest relaxation that was used: interval, linear, ascent or lp.
    phases : tuple of int8 arrays
        The given phases with every unit closed that the bounds decide.
    empty : bool
        Whether the given phases contradict the bounds: no point of the domain has them.  The
        bounds mean nothing then.
    """

    lower: list[FloatArray]
    upper: list[FloatArray]
    relaxation: str
    phases: Phases
    empty: bool = False

    @property
    def unstable(self) -> int:
        """Number of units that stayed open."""
        return count_open(self.phases)
