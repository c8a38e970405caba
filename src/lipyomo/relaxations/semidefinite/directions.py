"""Directions that the multipliers of a minimum rule out.

The steepest direction v of a functional in linf is a vertex of the cube.  Of the two sides on which
two of its entries are equal and opposite, one often cannot beat the incumbent, as the multipliers
at hand show; then the two inputs are joined, as if their partial derivatives kept their sign
(`lipyomo.relaxations.semidefinite.signs`).  What is left of a node is the better for it in all that
follows: its matrix is smaller, and its bound lower.  As with those signs, that pays where units do
not outnumber the inputs.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.problems.affine.system import NodeForm
from lipyomo.relaxations.semidefinite.bounder import Bounder, Minimum
from lipyomo.relaxations.semidefinite.dense import DenseKernel

_FAR = 1.3
"""Times the cutoff above which no bound has been seen to rule out a side."""


def with_fewer_directions(
    bounder: Bounder, form: NodeForm, found: Minimum, aim: float, cutoff: float
) -> tuple[Minimum, float]:
    """A minimum without the directions that cannot beat the incumbent, and their largest bound.

    Parameters
    ----------
    bounder : Bounder
    form : NodeForm
        What the minimum was found for.
    found : Minimum
        Of a single functional, in linf.
    aim, cutoff : float
        What bounds should reach in floating point, and what they have to once they are proved.

    Returns
    -------
    found : Minimum
        From the same multipliers, with more inputs joined; its value is not proved.
    closed : float
        Proved bound of the other directions; minus infinity if there are none.
    """
    closed = -np.inf
    if bounder.prover.signs is None or form.inputs < form.units.size:
        return found, closed
    while aim < found.state.value <= _FAR * cutoff:
        signs, bound = _joined(bounder, form, found, aim, cutoff)
        rest = None if signs is None else bounder.restricted(form, found, signs)
        if rest is None:
            break
        found, closed = rest, max(closed, bound)
    return found, closed


def _joined(
    bounder: Bounder, form: NodeForm, found: Minimum, aim: float, cutoff: float
) -> tuple[FloatArray | None, float]:
    """Signs (d,) of the sides that are left, None if none is closed; and the bound of the others.

    One input, which those that are joined already stand for, is compared with all others.
    """
    kernel, state = found.kernel, found.state
    if not isinstance(kernel, DenseKernel) or kernel.euclidean or kernel.inputs < 2:
        return None, -np.inf
    known = bounder.prover.joining(found.target, found.signs)
    equal, opposite = kernel.pair_lookahead(state, kernel.inputs if known is None else 1)
    drops = np.maximum(equal, opposite)
    low = state.value * (1.0 - drops) <= aim
    first = int(np.argmax(np.count_nonzero(low, axis=1)))
    others = np.flatnonzero(low[first])
    if not others.size:
        return None, -np.inf
    # the side that is closed is a hyperplane, v_first + left v_other = 0
    left = np.where(opposite[first, others] > equal[first, others], 1.0, -1.0)
    removed = 0.5 * state.value * (1.0 - np.square(1.0 - drops[first, others]))
    steps = 2.0 * removed / (state.primal[first] + left * state.primal[others])
    planes = np.zeros((others.size, kernel.inputs))
    planes[:, first] = steps
    planes[np.arange(others.size), others] = left * steps
    proved = bounder.prover.on_planes(form, found.target, state.multipliers, planes, found.signs)
    good = proved <= cutoff
    if not good.any():
        return None, -np.inf
    columns = np.zeros(kernel.inputs)
    columns[first] = 1.0
    columns[others[good]] = left[good]
    bound = float(proved[good].max())
    if known is None:
        return columns, bound
    signs = known.copy()
    signs[known == 0] = columns[1:]
    return signs, bound
