"""Pairs of units that exclude each other in some nodes, found for the sake of their bounds.

Of all pairs of sides of open units those are tried that promise most: their product would lower
the semidefinite bound, and what dual ascent knows of the node nearly shows that no point has both.
More dual ascent, with both sides decided, tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from lipyomo.bnb.node import Node, stack_of
from lipyomo.bnb.tighten import MOST_WORK, inherit
from lipyomo.bounds.dual_ascent import DualAscent, IntArray, Rows, SingleArray
from lipyomo.bounds.pairs import Pairs, sums_of_functions, upper_functions
from lipyomo.bounds.stack import Stack
from lipyomo.network import BoolArray, FloatArray
from lipyomo.phases import LEFT, RIGHT
from lipyomo.semidefinite.kernel import Kernel

LIKELY = 3000
"""Pairs of a node that are looked at, those with the largest gains."""

TRIED = 60
"""Pairs of a node that are tried."""

STEPS, RATE = 16, 0.12
"""Steps of dual ascent for each, from the node's multipliers, and the first of them as a share of a
multiplier's natural size."""

NEAR, NEAR_STEPS, NEAR_RATE = 0.05, 32, 0.08
"""Bounds that are then no further from being negative than this share of their range go on."""

REACH = 0.07
"""The chance that sides exclude each other falls by e where the best sum of linear functions that
bound them is larger by this share of its range."""


def gains(kernel: Kernel, y: FloatArray | None) -> FloatArray:
    """What products of pairs of units promise to take off a bound, to first order.

    Parameters
    ----------
    kernel : Kernel
    y : ndarray, optional
        Its multipliers; without them nothing is promised.

    Returns
    -------
    ndarray, shape (F, 2 F)
        Entry (i, j) is for units i and j both on, entry (i, F + j) for i on and j off; pairs that
        are meant by another entry have nothing.
    """
    d, count = kernel.inputs, len(kernel.rows)
    found = np.zeros((count, 2 * count))
    factor = None if y is None else kernel.factor(y)
    if y is None or factor is None:
        return found
    x, size = kernel.terms(factor, y)[0], np.sqrt(y[d : d + count])
    states = np.abs(x[d:]) * size
    slack = np.abs(kernel.rows @ x - x[d:]) * size
    np.multiply.outer(states, np.concatenate([states, slack]), out=found)
    found[:, :count][np.tri(count, dtype=bool)] = 0.0
    found[np.arange(count), count + np.arange(count)] = 0.0
    return found


def excluding_pairs(
    ascent: DualAscent,
    nodes: Sequence[Node],
    units: Sequence[IntArray],
    worth: Sequence[FloatArray],
    seen: Sequence[BoolArray],
) -> list[Pairs]:
    """New pairs of each node whose sides exclude each other in it.

    Parameters
    ----------
    ascent : DualAscent
    nodes : sequence of Node
    units : sequence of ndarray of int, shapes (F,)
        Their open units.
    worth : sequence of ndarray, shapes (F, 2 F)
        From `gains`.
    seen : sequence of ndarray of bool, shapes (n, N)
        Sides of all units at known points of each node.
    """
    stack = stack_of(list(nodes))
    counts = [here.size for here in units]
    owner = np.repeat(np.arange(len(nodes)), [2 * count for count in counts])
    unit = np.concatenate([np.tile(here, 2) for here in units])
    sign = np.concatenate([np.repeat([1.0, -1.0], count) for count in counts])
    rows = Rows(owner, unit, sign)
    at_middle, spread = upper_functions(ascent, stack, rows, _started(ascent, stack, nodes, rows))
    most = min(TRIED, MOST_WORK // (STEPS * ascent.work * len(nodes)))
    begin, tried = 0, []
    for b, (node, here) in enumerate(zip(nodes, units, strict=True)):
        own = slice(begin, begin + 2 * here.size)
        begin = own.stop
        score = _without_known(worth[b], node.pairs.among(here), seen[b][:, here])
        i, j = _largest(score, LIKELY)
        nearest = sums_of_functions(at_middle[own], spread[own], i, j)
        chance = np.exp(-np.maximum(nearest, 0.0) / REACH)
        best = np.sort(np.argsort(-score[i, j] * chance, kind="stable")[:most])
        i, j = i[best], j[best]
        tried.append(Pairs(here[i], here[j % here.size], j < here.size))
    return _excluded(ascent, stack, nodes, tried)


def _without_known(worth: FloatArray, known: Pairs, on: BoolArray) -> FloatArray:
    """Gains of pairs that are not known yet, and have not both sides at any of some points."""
    count = len(worth)
    score = worth.copy()
    if len(on):
        sides = on.astype(np.float32)
        score[np.hstack([sides.T @ sides, sides.T @ (1.0 - sides)]) > 0] = 0.0
    first, second = known.first, known.second
    score[first, second + np.where(known.apart, 0, count)] = 0.0
    score[second[known.apart], first[known.apart]] = 0.0
    return score


def _largest(score: FloatArray, most: int) -> tuple[IntArray, IntArray]:
    """Places of at most so many of the largest entries, those that are positive."""
    flat = score.ravel()
    best = np.flatnonzero(flat > 0)
    if best.size > most:
        best = np.sort(best[np.argpartition(-flat[best], most)[:most]])
    i, j = np.divmod(best, score.shape[1])
    return i, j


def _excluded(
    ascent: DualAscent, stack: Stack, nodes: Sequence[Node], tried: list[Pairs]
) -> list[Pairs]:
    """Those of some pairs of each node whose sides exclude each other there."""
    sizes = [pairs.count for pairs in tried]
    if not any(sizes):
        return tried
    every, index = Pairs.chain(tried), np.arange(sum(sizes))
    i, j, apart = every.first, every.second, every.apart
    cases = stack.take(np.repeat(np.arange(len(nodes)), sizes))
    # one of the two sides is bounded, that whose range ends nearer, the other one helps
    width = np.maximum(cases.upper - cases.lower, 1e-300)
    ends = np.where(apart, cases.upper[index, j], -cases.lower[index, j])
    nearer = cases.upper[index, i] * width[index, j] < ends * width[index, i]
    rows = Rows(
        np.repeat(np.arange(len(nodes)), sizes),
        np.where(nearer, i, j),
        np.where(nearer | apart, 1.0, -1.0),
    )
    start = _started(ascent, stack, nodes, rows)
    start[index, i], start[index, j] = 0.0, 0.0
    cases.phases[index, i], cases.phases[index, j] = RIGHT, np.where(apart, RIGHT, LEFT)
    relaxation = ascent.relax(cases.phases, cases.lower, cases.upper, cases.low, cases.high)
    rows = Rows(index, rows.unit, rows.sign)
    found = ascent.ascend(relaxation, rows, start, STEPS, RATE)
    bounds = ascent.bounds(relaxation, rows, found)
    near = np.flatnonzero((bounds >= 0.0) & (bounds < NEAR * width[index, rows.unit]))
    if near.size:
        some = rows[near]
        better = ascent.ascend(relaxation, some, found[near], NEAR_STEPS, NEAR_RATE)
        bounds[near] = ascent.bounds(relaxation, some, better)
    empty = bounds < 0.0
    places = pairwise(np.cumsum([0, *sizes]).tolist())
    return [pairs[empty[a:b]] for pairs, (a, b) in zip(tried, places, strict=True)]


def _started(ascent: DualAscent, stack: Stack, nodes: Sequence[Node], rows: Rows) -> SingleArray:
    """Multipliers that the nodes know, or none; rows are in the order of the nodes."""
    start = np.zeros((rows.count, ascent.columns), dtype=np.float32)
    ends = np.searchsorted(rows.node, np.arange(len(nodes) + 1)).tolist()
    for b, (node, (a, z)) in enumerate(zip(nodes, pairwise(ends), strict=True)):
        keys = 2 * rows.unit[a:z] + (rows.sign[a:z] < 0)
        inherit(start[a:z], keys, stack.phases[b], node.ascent)
    return start
