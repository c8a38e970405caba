"""Bounds of pre-activations in proofs: which ones are written, and with what margin.

They come from dual ascent, from CROWN, or from intervals on unbounded domains.  The accepted bounds
are those that the rounded multipliers prove, with a margin for the checker's own rounding; later
steps use these, not the original ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.networks.phases import OPEN
from lipyomo.proofs.case import Case
from lipyomo.proofs.context import Recording
from lipyomo.relaxations.linear.dual_ascent import DualAscent
from lipyomo.relaxations.linear.dual_steps import SingleArray, WantedBounds
from lipyomo.relaxations.linear.layers import Stack
from lipyomo.relaxations.linear.preactivation import propagate
from lipyomo.search.spaces.phases.tighten import tighten
from lipyomo_check import linear as checked
from lipyomo_check.parts import rational

Written = list[Any]
"""A bound as written to the file: unit, side, value, weights."""


ROUGH = 4.0 * float(np.finfo(np.float32).eps)
"""Margin of bounds, relative to the sizes of their terms: the checker's lines are of float64
numbers, its chords have 24 bits; ours are float32."""


def tightened(recording: Recording, cases: Sequence[Case]) -> list[Case]:
    """Bound the pre-activations of cases; this may close some of them."""
    if not recording.search.domain.is_bounded:
        return [_by_intervals(recording, case) for case in cases]
    ascent = recording.search.ascent
    if ascent is None or not cases:
        return list(cases)
    found = _crown(recording, ascent, cases)
    before = [case.still if case.is_open else 0 for case in found]
    found = _where(found, before, lambda own: _ascend(recording, ascent, own))
    fewer = [case.is_open and case.still < old for case, old in zip(found, before, strict=True)]
    return _where(found, fewer, lambda own: _crown(recording, ascent, own))


def _where(
    cases: Sequence[Case], use: Iterable[int], step: Callable[[list[Case]], list[Case]]
) -> list[Case]:
    """Apply a step to some of the cases, and return all."""
    found, used = list(cases), [k for k, own in enumerate(use) if own]
    for k, case in zip(used, step([cases[k] for k in used]) if used else [], strict=True):
        found[k] = case
    return found


def _by_intervals(recording: Recording, case: Case) -> Case:
    """Add interval bounds on an unbounded domain, as far as the checker confirms them."""
    linear, system = recording.linear, recording.search.system
    stack = Stack.of([case.ours])
    propagate(system.network.hidden, recording.search.domain, stack, linear=False)
    for start, stop in pairwise(system.starts):
        given: list[checked.Bound] = []
        for k in range(start, stop):
            if case.node.phases[k] == checked.OPEN:
                low, high = float(stack.lower[0, k]), float(stack.upper[0, k])
                sides = (1, high, case.node.upper[k]), (-1, -low, -case.node.lower[k])
                given += [(k, sign, new, checked.NONE) for sign, new, old in sides if new < old]
        above = linear.above(case.node, [({k: sign}, own) for k, sign, _, own in given])
        known = [
            bound
            for bound, function in zip(given, above, strict=True)
            if linear.at_most(case.node, function, rational(bound[2]))
        ]
        if known and case.is_open:
            nothing = [0, [[], []], [[], []], [[], []]]
            record = [[k, "R" if sign > 0 else "L", v, nothing] for k, sign, v, _ in known]
            case = _noted(recording, case, record)
    return case


def _crown(recording: Recording, ascent: DualAscent, cases: Sequence[Case]) -> list[Case]:
    """Add bounds by CROWN for the units that these decide or tighten much."""
    system, found = recording.search.system, list(cases)
    stack = Stack.of([case.ours for case in cases])
    width = stack.upper - stack.lower
    still = stack.phases == OPEN
    with np.errstate(invalid="ignore"):
        recording.search.substitute_back(stack)
        matters = system.layer_of < system.depth - 1
        new = stack.upper - stack.lower
        least = (1.0 - recording.params.gain) * width
        shrunk = ~np.isfinite(width) | ((new < least) & matters)
    use = still & (shrunk | (stack.phases != OPEN))
    for start, stop in pairwise(system.starts):
        alive = np.array([case.is_open for case in found])
        node, unit = np.nonzero(use[:, start:stop] & alive[:, None])
        keys = np.repeat(2 * (start + unit), 2) + np.tile([0, 1], len(unit))
        found = _stated(recording, ascent, found, np.repeat(node, 2), keys, None)
    return found


def _ascend(recording: Recording, ascent: DualAscent, cases: Sequence[Case]) -> list[Case]:
    """Add those bounds that dual ascent improves."""
    context, params = recording.search, recording.search.params
    steps = params.ascent_cold * params.ascent_steps
    work = 2 * steps * ascent.work * max(case.still for case in cases)
    share = max(params.ascent_work // work, 1)
    if len(cases) > share:  # smaller batches, so that all steps are taken
        parts = cases[:share], cases[share:]
        return [case for part in parts for case in _ascend(recording, ascent, part)]
    found = list(cases)
    stack = Stack.of([case.ours for case in cases])
    width, before = stack.upper - stack.lower, _sides(stack)
    kept = [case.ours.warm_start for case in cases]
    seen = [recording.points.pool.seen(case.ours.points) for case in cases]
    with np.errstate(invalid="ignore"):  # units without a kink have no bounds
        warm_start = tighten(ascent, context.system, stack, kept, seen, is_proof=True)
    better, nodes, keys, values = _sides(stack), [], [], []
    for b, (case, own) in enumerate(zip(cases, warm_start, strict=True)):
        if own is None or own is kept[b]:
            continue
        found[b] = replace(case, ours=case.ours._replace(warm_start=own))
        unit = own.keys // 2
        matters = context.system.layer_of[unit] < context.system.depth - 1
        gain = np.where(matters, before[b, own.keys] - better[b, own.keys], 0.0)
        gain[better[b, own.keys] <= 0.0] = np.inf
        use = gain > recording.params.gain * width[b, unit]
        nodes.append(np.full(np.count_nonzero(use), b))
        keys.append(own.keys[use])
        values.append(own.values[use].astype(np.float64))
    if not nodes:
        return found
    stated = (np.concatenate(parts) for parts in (nodes, keys, values))
    return _stated(recording, ascent, found, *stated)


def _stated(
    recording: Recording,
    ascent: DualAscent,
    cases: Sequence[Case],
    node: IntArray,
    keys: IntArray,
    values: FloatArray | None,
) -> list[Case]:
    """Add bounds (two keys for each unit) to some cases, from these multipliers."""
    found = list(cases)
    if not keys.size:
        return found
    system, params = recording.search.system, recording.params
    stack = Stack.of([case.ours for case in cases])
    unit = keys // 2
    rows = WantedBounds(node, unit, np.where(keys % 2 == 0, 1.0, -1.0))
    lower, upper = (  # only bounds of later layers are still infinite
        np.where(np.isfinite(side), side, other)
        for side, other in ((stack.lower, -1.0), (stack.upper, 1.0))
    )
    relaxation = ascent.relax(stack.phases, lower, upper, stack.low, stack.high)
    rounded = ascent.start(relaxation, rows)
    still = (stack.phases == OPEN)[node]
    steeper = (stack.upper > -stack.lower)[node]  # the checker's choice of lines
    line = np.where(steeper, system.right, system.left)
    rounded[:, : system.count] = np.where(still, line, rounded[:, : system.count])
    written: list[Written] = [[0, [[], []], [[], []], [[], []]] for _ in keys]
    if values is not None:
        written = _weights(recording, values, rounded, still, steeper)
    tops = ascent.bounds(relaxation, rows, rounded)
    width = (stack.upper - stack.lower)[node, unit]
    tops += 2.0**-params.bound_bits * np.where(np.isfinite(width), width, np.abs(tops))
    terms = np.where(still, 0.0, rounded[:, : system.count]) @ ascent.sizes
    tops += ROUGH * (ascent.sizes[unit] + terms)
    bounds: dict[int, list[Written]] = {}
    for r in np.flatnonzero(tops < _sides(stack)[node, keys]).tolist():
        side, value = "R" if rows.sign[r] > 0 else "L", float(tops[r])
        bound = [int(unit[r]), side, _shortened_up(value, params.bound_bits), written[r]]
        bounds.setdefault(int(node[r]), []).append(bound)
    for b, own in bounds.items():
        found[b] = _noted(recording, found[b], own)
    return found


def _noted(recording: Recording, case: Case, bounds: list[Written]) -> Case:
    """Add written bounds to a case, with the phases that follow."""
    node = case.node.copy()
    known = [(k, 1 if side == "R" else -1, value, checked.NONE) for k, side, value, _ in bounds]
    is_open = recording.linear.note(node, known) and case.is_open
    return replace(case.claim(["bound", bounds]).at(recording, node), is_open=is_open)


def _weights(
    recording: Recording,
    values: FloatArray,
    rounded: SingleArray,
    still: BoolArray,
    steeper: BoolArray,
) -> list[Written]:
    """Encode multipliers of dual ascent (R, columns) for the file, and set `rounded` to them.

    `still` has the unstable units of each row, `steeper` those for which the checker takes the line
    with the right slope.
    """
    system, params = recording.search.system, recording.params
    count, top = system.count, 1 << checked.SLOPE
    change = np.where(still, system.right - system.left, 1.0)
    alpha = np.clip((values[:, :count] - system.left) / change, 0.0, 1.0)
    fine = np.rint(alpha * top).astype(np.int64)
    stated = still & (fine != np.where(steeper, top, 0))
    weight = values.copy()
    weight[:, :count][still | ~system.kinked] = 0.0
    bits = np.maximum(params.bound_bits - np.frexp(weight.max(axis=1, initial=0.0))[1], 0)
    whole = np.rint(np.ldexp(weight, bits[:, None])).astype(np.int64)
    own = np.ldexp(whole.astype(np.float64), -bits[:, None])
    own[:, :count] = np.where(still, rounded[:, :count], own[:, :count])
    rounded[:] = own
    rounded[:, :count][stated] = (system.left + change * fine / top)[stated]
    beta, rho = whole[:, :count], whole[:, count:]
    parts = _pairs(beta, beta != 0), _pairs(fine, stated), _pairs(rho, rho != 0)
    return [list(own) for own in zip(bits.tolist(), *parts, strict=True)]


def _sides(stack: Stack) -> FloatArray:
    """Compute upper bounds of z and of -z, two columns for each unit, shape (B, 2 N)."""
    return np.stack([stack.upper, -stack.lower], axis=2).reshape(len(stack.upper), -1)


def _pairs(numbers: IntArray, use: BoolArray) -> list[list[list[int]]]:
    """Return the indices and values of the used entries of each row."""
    row, index = np.nonzero(use)
    ends = np.searchsorted(row, np.arange(len(use) + 1)).tolist()
    found = index.tolist(), numbers[row, index].tolist()
    return [[part[start:stop] for part in found] for start, stop in pairwise(ends)]


def _shortened_up(value: float, bits: int) -> float:
    """Round a number up to a number of few bits."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.ceil(math.ldexp(mantissa, bits)), exponent - bits)
