r"""Proved bounds of networks with large sparse layers, such as convolutions, by sparse operations.

A unit with slopes in [a, b] has a slope ``c + h e`` with ``c = (a + b)/2``, ``h = (b - a)/2`` and
some e in [-1, 1].  Layer by layer, this splits the derivative along v,

    M J v = W v + sum_j B_j H_j E_j W_j v,   W = M C_L A_L ... C_1 A_1,   W_j = A_j C_{j-1} ... A_1,

where ``B_j`` is the derivative behind layer j, and ``|E_j W_j v| <= |W_j v|`` for each unit.
For diagonals ``D_j`` with ``|B_j s|^2 <= s^T D_j s`` and any kappa with ``sum 1 / kappa_j = 1``,
Cauchy-Schwarz gives

    |M J v|^2 <= v^T R v,    R = kappa_0 W^T W + sum_j kappa_j W_j^T H_j D_j H_j W_j,

and the largest eigenvalue of R is the square of a bound.  The diagonals are computed from the
outputs to the inputs: ``D_L >= M^T M`` and ``D_{j-1} >= A_j^T D_j max(a^2, b^2) A_j``.  With
multiples of the identity they would be products of norms; R also accounts for the angles between
the layers' singular directions.  Nothing is inverted, so all matrices stay sparse, and each
diagonal is proved by one factorisation of a band matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from lipyomo.base.arrays import FloatArray, Matrix, dense, scaled_rows
from lipyomo.base.clock import Clock
from lipyomo.base.numerics.exact import product_is_exact
from lipyomo.base.numerics.rounding import UNIT, gamma
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import Phases
from lipyomo.problems.affine.signal import UnitMap, unit_maps_of
from lipyomo.problems.targets import Targets
from lipyomo.relaxations.semidefinite.sparse_forms import largest
from lipyomo.relaxations.semidefinite.sparse_majorants import (
    ENTRIES,
    gram,
    longest,
    multiple,
    product_entries,
    proved_multiple,
    squares,
)
from lipyomo.relaxations.semidefinite.verify import LARGEST, SMALL

_FLOOR = 1e-14
"""Smallest entry of a diagonal, relative to the largest."""
_TRIED = 5
"""Number of directions that kappa is adapted to, one after the other."""
_COARSE = 1e-3
"""Relative accuracy of norms that only guide choices."""


@dataclass(frozen=True, eq=False)
class SparseStep:
    """A layer: its weights, and ranges of its units' slopes.

    Attributes
    ----------
    weight : ndarray or sparse array, shape (n, p)
    middle, half : ndarray, shape (n,)
        c and h: the slopes are in [c - h, c + h], with c and h taken as exact.
    """

    weight: Matrix
    middle: FloatArray
    half: FloatArray

    @classmethod
    def of(cls, layer: Layer, unit_map: UnitMap) -> SparseStep:
        """Build the step of a layer with two-slope units under phases."""
        middle, half = unit_map.slope.copy(), np.zeros(layer.units)
        units = unit_map.units
        left, right = layer.left[units], layer.right[units]
        middle[units] = 0.5 * (left + right)
        half[units] = np.maximum(np.abs(left - middle[units]), np.abs(right - middle[units]))
        half[units] *= 1.0 + UNIT  # covers the rounding of the differences
        return cls(layer.weight, middle, half)

    @property
    def steepest(self) -> FloatArray:
        """Upper bounds of the absolute slopes."""
        return np.asarray((np.abs(self.middle) + self.half) * (1.0 + 4.0 * UNIT))


def sparse_bounds(
    network: Network,
    phases: Phases,
    targets: Targets,
    clock: Clock,
    report: Callable[[float], object],
) -> FloatArray:
    """Prove bounds of all targets, shape (T,); infinite where the proof fails.

    All functionals are first bounded together by their Euclidean ball, then one by one, the largest
    first, as long as there is time.

    Parameters
    ----------
    network : Network
        With two-slope units, and directions as its inputs.
    phases : tuple of ndarray
    targets : Targets
        Not of l1 inputs; a target that stands for all functionals must be their Euclidean ball.
    clock : Clock
    report : callable
        Called with a bound of all targets whenever a target was bounded.
    """
    unit_maps = unit_maps_of(network.hidden, phases, network.input_dim)
    steps = [SparseStep.of(*pair) for pair in zip(network.hidden, unit_maps, strict=True)]
    head = dense(network.head.weight)
    heads = np.asarray(targets.functionals @ head)
    errors = np.zeros(heads.shape)
    if not product_is_exact(targets.functionals, head):
        errors = gamma(network.output_dim) * np.asarray(np.abs(targets.functionals) @ np.abs(head))
    euclidean = targets.norm == "l2"
    found = np.full(targets.count, sparse_bound(steps, heads, errors, euclidean, clock))
    report(float(found.max()))
    single = set(range(targets.count)) if targets.count > 1 else set()
    while single and not clock.expired:
        worst = int(np.argmax(found))
        if worst not in single:
            break
        single.remove(worst)
        row = slice(int(targets.rows[worst]), int(targets.rows[worst]) + 1)
        own = sparse_bound(steps, heads[row], errors[row], euclidean, clock)
        found[worst] = min(found[worst], own)
        report(float(found.max()))
    return found


def sparse_bound(
    steps: Sequence[SparseStep],
    head: Matrix,
    head_errors: FloatArray,
    euclidean: bool,
    clock: Clock | None = None,
) -> float:
    """Prove a bound of ``|M J v|`` over a ball; infinite if the proof fails.

    Parameters
    ----------
    steps : sequence of SparseStep
    head : ndarray or sparse array, shape (m, n)
        M.
    head_errors : ndarray, shape (m, n)
        Error bounds of the entries of M.
    euclidean : bool
        Whether the ball of inputs is Euclidean, or the cube.
    clock : Clock, optional
        Work that does not fit into the time left is skipped.
    """
    clock = clock or Clock()
    with np.errstate(all="ignore"):
        diagonals = _diagonals(steps, head, head_errors, euclidean, clock)
        if diagonals is None:
            return np.inf
        square = _squared(diagonals[0], euclidean)
        if not clock.expired:
            split = _split(steps, head, head_errors, diagonals, euclidean, clock)
            square = min(square, np.inf if split is None else _squared(split, euclidean))
    return float(np.sqrt(square)) * (1.0 + UNIT) if np.isfinite(square) else np.inf


def _squared(diagonal: FloatArray, euclidean: bool) -> float:
    """Return the maximum of ``v^T diag v`` over the ball."""
    return float(diagonal.max() if euclidean else diagonal.sum()) * (1.0 + gamma(diagonal.size))


# -- diagonals from the outputs to the inputs ------------------------------------------------------


def _diagonals(
    steps: Sequence[SparseStep],
    head: Matrix,
    errors: FloatArray,
    euclidean: bool,
    clock: Clock,
) -> list[FloatArray] | None:
    """Return D before each layer and behind the last one; None without a proof, or out of time."""
    sizes = abs(head) + errors
    room = sizes.T @ errors.sum(axis=1) + errors.T @ np.asarray(sizes.sum(axis=1))
    room = np.asarray(room) * (1.0 + gamma(sum(head.shape)))  # for the errors of M
    at, found = len(steps), list[FloatArray]()
    ones = np.ones(head.shape[0])
    for weight, inner in [(head, ones), *((step.weight, None) for step in reversed(steps))]:
        if clock.expired:
            return None
        if inner is None:
            steep = steps[at].steepest
            inner = steep**2 * found[-1] * (1.0 + 4.0 * UNIT)
            if not inner.any() and ((steep > 0.0) & (found[-1] > 0.0)).any():
                return None  # underflow
        cube = at == 0 and not euclidean
        diagonal = _above(weight, inner, cube, clock)
        if diagonal is None:
            return None
        found.append(diagonal if found else diagonal + room)
        at -= 1
    return found[::-1]


def _above(weight: Matrix, inner: FloatArray, cube: bool, clock: Clock) -> FloatArray | None:
    """Return a diagonal that is proved to majorise ``A^T diag(inner) A``."""
    lengths = np.asarray(squares(weight).T @ inner)
    top = float(lengths.max())
    if not (abs(weight).max() and inner.any()):
        return np.zeros(lengths.size)
    if not SMALL < top < LARGEST:
        return None
    sums = np.asarray(abs(weight).T @ (inner * (abs(weight) @ np.ones(lengths.size))))
    shape = np.ones(lengths.size)
    if cube:
        shape = np.maximum(sums, _FLOOR)
        shape = shape / shape.max()

    def product(v: FloatArray) -> FloatArray:
        return np.asarray(weight.T @ (inner * (weight @ v)))

    mu = multiple(weight, inner, shape, largest(product, shape)[0], clock)
    if np.isfinite(mu):
        return np.asarray(mu * shape * (1.0 + 4.0 * UNIT))
    # by diagonal dominance
    return np.asarray(sums * (1.0 + gamma(4 * longest(weight))))


# -- the derivative as a sum -----------------------------------------------------------------------


def _split(
    steps: Sequence[SparseStep],
    head: Matrix,
    errors: FloatArray,
    diagonals: Sequence[FloatArray],
    euclidean: bool,
    clock: Clock,
) -> FloatArray | None:
    """Return a diagonal that is proved to majorise R; None if R is too large."""
    d = steps[0].weight.shape[1]
    crossed = [step.half**2 * own for step, own in zip(steps, diagonals[1:], strict=True)]
    weights = [*(step.weight for step in steps), head]
    kappa = _kappa(steps, weights, crossed)
    parts: list[tuple[Matrix, FloatArray, list[Matrix]]] = []
    reached: Matrix = weights[0]
    for j, weight in enumerate(weights):
        if j:
            if product_entries(weight, reached) > ENTRIES:
                return None
            reached = weight @ scaled_rows(reached, steps[j - 1].middle)
            reached = sp.csr_array(reached) if sp.issparse(reached) else np.asarray(reached)
        last = j == len(steps)
        inner = np.ones(weight.shape[0]) if last else crossed[j]
        chain = [scaled_rows(step.weight, step.middle) for step in steps[:j]]
        sizes = np.abs(dense(weight)) + errors if last else weight
        parts.append((reached, kappa[j] * inner, [*chain, sizes]))
    if not (kappa > 0.0).all() or float((1.0 / kappa).sum()) * (1.0 + gamma(len(kappa))) > 1.0:
        return None
    form = gram(parts, errors if errors.any() else None)
    if form is None:
        return None
    shape = np.ones(d)
    if not euclidean:
        rows = np.asarray(abs(form) @ shape)
        shape = np.maximum(rows / rows.max(), _FLOOR)
    return np.asarray(proved_multiple(form, shape, clock) * shape * (1.0 + 4.0 * UNIT))


def _kappa(
    steps: Sequence[SparseStep], weights: Sequence[Matrix], crossed: Sequence[FloatArray]
) -> FloatArray:
    """Choose kappa for a small norm of R, by adapting it to the worst direction in turn.

    At a direction with terms q_j the best kappa_j is ``sum_i sqrt(q_i) / sqrt(q_j)``, by
    Cauchy-Schwarz.
    """
    count, d = len(weights), weights[0].shape[1]
    kappa = best = np.full(count, float(count))
    least = np.inf
    for _ in range(_TRIED):

        def product(v: FloatArray, kappa: FloatArray = kappa) -> FloatArray:
            signals = _signals(steps, weights, v)
            back = kappa[-1] * (weights[-1].T @ signals[-1])
            for j in reversed(range(count - 1)):
                back = steps[j].middle * back + kappa[j] * crossed[j] * signals[j]
                back = weights[j].T @ back
            return np.asarray(back)

        size, v = largest(product, np.ones(d), _COARSE)
        if size < least:
            best, least = kappa, size
        signals = _signals(steps, weights, v)
        terms = [own @ (u * u) for own, u in zip(crossed, signals[:-1], strict=True)]
        roots = np.sqrt(np.maximum([*terms, signals[-1] @ signals[-1]], 0.0))
        roots = np.maximum(roots / roots.sum(), 1e-4)
        shares = np.sqrt(roots / roots.sum() / kappa)  # halfway between old and new ones
        kappa = shares.sum() / shares
    return best * (1.0 + gamma(4 * count))


def _signals(
    steps: Sequence[SparseStep], weights: Sequence[Matrix], v: FloatArray
) -> list[FloatArray]:
    """Return ``W_j v`` for each j, and ``W v``."""
    found = [np.asarray(weights[0] @ v)]
    for step, weight in zip(steps, weights[1:], strict=True):
        found.append(np.asarray(weight @ (step.middle * found[-1])))
    return found
