"""Lie derivatives on boxes: ``grad V(x) . g(x)``, the derivative of V along a field g.

On a box, with v in the range of g, ``grad V(x) . v`` has an affine upper bound in (x, v)
(`lipyomo.search.spaces.boxes.bounding.collapse`), in which v is replaced by the affine functions of
x that enclose g.  So the error is of second order in the box's width, as it is for constants.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

import numpy as np

from lipyomo.base.arrays import BoolArray, FloatArray
from lipyomo.base.clock import Clock
from lipyomo.base.errors import DomainError
from lipyomo.base.numerics.exact import exact
from lipyomo.base.numerics.rounding import UNIT
from lipyomo.networks.network import Layer, Network
from lipyomo.networks.phases import LEFT, OPEN, RIGHT, flat, open_phases
from lipyomo.primal.regions.full import examine
from lipyomo.primal.regions.margin import Interior
from lipyomo.primal.regions.value import around, derivatives_at, value_at
from lipyomo.problems.problem import LipschitzProblem
from lipyomo.relaxations.linear.layers import Stack, by_layer
from lipyomo.relaxations.linear.preactivation import propagate
from lipyomo.search.engine.protocol import Incumbent
from lipyomo.search.objectives.context import ValueQuestion
from lipyomo.search.objectives.smooth import Value, context_of
from lipyomo.search.spaces.boxes.bound import Bounded, under
from lipyomo.search.spaces.boxes.bounding.above import Above
from lipyomo.search.spaces.boxes.bounding.collapse import collapsed
from lipyomo.search.spaces.boxes.boxes import Boxes
from lipyomo.search.spaces.boxes.context import BoxContext
from lipyomo.search.spaces.boxes.relaxing.relax import relaxed
from lipyomo.search.spaces.boxes.relaxing.relaxation import Relaxation

STEP = float(np.cbrt(UNIT))
"""Step of central differences, relative to the domain's width, which balances truncation and
rounding errors.  These errors only affect ascents."""


@dataclass(frozen=True, eq=False)
class FieldQuestion(ValueQuestion):
    """The largest value of ``c grad V . g``, for V = `network` with one output and c = `row`.

    Attributes
    ----------
    field : Network
        g, with as many outputs as inputs.
    """

    _: KW_ONLY
    field: Network

    def values(self, points: FloatArray) -> FloatArray:
        """See `ValueQuestion.values`."""
        gradients = self.network.gradients(points, self.row)
        return np.asarray((gradients * self.field.forward(points)).sum(axis=1))

    def gradients(self, points: FloatArray) -> FloatArray:
        """See `ValueQuestion.gradients`; by central differences."""
        found = np.empty_like(points)
        for j, step in enumerate((STEP * (self.domain.upper - self.domain.lower)).tolist()):
            ahead, behind = points.copy(), points.copy()
            ahead[:, j] += step
            behind[:, j] -= step
            found[:, j] = (self.values(ahead) - self.values(behind)) / (2.0 * step)
        return found

    def attained(self, x: FloatArray) -> float:
        """See `ValueQuestion.attained`."""
        own = derivatives_at(LipschitzProblem(self.network, self.domain), x, self.row[None])
        if own is None:
            return -np.inf
        total = exact(0.0)
        for k, (low, high) in enumerate(zip(own[0][0].tolist(), own[1][0].tolist(), strict=True)):
            ends = value_at(self.field, np.eye(x.shape[-1])[k], x)
            total += min(exact(a) * exact(b) for a in (low, high) for b in ends)
        return around(total)[0]


class Along(Value):
    """A Lie derivative.

    Parameters
    ----------
    question : FieldQuestion
    """

    def __init__(self, question: FieldQuestion) -> None:
        network = question.network.with_functional(question.row)
        if not network.hidden:  # bounds need at least one hidden layer
            same = Layer(np.eye(network.input_dim), np.zeros(network.input_dim))
            network = Network([same, network.head])
        super().__init__(question, context_of(network, question.domain))
        self._regions: dict[bytes, Interior] = {}
        self._field = context_of(as_units(question.field), question.domain)

    def examined(self, boxes: Boxes, best: Incumbent, clock: Clock) -> tuple[BoolArray, Incumbent]:
        """See `Objective`; examines boxes whose midpoints are not in the region of their phases.

        A region in which V is affine may be too thin for float64 points, or may be empty: then
        boxes along it would be bisected forever.
        """
        question, empty = self.question, np.zeros(len(boxes), dtype=bool)
        V, domain = question.network, question.domain
        kinked = np.concatenate([np.zeros(0, dtype=bool), *(layer.kinked for layer in V.hidden)])
        if V.smooth or boxes.floor.shape[1] != kinked.sum():
            return empty, best
        phases = np.repeat(flat(open_phases(V))[None], len(boxes), axis=0)
        phases[:, kinked] = np.where(
            boxes.floor >= 0, RIGHT, np.where(boxes.ceiling <= 0, LEFT, phases[:, kinked])
        )
        stack = Stack.unknown(phases, boxes.low, boxes.high)
        propagate(V.hidden, None, stack)
        on = stack.phases == RIGHT
        z = np.concatenate([np.zeros((len(boxes), 0)), *V.preactivations(boxes.middle)], axis=1)
        decided = (stack.phases != OPEN)[:, kinked].all(axis=1)
        other = ((z > 0) != on)[:, kinked].any(axis=1)
        wide = (boxes.low < boxes.high).all(axis=1)
        for k in np.flatnonzero(decided & other & wide).tolist():
            if clock.expired:
                break
            pattern = tuple(by_layer(V.hidden, on[k]))
            key = on[k].tobytes()
            if key not in self._regions:
                self._regions[key] = examine(V, domain, pattern)
                best = self._better(best, self._regions[key])
            region = self._regions[key]
            if not region.empty and boxes.bounds[k] > question.cutoff(best.value):
                try:
                    part = domain.clipped(boxes.low[k], boxes.high[k])
                except DomainError:  # for example, it does not contain a ball's centre
                    continue
                region = examine(V, part, pattern)
                best = self._better(best, region)
            empty[k] = region.empty
        return empty, best

    def _better(self, best: Incumbent, region: Interior) -> Incumbent:
        """Return the better of the incumbent and a point of a region."""
        return best if region.point is None else self.challenged(best, region.point)

    def bounded(self, boxes: Boxes, cutoff: float) -> Bounded:
        """See `Objective`."""
        context, field, count = self.context, self._field, len(boxes)
        unit = 4.0 * max(context.unit, field.unit)
        free = np.full((count, len(field.structure.breaks)), np.inf)
        inside = replace(boxes, floor=-free, ceiling=free)
        g = relaxed(field, inside, (boxes.v_low, boxes.v_high)).layers[-1]
        known = relaxed(context, boxes, (g.low, g.high))
        rows = np.broadcast_to(context.rows, (count, context.rows.shape[1]))
        errors = None
        if context.row_errors.any():
            errors = np.broadcast_to(context.row_errors, rows.shape)
        above, x_size = collapsed(known, rows, errors), known.inputs.x.size
        # v = g(x), which lies in ``pre.x . x + pre.constant +- pre.radius``
        pre, sizes = g.pre, np.abs(above.v)
        slopes = np.broadcast_to(pre.x, (count, *pre.x.shape[1:]))
        x = above.x + np.matmul(above.v[:, None], slopes)[:, 0]
        off = np.abs(pre.constant) + pre.radius
        constant = above.constant + (above.v * pre.constant + sizes * pre.radius).sum(axis=1)
        reach = np.matmul(np.abs(slopes), x_size[:, :, None])[:, :, 0]
        rounding = (np.abs(above.x) * x_size).sum(axis=1) + np.abs(above.constant)
        fuzz = unit * (rounding + (sizes * (reach + off)).sum(axis=1))
        above = above._replace(
            x=x,
            v=np.zeros_like(above.v),
            constant=constant + fuzz,
            fuzz=above.fuzz + fuzz,
        )
        above, empty = self.narrowed(known, boxes, above)
        found = under(known, above, np.full(count, cutoff))
        if empty.any():
            bounds = np.where(empty, -np.inf, found.boxes.bounds)
            found = found._replace(boxes=replace(found.boxes, bounds=bounds))
        scores = found.boxes.scores
        scores = _of_inputs(context, scores, np.abs(slopes), sizes * pre.radius, boxes)
        return found._replace(boxes=replace(found.boxes, scores=scores))

    def narrowed(self, known: Relaxation, boxes: Boxes, above: Above) -> tuple[Above, BoolArray]:
        """Tighten bounds on the relevant part of boxes; also return which boxes have none."""
        return above, np.zeros(len(boxes), dtype=bool)


def _of_inputs(
    context: BoxContext, scores: FloatArray, slopes: FloatArray, gaps: FloatArray, boxes: Boxes
) -> FloatArray:
    """Move scores of entries of v to inputs, by their shares of the range of that entry of g."""
    d, k = context.inputs, context.directions
    parts = slopes * (0.5 * (boxes.high - boxes.low))[:, None]
    total = parts.sum(axis=2, keepdims=True)
    shares = np.divide(parts, total, out=np.zeros_like(parts), where=total > 0)
    owed = scores[:, d : d + k] / context.sign_weight + gaps
    own = scores[:, :d] + np.matmul(owed[:, None], shares)[:, 0]
    return np.hstack([own, np.zeros_like(owed), scores[:, d + k :]])


def as_units(network: Network) -> Network:
    """Make a network's outputs units of a last hidden layer, so that their ranges are computed."""
    m = network.output_dim
    outputs = Layer(network.head.weight, network.head.bias)
    return Network([*network.hidden, outputs, Layer(np.eye(m), np.zeros(m))])
