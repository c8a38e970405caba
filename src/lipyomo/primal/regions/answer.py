"""What is known of the interior of a pattern's region: the one answer of this room."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import FloatArray


@dataclass(frozen=True)
class Interior:
    """A point of the interior, a proof that there is none, or neither.

    Attributes
    ----------
    point : ndarray, shape (d,), or None
        A point strictly inside; (2, d) where only the sum of two rows is.
    margin : float
        About how deep it lies: for full patterns a distance, for nodes in shares of their ranges.
    support : ndarray of int, or None
        Units, numbered through all layers, whose signs contradict each other in the domain: the
        region has no interior.
    """

    point: FloatArray | None = None
    margin: float = 0.0
    support: npt.NDArray[np.intp] | None = None

    @property
    def empty(self) -> bool:
        """Whether the region is proved to have no interior."""
        return self.support is not None


UNKNOWN = Interior()
