"""Sparse quadratic forms, and proofs that a diagonal form majorises one.

In the Gram matrix of a convolution units are coupled only if their patches overlap, so it is a band
matrix in a suitable order of rows (Cuthill and McKee, 1969).  A Cholesky factorisation of a band of
width w takes ``n w^2`` operations and ``n w`` numbers, and proves as much as that of a full matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.linalg.lapack import dpbtrf
from scipy.sparse.csgraph import reverse_cuthill_mckee

from lipyomo.base.arrays import FloatArray, IntArray, Matrix
from lipyomo.base.numerics.rounding import gamma
from lipyomo.relaxations.semidefinite.verify import (
    VANISHED,
    cholesky_or_none,
    cholesky_slack,
    powers,
)

_NEAR = 1e-5
"""Relative gain of `_CHECK_EVERY` Lanczos steps below which an eigenvalue counts as converged."""
_FIRST, _GROWTH, _MOST = 1e-4, 8.0, 0.1
"""First, growth and limit of the relative excess over the estimate that a factorisation proves."""
_STEPS, _CHECK_EVERY = 200, 8
"""Limit of Lanczos steps, and number of steps between checks of convergence."""
_SMALL = 200
"""Number of rows up to which all eigenvalues are computed."""


@dataclass(frozen=True, eq=False)
class Band:
    """A symmetric matrix with an order of rows in which it is a band, or a full matrix.

    Attributes
    ----------
    form : ndarray or sparse array, shape (n, n)
        Symmetric, taken as exact.
    order : ndarray of int, shape (n,)
    width : int
        Largest distance of an entry from the diagonal; ``n - 1`` for a full matrix.
    """

    form: Matrix
    order: IntArray
    width: int

    @classmethod
    def of(cls, form: Matrix) -> Band:
        """Order the rows by the reverse Cuthill-McKee algorithm if the matrix is sparse."""
        n = form.shape[0]
        if isinstance(form, np.ndarray):
            return cls(form, np.arange(n), max(n - 1, 0))
        order = np.asarray(reverse_cuthill_mckee(form, symmetric_mode=True), dtype=np.intp)
        place = np.empty(n, dtype=np.intp)
        place[order] = np.arange(n)
        entries = form.tocoo()
        width = int(np.abs(place[entries.row] - place[entries.col]).max(initial=0))
        return cls(form, order, width)

    @property
    def size(self) -> int:
        """Number of rows n."""
        return int(self.form.shape[0])

    @property
    def is_full(self) -> bool:
        """Whether the full matrix is factorised, as the band is not much smaller."""
        return isinstance(self.form, np.ndarray) or 2 * self.width > self.size

    @property
    def operations(self) -> float:
        """Operations of a factorisation."""
        n, w = float(self.size), float(self.width)
        return n**3 / 3.0 if self.is_full else n * w**2

    @property
    def bytes(self) -> float:
        """Memory of the matrix that is factorised."""
        return 8.0 * self.size * (self.size if self.is_full else self.width + 1)

    def top(self, shape: FloatArray) -> float:
        """Estimate the largest t with ``form x = t diag(shape) x`` for some x."""
        return largest(lambda v: self.form @ v, shape)[0]

    def multiple(self, shape: FloatArray, top: float) -> float:
        """Find mu such that ``mu diag(shape) - form`` is proved positive definite.

        Parameters
        ----------
        shape : ndarray, shape (n,)
            Positive.
        top : float
            Estimate of the smallest such mu: see `Band.top`.

        Returns
        -------
        float
            Infinite if there is no proof.
        """
        share = _FIRST
        while share < _MOST:
            mu = top * (1.0 + share)
            if self._is_below(mu * shape):
                return mu
            share *= _GROWTH
        return np.inf

    def _is_below(self, diagonal: FloatArray) -> bool:
        """Whether ``diag(diagonal) - form`` is proved positive definite.

        The matrix is scaled exactly, by powers of two, to a diagonal of about one.
        """
        own = np.asarray(self.form.diagonal())
        if not (np.isfinite(diagonal).all() and (diagonal > np.maximum(own, 0.0)).all()):
            return False
        scale = powers(diagonal)
        left = (diagonal - own) * scale * scale
        sizes = (diagonal + np.abs(own)) * scale * scale
        rows = self.size if self.is_full else self.width + 1
        needed = cholesky_slack(float(left.sum()), rows) + gamma(0) * float(sizes.max())
        left = left - (needed + VANISHED) * (1.0 + gamma(0))
        if not left.min() > 0.0:
            return False
        if self.is_full:
            form = self.form if isinstance(self.form, np.ndarray) else self.form.toarray()
            matrix = -scale[:, None] * form * scale
            matrix[np.diag_indices(self.size)] = left
            return cholesky_or_none(matrix.T, overwrite=True) is not None
        assert not isinstance(self.form, np.ndarray)
        place = np.empty(self.size, dtype=np.intp)
        place[self.order] = np.arange(self.size)
        entries = self.form.tocoo()
        rows_at, columns_at = place[entries.row], place[entries.col]
        below = rows_at > columns_at
        band = np.zeros((self.width + 1, self.size), order="F")
        values = -entries.data * scale[entries.row] * scale[entries.col]
        band[(rows_at - columns_at)[below], columns_at[below]] = values[below]
        band[0] = left[self.order]
        _, info = dpbtrf(band, lower=1, overwrite_ab=1)
        return bool(info == 0)


def largest(
    product: Callable[[FloatArray], FloatArray], shape: FloatArray, near: float = _NEAR
) -> tuple[float, FloatArray]:
    """Estimate the largest t with ``form x = t diag(shape) x``, and x (n,), by Lanczos' method.

    Parameters
    ----------
    product : callable
        ``form @ v`` for v (n,); the form is positive semidefinite.
    shape : ndarray, shape (n,)
    near : float, optional
        Relative accuracy.
    """
    n, root = shape.size, 1.0 / np.sqrt(shape)

    def scaled(v: FloatArray) -> FloatArray:
        return np.asarray(root * product(root * v.reshape(-1)))

    if n <= _SMALL:
        columns = np.stack([scaled(unit) for unit in np.eye(n)], axis=1)
        values, vectors = np.linalg.eigh(0.5 * (columns + columns.T))
        return float(values[-1]), root * vectors[:, -1]
    # Lanczos' method; without orthogonalisation values are repeated, but the largest is correct
    now = 1.0 + np.arange(n) % 7  # without symmetry in any direction of an image
    basis, before, norm = [now / np.linalg.norm(now)], np.zeros(n), 0.0
    diagonal, beside = list[float](), list[float]()
    found, vector = 0.0, np.ones(1)
    for step in range(_STEPS):
        after = scaled(basis[-1]) - norm * before
        diagonal.append(float(basis[-1] @ after))
        after -= diagonal[-1] * basis[-1]
        norm = float(np.linalg.norm(after))
        last = step + 1 == _STEPS or not norm > near * diagonal[0]
        if step % _CHECK_EVERY == 0 or last:
            values, vectors = eigh_tridiagonal(diagonal, beside)
            gained, found, vector = float(values[-1]) - found, float(values[-1]), vectors[:, -1]
            if last or not gained > near * found:
                break
        beside.append(norm)
        before = basis[-1]
        basis.append(after / norm)
    return found, root * (np.stack(basis[: vector.size], axis=1) @ vector)
