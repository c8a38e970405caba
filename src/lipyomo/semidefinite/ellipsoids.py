"""Multipliers in closed form: ellipsoids that hold the tangents of one block after the other.

Let N be the Gram matrix of all rows (units and objectives) in the inverse of the part of C that is
already built, so that a unit's row u has ``|u.w|^2 <= tau N_uu``.  A block of units that do not see
each other may be joined with any multipliers below ``4 N_block^{-1}``, because

    [[C, -U^T L / 2], [-L U / 2, L]]  is positive definite  if and only if  4 L^{-1} - N_block  is.

Diagonal L = 4 s T with ``T^{1/2} N_block T^{1/2} <= I`` and a share s < 1 will do.  This is the
layer-wise decomposition of LipSDP by Xu and Sivaranjani (ECLipsE, NeurIPS 2024), for two slopes
and decided units, and with the inputs' metric of a cube.  A few shapes and sizes of T are tried,
and the one that looks best from the next block is kept: one eigenvalue decomposition a shape.  What
looks best depends on how a block's Gram matrix is measured; of a few ways the best is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lipyomo.arrays import lengths
from lipyomo.network import FloatArray

_SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Shares s that are tried."""
_TINY = 1e-9
_LARGE = 1e150
"""Above it, and below its inverse, products overflow or vanish."""

_TRIES = 60

MANY = 512
"""Units from which on only one way of measuring is tried: the best one where targets are several
(a trained 784-1024-1024-10 network with 1,735 open units: 656, by the two others 744)."""


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
        for _ in range(_TRIES):
            if factor(y) is not None:
                return y
            y[: len(self.zeta)] *= 2.0
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
        decomposed = 20.0 * count**2 + 11.0 * behind * count
        cost += count * (decomposed + 3.0 * len(_SHARES) * ahead**2 + 3.0 * behind**2)
    return cost


def closed_form(
    rows: FloatArray,
    objectives: FloatArray,
    inputs: int,
    euclidean: bool,
    stop: Callable[[], bool] | None = None,
) -> ClosedForm | None:
    """Carry an ellipsoid of directions through the open units.

    Parameters
    ----------
    rows : ndarray, shape (F, d + F)
        Tangents of the open units.
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
    begin: list[_Joint] = []  # the first block is the same whatever the measure
    tries = 1 if count > MANY else len(parts) or 1
    for measure in (_sums, _trace, _roots)[:tries]:
        gram, lam = first, np.zeros(count)  # of the rows that are still to come
        joints: list[_Joint] = []
        for place, part in enumerate(parts):
            if stop() or not _largest(gram) < _LARGE:
                return found
            if part.start or not begin:
                passed = seen[part.stop :, inputs + part.start : inputs + part.stop]
                joints = _joints(gram, passed)
            else:
                joints = begin
            begin, size = begin or joints, part.stop - part.start
            gram = gram[size:, size:]
            if place + 1 < len(parts):
                ahead = parts[place + 1]
                lam[part], gram = _passed(measure, gram, joints, ahead.stop - ahead.start)
        for k, group in enumerate(groups):
            own, end = lam.copy(), gram[group, group]
            if parts:
                last = [joint.of(group) for joint in joints]
                own[parts[-1]], end = _passed(measure, end, last, len(end))
            best = found[k]
            if _largest(end) < _LARGE and (best is None or _largest(end) < _largest(best.gram)):
                found[k] = ClosedForm(zeta, own, end)
    return found


@dataclass(frozen=True)
class _Joint:
    """A block of b units joined with multipliers ``4 s T``, for any share s.

    Attributes
    ----------
    shape : ndarray, shape (b,)
        The diagonal of T.
    values : ndarray, shape (b,)
        Eigenvalues of ``T^{1/2} N T^{1/2}``.
    own, bent : ndarray, shape (n, b)
        Of the n rows behind the block, whose Gram matrix grows by ``G G^T``: G has the columns
        ``(own_j s^{-1/2} + bent_j s^{1/2}) (1 - s values_j)^{-1/2}``.
    """

    shape: FloatArray
    values: FloatArray
    own: FloatArray
    bent: FloatArray

    def of(self, rows: slice) -> _Joint:
        """The same with some of the rows only."""
        return replace(self, own=self.own[rows], bent=self.bent[rows])

    def grown(self, share: float, rows: slice = slice(None)) -> FloatArray:
        """Some rows of G."""
        both = self.own[rows] / np.sqrt(share) + np.sqrt(share) * self.bent[rows]
        return np.asarray(both / np.sqrt(1.0 - share * self.values))

    def squared_lengths(self, rows: slice) -> list[FloatArray]:
        """Squared lengths of some rows of G, one array a share."""
        own, bent = self.own[rows], self.bent[rows]
        squares, mixed, bents = np.square(own), own * bent, np.square(bent)
        found = []
        for share in _SHARES:
            weight = 1.0 / (1.0 - share * self.values)
            total = squares @ weight / share + 2.0 * (mixed @ weight) + share * (bents @ weight)
            found.append(np.maximum(total, 0.0))
        return found


def _largest(gram: FloatArray) -> float:
    """The largest squared length of a row."""
    return float(np.diagonal(gram).max(initial=0.0))


Measure = Callable[[FloatArray, _Joint, slice], list[float]]
"""Sizes of the Gram matrix of some rows, given the old one, one a share."""


def _passed(
    measure: Measure, gram: FloatArray, joints: list[_Joint], ahead: int
) -> tuple[FloatArray, FloatArray]:
    """Multipliers of a block that look best from the next rows, and the Gram matrix behind it."""
    rows = slice(0, ahead)
    sizes = np.array([measure(gram[rows, rows], joint, rows) for joint in joints])
    k, i = np.unravel_index(int(np.argmin(sizes)), sizes.shape)
    grown = joints[k].grown(_SHARES[i])
    return 4.0 * _SHARES[i] * joints[k].shape, gram + grown @ grown.T


def _trace(old: FloatArray, joint: _Joint, ahead: slice) -> list[float]:
    return [float(each.sum()) for each in joint.squared_lengths(ahead)]


def _roots(old: FloatArray, joint: _Joint, ahead: slice) -> list[float]:
    return [float(np.sqrt(np.diagonal(old) + each).sum()) for each in joint.squared_lengths(ahead)]


def _sums(old: FloatArray, joint: _Joint, ahead: slice) -> list[float]:
    grown = (joint.grown(share, ahead) for share in _SHARES)
    return [float(np.abs(old + each @ each.T).sum(axis=1).max()) for each in grown]


def _joints(gram: FloatArray, passed: FloatArray) -> list[_Joint]:
    """The first block of some rows joined in two shapes: one multiplier a unit, and one for all.

    Parameters
    ----------
    gram : ndarray
        Of the block's rows and of all that come after it.
    passed : ndarray
        The block's columns of the latter.
    """
    count = passed.shape[1]
    block, behind, found = gram[:count, :count], gram[count:, :count], []
    sums = np.abs(block).sum(axis=1)
    most = float(sums.max())
    least = _TINY * most if most > 1.0 / _LARGE else 1.0
    for each in (True, False):
        shape = 1.0 / np.maximum(sums, least) if each else np.ones(count)
        root = np.sqrt(shape)
        values, vectors = np.linalg.eigh(root[:, None] * block * root)
        if not each:
            largest = max(float(values[-1]), least)
            shape, values, root = shape / largest, values / largest, root / np.sqrt(largest)
        own = 0.5 * (passed / root) @ vectors
        bent = (behind * root) @ vectors
        found.append(_Joint(shape, np.minimum(values, 1.0), own, bent))
    return found
