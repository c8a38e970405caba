"""The second step: tighten pre-activation bounds by dual ascent (alpha-beta-CROWN).

It returns bounds with the multipliers that prove them, and decides units by these bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.system.memory import BATCH
from lipyomo.networks.phases import LEFT, OPEN, RIGHT
from lipyomo.problems.affine.system import FlatPhases, UnitSystem
from lipyomo.relaxations.linear.dual_ascent import DualAscent
from lipyomo.relaxations.linear.dual_steps import SingleArray, WantedBounds
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.search.spaces.phases.node import WarmStart
from lipyomo.search.spaces.phases.params import Params

Seen = tuple[BoolArray, BoolArray]
"""Units that are inactive, and units that are active, at known points."""


def tighten(
    ascent: DualAscent,
    system: UnitSystem,
    stack: Stack,
    warm_start: Sequence[WarmStart | None],
    seen: Sequence[Seen | None],
    params: Params | None = None,
    is_proof: bool = False,
    aim: int | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> list[WarmStart | None]:
    """Tighten the nodes of `stack` in place.

    Parameters
    ----------
    ascent : DualAscent
    system : UnitSystem
    stack : Stack
        The nodes after propagation.
    warm_start : sequence of WarmStart or None
        Multipliers of each node's parent.
    seen : sequence of (ndarray of bool, ndarray of bool) or None
        Units that are inactive, and active, at known points of the node.
    params : Params, optional
    is_proof : bool, optional
        For a proof to be written: no further rounds for bounds near to deciding their units, and,
        with several layers, as many steps as without a warm start, so that the proof has fewer
        cases to write and check.
    aim : int, optional
        A unit whose upper bound is wanted in any case, and whose phase is enforced even if it has
        no kink in the system.
    stop : callable, optional
        Polled regularly; once True, nothing more is tightened.

    Returns
    -------
    list of WarmStart or None
        Multipliers for the nodes' children.
    """
    params = params or Params()
    kinked = system.kinked
    if aim is not None:
        kinked = kinked.copy()
        kinked[aim] = True
    last = system.starts[-2] if system.depth else 0
    wanted = _wanted(stack, warm_start, seen, last)
    if aim is not None:
        wanted[:, 2 * aim] = stack.alive
    bytes_each = np.dtype(np.float32).itemsize * ascent.columns
    most = BATCH // (bytes_each * max(len(wanted), 1))
    parts = [_nearest(stack, b, np.flatnonzero(row), most) for b, row in enumerate(wanted)]
    node = np.repeat(np.arange(len(parts)), [part.size for part in parts])
    keys = np.concatenate(parts)
    cold = (is_proof and system.depth > 1) or not all(warm_start)
    few, shares = params.ascent_steps, params.near
    if system.depth <= params.shallow:
        few, shares = 2 * few, shares[1:2]
    most = params.ascent_steps * params.ascent_cold if cold else few
    steps = int(min(most, params.ascent_work // (ascent.work * keys.size))) if keys.size else 0
    if not steps or stop():
        return list(warm_start)
    rows = WantedBounds(node, keys // 2, np.where(keys % 2 == 0, 1.0, -1.0))
    relaxation = ascent.relax(stack.phases, stack.lower, stack.upper, stack.low, stack.high)
    start = np.empty((rows.count, ascent.columns), dtype=np.float32)
    known = np.zeros(rows.count, dtype=bool)
    stops = np.cumsum([part.size for part in parts]).tolist()
    spans = [slice(stop - part.size, stop) for stop, part in zip(stops, parts, strict=True)]
    for b, own in enumerate(warm_start):
        if own is not None and own.keys.size:
            start[spans[b]], known[spans[b]] = _inherited(own, parts[b], stack.phases[b])
    if not known.all():
        new = np.flatnonzero(~known)
        start[new] = ascent.start(relaxation, rows[new])
    found = ascent.ascend(relaxation, rows, start, steps, stop)
    bounds = ascent.bounds(relaxation, rows, found, stop)
    _accept(stack, rows, bounds, kinked)
    if not is_proof:
        for share in shares:
            near = _near(stack, rows, bounds, share)
            if not near.size or stop():
                break
            room = params.ascent_work // (ascent.work * near.size)
            some = rows[near]  # given the units decided meanwhile
            relaxation = ascent.relax(stack.phases, stack.lower, stack.upper, stack.low, stack.high)
            found[near] = ascent.ascend(relaxation, some, found[near], int(min(few, room)))
            bounds[near] = ascent.bounds(relaxation, some, found[near])
            _accept(stack, some, bounds[near], kinked)
    half = np.clip(found, -6e4, 6e4).astype(np.float16)
    return [
        WarmStart(stack.phases[b].copy(), part, half[span].copy())
        for b, (part, span) in enumerate(zip(parts, spans, strict=True))
    ]


def _near(
    stack: Stack, rows: WantedBounds, bounds: FloatArray, share: float
) -> npt.NDArray[np.intp]:
    """Return the bounds that miss deciding their unit by at most this share of its range."""
    node, unit = rows.node, rows.unit
    reach = share * (stack.upper - stack.lower)[node, unit]
    open_still = stack.alive[node] & (stack.phases[node, unit] == OPEN)
    return np.flatnonzero(open_still & (bounds > 0.0) & (bounds < reach))


def _accept(stack: Stack, rows: WantedBounds, bounds: FloatArray, kinked: BoolArray) -> None:
    """Write new bounds into the stack, and decide the units that follow."""
    up = rows.sign > 0
    np.minimum.at(stack.upper, (rows.node[up], rows.unit[up]), bounds[up])
    np.maximum.at(stack.lower, (rows.node[~up], rows.unit[~up]), -bounds[~up])
    stack.decide_and_cut(kinked)


def _wanted(
    stack: Stack, warm_start: Sequence[WarmStart | None], seen: Sequence[Seen | None], last: int
) -> BoolArray:
    """Return which bounds are needed, by key, shape (B, 2 N); `last` is the last layer's start."""
    still = (stack.phases == OPEN) & stack.alive[:, None]
    wanted = np.stack([still, still], axis=2)
    for b in np.flatnonzero(stack.alive).tolist():
        sides, parent = seen[b], warm_start[b]
        if sides is not None:
            left, right = sides
            wanted[b, last:, 0] &= ~right[last:]
            wanted[b, last:, 1] &= ~left[last:]
        elif parent is not None:  # a bound that contradicts a decided phase closes the node
            phases = stack.phases[b]
            new = np.flatnonzero((parent.phases == OPEN) & (phases != OPEN))
            wanted[b, new, 0] |= phases[new] == RIGHT
            wanted[b, new, 1] |= phases[new] == LEFT
    return wanted.reshape(len(wanted), -1)


def _nearest(stack: Stack, b: int, keys: IntArray, most: int) -> IntArray:
    """Select at most `most` of the keys: those of the bounds nearest to deciding a unit."""
    if keys.size <= most:
        return keys
    far = np.stack([stack.upper[b], -stack.lower[b]], axis=1).reshape(-1)[keys]
    return np.sort(keys[np.argsort(far, kind="stable")[:most]])


def _inherited(
    before: WarmStart, keys: IntArray, phases: FlatPhases
) -> tuple[SingleArray, BoolArray]:
    """Return the parent's multipliers for the wanted bounds, and which of these it has."""
    place = np.minimum(np.searchsorted(before.keys, keys), before.keys.size - 1)
    values = before.values[place].astype(np.float32)
    values[:, np.flatnonzero((before.phases == OPEN) & (phases != OPEN))] = 0.0
    return values, np.asarray(before.keys[place] == keys)
