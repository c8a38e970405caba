"""Multipliers in closed form: ellipsoids that contain the tangents, block after block.

Let N be the Gram matrix of all rows (units and objectives) in the inverse of the part of C that is
already built, so that a unit's row u has ``|u.w|^2 <= tau N_uu``.  A block of units that do not
depend on each other may be added with any multipliers below ``4 N_block^{-1}``, because

    [[C, -U^T L / 2], [-L U / 2, L]]  is positive definite  if and only if  4 L^{-1} - N_block  is.

A diagonal L = 4 s T with ``T^{1/2} N_block T^{1/2} <= I`` and a share s < 1 is feasible.  This is
the layer-wise decomposition of LipSDP by Xu and Sivaranjani (ECLipsE, NeurIPS 2024), extended to
two slopes, stable units and cubes of inputs.  T is proportional to the inverse row sums of |N| and
scaled by the largest eigenvalue; with weights of mixed signs this is far larger than a scaling by
the row sums alone.  Several shares are tried, and the one with the smallest maximal row sum of the
next block's Gram matrix is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dtrtrs

from lipyomo.base.arrays import FloatArray, lengths
from lipyomo.relaxations.semidefinite.params import PARAMS

SHARES = tuple((k + 0.5) / PARAMS.shares for k in range(PARAMS.shares))
"""Shares s that are tried."""

_TINY = float(np.sqrt(np.finfo(np.float64).eps))
"""Relative sizes below it are raised to it."""

OVERFLOW = float(1.0 / np.sqrt(np.finfo(np.float64).tiny))
"""Limit of magnitudes: above it, and below its inverse, products may overflow or underflow."""


class ClosedForm(NamedTuple):
    """Multipliers in closed form.

    Attributes
    ----------
    zeta : ndarray, shape (d,)
        Equal entries for a Euclidean ball; tau is one.
    lam : ndarray, shape (F,)
    gram : ndarray, shape (k, k)
        Approximate Gram matrix of the objective rows in ``C^{-1}``.
    """

    zeta: FloatArray
    lam: FloatArray
    gram: FloatArray

    def definite(self, factor: Callable[[FloatArray], object | None]) -> FloatArray | None:
        """Return (zeta, lambda), zeta enlarged until `factor` succeeds; None if it never does."""
        y = np.concatenate([self.zeta, self.lam])
        return enlarged(y, len(self.zeta), factor)


def enlarged(
    y: FloatArray,
    count: int,
    factor: Callable[[FloatArray], object | None],
    growth: float = 2.0,
    tries: int = 60,
) -> FloatArray | None:
    """Enlarge the first `count` multipliers, which makes C larger, until `factor` succeeds.

    None if it never does.
    """
    y = y.copy()
    for _ in range(tries):
        if factor(y) is not None:
            return y
        y[:count] *= growth
    return None


def blocks(rows: FloatArray, inputs: int) -> list[slice]:
    """Split into blocks of consecutive units that are independent of each other, as layers are."""
    found, start = [], 0
    states = rows[:, inputs:]
    for k in range(1, len(rows)):
        if states[k, start:k].any():
            found.append(slice(start, k))
            start = k
    return [*found, slice(start, len(rows))] if len(rows) else []


def closed_form_cost(inputs: int, layers: Sequence[int]) -> float:
    """Estimate the operations of dense linear algebra of a closed form with these blocks."""
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
        Whether the ball of inputs is Euclidean, or the cube.
    stop : callable, optional
        Polled between blocks; once True, the result is None.

    Returns
    -------
    ClosedForm or None
        None if it was stopped, or numbers overflow.
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
    """Compute `closed_form` for groups of objectives, which differ in the last block only.

    Parameters
    ----------
    rows, objectives, inputs, euclidean, stop
        See `closed_form`.
    groups : sequence of slice
        Groups of the objectives.

    Returns
    -------
    list of ClosedForm or None
        One for each group.
    """
    stop = stop or (lambda: False)
    count = len(rows)
    seen = np.vstack([rows, objectives])
    zeta = np.ones(inputs)
    if not euclidean:  # sum_j zeta_j v_j^2 <= 1 on the cube, zeta as the lengths of the columns
        sizes = lengths(seen[:, :inputs], axis=0)
        zeta = np.maximum(sizes, _TINY * sizes.max(initial=0.0)) if sizes.any() else zeta
        zeta = zeta / zeta.sum()
    scaled = seen[:, :inputs] / np.sqrt(zeta)
    first = scaled @ scaled.T
    parts = blocks(rows, inputs)
    found: list[ClosedForm | None] = [None] * len(groups)
    gram, lam = first, np.zeros(count)  # gram: of the remaining rows
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


class _Joint(NamedTuple):
    """A block of b units added with multipliers ``4 s T``, for any share s.

    Attributes
    ----------
    shape : ndarray, shape (b,)
        The diagonal of T.
    block : ndarray, shape (b, b)
        ``T^{1/2} N T^{1/2}``, whose largest eigenvalue is one (or zero).
    own, bent : ndarray, shape (n, b)
        For the n rows behind the block, whose Gram matrix grows by ``G G^T`` with
        ``G = (own s^{-1/2} + bent s^{1/2}) L^{-T}``, ``1 - s block = L L^T``.
    """

    shape: FloatArray
    block: FloatArray
    own: FloatArray
    bent: FloatArray

    def grown(self, share: float, rows: slice = slice(None)) -> FloatArray:
        """Return some rows of G."""
        inner = -share * self.block
        inner.flat[:: len(inner) + 1] += 1.0
        lower, _ = dpotrf(inner.T, lower=1, overwrite_a=1)
        both = self.own[rows] / np.sqrt(share) + np.sqrt(share) * self.bent[rows]
        return np.asarray(dtrtrs(lower, both.T, lower=1)[0].T)


def _largest(gram: FloatArray) -> float:
    """Return the largest squared length of a row."""
    return float(np.diagonal(gram).max(initial=0.0))


def _passed(gram: FloatArray, joint: _Joint, ahead: slice) -> tuple[FloatArray, FloatArray]:
    """Choose a block's share by the rows ahead: its multipliers, and the Gram matrix behind it."""
    near = gram[ahead, ahead]
    share = min(SHARES, key=lambda each: _sums(near, joint.grown(each, ahead)))
    grown = joint.grown(share)
    return 4.0 * share * joint.shape, gram + grown @ grown.T


def _sums(old: FloatArray, grown: FloatArray) -> float:
    """Return the largest absolute row sum of a Gram matrix that grows by ``G G^T``."""
    return float(np.abs(old + grown @ grown.T).sum(axis=1).max(initial=0.0))


def _joint(gram: FloatArray, passed: FloatArray) -> _Joint:
    """Add the first block of the remaining rows.

    Parameters
    ----------
    gram : ndarray
        Gram matrix of the block's rows and all later ones.
    passed : ndarray
        Coefficients of the block's units in the later rows.
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
    """Return the largest eigenvalue of a block scaled by its row sums: at least one over its order.

    In the unscaled block the row of the largest diagonal entry has no larger entries, so that its
    sum is at most the order times that entry.
    """
    last = len(block) - 1
    try:
        found = eigh(block, eigvals_only=True, subset_by_index=[last, last], check_finite=False)
    except np.linalg.LinAlgError:  # entries of very different sizes
        return 1.0  # an upper bound, by the row sums
    return max(float(found[0]), 1.0 / len(block))
