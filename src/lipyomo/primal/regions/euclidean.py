"""The nearest point of a polyhedron to a given one, by the concave dual.

    min { |x - p|^2 / 2 : A x <= b, l <= x <= u }
        = max_{y >= 0} min_{l <= x <= u} |x - p|^2 / 2 + y . (A x - b)

The inner minimum is a projection onto a box, so the dual has as many variables as A has rows and
every y gives a lower bound of the distance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lipyomo.base.arrays import FloatArray


class Projected(NamedTuple):
    """The result of the dual.

    Attributes
    ----------
    x : ndarray, shape (d,)
        In the box; it violates the rows by at most the solver's tolerance.
    bound : float
        No point of the polyhedron is nearer than this.
    dual : ndarray, shape (r,)
    """

    x: FloatArray
    bound: float
    dual: FloatArray


def nearest_point(
    A: FloatArray,
    b: FloatArray,
    lower: FloatArray,
    upper: FloatArray,
    point: FloatArray,
    start: FloatArray | None = None,
) -> Projected:
    """Project `point` onto ``{A x <= b, lower <= x <= upper}``.

    Parameters
    ----------
    A : ndarray, shape (r, d)
    b : ndarray, shape (r,)
    lower, upper, point : ndarray, shape (d,)
    start : ndarray, shape (r,), optional
        Dual variables to start from.
    """
    from scipy.optimize import minimize

    def primal(y: FloatArray) -> FloatArray:
        return np.clip(point - A.T @ y, lower, upper)

    def negative_dual(y: FloatArray) -> tuple[float, FloatArray]:
        x = primal(y)
        gap = A @ x - b
        value = 0.5 * float(np.square(x - point).sum()) + float(y @ gap)
        return -value, -gap

    first = np.zeros(b.size) if start is None else start
    if b.size == 0:
        return Projected(primal(first), 0.0, first)
    found = minimize(
        negative_dual,
        first,
        jac=True,
        method="L-BFGS-B",
        bounds=[(0.0, None)] * b.size,
        options={"maxiter": 2000, "maxfun": 4000, "ftol": 1e-15, "gtol": 1e-10},
    )
    y = np.maximum(np.asarray(found.x), 0.0)
    value = -negative_dual(y)[0]
    return Projected(primal(y), float(np.sqrt(2.0 * max(value, 0.0))), y)
