"""A proved bound from the multipliers of a chain, by one verified Cholesky factorisation per layer.

Majorants ``R_i`` of the Riccati matrices are computed from the outputs to the inputs (see
`lipyomo.relaxations.semidefinite.chain`).  Each is an exact matrix of floating-point numbers with

    [[R_{i-1} - F^T R_i F, -G^T],       Q = diag(lambda) - H R_i H,
     [-G,                   Q  ]]       G = diag(lambda) A / 2 + H R_i F

positive definite for the exact weights.  Then ``y_{i-1}^T R_{i-1} y_{i-1}`` is at least the sum of
``y_i^T R_i y_i`` and all ``lambda_k s_k (u_k - s_k)`` of the layer, none of which is negative.
So ``|M J v|^2 / 4 <= v^T R_0 v``, whose maximum over the ball is verified last.

Each matrix is scaled to a diagonal of about one, by powers of two and hence exactly: the majorants
of twenty layers may grow by fifteen orders of magnitude.  The rounding error of a matrix is bounded
in the Frobenius norm by sums of absolute terms, and subtracted from its diagonal before it is
factorised (Rump, "Verification of positive definiteness", BIT 46, 2006).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lipyomo.base.arrays import FloatArray, dense
from lipyomo.base.numerics.rounding import UNDERFLOW, UNIT_ROUNDOFF, gamma
from lipyomo.networks.network import Layer
from lipyomo.problems.affine.signal import UnitMap
from lipyomo.relaxations.semidefinite.chain import Step, eliminated
from lipyomo.relaxations.semidefinite.verify import (
    LARGEST,
    SMALL,
    VANISHED,
    cholesky_or_none,
    cholesky_slack,
    powers,
    proved_shift,
)

_LEAST = 1e-13
"""First share of a majorant's diagonal added to make the matrix definite; more is tried next."""
_GROWTH = 8.0
_MOST = 1e-3
"""Largest share: beyond it the proof is given up."""
_FLOOR = 1e-14
"""Diagonal entries below this share of the largest are replaced by it in what is added."""
_STEEP = 1e20
"""Largest magnitude of weights, for the same reason; above it nothing is proved."""
_STRETCHED = 1e90
"""Largest scaling factor for which `VANISHED` suffices."""


@dataclass(frozen=True, eq=False)
class Layered:
    """A network under phases with its original weights: no layers multiplied, no inputs rotated.

    Attributes
    ----------
    layers : sequence of Layer
        The hidden layers.
    unit_maps : sequence of UnitMap
        One for each layer.
    head, head_errors : ndarray, shape (m, n)
        M, and error bounds of its entries.
    euclidean : bool
        Whether the ball of directions is Euclidean, or the cube.
    """

    layers: Sequence[Layer]
    unit_maps: Sequence[UnitMap]
    head: FloatArray
    head_errors: FloatArray
    euclidean: bool


def proved_chain_bound(network: Layered, lam: FloatArray, shape: FloatArray | None) -> float:
    """Return a proved upper bound of ``|M J v|`` over the ball; infinite if the proof fails.

    Parameters
    ----------
    network : Layered
    lam : ndarray, shape (N,)
        Multipliers of the unstable units of all layers.
    shape : ndarray, shape (d,), or None
        Proportions of the inputs' multipliers; None if all are equal.

    Returns
    -------
    float
    """
    with np.errstate(all="ignore"):
        found = _proved(network, lam, shape)
    return found if np.isfinite(found) else np.inf


def _proved(network: Layered, lam: FloatArray, shape: FloatArray | None) -> float:
    counts = [each.units.size for each in network.unit_maps]
    if not (lam.size == sum(counts) and np.isfinite(lam).all() and (lam > 0.0).all()):
        return np.inf
    ends = np.cumsum([0, *counts]).tolist()
    majorant: FloatArray | None = _of_head(network.head, network.head_errors)
    first = dense(network.layers[0].weight)
    narrow = first.shape[0] < first.shape[1]
    for i in reversed(range(len(counts))):
        weight = dense(network.layers[i].weight)
        if i == 0 and narrow:  # majorant in the pre-activations, which are fewer than the inputs
            weight = np.eye(len(weight))
        if majorant is None:
            return np.inf
        step = Step.of(weight, network.unit_maps[i])
        majorant = before(step, majorant, lam[ends[i] : ends[i + 1]])
    if majorant is None:
        return np.inf
    root = np.ones(first.shape[1]) if shape is None else 1.0 / np.sqrt(shape)
    tau = 1.0
    if not network.euclidean:  # D = 1 / root^2 exactly, for the rounded roots
        tau = float((1.0 / root**2).sum()) * (1.0 + gamma(root.size + 4))
    elif root.max() != root.min():
        return np.inf
    else:
        root = np.ones(root.size)
    largest = _largest(majorant, first if narrow else None, root)
    return 2.0 * float(np.sqrt(tau * largest)) * (1.0 + 8.0 * UNIT_ROUNDOFF)


def _of_head(head: FloatArray, errors: FloatArray) -> FloatArray:
    """Return a majorant of ``M^T M / 4`` for the exact M."""
    sizes = np.abs(head)
    found = 0.25 * (head.T @ head)
    loose = gamma(len(head) + 4) * (sizes.T @ sizes)
    loose += sizes.T @ errors + errors.T @ sizes + errors.T @ errors
    # a symmetric matrix is majorised by the diagonal of its absolute row sums
    spread = np.maximum(loose, loose.T).sum(axis=1) * (1.0 + gamma(2 * len(loose) + 8))
    found = _symmetric(found)
    diagonal = found.diagonal() + (spread + UNDERFLOW)
    found[np.diag_indices_from(found)] = diagonal * (1.0 + 4.0 * UNIT_ROUNDOFF)
    return found


def before(step: Step, majorant: FloatArray, lam: FloatArray) -> FloatArray | None:
    """Return a proved majorant before a layer, given one behind it; None if the proof fails.

    Parameters
    ----------
    step : Step
        With exact weights; products of slopes and weights, and changes of slope, may be rounded
        once.
    majorant : ndarray, shape (n, n)
        Symmetric, taken as exact.
    lam : ndarray, shape (o,)
        Positive, taken as exact.

    Returns
    -------
    ndarray, shape (p, p), or None
    """
    if not (_inside(float(majorant.diagonal().max())) and _within(step, lam)):
        return None
    passed, seen = _behind(step, majorant)
    if step.count:
        found = eliminated(step, majorant, lam)
        if found is None:
            return None
        near = _symmetric(found[2])
    else:
        near = _symmetric(passed)
    top = float(near.diagonal().max())
    if not _inside(top):
        return None
    extra = np.maximum(near.diagonal(), _FLOOR * top)
    joint = _Joint.of(step, majorant, lam, passed, seen, near, extra)
    share = _LEAST
    while share < _MOST:
        tried = near.copy()
        tried[np.diag_indices_from(tried)] += share * extra
        if joint.is_definite(tried):
            return tried
        share *= _GROWTH
    return None


@dataclass(frozen=True, eq=False)
class _Joint:
    """The matrix of a layer without the majorant before it, in lower triangles.

    Attributes
    ----------
    passed : ndarray, shape (p, p)
        ``F^T R_i F``.
    mixed : ndarray, shape (o, p)
        G.
    quadratic : ndarray, shape (o, o)
        Q.
    scale : ndarray, shape (p + o,)
        Powers of two that make the diagonal about one.
    distance : float
        Bound of the difference of exact and computed scaled matrix, in the Frobenius norm.
    """

    passed: FloatArray
    mixed: FloatArray
    quadratic: FloatArray
    scale: FloatArray
    distance: float

    @classmethod
    def of(
        cls,
        step: Step,
        majorant: FloatArray,
        lam: FloatArray,
        passed: FloatArray,
        seen: FloatArray,
        near: FloatArray,
        extra: FloatArray,
    ) -> _Joint:
        """Build it, with error bounds for majorants from `near` to ``near + diag(extra)``."""
        change, p = step.change, near.shape[0]
        terms = 2 * step.width + 16
        halves = 0.5 * lam[:, None] * step.open_rows
        mixed = halves + change[:, None] * seen
        inner = change[:, None] * majorant[np.ix_(step.units, step.units)] * change
        quadratic = -inner
        quadratic[np.diag_indices_from(quadratic)] += lam
        sizes_passed, sizes_seen = _behind(step, np.abs(majorant), sizes=True)
        sizes = np.empty((p + step.count, p + step.count))
        sizes[:p, :p] = gamma(terms) * sizes_passed + gamma(0) * np.abs(near)
        sizes[:p, :p][np.diag_indices(p)] += gamma(0) * extra
        sizes[p:, :p] = gamma(terms) * (np.abs(change)[:, None] * sizes_seen)
        sizes[p:, :p] += gamma(0) * np.abs(halves)
        sizes[:p, p:] = sizes[p:, :p].T
        sizes[p:, p:] = gamma(8) * (np.abs(inner) + np.diag(lam))
        scale = powers(np.concatenate([extra, np.maximum(quadratic.diagonal(), 0.0)]))
        sizes *= scale
        sizes *= scale[:, None]
        distance = float(np.linalg.norm(sizes)) * (1.0 + gamma(sizes.size)) + VANISHED
        return cls(passed, mixed, quadratic, scale, distance)

    def is_definite(self, majorant: FloatArray) -> bool:
        """Whether the exact matrix with this majorant before the layer is proved definite."""
        p, size = len(majorant), len(self.scale)
        matrix = np.zeros((size, size))
        matrix[:p, :p] = majorant - self.passed
        matrix[p:, :p] = -self.mixed
        matrix[p:, p:] = self.quadratic
        matrix *= self.scale
        matrix *= self.scale[:, None]
        diagonal = matrix.diagonal()
        if not (np.isfinite(matrix).all() and diagonal.min() > 0.0):
            return False
        if self.scale.max() > _STRETCHED:
            return False
        trace = float(diagonal.sum())
        needed = self.distance + cholesky_slack(trace, size) + gamma(0) * float(diagonal.max())
        matrix[np.diag_indices(size)] -= needed * (1.0 + gamma(0))
        return np.isfinite(needed) and cholesky_or_none(matrix.T, overwrite=True) is not None


def _behind(step: Step, majorant: FloatArray, sizes: bool = False) -> tuple[FloatArray, FloatArray]:
    """Return ``F^T R F`` and the rows of ``R F`` of unstable units; with |F| if `sizes`."""
    rows = np.abs(step.passed_rows) if sizes else step.passed_rows
    inputs = rows.shape[1]
    if not step.passed.size:
        return np.zeros((inputs, inputs)), np.zeros((step.count, inputs))
    through = majorant[:, step.passed] @ rows
    return rows.T @ through[step.passed], through[step.units]


def _largest(majorant: FloatArray, weight: FloatArray | None, root: FloatArray) -> float:
    """Prove a bound of the largest eigenvalue of ``diag(root) W^T R W diag(root)``; W is I if None.

    With ``R <= L L^T`` it is at most the squared norm of ``L^T W diag(root)``.
    """
    n = len(majorant)
    diagonal = majorant.diagonal()
    extra = np.maximum(diagonal, _FLOOR * diagonal.max())
    units = powers(extra)
    scaled = units[:, None] * majorant * units
    loose = gamma(n + 8) * 4.0 * n  # |L| |L^T| has rows of lengths one or two
    shifted = scaled.copy()
    shifted[np.diag_indices(n)] += loose
    if not np.isfinite(shifted).all():
        return np.inf
    lower = cholesky_or_none(shifted)
    if lower is None or not np.isfinite(lower).all():
        return np.inf
    errors = gamma(n + 8) * float(np.linalg.norm(np.abs(lower) @ np.abs(lower.T)))
    if not errors + gamma(0) * float(shifted.diagonal().max()) < loose:
        return np.inf
    lower = lower / units[:, None]
    if weight is None:
        reached, sizes = lower.T * root, np.abs(lower.T) * root
    else:
        columns = weight * root
        reached, sizes = lower.T @ columns, np.abs(lower.T) @ np.abs(columns)
    off = gamma(n + 8) * float(np.linalg.norm(sizes))
    gram = _symmetric(reached @ reached.T)
    if not np.isfinite(gram).all():
        return np.inf
    lost = gamma(root.size + 8) * float(np.linalg.norm(np.abs(reached) @ np.abs(reached.T)))
    top = float(np.linalg.eigvalsh(gram)[-1])
    gap = -gram
    gap[np.diag_indices_from(gap)] += top
    shift = proved_shift(gap, lost + gamma(0) * (abs(top) + float(gram.diagonal().max())))
    length = np.sqrt(max(top + shift, 0.0)) * (1.0 + gamma(0)) + off + VANISHED
    return float(length * length) * (1.0 + gamma(0))


def _inside(size: float) -> bool:
    """Whether products of numbers of this size neither overflow nor underflow."""
    return bool(SMALL < size < LARGEST)


def _within(step: Step, lam: FloatArray) -> bool:
    """Whether a layer's numbers are far from overflow, and its multipliers from underflow."""
    parts = (step.open_rows, step.passed_rows, step.change)
    sizes = [float(np.abs(part).max(initial=0.0)) for part in parts]
    ends = (float(lam.min()), float(lam.max())) if lam.size else ()
    return max(sizes) < _STEEP and all(_inside(end) for end in ends)


def _symmetric(matrix: FloatArray) -> FloatArray:
    """Return the symmetric matrix with this lower triangle."""
    return np.asarray(np.tril(matrix) + np.tril(matrix, -1).T)
