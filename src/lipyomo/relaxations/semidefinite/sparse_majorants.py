"""Majorants of sums of products ``W^T diag W`` of sparse matrices, and of these by diagonals.

Rounding: the entries are sums of products of the weights.  Their errors are bounded by the same
sums of magnitudes, whose row sums are added to the diagonal.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, Matrix
from lipyomo.base.clock import Clock, seconds_of
from lipyomo.base.numerics.rounding import UNIT, gamma
from lipyomo.relaxations.semidefinite.sparse_forms import Band
from lipyomo.relaxations.semidefinite.verify import LARGEST, SMALL

_FULL = 4096
"""Number of rows up to which a form is stored as a full matrix."""
ENTRIES = 1e7
"""Limit of entries of a sparse form, or of a product of weights: half a GB in total."""
_BYTES = 5e8
"""Limit of the bytes of a band."""
_SAMPLED = 16
"""Number of columns from which the entries of a product are extrapolated."""


def multiple(
    weight: Matrix, inner: FloatArray, shape: FloatArray, top: float, clock: Clock
) -> float:
    """Find mu with ``mu diag(shape) >= A^T diag(inner) A``, proved; infinite without a proof.

    If A has fewer rows than columns, ``mu / inner >= A diag(1 / shape) A^T`` is proved instead.
    """
    n, p = weight.shape
    if n <= p and inner.min() > 0.0:
        across = weight.T if isinstance(weight, np.ndarray) else sp.csr_array(weight.T)
        form = gram([(across, (1.0 + UNIT) / shape, [across])])
        mu = proved_multiple(form, (1.0 - 2.0 * UNIT) / inner, clock, top)
        if np.isfinite(mu):
            return mu
    return proved_multiple(gram([(weight, inner, [weight])]), shape, clock, top)


def proved_multiple(
    form: Matrix | None, shape: FloatArray, clock: Clock, top: float | None = None
) -> float:
    """Find mu with ``mu diag(shape) >= form``, proved; infinite without a proof."""
    band = None if form is None else Band.of(form)
    if band is None or band.bytes > _BYTES or not clock.fits(seconds_of(2.0 * band.operations)):
        return np.inf
    top = band.top(shape) if top is None else top
    return band.multiple(shape, top) if SMALL < top < LARGEST else np.inf


def gram(
    parts: Sequence[tuple[Matrix, FloatArray, Sequence[Matrix]]],
    errors: FloatArray | None = None,
) -> Matrix | None:
    """Return a symmetric majorant of a sum of ``W^T diag(inner) W``; None if it is too large.

    Parameters
    ----------
    parts : sequence of (W, inner, factors)
        W is the computed product of the factors, which are applied in the given order.
    errors : ndarray, optional
        Error bounds of the last factor of the last part, which must include them in its magnitudes.
    """
    p = parts[0][0].shape[1]
    if p > _FULL and sum(product_entries(w.T, w) for w, _, _ in parts) > ENTRIES:
        return None
    form: Matrix | None = None
    loose = np.zeros(p)
    for at, (matrix, inner, factors) in enumerate(parts):
        sizes = [abs(factor) for factor in factors]
        terms = 2 * sum(longest(factor) + 4 for factor in factors) + 2 * len(parts) + 16
        terms += longest(matrix)
        now = np.ones(p)
        for factor in sizes:
            now = factor @ now
        off = gamma(terms) * inner * now
        if errors is not None and at == len(parts) - 1:
            before = np.ones(p)
            for factor in sizes[:-1]:
                before = factor @ before
            loose += _pulled(errors.T @ (inner * now), sizes[:-1])
            off = off + inner * (errors @ before)
        loose += _pulled(sizes[-1].T @ off, sizes[:-1])
        if isinstance(matrix, np.ndarray):
            own: Matrix = matrix.T @ (inner[:, None] * matrix)
        else:
            own = sp.csr_array(matrix.T @ (sp.diags_array(inner) @ matrix))
        if p <= _FULL and not isinstance(own, np.ndarray):
            own = own.toarray()
        form = own if form is None else form + own
    assert form is not None
    loose = loose * (1.0 + gamma(4 * sum(longest(f) + 4 for f in parts[-1][2])))
    form = 0.5 * (form + form.T)
    extra = loose + gamma(8) * np.abs(np.asarray(form.diagonal()))
    if isinstance(form, np.ndarray):
        form[np.diag_indices(p)] += extra
        return form
    return sp.csr_array(form + sp.diags_array(extra))


def _pulled(values: FloatArray, sizes: Sequence[Matrix]) -> FloatArray:
    """Pull values back through some factors."""
    for factor in reversed(sizes):
        values = factor.T @ values
    return np.asarray(values, dtype=np.float64)


def squares(matrix: Matrix) -> Matrix:
    """Return the squares of all entries."""
    return matrix * matrix if isinstance(matrix, np.ndarray) else matrix.power(2)


def longest(matrix: Matrix) -> int:
    """Return the largest number of entries of a row or a column."""
    if isinstance(matrix, np.ndarray):
        return int(max(matrix.shape))
    rows = np.diff(matrix.indptr).max(initial=0)
    columns = np.bincount(matrix.indices, minlength=1).max(initial=0)
    return int(max(rows, columns))


def product_entries(left: Matrix, right: Matrix) -> float:
    """Estimate the number of entries of a product from some of its columns."""
    n, p = int(left.shape[0]), int(right.shape[1])
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray) or n * p < ENTRIES:
        return float(n) * p
    places = np.linspace(0, p - 1, _SAMPLED).astype(np.intp)
    some = sp.csr_array(abs(sp.csc_array(right)[:, places]))
    count = int((abs(sp.csr_array(left)) @ some).nnz)
    return float(count) * p / _SAMPLED
