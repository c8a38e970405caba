"""Semidefinite bounds of a node: the largest gradient norm over all switches of the open units.

A kernel (`barrier`, or `wide` for many inputs) minimises the bound over multipliers for one scalar
functional, another (`spectral`) for the whole Euclidean or l1 ball of functionals; `verify` proves
what they found.  This file puts norms together from these pieces:

- linf and l2 inputs: the unit ball of directions is a cube or a Euclidean ball;
- l1 inputs: the maximum over single input coordinates, each a cube of dimension one;
- linear output norms: the maximum over the vertices of the dual ball, with shared multipliers;
- l2 outputs (and l1 with many outputs): one bound over the ball of functionals.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from lipyomo.network import FloatArray
from lipyomo.norms import DUAL, InputNorm, vector_norm
from lipyomo.numerics.rounding import UNIT_ROUNDOFF
from lipyomo.semidefinite.choice import Ball, kernel_for
from lipyomo.semidefinite.columns import column_bounds, one_input
from lipyomo.semidefinite.descent import minimise
from lipyomo.semidefinite.kernel import Kernel
from lipyomo.semidefinite.reduce import IntArray, ReducedForm
from lipyomo.semidefinite.verify import VerifiedMatrix, verified_bound


@dataclass(frozen=True)
class Stop:
    """When to stop minimising.

    Attributes
    ----------
    target : float
        A bound at or below it is good enough.
    tolerance : float
        Relative accuracy of the minimum.
    iterations : int
        Most Newton steps for one functional or ball.
    """

    target: float = -np.inf
    tolerance: float = 1e-3
    iterations: int = 60


@dataclass(frozen=True)
class Multipliers:
    """Multipliers of a node, inherited by its children.

    Attributes
    ----------
    zeta : ndarray, shape (d,)
        Of the inputs (equal entries for the Euclidean ball).
    lam : ndarray, shape (F,)
        Of the open units.
    units : ndarray of int, shape (F, 2)
        (layer, unit) of each.
    gamma : ndarray, shape (p,), optional
        Of the outputs, for a ball of functionals.
    """

    zeta: FloatArray
    lam: FloatArray
    units: IntArray
    gamma: FloatArray | None = None

    def restricted(self, form: ReducedForm) -> Multipliers | None:
        """The multipliers of the units that are open in `form`, None for other inputs.

        Units without a multiplier get the largest one; the kernel finds out if that will do.
        """
        if len(self.zeta) != form.inputs:
            return None
        if len(self.units) == form.count and np.array_equal(self.units, form.units):
            return self
        if not self.units.size:
            return None
        stride = 1 + int(max(self.units[:, 1].max(), form.units[:, 1].max(initial=0)))
        mine = self.units[:, 0] * stride + self.units[:, 1]
        wanted = form.units[:, 0] * stride + form.units[:, 1]
        place = np.minimum(np.searchsorted(mine, wanted), mine.size - 1)
        lam = np.where(mine[place] == wanted, self.lam[place], self.lam.max())
        return Multipliers(self.zeta, lam, form.units, self.gamma)


@dataclass(frozen=True)
class NodeBound:
    """A proved bound and what it came from.

    Attributes
    ----------
    upper : float
        Proved.
    uppers : ndarray, shape (k,)
        Proved bounds of the single objective rows (one entry for a ball of functionals).
    multipliers : Multipliers or None
        Of the worst row; None when no unit is open.
    primal : ndarray, shape (d + F',)
        ``C^{-1} c / 2`` of the worst row: direction v (zero where not known) and switched tangents
        s of the units in `multipliers`.
    iterations : int
        Newton steps spent.
    """

    upper: float
    uppers: FloatArray
    multipliers: Multipliers | None
    primal: FloatArray
    iterations: int


def node_bound(
    form: ReducedForm,
    input_norm: InputNorm,
    ball: Ball = "vertices",
    warm: Multipliers | None = None,
    stop: Stop | None = None,
) -> NodeBound:
    """Bound the operator norm over all switches of the open units.

    Parameters
    ----------
    form : ReducedForm
        Its objective rows are vertices y of the dual ball (``ball='vertices'``), or the rows of
        the Jacobian itself for the balls ``'l2'`` and ``'l1'``.
    input_norm : {'linf', 'l2', 'l1'}
    ball : {'vertices', 'l2', 'l1'}, optional
    warm : Multipliers, optional
        A parent's multipliers.
    stop : Stop, optional
        Target, accuracy, and the most Newton steps.

    Returns
    -------
    NodeBound
    """
    stop = stop or Stop()
    if input_norm == "l1":
        return _over_columns(form, ball, warm, stop)
    if form.count == 0 and ball == "vertices":
        return _decided(form, input_norm)
    grouped = input_norm == "l2"
    if ball != "vertices" or len(form.objective) == 1:
        return _single(form, grouped, ball, warm, stop)
    return _over_vertices(form, grouped, warm, stop)


def _decided(form: ReducedForm, input_norm: InputNorm) -> NodeBound:
    """No open unit: dual norms of the gradients, with their rounding."""
    dual = DUAL[input_norm]
    uppers = vector_norm(form.objective, dual) + form.rounding * vector_norm(
        form.objective_size, dual
    )
    uppers = uppers * (1.0 + 2 * UNIT_ROUNDOFF * (form.inputs + 2))
    return NodeBound(float(uppers.max()), uppers, None, np.zeros(form.inputs), 0)


def _single(
    form: ReducedForm, grouped: bool, ball: Ball, warm: Multipliers | None, stop: Stop
) -> NodeBound:
    """Minimise and prove the bound for the functional, or ball of functionals, of `form`."""
    if not np.any(form.objective):
        upper = form.rounding * _reach(form, form.objective_size.sum(axis=0))
        return NodeBound(upper, np.array([upper]), warm, np.zeros(form.rows.shape[1]), 0)
    form = form.relevant()
    kernel, wide = kernel_for(form.rows, form.objective, form.inputs, grouped, ball), form.inputs
    inherited = None if warm is None else warm.restricted(form)
    start = None if inherited is None else _flat(inherited, kernel)
    target = stop.target if np.isfinite(stop.target) else None
    state = minimise(kernel, start, target, stop.iterations, stop.tolerance)
    if state is None:
        return NodeBound(np.inf, np.array([np.inf]), None, np.zeros(form.rows.shape[1]), 0)
    p, narrow = kernel.outputs, kernel.inputs
    y = state.multipliers
    gamma = y[:p] if p else None
    zeta = y[p : p + narrow] if narrow == wide else np.full(wide, y[p])
    lam = y[p + narrow :]
    primal = np.zeros(form.rows.shape[1])
    if not p:
        primal[wide:] = state.primal[narrow:]
        if narrow == wide:
            primal[:wide] = state.primal[:narrow]
    weights = gamma if ball == "l1" else None
    upper = verified_bound(form, np.arange(len(form.objective)), zeta, lam, grouped, weights)
    found = Multipliers(zeta, lam, form.units, gamma)
    return NodeBound(upper, np.array([upper]), found, primal, state.iterations)


def _flat(warm: Multipliers, kernel: Kernel) -> FloatArray | None:
    """Warm multipliers as the kernel's vector; None if they lack the outputs' part."""
    d = kernel.inputs
    zeta = warm.zeta if len(warm.zeta) == d else np.full(d, warm.zeta[0])
    if not kernel.outputs:
        return np.concatenate([zeta, warm.lam])
    if warm.gamma is None or len(warm.gamma) != kernel.outputs:
        return None
    return np.concatenate([warm.gamma, zeta, warm.lam])


def _reach(form: ReducedForm, sizes: FloatArray) -> float:
    """Interval bound of ``sizes . |w|`` with ``|v_i| <= 1`` and ``|s_k| <= |u_k|``."""
    reach = np.ones(form.rows.shape[1])
    for k, row in enumerate(form.row_size):
        reach[form.inputs + k] = row[: form.inputs + k] @ reach[: form.inputs + k]
    return float(sizes @ reach) * (1.0 + form.rounding)


def _over_vertices(
    form: ReducedForm, grouped: bool, warm: Multipliers | None, stop: Stop
) -> NodeBound:
    """The worst vertex decides: multipliers are shared, and optimised for it until none is worse.

    The rounds are bounded: whatever multipliers a row has, its bound is proved.
    """
    count = len(form.objective)
    uppers = np.full(count, np.inf)
    optimised = np.zeros(count, dtype=bool)
    kept: list[NodeBound | None] = [None] * count
    shared = warm.restricted(form) if warm is not None else None
    steps = 0
    if shared is not None:
        _share(form, grouped, shared, uppers)
    while True:
        finite = np.isfinite(uppers)
        sizes = np.abs(form.objective).sum(axis=1)
        worst = int(np.argmax(uppers if finite.all() else np.where(finite, -1.0, sizes)))
        if optimised[worst] or uppers[worst] <= stop.target:
            break
        # multipliers of another functional prove bounds, but are a poor start
        single = _single(form.select(np.array([worst])), grouped, "vertices", None, stop)
        steps += single.iterations
        optimised[worst], kept[worst] = True, single
        if single.multipliers is not None:
            shared = single.multipliers
            if len(shared.lam) == form.count:
                _share(form, grouped, shared, uppers)
        uppers[worst] = min(uppers[worst], single.upper)
        if not np.isfinite(uppers[worst]):
            break
    best = kept[int(np.argmax(uppers))]
    primal = best.primal if best is not None else np.zeros(form.rows.shape[1])
    return NodeBound(float(uppers.max()), uppers, shared, primal, steps)


def _share(form: ReducedForm, grouped: bool, shared: Multipliers, uppers: FloatArray) -> None:
    """Lower `uppers` (k,) in place by what the multipliers of another row prove."""
    matrix = VerifiedMatrix(form, shared.zeta, shared.lam)
    if not matrix.accepted:
        return
    tau = float(shared.zeta.max()) if grouped else float(shared.zeta.sum())
    root = float(np.sqrt(tau)) * (1.0 + UNIT_ROUNDOFF * (len(shared.zeta) + 8))
    for row in range(len(uppers)):
        uppers[row] = min(uppers[row], root * matrix.quadratic(np.array([row])))


def _over_columns(form: ReducedForm, ball: Ball, warm: Multipliers | None, stop: Stop) -> NodeBound:
    """l1 inputs: the worst entry of the gradient (or column of the Jacobian) decides."""
    rows, d = len(form.objective), form.inputs
    if ball != "vertices":
        return _over_ball_columns(form, ball, stop)
    uppers = np.full((rows, d), np.inf)
    if form.count == 0:
        uppers = column_bounds(form, np.zeros(0))
        return NodeBound(float(uppers.max()), uppers.max(axis=1), None, np.zeros(d), 0)
    inherited = _units_only(warm, form)
    if inherited is not None:
        uppers = column_bounds(form, inherited)
    optimised = np.zeros((rows, d), dtype=bool)
    shared, primal, steps = inherited, np.zeros(d + form.count), 0
    while True:
        finite = np.isfinite(uppers)
        rank = uppers if finite.all() else np.where(finite, -1.0, np.abs(form.objective[:, :d]))
        row, column = divmod(int(np.argmax(rank)), d)
        if optimised[row, column] or uppers[row, column] <= stop.target:
            break
        small = one_input(form, column).select(np.array([row]))
        single = _single(small, False, "vertices", None, stop)
        optimised[row, column] = True
        steps += single.iterations
        if single.multipliers is None or not np.isfinite(single.upper):
            break
        uppers[row, column] = min(uppers[row, column], single.upper)
        if len(single.multipliers.lam) == form.count:
            shared = single.multipliers.lam
            uppers = np.minimum(uppers, column_bounds(form, shared))
            primal = np.insert(single.primal[1:], 0, np.zeros(d))
            primal[column] = single.primal[0]
    found = None if shared is None else Multipliers(np.ones(d), shared, form.units)
    return NodeBound(float(uppers.max()), uppers.max(axis=1), found, primal, steps)


def _units_only(warm: Multipliers | None, form: ReducedForm) -> FloatArray | None:
    """The inherited lambda of the units open in `form`."""
    if warm is None:
        return None
    inherited = warm.restricted(form)
    return None if inherited is None else inherited.lam


def _over_ball_columns(form: ReducedForm, ball: Ball, stop: Stop) -> NodeBound:
    """l1 inputs and a ball of functionals: one column of the Jacobian after the other."""
    d = form.inputs
    worst: NodeBound | None = None
    at, steps = 0, 0
    for column in range(d):
        small = one_input(form, column)
        if worst is not None:  # a column is done as soon as it cannot be the worst
            stop = replace(stop, target=max(stop.target, worst.upper))
        single = _single(small, False, ball, None, stop)
        steps += single.iterations
        if worst is None or single.upper > worst.upper:
            worst, at = single, column
    assert worst is not None
    primal = np.insert(worst.primal[1:], 0, np.zeros(d))
    primal[at] = worst.primal[0]
    found = worst.multipliers
    if found is not None:
        found = Multipliers(np.full(d, found.zeta[0]), found.lam, found.units, found.gamma)
    return NodeBound(worst.upper, np.array([worst.upper]), found, primal, steps)
