"""What the bounds need of a layer again and again: its weights split by sign."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import UNIT
from lipyomo.base.numerics.split import SplitMatrix
from lipyomo.networks.layer import remembered
from lipyomo.networks.network import Layer


@dataclass(frozen=True, eq=False)
class LayerParts:
    """What the bounds need of a layer again and again.

    Attributes
    ----------
    split : SplitMatrix
    rounding : ndarray, shape (units,)
        Relative error of multiplying with a slope; zero where all slopes are 0, 1 or -1.
    """

    split: SplitMatrix
    rounding: FloatArray


@remembered
def parts_of(layer: Layer) -> LayerParts:
    """The (remembered) parts of `layer`."""
    easy = np.isin(layer.left, (-1.0, 0.0, 1.0)) & np.isin(layer.right, (-1.0, 0.0, 1.0))
    return LayerParts(SplitMatrix.of(layer.weight), np.where(easy, 0.0, UNIT))
