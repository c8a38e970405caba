"""Tensors that are affine functions of the inputs and of the units found so far.

While a graph is imported, every tensor that depends on the input is a `Tensor`: a shape, and for
each entry one row of a sparse matrix and an offset.  The columns are the *variables*: the d inputs
first, then the outputs of all units in the order of their creation.  Skip connections, Concat,
Split and residual sums need no special treatment: they are sums and selections of rows.

Nothing is rounded: if a product or a sum is not exactly representable in float64, the tensor is
first replaced by the outputs of new identity units, which have coefficients of one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.numerics.exact import (
    entries_are_exact,
    lost_in_sum,
    product_is_exact,
    sum_is_exact,
    sums_are_exact,
)
from lipyomo.networks.building.budget import NUMBER, budget


def _afford(numbers: float) -> None:
    """Charge the budget for a sparse matrix with this number of entries."""
    budget().charge(2 * NUMBER * float(numbers), f"a map of {numbers:,.0f} coefficients")


def widen(matrix: sp.csr_array, columns: int) -> sp.csr_array:
    """Return the same rows over `columns` variables (new variables do not occur in old rows)."""
    if matrix.shape[1] == columns:
        return matrix
    return sp.csr_array(
        (matrix.data, matrix.indices, matrix.indptr), shape=(matrix.shape[0], columns)
    )


def _product(operator: FloatArray | sp.csr_array, matrix: sp.csr_array) -> sp.csr_array:
    """``operator @ matrix`` in CSR form, through dense arithmetic where both factors are full."""
    if isinstance(operator, np.ndarray) and matrix.nnz > 4 * matrix.shape[0]:
        used = np.unique(matrix.indices)
        if matrix.nnz > 0.3 * matrix.shape[0] * used.size:
            rows = operator.shape[0]
            _afford((rows + matrix.shape[0]) * used.size)
            dense = operator @ matrix[:, used].toarray()
            indptr = np.arange(rows + 1) * used.size
            full = sp.csr_array(
                (dense.reshape(-1), np.tile(used, rows), indptr), shape=(rows, matrix.shape[1])
            )
            full.eliminate_zeros()
            return full
    factor = sp.csr_array(operator)
    each = np.diff(matrix.indptr)
    if (each == 1).all() and np.unique(matrix.indices).size == matrix.nnz:
        return _relabelled(factor, matrix)
    _afford(min(each[factor.indices].sum(dtype=np.float64), factor.shape[0] * matrix.shape[1]))
    result = sp.csr_array(factor @ matrix)
    result.eliminate_zeros()
    result.sort_indices()
    return result


def _relabelled(factor: sp.csr_array, matrix: sp.csr_array) -> sp.csr_array:
    """Return ``factor @ matrix`` if each row of `matrix` is a multiple of a different variable.

    This is the case for a convolution of units or inputs; a general product would take a copy.
    """
    data = factor.data
    if (matrix.data != 1.0).any():
        data = data * matrix.data[factor.indices]
    result = sp.csr_array(
        (data, matrix.indices[factor.indices], factor.indptr),
        shape=(factor.shape[0], matrix.shape[1]),
    )
    result.eliminate_zeros()
    result.sort_indices()
    return result


def matrix_sum_is_exact(a: sp.csr_array, b: sp.csr_array, total: sp.csr_array) -> bool:
    """Return whether ``a + b == total`` holds without rounding."""
    if total.nnz == a.nnz + b.nnz:
        return True  # no entry has two terms
    if not total.shape[1]:
        return True
    return not abs(lost_in_sum(a, b, total)).max()


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor whose entries are affine functions of the variables.

    Parameters
    ----------
    matrix : csr_array, shape (size, variables)
        One row for each entry of the tensor, in row-major order.
    offset : ndarray, shape (size,)
    shape : tuple of int
    carrier : callable, optional
        Returns an equal tensor whose entries are variables.  None for tensors without variables,
        whose arithmetic is that of constants.
    """

    matrix: sp.csr_array
    offset: FloatArray
    shape: tuple[int, ...]
    carrier: Callable[[Tensor], Tensor] | None = None

    @property
    def size(self) -> int:
        """Number of entries."""
        return int(self.offset.size)

    @property
    def nbytes(self) -> int:
        """Bytes of memory."""
        matrix = self.matrix
        return int(
            matrix.data.nbytes + matrix.indices.nbytes + matrix.indptr.nbytes + self.offset.nbytes
        )

    @property
    def index(self) -> IntArray:
        """The positions 0, 1, ... of the entries, in the shape of the tensor."""
        return np.arange(self.size).reshape(self.shape)

    @property
    def plain(self) -> BoolArray:
        """Which entries of the flattened tensor are just a variable."""
        plain = (np.diff(self.matrix.indptr) == 1) & (self.offset == 0.0)
        plain[plain] = self.matrix.data[self.matrix.indptr[:-1][plain]] == 1.0
        return np.asarray(plain)

    @property
    def fresh(self) -> bool:
        """Whether the entries are distinct variables."""
        indices = self.matrix.indices
        return bool(self.plain.all()) and np.unique(indices).size == indices.size

    def carried(self) -> Tensor:
        """Return an equal tensor whose entries are variables."""
        return self if self.carrier is None else self.carrier(self)

    def reshaped(self, shape: tuple[int, ...]) -> Tensor:
        """Return the same entries in another shape."""
        return replace(self, shape=shape)

    def take(self, index: IntArray) -> Tensor:
        """Return the tensor of the entries at the positions `index`, in the shape of `index`."""
        flat = index.reshape(-1)
        if flat.size == self.size and np.array_equal(flat, np.arange(self.size)):
            return self.reshaped(index.shape)
        _afford(np.diff(self.matrix.indptr)[flat].sum(dtype=np.float64))
        return Tensor(self.matrix[flat], self.offset[flat], index.shape, self.carrier)

    def broadcast(self, shape: tuple[int, ...]) -> Tensor:
        """Return the tensor repeated to `shape` by the usual broadcasting rules."""
        return self if shape == self.shape else self.take(np.broadcast_to(self.index, shape))

    def apply(self, operator: FloatArray | sp.csr_array, shape: tuple[int, ...]) -> Tensor:
        """Return a linear map of the flattened tensor, read as a tensor of the given shape."""
        exact = self.fresh or (
            product_is_exact(operator, self.matrix)
            and product_is_exact(operator, self.offset[:, None])
        )
        x = self if exact else self.carried()
        offset = np.asarray(operator @ x.offset)
        return Tensor(_product(operator, x.matrix), offset, tuple(shape), x.carrier)

    def scale(self, factors: npt.ArrayLike) -> Tensor:
        """Multiply by constants (broadcast both ways)."""
        values = np.asarray(factors, dtype=np.float64)
        target = self.broadcast(np.broadcast_shapes(self.shape, values.shape))
        flat = np.broadcast_to(values, target.shape).reshape(-1)
        each = np.repeat(flat, np.diff(target.matrix.indptr))
        exact = entries_are_exact(each, target.matrix.data).all()
        if not (exact and entries_are_exact(flat, target.offset).all()):
            target = target.carried()
            each = np.repeat(flat, np.diff(target.matrix.indptr))
        matrix = target.matrix.copy()
        matrix.data = matrix.data * each
        matrix.eliminate_zeros()
        return Tensor(matrix, target.offset * flat, target.shape, target.carrier)

    def shift(self, values: npt.ArrayLike) -> Tensor:
        """Add constants (broadcast both ways)."""
        constants = np.asarray(values, dtype=np.float64)
        target = self.broadcast(np.broadcast_shapes(self.shape, constants.shape))
        flat = np.broadcast_to(constants, target.shape).reshape(-1)
        if not sum_is_exact(target.offset, flat):
            target = target.carried()
        return replace(target, offset=target.offset + flat)

    def __add__(self, other: Tensor) -> Tensor:
        shape = np.broadcast_shapes(self.shape, other.shape)
        left, right = self.broadcast(shape), other.broadcast(shape)
        columns = max(left.matrix.shape[1], right.matrix.shape[1])
        a, b = widen(left.matrix, columns), widen(right.matrix, columns)
        matrix = sp.csr_array(a + b)
        exact = sum_is_exact(left.offset, right.offset) and matrix_sum_is_exact(a, b, matrix)
        carrier = left.carrier or right.carrier
        if not exact and carrier is not None:
            return left.carried() + right.carried()
        matrix.eliminate_zeros()
        return Tensor(matrix, left.offset + right.offset, shape, carrier)

    def __neg__(self) -> Tensor:
        return replace(self, matrix=-self.matrix, offset=-self.offset)

    def __sub__(self, other: Tensor) -> Tensor:
        return self + (-other)

    @staticmethod
    def constant(values: npt.ArrayLike) -> Tensor:
        """Constants as a tensor without variables."""
        array = np.asarray(values, dtype=np.float64)
        return Tensor(sp.csr_array((array.size, 0)), array.reshape(-1).copy(), array.shape)


def joined_tensors(parts: list[Tensor], axis: int) -> Tensor:
    """Tensors joined along an axis."""
    starts = np.cumsum([0, *(part.size for part in parts)])
    order = [part.index + start for part, start in zip(parts, starts, strict=False)]
    return stack(parts).take(np.concatenate(order, axis=axis))


def stack(parts: list[Tensor]) -> Tensor:
    """Return the entries of all parts, one after another, as one flat tensor."""
    columns = max(part.matrix.shape[1] for part in parts)
    matrix = sp.csr_array(sp.vstack([widen(part.matrix, columns) for part in parts], format="csr"))
    offset = np.concatenate([part.offset for part in parts])
    carriers = [part.carrier for part in parts if part.carrier is not None]
    return Tensor(matrix, offset, (offset.size,), carriers[0] if carriers else None)


def assembled(parts: list[Tensor], places: list[IntArray], shape: tuple[int, ...]) -> Tensor:
    """Return the tensor that has the entries of flat parts at given places, all of them once."""
    order = np.argsort(np.concatenate(places))
    return stack(parts).take(order.reshape(shape))


def tree(tensors: list[Tensor], join: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Join tensors in pairs, as a balanced tree."""
    while len(tensors) > 1:
        joined = [join(a, b) for a, b in zip(tensors[1::2], tensors[::2], strict=False)]
        tensors = joined + tensors[2 * len(joined) :]
    return tensors[0]


def are_shares(one: Tensor, other: Tensor) -> bool:
    """Return whether two flat tensors add up to one in each entry."""
    columns = max(one.matrix.shape[1], other.matrix.shape[1])
    left = abs(sp.csr_array(widen(one.matrix, columns) + widen(other.matrix, columns))).sum()
    total = one.offset + other.offset
    return bool(left == 0.0 and (total == 1.0).all() and sum_is_exact(one.offset, other.offset))


def bend(steep: Tensor, flat: Tensor) -> tuple[FloatArray, FloatArray]:
    """Detect ``flat = slope steep + constant``: the slopes, and the values at which both agree.

    Parameters
    ----------
    steep, flat : Tensor, of one flat shape

    Returns
    -------
    slope, kink : ndarray, shape (size,)
        NaN where the rows are not proportional, or either is not exact in float64.
    """
    rows, columns = steep.size, max(steep.matrix.shape[1], flat.matrix.shape[1])
    a, b = widen(steep.matrix, columns), widen(flat.matrix, columns)
    filled = np.flatnonzero(np.diff(a.indptr))
    at = a.indptr[filled]
    first = sp.csr_array((np.ones(filled.size), (filled, a.indices[at])), shape=(rows, columns))
    slope = np.asarray(b.multiply(first).sum(axis=1)).reshape(-1)
    with np.errstate(all="ignore"):
        slope[filled] /= a.data[at]
        each = np.repeat(slope, np.diff(a.indptr))
        wrong = sp.csr_array(abs(b - sp.diags_array(slope) @ a))
        rounded = sp.csr_array((~entries_are_exact(each, a.data), a.indices, a.indptr), a.shape)
        rise, share = slope * steep.offset, 1.0 - slope
        gap = flat.offset - rise
        kink = gap / share
        holds = entries_are_exact(slope, steep.offset) & entries_are_exact(kink, share)
        holds &= sums_are_exact(flat.offset, -rise) & sums_are_exact(np.ones(rows), -slope)
        holds &= kink * share == gap
    for matrix in (wrong, rounded):
        holds[np.repeat(np.arange(rows), np.diff(matrix.indptr))[matrix.data != 0]] = False
    return np.where(holds, slope, np.nan), np.where(holds, kink, np.nan)
