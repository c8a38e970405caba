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

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lipyomo.network import FloatArray

_SHARES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_TINY = 1e-9
_TRIES = 60


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


def closed_form(
    rows: FloatArray, objectives: FloatArray, inputs: int, euclidean: bool
) -> ClosedForm:
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

    Returns
    -------
    ClosedForm
    """
    count = len(rows)
    seen = np.vstack([rows, objectives])
    zeta = np.ones(inputs)
    if not euclidean:  # sum_j zeta_j v_j^2 <= 1 on the cube, zeta along the lengths of the columns
        lengths = np.sqrt(np.square(seen[:, :inputs]).sum(axis=0))
        zeta = np.maximum(lengths, _TINY * lengths.max(initial=0.0)) if lengths.any() else zeta
        zeta = zeta / zeta.sum()
    first = (seen[:, :inputs] / zeta) @ seen[:, :inputs].T
    parts = blocks(rows, inputs)
    found: ClosedForm | None = None
    for measure in (_trace, _roots, _sums)[: len(parts) or 1]:
        gram, lam = first, np.zeros(count)
        for part, ahead in zip(parts, [*parts[1:], slice(count, len(seen))], strict=True):
            passed = seen[:, inputs + part.start : inputs + part.stop]
            lam[part], grown = _joined(gram, passed, part, ahead, measure)
            gram = gram + grown @ grown.T
        end = gram[count:, count:]
        if found is None or float(np.trace(end)) < float(np.trace(found.gram)):
            found = ClosedForm(zeta, lam, end)
    assert found is not None
    return found


def _trace(old: FloatArray, grown: FloatArray) -> float:
    return float(np.square(grown).sum())


def _roots(old: FloatArray, grown: FloatArray) -> float:
    return float(np.sqrt(np.diagonal(old) + np.square(grown).sum(axis=1)).sum())


def _sums(old: FloatArray, grown: FloatArray) -> float:
    return float(np.abs(old + grown @ grown.T).sum(axis=1).max())


def _joined(
    gram: FloatArray,
    passed: FloatArray,
    part: slice,
    ahead: slice,
    measure: Callable[[FloatArray, FloatArray], float],
) -> tuple[FloatArray, FloatArray]:
    """Multipliers of a block, and a square root of what it adds to the Gram matrix."""
    block = gram[part, part]
    best: tuple[float, FloatArray, FloatArray, FloatArray, FloatArray, float] | None = None
    for shape in _shapes(block):
        root = np.sqrt(shape)
        values, vectors = np.linalg.eigh(root[:, None] * block * root)
        values = np.minimum(values, 1.0)
        own = 0.5 * (passed / root) @ vectors
        bent = (gram[:, part] * root) @ vectors
        for share in _SHARES:
            grown = own[ahead] / np.sqrt(share) + np.sqrt(share) * bent[ahead]
            size = measure(gram[ahead, ahead], grown / np.sqrt(1.0 - share * values))
            if best is None or size < best[0]:
                best = (size, shape, values, own, bent, share)
    assert best is not None
    _, shape, values, own, bent, share = best
    grown = own / np.sqrt(share) + np.sqrt(share) * bent
    return 4.0 * share * shape, grown / np.sqrt(1.0 - share * values)


def _shapes(block: FloatArray) -> list[FloatArray]:
    """T with ``T^{1/2} N T^{1/2} <= I``: one multiplier a unit, and one for all."""
    sums = np.abs(block).sum(axis=1)
    most = float(sums.max())
    if not most > 0:
        return [np.ones(len(block))]
    largest = max(float(np.linalg.eigvalsh(block)[-1]), _TINY * most)
    return [1.0 / np.maximum(sums, _TINY * most), np.full(len(block), 1.0 / largest)]
