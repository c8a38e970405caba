"""Multipliers in closed form: ellipsoids that hold the tangents of one block after the other.

Let N be the Gram matrix of all rows (units and objectives) in the inverse of the part of C that is
already built, so that a unit's row u has ``|u.w|^2 <= tau N_uu``.  A block of units that do not see
each other may be joined with any multipliers below ``4 N_block^{-1}``, because

    [[C, -U^T L / 2], [-L U / 2, L]]  is positive definite  if and only if  4 L^{-1} - N_block  is.

Diagonal L = 4 s T with ``T^{1/2} N_block T^{1/2} <= I`` and a share s < 1 will do.  This is the
layer-wise decomposition of LipSDP by Xu and Sivaranjani (ECLipsE, NeurIPS 2024), for two slopes
and stable units, and with the inputs' metric of a cube.  T is in proportion to the inverse sums of
the rows of N, and as large as the largest eigenvalue allows: with weights of many signs, that is
far more than the sums alone allow.  A few shares are tried, and the one that looks best from the
next block is kept: the one with the smallest sums of the rows of that block's Gram matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dtrtrs

from lipyomo.base.arrays import FloatArray, lengths
from lipyomo.relaxations.semidefinite.params import PARAMS

SHARES = tuple((k + 0.5) / PARAMS.shares for k in range(PARAMS.shares))
"""Shares s that are tried."""

_TINY = float(np.sqrt(np.finfo(np.float64).eps))
"""Shares below it are as good as nothing."""

OVERFLOW = float(1.0 / np.sqrt(np.finfo(np.float64).tiny))
"""Above it, and below its inverse, products overflow or vanish."""


@dataclass(frozen=True)
class ClosedForm:
    """Multipliers in closed form.

    Attributes
    ----------
    zeta : ndarray, shape (d,)
        Equal entries for a Euclidean ball; tau is one.
    lam : ndarray, shape (F,)
    gram : ndarray, shape (k, k)
        About ``N C^{-1} N^T`` of the objective rows.
    """

    zeta: FloatArray
    lam: FloatArray
    gram: FloatArray

    def definite(self, factor: Callable[[FloatArray], object | None]) -> FloatArray | None:
        """(zeta, lambda), zeta enlarged until `factor` accepts them; None if it never does."""
        y = np.concatenate([self.zeta, self.lam])
        return enlarged(y, len(self.zeta), factor)


def enlarged(
    y: FloatArray,
    count: int,
    factor: Callable[[FloatArray], object | None],
    growth: float = 2.0,
    tries: int = 60,
) -> FloatArray | None:
    """Multipliers whose first `count`, which only make C larger, grow until `factor` accepts them.

    None if it never does.
    """
    y = y.copy()
    for _ in range(tries):
        if factor(y) is not None:
            return y
        y[:count] *= growth
    return None


def blocks(rows: FloatArray, inputs: int) -> list[slice]:
    """Consecutive units that do not see each other: layers, or parts of several."""
    found, start = [], 0
    states = rows[:, inputs:]
    for k in range(1, len(rows)):
        if states[k, start:k].any():
            found.append(slice(start, k))
            start = k
    return [*found, slice(start, len(rows))] if len(rows) else []


def closed_form_cost(inputs: int, layers: Sequence[int]) -> float:
    """About how many operations of dense linear algebra a closed form takes, by its blocks."""
    cost, behind = 3.0 * inputs * float(sum(layers)) ** 2, float(sum(layers))
    for k, count in enumerate(layers):
        behind -= count
        ahead = layers[k + 1] if k + 1 < len(layers) else 0
        tried = 0.5 * count**2 + 2.0 * count * ahead + 2.0 * ahead**2
        largest = 4.0 * count**2  # an eigenvalue: 4/3, mostly of slower operations
        cost += count * (len(SHARES) * tried + largest + 2.0 * count * behind + 2.0 * behind**2)
    return cost


def closed_form(
    rows: FloatArray,
    objectives: FloatArray,
    inputs: int,
    euclidean: bool,
    stop: Callable[[], bool] | None = None,
) -> ClosedForm | None:
    """Carry an ellipsoid of directions through the unstable units.

    Parameters
    ----------
    rows : ndarray, shape (F, d + F)
        Tangents of the unstable units.
    objectives : ndarray, shape (k, d + F)
    inputs : int
        d.
    euclidean : bool
        The inputs' ball: Euclidean, or the cube.
    stop : callable, optional
        Polled between blocks; once True, the best of what is complete is the answer.

    Returns
    -------
    ClosedForm or None
        None if nothing is complete.
    """
    return closed_forms(rows, objectives, [slice(None)], inputs, euclidean, stop)[0]


def closed_forms(
    rows: FloatArray,
    objectives: FloatArray,
    groups: Sequence[slice],
    inputs: int,
    euclidean: bool,
    stop: Callable[[], bool] | None = None,
) -> list[ClosedForm | None]:
    """`closed_form` for several groups of objectives: only their last blocks differ.

    Parameters
    ----------
    rows, objectives, inputs, euclidean, stop
        See `closed_form`.
    groups : sequence of slice
        Of the objectives.

    Returns
    -------
    list of ClosedForm or None
        One a group.
    """
    stop = stop or (lambda: False)
    count = len(rows)
    seen = np.vstack([rows, objectives])
    zeta = np.ones(inputs)
    if not euclidean:  # sum_j zeta_j v_j^2 <= 1 on the cube, zeta along the lengths of the columns
        sizes = lengths(seen[:, :inputs], axis=0)
        zeta = np.maximum(sizes, _TINY * sizes.max(initial=0.0)) if sizes.any() else zeta
        zeta = zeta / zeta.sum()
    scaled = seen[:, :inputs] / np.sqrt(zeta)
    first = scaled @ scaled.T
    parts = blocks(rows, inputs)
    found: list[ClosedForm | None] = [None] * len(groups)
    gram, lam = first, np.zeros(count)  # of the rows that are still to come
    joint: _Joint | None = None
    for place, part in enumerate(parts):
        if stop() or not _largest(gram) < OVERFLOW:
            return found
        joint = _joint(gram, seen[part.stop :, inputs + part.start : inputs + part.stop])
        size = part.stop - part.start
        gram = gram[size:, size:]
        if place + 1 < len(parts):
            ahead = parts[place + 1]
            lam[part], gram = _passed(gram, joint, slice(0, ahead.stop - ahead.start))
    ends = [] if joint is None else [joint.grown(share) for share in SHARES]
    for k, group in enumerate(groups):
        own, end = lam.copy(), gram[group, group]
        if joint is not None:
            best = int(np.argmin([_sums(end, each[group]) for each in ends]))
            own[parts[-1]] = 4.0 * SHARES[best] * joint.shape
            end = end + ends[best][group] @ ends[best][group].T
        if _largest(end) < OVERFLOW:
            found[k] = ClosedForm(zeta, own, end)
    return found


@dataclass(frozen=True)
class _Joint:
    """A block of b units joined with multipliers ``4 s T``, for any share s.

    Attributes
    ----------
    shape : ndarray, shape (b,)
        The diagonal of T.
    block : ndarray, shape (b, b)
        ``T^{1/2} N T^{1/2}``, whose largest eigenvalue is one (or zero).
    own, bent : ndarray, shape (n, b)
        Of the n rows behind the block, whose Gram matrix grows by ``G G^T``, with
        ``G = (own s^{-1/2} + bent s^{1/2}) L^{-T}``, ``1 - s block = L L^T``.
    """

    shape: FloatArray
    block: FloatArray
    own: FloatArray
    bent: FloatArray

    def grown(self, share: float, rows: slice = slice(None)) -> FloatArray:
        """Some rows of G."""
        inner = -share * self.block
        inner.flat[:: len(inner) + 1] += 1.0
        lower, _ = dpotrf(inner.T, lower=1, overwrite_a=1)
        both = self.own[rows] / np.sqrt(share) + np.sqrt(share) * self.bent[rows]
        return np.asarray(dtrtrs(lower, both.T, lower=1)[0].T)


def _largest(gram: FloatArray) -> float:
    """The largest squared length of a row."""
    return float(np.diagonal(gram).max(initial=0.0))


def _passed(gram: FloatArray, joint: _Joint, ahead: slice) -> tuple[FloatArray, FloatArray]:
    """Multipliers of a block that look best from the rows ahead, and the Gram matrix behind it."""
    near = gram[ahead, ahead]
    share = min(SHARES, key=lambda each: _sums(near, joint.grown(each, ahead)))
    grown = joint.grown(share)
    return 4.0 * share * joint.shape, gram + grown @ grown.T


def _sums(old: FloatArray, grown: FloatArray) -> float:
    """The largest sum of a row of the Gram matrix, given the old one and the rows of G."""
    return float(np.abs(old + grown @ grown.T).sum(axis=1).max(initial=0.0))


def _joint(gram: FloatArray, passed: FloatArray) -> _Joint:
    """The first block of some rows, joined.

    Parameters
    ----------
    gram : ndarray
        Of the block's rows and of all that come after it.
    passed : ndarray
        The block's columns of the latter.
    """
    count = passed.shape[1]
    block, behind = gram[:count, :count], gram[count:, :count]
    sums = np.abs(block).sum(axis=1)
    most = float(sums.max())
    shape = 1.0 / np.maximum(sums, _TINY * most if most > 1.0 / OVERFLOW else 1.0)
    root = np.sqrt(shape)
    if count and most > 1.0 / OVERFLOW:
        shape = shape / _top(root[:, None] * block * root)
        root = np.sqrt(shape)
    return _Joint(shape, root[:, None] * block * root, 0.5 * (passed / root), behind * root)


def _top(block: FloatArray) -> float:
    """The largest eigenvalue of a scaled block: one over its order, at least.

    The row with the largest diagonal entry has no larger ones, so that its sum is at most the order
    times that entry.
    """
    last = len(block) - 1
    try:
        found = eigh(block, eigvals_only=True, subset_by_index=[last, last], check_finite=False)
    except np.linalg.LinAlgError:  # entries of very different sizes
        return 1.0  # no row sum is more
    return max(float(found[0]), 1.0 / len(block))
