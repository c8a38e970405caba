"""Bounds of boxes: ranges of pre-activations, then of tangents, for each direction that matters.

For functionals y and directions v, ``|y . J v|`` is bounded by substituting the tangent
``u_1 = W_1 v, u_{i+1} = W_{i+1} (D_i u_i)`` back to v, where each unit that is unstable on a box
has either of its two slopes in D.  All entries of the gradient share their relaxation errors, since
the signs of v are fixed.  The norm is at most the largest of these bounds.  A pair (y, v) whose
bound is not above the cutoff keeps this bound in all parts of the box.  `substitute.py` and
`tangents.py` cover rounding; float32 numbers suffice except for boxes near the cutoff, and halve
the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lipyomo.base.arrays import BoolArray, FloatArray, IntArray
from lipyomo.base.numerics.rounding import UNDERFLOW, gamma
from lipyomo.networks.layer import Layer
from lipyomo.networks.network import Network
from lipyomo.networks.phases import OPEN, RIGHT
from lipyomo.problems.domains import Domain
from lipyomo.relaxations.linear.balls import outside
from lipyomo.relaxations.linear.gradient import tangent_lengths
from lipyomo.relaxations.linear.layers import PhaseBatch, Stack, by_layer
from lipyomo.relaxations.linear.preactivation import propagate
from lipyomo.relaxations.linear.relax import Switches
from lipyomo.search.spaces.joint.context import JointBoxes, JointContext
from lipyomo.search.spaces.joint.euclid import central, lengths_along, norms_on
from lipyomo.search.spaces.joint.ranges import tighten_boxes
from lipyomo.search.spaces.joint.tangents import Tangents

ROUGH = 1.02
"""Boxes with bounds above this multiple of the cutoff are bounded in float32."""


class BoundedBoxes(NamedTuple):
    """Boxes with their bounds, and the ranges and phases of the units on them.

    Attributes
    ----------
    boxes : JointBoxes
    stack : Stack
    """

    boxes: JointBoxes
    stack: Stack

    def take(self, which: IntArray) -> BoundedBoxes:
        """Select some of the boxes."""
        return BoundedBoxes(self.boxes.take(which), self.stack.take(which))


@np.errstate(over="ignore", invalid="ignore")  # values that are not finite give no bound
def bounded_pairs(context: JointContext, boxes: JointBoxes, cutoff: float) -> BoundedBoxes:
    """Bound boxes; bounds of pairs at or below the cutoff are left as they are.

    Parameters
    ----------
    context : JointContext
    boxes : JointBoxes
        With the bounds of their parents' pairs.
    cutoff : float
    """
    layers = context.problem.network.hidden
    kinked = np.concatenate([layer.kinked for layer in layers])
    start = np.where(kinked, np.int8(OPEN), np.int8(RIGHT)).astype(np.int8)
    stack = Stack.unknown(np.tile(start, (len(boxes), 1)), boxes.low, boxes.high)
    domain = context.problem.domain
    within_domain(layers, domain, stack, np.float32)
    pairs = boxes.pairs.copy()
    pairs[~stack.alive] = -np.inf
    if context.round_in:
        _lower_norms(context, pairs, cutoff, stack.phases)
    else:
        rough = boxes.bounds > ROUGH * cutoff
        for kind, some in (np.float32, rough), (np.float64, ~rough):
            own = pairs[some]
            _lower_pairs(context, own, cutoff, stack.phases[some], kind)
            pairs[some] = own
    return BoundedBoxes(
        replace(boxes, pairs=pairs, scores=shares_in_open(layers, context.problem.domain, stack)),
        stack,
    )


@np.errstate(over="ignore", invalid="ignore")  # some kernels of products raise flags by chance
def within_domain(
    layers: Sequence[Layer], domain: Domain, stack: Stack, kind: npt.DTypeLike
) -> None:
    """Bound pre-activations on the parts of boxes in a domain; boxes outside it are not alive.

    Differences from the middles of boxes are computed in the given type, float32 or float64.
    """
    if domain.is_box:
        tighten_boxes(layers, stack, kind)
    else:
        propagate(layers, domain, stack)
    stack.alive[outside(domain, stack.low, stack.high, gamma(2 * domain.dimension))] = False


def _wanted(pairs: FloatArray, cutoff: float) -> BoolArray:
    """Return which directions matter on each box, shape (N, q)."""
    return np.asarray((pairs > cutoff).any(axis=1))


def _lower_pairs(
    context: JointContext, pairs: FloatArray, cutoff: float, phases: PhaseBatch, kind: npt.DTypeLike
) -> None:
    """Tighten bounds above the cutoff in place, for each direction that matters."""
    params, count = context.params, context.box_chunk
    network, directions = context.problem.tangent_network, context.directions
    wanted = _wanted(pairs, cutoff)
    several = np.flatnonzero(wanted.sum(axis=1) > params.single)
    widths = wanted[several].sum(axis=1)
    several = several[np.argsort(widths, kind="stable")]
    widths.sort()
    at = 0
    while at < several.size:  # boxes with about as many directions
        end = min(at + count, int(np.searchsorted(widths, 2 * widths[at], side="right")))
        _lower(context, pairs, several[at:end], wanted, phases, kind)
        at = end
    wanted = _wanted(pairs, cutoff)
    alone = pairs.max(axis=(1, 2)) <= params.far * cutoff
    alone[np.setdiff1d(np.arange(len(pairs)), several)] = True
    few = wanted & (alone & (wanted.sum(axis=1) <= params.single))[:, None]
    number, direction = np.nonzero(few)
    for at in range(0, number.size, params.chains):
        i, j = number[at : at + params.chains], direction[at : at + params.chains]
        if context.targets.whole_ball:
            found = tangent_lengths(network, phases[i], directions[j])[:, None]
        else:
            own = Tangents.of(network, _switches(network, phases[i]), directions[j][:, None], kind)
            found = own.bounds(context.targets.functionals, np.arange(len(i)), 0 * i)
        pairs[i, :, j] = np.fmin(pairs[i, :, j], found)


def _lower(
    context: JointContext,
    pairs: FloatArray,
    boxes: IntArray,
    wanted: BoolArray,
    phases: PhaseBatch,
    kind: npt.DTypeLike,
) -> None:
    """Tighten bounds of the wanted pairs of some boxes in place, all directions together.

    All boxes get as many directions as the one that needs the most, so that boxes with similar
    counts should be passed together.
    """
    network, functionals = context.problem.tangent_network, context.targets.functionals
    switches, own = _switches(network, phases[boxes]), wanted[boxes]
    columns = np.argsort(~own, axis=1, kind="stable")[:, : own.sum(axis=1).max()]
    kind = np.float64 if context.targets.whole_ball else kind
    known = Tangents.of(network, switches, context.directions[columns], kind)
    box, along = np.nonzero(np.take_along_axis(own, columns, axis=1))
    middle = central(network, switches) if context.targets.whole_ball else None
    heads = None if middle is None else network.head.dense_weight @ middle
    for at in range(0, box.size, context.params.chains):
        i, j = box[at : at + context.params.chains], along[at : at + context.params.chains]
        number, direction = boxes[i], columns[i, j]
        if heads is not None:
            found = lengths_along(known, heads, i, j)[:, None]
        else:
            found = known.bounds(functionals, i, j)
        pairs[number, :, direction] = np.fmin(pairs[number, :, direction], found)


def _lower_norms(
    context: JointContext, pairs: FloatArray, cutoff: float, phases: PhaseBatch
) -> None:
    """Tighten bounds above the cutoff in place, where the input ball is Euclidean."""
    network, count = context.problem.tangent_network, context.box_chunk
    for k in range(pairs.shape[1]):
        functional = None if context.targets.whole_ball else context.targets.functionals[k]
        wanted = np.flatnonzero(pairs[:, k, 0] > cutoff)
        for at in range(0, wanted.size, count):
            some = wanted[at : at + count]
            switches = _switches(network, phases[some])
            found = norms_on(network, switches, functional, context.params.chains)
            pairs[some, k, 0] = np.fmin(pairs[some, k, 0], found)


def _switches(network: Network, phases: PhaseBatch) -> list[Switches]:
    """Return the slopes that phases (N, units) allow."""
    layers = by_layer(network.hidden, phases)
    return [Switches.of(*pair) for pair in zip(network.hidden, layers, strict=True)]


def shares_in_open(layers: Sequence[Layer], domain: Domain, stack: Stack) -> FloatArray:
    """Share out the unstable units among the inputs that widen their ranges, shape (N, d).

    Each unstable unit counts once, divided among the inputs by their shares of its range; these are
    estimated by the gradient with the middle of the possible slopes.  Without unstable units, the
    scores are the widths of the inputs.  Inputs that cannot be bisected have -1.
    """
    radius = 0.5 * (stack.high - stack.low)
    score = np.zeros(radius.shape)
    rows: FloatArray = np.eye(radius.shape[1])[None]
    ends = by_layer(layers, stack.lower), by_layer(layers, stack.upper)
    for layer, low, high in zip(layers, *ends, strict=True):
        rows = np.asarray(layer.dense_weight @ rows)
        open_ = (low < 0) & (high > 0) & layer.kinked
        width = np.where(open_, np.maximum(high - low, UNDERFLOW), 1.0)
        share = np.where(open_, 1.0 / width, 0.0)
        score += np.matmul(share[:, None, :], np.abs(rows))[:, 0]
        slope = np.where(low >= 0, layer.right, layer.left)
        rows = np.where(open_, 0.5 * (layer.left + layer.right), slope)[:, :, None] * rows
    score *= radius
    none = score.max(axis=1) <= 0
    score[none] = (radius / (domain.upper - domain.lower))[none]
    middle = stack.low + radius
    score[(middle <= stack.low) | (middle >= stack.high)] = -1.0
    return score
