"""Multipliers of a chain in closed form: forwards with ellipsoids, backwards with majorants.

Forwards it is the layer-wise decomposition of LipSDP by Xu and Sivaranjani (ECLipsE, NeurIPS 2024;
see `lipyomo.relaxations.semidefinite.ellipsoids`) on the signal of one layer at a time.  Backwards
a diagonal ``D >= H^T P H`` is chosen layer by layer, and ``lambda = D / share``.  D consists of row
sums weighted by the sizes of the pre-activations, which suits units with small weights too.
"""

from __future__ import annotations

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.relaxations.semidefinite.chain import Chain, ChainPoint, Step, eliminated
from lipyomo.relaxations.semidefinite.ellipsoids import OVERFLOW

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75)
"""Shares that are tried for each layer: with only five, bounds of 20 layers start twice as high."""

_DEAD = 1e-7
"""Smallest size of a unit relative to the largest; smaller ones are raised to it, as multipliers
proportional to the inverse sizes of dead units would be too large for a central path."""


def proportions(chain: Chain) -> FloatArray:
    """Return initial proportions of zeta: ones, or for a cube the lengths of the columns."""
    if chain.euclidean:
        return np.ones(chain.inputs)
    first = chain.steps[0]
    squares = np.square(first.open_rows).sum(axis=0) + np.square(first.passed_rows).sum(axis=0)
    sizes = np.sqrt(squares)
    sizes = np.maximum(sizes, _DEAD * sizes.max(initial=0.0)) if sizes.any() else sizes + 1.0
    return np.asarray(sizes / sizes.sum())


def _forwards(chain: Chain, shares: tuple[float, ...] = SHARES) -> FloatArray | None:
    """Choose multipliers (N,) from the inputs to the outputs; None if numbers overflow.

    Several shares of the largest multipliers that keep the matrix definite are tried.  Each layer
    takes the share with the smallest maximal row sum of the next layer's Gram matrix.

    Parameters
    ----------
    chain : Chain
    shares : tuple of float, optional
        Shares to try.
    """
    signal = np.diag(1.0 / proportions(chain))
    found = []
    ahead = [*(step.open_rows for step in chain.steps[1:]), chain.head]
    for step, near in zip(chain.steps, ahead, strict=True):
        seen = step.open_rows @ signal
        block = seen @ step.open_rows.T
        sums = np.abs(block).sum(axis=1)
        if not 0.0 < sums.max() < OVERFLOW:
            return None
        shape = 1.0 / np.maximum(sums, _DEAD**2 * sums.max())
        root = np.sqrt(shape)
        scaled = root[:, None] * block * root
        top = float(np.linalg.eigvalsh(scaled)[-1])
        shape, scaled, root = shape / top, scaled / top, root / np.sqrt(top)
        forward = step.all_passed()
        own, passed = forward @ signal @ forward.T, 0.5 * (forward @ seen.T)
        best, least = None, np.inf
        for share in shares:
            factor = 2.0 * np.sqrt(share) * root
            joint = passed * factor
            joint[step.units, np.arange(step.count)] += step.change / factor
            rest = np.eye(step.count) - share * scaled
            after = own + joint @ np.linalg.solve(rest, joint.T)
            size = float(np.abs(near @ after @ near.T).sum(axis=1).max())
            if size < least:
                best, least = (4.0 * share * shape, 0.5 * (after + after.T)), size
        if best is None:
            return None
        found.append(best[0])
        signal = best[1]
    lam = np.concatenate(found)
    end = float(np.linalg.eigvalsh(chain.head @ signal @ chain.head.T)[-1])
    return lam * (0.25 * end) if 0.0 < end < OVERFLOW else None


def backwards(chain: Chain, sizes: list[FloatArray] | None = None) -> FloatArray | None:
    """Choose multipliers (N,) from the outputs to the inputs; None if numbers overflow.

    Parameters
    ----------
    chain : Chain
    sizes : list of ndarray, shapes (p_i, p_i), optional
        Covariances of the signals before each layer; by default with unstable units half on.
    """
    before = _half_open(chain) if sizes is None else sizes
    inner = 0.25 * (chain.head.T @ chain.head)
    found = []
    for step, signal in zip(reversed(chain.steps), reversed(before), strict=True):
        lengths = np.sqrt(np.maximum(((step.open_rows @ signal) * step.open_rows).sum(axis=1), 0.0))
        lengths = np.maximum(lengths, _DEAD * lengths.max(initial=0.0))
        if not lengths.max() > 0.0:
            lengths = np.ones(step.count)
        block = step.change[:, None] * inner[np.ix_(step.units, step.units)] * step.change
        rows = np.abs(block) @ lengths
        if not 0.0 < rows.max() < OVERFLOW:
            return None
        shape = np.maximum(rows, 1e-12 * rows.max()) / lengths
        root = 1.0 / np.sqrt(shape)
        shape = shape * max(float(np.linalg.eigvalsh(root[:, None] * block * root)[-1]), 1e-9)
        tried = [_tried(step, inner, shape / share, signal) for share in SHARES]
        best = min(tried, key=lambda each: each[0])
        if not np.isfinite(best[0]):
            return None
        found.append(best[1])
        inner = 0.5 * (best[2] + best[2].T)
    return np.concatenate(found[::-1])


def _tried(
    step: Step, inner: FloatArray, lam: FloatArray, signal: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return the mean of the form before a layer over the signal, the multipliers, and the form."""
    found = eliminated(step, inner, lam)
    if found is None:
        return np.inf, lam, inner
    return float((found[2] * signal).sum()), lam, found[2]


def _half_open(chain: Chain) -> list[FloatArray]:
    """Return covariances before each layer with unstable units half on, scaled to mean one."""
    found = [np.eye(chain.inputs)]
    for step in chain.steps[:-1]:
        forward = step.forward(0.5 * step.open_rows)
        after = forward @ found[-1] @ forward.T
        size = np.trace(after) / len(after)
        found.append(after / size if size > 0.0 else np.eye(len(after)))
    return found


def start(chain: Chain) -> ChainPoint | None:
    """Return the best point in closed form; None if numbers overflow in all of them."""
    shape = proportions(chain)

    def at(lam: FloatArray | None) -> ChainPoint | None:
        if lam is None:
            return None
        return chain.at(lam, None, shape)

    given = [_forwards(chain), _forwards(chain, (0.5,)), backwards(chain)]
    points = [point for point in map(at, given) if point is not None]
    points += [p for p in (at(backwards(chain, chain.sizes(q))) for q in points) if p is not None]
    return min(points, key=lambda p: p.value, default=None)
