"""The tree of boxes in a smooth network's proof, made with the checker's own bound.

For each case the file says where it is cut and along which axis it is split; whether it ends is
decided by the bound that the checker will compute (`lipyomo_check.smooth`).  A case is split along
the axis with the largest share of the relaxation gaps: each unit's gap is attributed to the axes in
proportion to their shares of its pre-activation's (or its tangent's) range.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.clock import Clock
from lipyomo.proofs.pairs import UnfinishedError, pairs_written
from lipyomo.proofs.params import PARAMS
from lipyomo.search.spaces.boxes.params import Params
from lipyomo_check.formats import Edition
from lipyomo_check.pairs.tree import Asked
from lipyomo_check.smooth.boxes import Boxes
from lipyomo_check.smooth.steps import SHARES, Bytes, Step, total_of, write_step
from lipyomo_check.smooth.tree import Question, Taken
from lipyomo_check.statement import Statement

SIGN_WEIGHT = Params().sign_weight
"""Weight of a direction's share of a gap relative to an input's, as in the search."""


def write_boxes(
    statement: Statement,
    clock: Clock,
    write: Callable[[bytes], object],
    progress: Callable[[int], object],
) -> int:
    """Write the tree that proves a statement's upper bound.

    Parameters
    ----------
    statement : Statement
    clock : Clock
    write : callable
        Takes the next bytes of the file.
    progress : callable
        Called with the number of cases written so far.

    Returns
    -------
    int
        Number of cases.

    Raises
    ------
    UnfinishedError
        If the clock expires, or boxes become too small for float64 before they are closed.
    lipyomo_check.ProofError
        If there is no proof of this kind for the statement.
    """

    def write_in_time(data: bytes) -> None:
        if clock.expired:
            raise UnfinishedError("its tree of boxes was not written to its end in time")
        write(data)

    if statement.edition is Edition.PAIRS:
        return total_of(pairs_written(Asked.of(statement), write_in_time), progress)
    question = Question.of(statement)

    def decide(taken: Taken) -> Step:
        step = _step(question, taken)
        write_in_time(write_step(step, question.axes))
        return step

    return total_of(question.walk(decide), progress)


def _step(question: Question, taken: Taken) -> Step:
    """End the cases that may end, and cut and split the others."""
    boxes, bounded, split = taken.cases.boxes, taken.bounded, ~taken.may_end
    codes = np.zeros(len(split), dtype=np.uint16)
    d, sides = boxes.low.shape[1], question.sides
    if not split.any():
        return Step(codes, np.zeros((0, sides), dtype=np.uint8))
    scores = np.hstack([_scores(question, taken), _of_breaks(question, taken)])[split]
    boxes = boxes.part(split)
    v = bounded.v[split, : sides - d]
    cuts = _cuts(taken.goals.most[split], boxes, bounded.upper[split], bounded.x[split], v)
    left = np.hstack([1.0 - cuts[:, :d] / SHARES, 1.0 * (cuts[:, d:] == 0)])
    scores[:, :sides] *= left
    codes[split] = np.argmax(scores, axis=1) + 1
    if (scores.max(axis=1) < 0.0).any():
        raise UnfinishedError("boxes are as small as they may be before they are closed")
    return Step(codes, cuts)


def _cuts(goal: FloatArray, boxes: Boxes, upper: FloatArray, x: FloatArray, v: FloatArray) -> Bytes:
    """Return how many parts of each width may be cut off; none if a cut is not worth its bytes."""
    slack = upper - goal
    slack = slack + PARAMS.aim * slack + PARAMS.room * np.abs(goal)  # more than the checker's own
    width, flip = boxes.high - boxes.low, boxes.v_high - boxes.v_low
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        kept = slack[:, None] / (np.abs(x) * width)
        shares = np.floor(SHARES * (1.0 - kept) - 1e-6)
    shares = np.where((width > 0) & (shares >= 1), shares, 0.0)
    signs = (flip > 0) & (np.abs(v) * flip > slack[:, None])
    cuts = np.hstack([np.minimum(shares, SHARES - 1), signs]).astype(np.uint8)
    enough = shares.max(axis=1) >= PARAMS.least_cut * SHARES
    enough |= signs.any(axis=1)
    return np.where(enough[:, None], cuts, np.zeros_like(cuts))


def _scores(question: Question, taken: Taken) -> FloatArray:
    """Return the share of the gaps due to each axis, (N, d + k); -1 if it cannot be split."""
    boxes, bounded = taken.cases.boxes, taken.bounded
    reach, v_reach = (boxes.high - boxes.low) / 2.0, (boxes.v_high - boxes.v_low) / 2.0
    of_x, of_v = np.zeros_like(reach), np.zeros_like(v_reach)
    for (z, u), planes in zip(bounded.rows, bounded.planes, strict=True):
        product = planes.product_gap
        ranges = np.abs(z.x) * reach[:, None, :]
        of_x += _shared(planes.gap, [ranges])[0]
        assert u.v is not None
        parts = [np.abs(u.x) * reach[:, None, :]]
        if v_reach.shape[1]:
            parts.append(np.abs(u.v) * v_reach[:, None, :])
        found = _shared(product, parts)
        of_x += found[0]
        if v_reach.shape[1]:
            of_v += found[1]
    middle = boxes.low + (boxes.high - boxes.low) / 2.0
    inside = (boxes.low < middle) & (middle < boxes.high)
    whole = question.first.boxes
    inside &= reach > PARAMS.least_width * (whole.high[0] - whole.low[0])
    splittable = np.hstack([inside, v_reach > 0])
    shares = taken.goals.shares
    across = shares * shares.sum(axis=1, keepdims=True) / (2.0 * _size(question))
    scores = np.hstack([of_x, SIGN_WEIGHT * of_v]) + across
    finite = np.nan_to_num(scores, nan=1.0, posinf=1e300)
    plain = np.hstack([reach / np.maximum(reach.max(axis=1, keepdims=True), 1e-300), v_reach])
    return np.where(
        splittable,
        finite + 1e-12 * plain * finite.max(axis=1, keepdims=True) + 1e-300 * plain,
        -1.0,
    )


def _of_breaks(question: Question, taken: Taken) -> FloatArray:
    """Return the gaps of units whose range contains a break, (N, number of breaks).

    The gap of the rest of the Jacobian that no input accounts for is attributed to them in
    proportion to the ranges of their slopes.
    """
    bounded, goals = taken.bounded, taken.goals
    found = np.full((len(bounded.upper), len(question.breaks)), -1.0)
    jumps = np.zeros_like(found)
    for place, (n, b) in enumerate(question.breaks):
        i, k = question.chain.broken[n]
        layer, planes = bounded.layers[i], bounded.planes[i]
        inside = (layer.low[:, k] < b) & (b < layer.high[:, k])
        units = [k, *(question.chain.broken[twin.unit][1] for twin in question.twins[place])]
        gap = planes.gap[:, units].sum(axis=1)
        found[:, place] = np.where(inside, gap, -1.0)
        jumps[:, place] = np.where(inside, layer.d_reach[:, units].sum(axis=1), 0.0)
    whole = np.maximum(jumps.sum(axis=1), 1e-300)
    across = goals.left * (goals.left + goals.shares.sum(axis=1)) / (2.0 * _size(question))
    return np.asarray(found + jumps / whole[:, None] * across[:, None])


def _size(question: Question) -> float:
    """Return the upper bound: the rest of J adds half its square, divided by this, to the norm."""
    return max(question.upper, 1e-300)


def _shared(gap: FloatArray, ranges: list[FloatArray]) -> list[FloatArray]:
    """Attribute units' gaps to the axes, in proportion to their shares of the units' ranges."""
    total = sum((r.sum(axis=2) for r in ranges), np.zeros_like(gap)) + 1e-300
    with np.errstate(invalid="ignore", over="ignore"):
        weight = (gap / total)[:, None, :]
        return [np.matmul(weight, r)[:, 0, :] for r in ranges]
