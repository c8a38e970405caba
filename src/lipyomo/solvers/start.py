"""Warm starts proposed by blocks of a model."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.solvers.matrices import LinearModel


def proposed_start(model: Any, linear: LinearModel) -> FloatArray | None:
    """Return a feasible point proposed by a block of the model, or None.

    The method ``propose_start`` of blocks that have one is called in turn, for values of all
    columns of the model, until a proposal is feasible.

    Parameters
    ----------
    model : BlockData
    linear : LinearModel
        The compiled model.

    Returns
    -------
    ndarray or None, shape (columns,)
    """
    for block in model.block_data_objects(active=True):
        propose = getattr(type(block), "propose_start", None)
        values = None if propose is None else propose(block, model, linear.columns)
        if values is not None:
            point = linear.vector(values)
            if np.isfinite(point).all() and linear.violation(point) <= EQUAL:
                return point
    return None
