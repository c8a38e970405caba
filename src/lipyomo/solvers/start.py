"""Starts that blocks of a model propose by themselves."""

from __future__ import annotations

from typing import Any

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import EQUAL
from lipyomo.solvers.matrices import LinearModel


def proposed_start(model: Any, linear: LinearModel) -> FloatArray | None:
    """A feasible point that the blocks of a model propose, or None.

    Blocks whose class has a method ``propose_start`` are asked in turn, for values of all of the
    model's columns.

    Parameters
    ----------
    model : BlockData
    linear : LinearModel
        The same model, compiled.

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
