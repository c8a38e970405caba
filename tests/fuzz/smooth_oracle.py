"""The Lipschitz constant of a small smooth or mixed network, enclosed in Arb.

Nothing here is shared with the package: branch and bound over boxes, best first, in ball
arithmetic.  Values, gradients and Hessians of all units are propagated over a box and at a point
of it; the norm of the Jacobian is a maximum of smooth functions, each of which is bounded by its
mean-value form ``F(c) + F'(box) (x - c)``.  Where breaks of activations cross a box, it is also
split by their sides.  On one side, an activation is continued by its tangent beyond the break, so
that the mean-value form holds on the whole box and bounds the part that counts.

Domains are boxes, cut by rows and a ball: boxes that lie outside are dropped, and only points
inside are looked at from below.  Where a side is infinite, a box of `SIZE` gives the lower end, and
there is no upper one.

The answer is an enclosure, whatever the number of boxes; `target` says when it is good enough.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count, product

import numpy as np
from flint import arb, arb_mat, ctx
from fuzz_oracle import PlainDomain
from smooth_curves import Curve, meet

BITS = 128
TARGETS = (0.0, 1e-4, 1e-3, 1e-2)
"""Relative widths to reach, by the number of inputs that can move."""
SIZE = 50.0
"""Half of a side that stands for an infinite one."""
_CENTRE = 0.4990234375
"""Where in a box the mean-value form is taken: not in the middle, where kinks often are."""
_FEW = 2
"""So many breaks that cross a box are split by their sides."""


@dataclass(frozen=True)
class CurvedLayer:
    """Weights (n, k), biases (n,) as floats and the curve of each unit."""

    weight: np.ndarray
    bias: np.ndarray
    curves: tuple[Curve, ...]


Sides = tuple[tuple[int, int], ...]
"""Breaks that are decided: hyperplane and side (0 below, 1 above), sorted."""


@dataclass(frozen=True)
class _Box:
    low: tuple[float, ...]
    high: tuple[float, ...]
    sides: Sides = ()
    depth: int = 0


@dataclass
class _Signal:
    """Units of one layer over a box and at its centre, each list by unit."""

    z: list[arb]
    gradient: list[list[arb]]
    hessian: list[list[arb]]
    centre: list[arb]
    slope: list[list[arb]]  # gradients at the centre

    def columns(self) -> arb_mat:
        rows = zip(self.z, self.gradient, self.hessian, self.centre, self.slope, strict=True)
        return arb_mat([[z, *g, *h, c, *s] for z, g, h, c, s in rows])

    @classmethod
    def of(cls, matrix: arb_mat, d: int) -> _Signal:
        table, n = matrix.tolist(), d * (d + 1) // 2
        return cls(
            [r[0] for r in table],
            [r[1 : 1 + d] for r in table],
            [r[1 + d : 1 + d + n] for r in table],
            [r[1 + d + n] for r in table],
            [r[2 + d + n :] for r in table],
        )


@dataclass
class _Found:
    """What is known of a box."""

    upper: float
    lower: arb | None
    axis: int
    rising: dict[int, int]
    breaks: list[int]


@dataclass
class SmoothOracle:
    """An enclosure of the constant of a network on a domain.

    Parameters
    ----------
    layers : list of CurvedLayer
        The last one affine: its curves are not looked at.
    domain : PlainDomain
        Where its sides are equal, the input is frozen.
    input_norm : {'l1', 'l2', 'linf'}
    functionals : list of float vectors or None
        Vertices of the output norm's dual ball; None for the Euclidean norm, which with l2 inputs
        is for two outputs or two inputs at most.
    most : int
        Boxes after which the enclosure is given as it is.
    target : float, optional
        Relative width to reach.
    """

    layers: list[CurvedLayer]
    domain: PlainDomain
    input_norm: str
    functionals: list[np.ndarray] | None
    most: int = 3000
    target: float | None = None
    boxes: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        ctx.prec = BITS
        lower, upper = self.domain.lower, self.domain.upper
        frozen = lower == upper
        self._unbounded = self.domain.ball is None and not np.isfinite([*lower, *upper]).all()
        low, high = self._finite()
        self.moving = [int(j) for j in np.flatnonzero(~frozen)]
        self.d = d = len(self.moving)
        ends = (tuple(side[self.moving].tolist()) for side in (low, high))
        self._whole = _Box(*ends)
        if self.target is None:
            self.target = TARGETS[min(d, len(TARGETS) - 1)]
        first = self.layers[0]
        held = [
            sum(
                (arb(float(w)) * arb(float(x)) for w, x in zip(row, lower[frozen], strict=True)),
                arb(float(b)),
            )
            for row, b in zip(first.weight[:, frozen], first.bias, strict=True)
        ]
        weights = [first.weight[:, self.moving], *(layer.weight for layer in self.layers[1:])]
        self._weights = [arb_mat(w.tolist()) if w.size else None for w in weights]
        self._biases = [held, *([arb(b) for b in v.bias.tolist()] for v in self.layers[1:])]
        self._planes = self._hyperplanes()
        self._pairs = [(k, j) for k in range(d) for j in range(k, d)]
        self._place = {pair: i for i, pair in enumerate(self._pairs)}
        self._place.update({(j, k): i for (k, j), i in list(self._place.items())})
        self._rows, self._directions = self._ends()
        last = self._weights[-1]
        if self.functionals is not None and last is not None:  # what cancels is never enclosed
            bias = self._rows * arb_mat([[b] for b in self._biases[-1]])
            self._weights[-1], self._biases[-1] = self._rows * last, [b for (b,) in bias.tolist()]
            count = len(self._biases[-1])
            self._rows = arb_mat([[arb(int(i == j)) for j in range(count)] for i in range(count)])

    # -- set-up --------------------------------------------------------------------------------

    def _finite(self) -> tuple[np.ndarray, np.ndarray]:
        """The sides, and finite ones for those that are not."""
        lower, upper, ball = self.domain.lower, self.domain.upper, self.domain.ball
        if ball is not None:
            _, centre, radius = ball
            room = math.nextafter(radius, math.inf)
            low, high = np.nextafter(centre - room, -np.inf), np.nextafter(centre + room, np.inf)
        else:
            low = np.where(np.isfinite(upper), upper - 2.0 * SIZE, -SIZE)
            high = np.where(np.isfinite(lower), lower + 2.0 * SIZE, SIZE)
        # sides that are finite stay what they are
        low = np.where(np.isfinite(lower), np.maximum(lower, low) if ball else lower, low)
        return low, np.where(np.isfinite(upper), np.minimum(upper, high) if ball else upper, high)

    def _room(self, x: list[arb]) -> list[arb]:
        """How far inside each row, and the ball, the points of balls are."""
        point = [arb(float(v)) for v in self.domain.lower]
        for j, ball in zip(self.moving, x, strict=True):
            point[j] = ball
        room = []
        for row, b in zip(self.domain.A, self.domain.b, strict=True):
            products = (arb(float(a)) * v for a, v in zip(row, point, strict=True))
            room.append(arb(float(b)) - sum(products, arb(0)))
        if self.domain.ball is not None:
            norm, centre, radius = self.domain.ball
            gaps = [abs(v - arb(float(c))) for v, c in zip(point, centre, strict=True)]
            reach = arb(float(radius))
            if norm == "l2":
                gaps, reach = [gap**2 for gap in gaps], reach**2
            room.append(reach - sum(gaps, arb(0)))
        return room

    def _hyperplanes(self) -> list[list[list[tuple[int, bool]]]]:
        """By layer, unit and break: its hyperplane, and whether the unit looks the other way.

        Units whose breaks lie on the same hyperplane of a layer's inputs share it, exactly.
        """
        known: dict[tuple[object, ...], int] = {}
        found = []
        for i, layer in enumerate(self.layers[:-1]):
            units = []
            for k, curve in enumerate(layer.curves):
                row = [Fraction(w) for w in layer.weight[k].tolist()]
                lead = next((w for w in row if w), None)
                breaks = []
                for at in curve.breaks:
                    if lead is None:
                        key: tuple[object, ...] = ("constant", i, k, at)
                    else:
                        offset = Fraction(float(layer.bias[k])) - Fraction(at)
                        key = (i, *(w / lead for w in row), offset / lead)
                    plane = known.setdefault(key, len(known))
                    breaks.append((plane, lead is not None and lead < 0))
                units.append(breaks)
            found.append(units)
        return found

    def _ends(self) -> tuple[arb_mat, arb_mat]:
        """Rows that the Jacobian is taken between: functionals, and directions as columns."""
        m, d = self.layers[-1].weight.shape[0], self.d
        eye = [[float(i == j) for j in range(m)] for i in range(m)]
        rows = eye if self.functionals is None else [list(map(float, c)) for c in self.functionals]
        kept: list[list[float]] = []
        for row in rows:
            if row not in kept and [-x for x in row] not in kept:
                kept.append(row)
        if self.input_norm == "linf":
            signs = [[1, *rest] for rest in product((1, -1), repeat=max(d - 1, 0))]
        else:
            signs = [[int(i == j) for j in range(d)] for i in range(d)]
        return arb_mat(kept), arb_mat(signs).transpose() if d else arb_mat(0, 0)

    # -- search --------------------------------------------------------------------------------

    def constant(self) -> arb:
        """The enclosure."""
        ctx.prec = BITS
        if self.d == 0:
            return arb(0)
        start = self._whole
        best, ticket = arb(0), count()
        found = self._look(start, best)
        assert found is not None
        queue = [(-found.upper, next(ticket), start, found)]
        stuck = 0.0
        while queue:
            top, _, box, found = queue[0]
            best = max(best, found.lower) if found.lower is not None else best
            goal = _down(best * (1 + arb(self.target)))
            if -top <= goal or -top <= stuck or self.boxes > self.most:
                break
            heapq.heappop(queue)
            corner = self._corner(box, found)
            if corner is not None and corner > best:
                best = corner
            if self._beyond(box, found):
                continue
            children = list(self._split(box, found))
            if not children:
                stuck = max(stuck, -top)
            for child in children:
                seen = self._look(child, best)
                if seen is None:
                    continue
                if seen.lower is not None and seen.lower > best:
                    best = seen.lower
                if seen.upper > best:
                    upper = min(seen.upper, -top)
                    heapq.heappush(queue, (-upper, next(ticket), child, seen))
        upper = math.inf if self._unbounded else max(stuck, -queue[0][0] if queue else 0.0)
        if not arb(upper) > best:
            return best
        return best.union(arb(upper)) if math.isfinite(upper) else best.union(arb.pos_inf())

    def _beyond(self, box: _Box, found: _Found) -> bool:
        """Whether larger values lie beyond a face of the box, inside the whole."""
        if box.sides:
            return False
        return any(
            (box.high[k] != self._whole.high[k]) if sign > 0 else (box.low[k] != self._whole.low[k])
            for k, sign in found.rising.items()
        )

    def _split(self, box: _Box, found: _Found) -> Iterator[_Box]:
        """Two boxes, or two sides of a break, or a face; nothing if floats are too coarse."""
        few = len(found.breaks) <= _FEW or box.depth >= 10 * self.d
        if found.breaks and few and box.depth >= 5 * self.d:
            plane = found.breaks[0]
            for side in (0, 1):
                sides = tuple(sorted((*box.sides, (plane, side))))
                yield _Box(box.low, box.high, sides, box.depth + 1)
            return
        if found.rising and not box.sides:
            low, high = list(box.low), list(box.high)
            for k, sign in found.rising.items():
                low[k] = high[k] = (high if sign > 0 else low)[k]
            yield _Box(tuple(low), tuple(high), (), box.depth)
            return
        axes = sorted(range(self.d), key=lambda k: (k != found.axis, box.low[k] - box.high[k]))
        for k in axes:
            middle = box.low[k] + (box.high[k] - box.low[k]) / 2
            if box.low[k] < middle < box.high[k]:
                before, after = box.high[:k], box.high[k + 1 :]
                yield _Box(box.low, (*before, middle, *after), box.sides, box.depth + 1)
                before, after = box.low[:k], box.low[k + 1 :]
                yield _Box((*before, middle, *after), box.high, box.sides, box.depth + 1)
                return

    def _corner(self, box: _Box, found: _Found) -> arb | None:
        """The norm at the corner where the best function of the box seems largest."""
        if box.sides or not found.rising:
            return None
        ends = enumerate(zip(box.low, box.high, strict=True))
        return self.at([high if found.rising.get(k, 0) > 0 else low for k, (low, high) in ends])

    def at(self, point: Sequence[float]) -> arb | None:
        """A lower bound of the norm at a point of the moving inputs; None next to a jump."""
        with ctx.workprec(8 * BITS):  # products that are written as squares cancel
            seen = self._look(_Box(tuple(point), tuple(point)), arb(0))
        return None if seen is None else seen.lower

    # -- one box -------------------------------------------------------------------------------

    def _look(self, box: _Box, best: arb) -> _Found | None:
        """Bound the norm over a box; None if no point of it has the sides."""
        self.boxes += 1
        d = self.d
        sides = dict(box.sides)
        x, centre = [], []
        for low, high in zip(box.low, box.high, strict=True):
            x.append(arb(low).union(arb(high)))
            at = low + _CENTRE * (high - low)
            centre.append(arb(min(max(at, low), high)))
        room = self._room(x)
        if any(r < 0 for r in room):
            return None
        steps = [a - c for a, c in zip(x, centre, strict=True)]
        eye = [[arb(int(i == j)) for j in range(d)] for i in range(d)]
        none = [arb(0)] * len(self._pairs)
        signal = _Signal(x, eye, [none] * d, centre, eye)
        state = _State(steps)
        state.whole = all(r > 0 for r in room)
        state.real = state.whole or all(r >= 0 for r in self._room(centre))
        for i, layer in enumerate(self.layers):
            weight = self._weights[i]
            assert weight is not None
            signal = _Signal.of(weight * signal.columns(), d)
            signal.z = [z + b for z, b in zip(signal.z, self._biases[i], strict=True)]
            signal.centre = [z + b for z, b in zip(signal.centre, self._biases[i], strict=True)]
            self._sharpen(signal, state)
            if i == len(self.layers) - 1:
                break
            after = _Signal([], [], [], [], [])
            for k, curve in enumerate(layer.curves):
                if not self._unit(curve, self._planes[i][k], signal, k, sides, state, after):
                    return None
            signal = after
        return self._norms(signal, box, state, best)

    def _sharpen(self, signal: _Signal, state: _State) -> None:
        """Intersect values and gradients with their mean-value forms."""
        d = self.d
        for k, (z, gradient) in enumerate(zip(signal.z, signal.gradient, strict=True)):
            if not state.jumped:
                hessian, slope = signal.hessian[k], signal.slope[k]
                for j in range(d):
                    form = slope[j]
                    for i in range(d):
                        form = form + hessian[self._place[j, i]] * state.steps[i]
                    gradient[j] = meet(gradient[j], form)
            form = signal.centre[k]
            for g, step in zip(gradient, state.steps, strict=True):
                form = form + g * step
            signal.z[k] = meet(z, form)

    def _unit(
        self,
        curve: Curve,
        planes: list[tuple[int, bool]],
        signal: _Signal,
        k: int,
        sides: dict[int, int],
        state: _State,
        after: _Signal,
    ) -> bool:
        """Pass one unit; False if its pre-activation contradicts the sides."""
        z, gradient, hessian = signal.z[k], signal.gradient[k], signal.hessian[k]
        centre = signal.centre[k]
        first, last = 0, len(curve.pieces) - 1
        for b, (plane, turned) in enumerate(planes):
            side = sides.get(plane)
            if side is None:
                continue
            if side == (0 if turned else 1):
                first = max(first, b + 1)
                if z < curve.breaks[b]:
                    return False
            else:
                last = min(last, b)
                if z > curve.breaks[b]:
                    return False
        if first > last:
            return False
        still = all(g.is_zero() for g in gradient)
        for b in range(first, last):
            if not still and z.contains(arb(curve.breaks[b])):
                state.breaks.setdefault(planes[b][0])
                state.jumped |= curve.jumps[b]
        value, slope, curvature = curve.over(z, first, last)
        at, steep, _ = curve.over(centre, first, last)
        if curve.breaks and not still:
            state.real &= self._settled(curve, centre, first, last)
        outer = [
            curvature * gradient[i] * gradient[j] + slope * hessian[p]
            for p, (i, j) in enumerate(self._pairs)
        ]
        after.z.append(value)
        after.gradient.append([slope * g for g in gradient])
        after.hessian.append(outer)
        after.centre.append(at)
        after.slope.append([steep * g for g in signal.slope[k]])
        return True

    @staticmethod
    def _settled(curve: Curve, centre: arb, first: int, last: int) -> bool:
        """Whether the centre lies inside the pieces, and off every break with a jump."""
        if first > 0 and not centre > curve.breaks[first - 1]:
            return False
        if last < len(curve.breaks) and not centre < curve.breaks[last]:
            return False
        return not any(
            curve.jumps[b] and centre.contains(arb(curve.breaks[b])) for b in range(first, last)
        )

    # -- norms ---------------------------------------------------------------------------------

    def _norms(self, signal: _Signal, box: _Box, state: _State, best: arb) -> _Found:
        """Bounds of the norm from those of the Jacobian."""
        d = self.d
        over = self._between(signal.gradient)
        at = self._between(signal.slope)
        slopes = [
            self._between([[h[self._place[k, j]] for j in range(d)] for h in signal.hessian])
            for k in range(d)
        ]
        upper, lower = arb(0), arb(0)
        axis, spread = 0, [arb(0)] * d
        rising: dict[int, set[int]] = {k: set() for k in range(d)}
        # all functions are at least zero: absolute values, or squares if `root`
        functions, root = self._functions(over, at, slopes)
        floor = best**2 if root else best
        for value, middle, derivative in functions:
            bound = arb.pos_inf() if value.is_nan() else value.upper()
            if not state.jumped:
                form = middle.abs_upper() + sum(
                    (abs(g) * abs(step) for g, step in zip(derivative, state.steps, strict=True)),
                    arb(0),
                )
                bound = min(bound, form.upper())
            lower = max(lower, middle.abs_lower())
            if not bound > floor:
                continue
            if bound > upper:
                upper = bound
                spread = [
                    g.rad() * step.rad() for g, step in zip(derivative, state.steps, strict=True)
                ]
            for k, g in enumerate(derivative):
                rising[k].add(1 if g > 0 else -1 if g < 0 else 0)
        if state.jumped or not max(spread) > 0:
            spread = [(b - a) / (u - v) for a, b, u, v in zip(
                map(arb, box.low), map(arb, box.high),
                map(arb, self._whole.high), map(arb, self._whole.low), strict=True,
            )]  # fmt: skip
        axis = max(range(d), key=lambda k: float(spread[k]))
        sure = {
            k: next(iter(signs))
            for k, signs in (rising if state.whole else {}).items()
            if signs in ({1}, {-1}) and box.low[k] < box.high[k] and not state.jumped
        }
        if root:
            upper, lower = upper.sqrt(), lower.sqrt()
        return _Found(
            _up(upper), lower.lower() if state.real else None, axis, sure, list(state.breaks)
        )

    def _between(self, jacobian: list[list[arb]]) -> list[list[arb]]:
        """``C J S`` for the functionals C and the directions S."""
        found: list[list[arb]] = (self._rows * arb_mat(jacobian) * self._directions).tolist()
        return found

    def _functions(
        self, over: list[list[arb]], at: list[list[arb]], slopes: list[list[list[arb]]]
    ) -> tuple[Iterator[tuple[arb, arb, list[arb]]], bool]:
        """Functions whose maximum is the norm, or its square: over the box, at its centre, slopes.

        Functions may change their sign: their sizes count.  `slopes` are of the sizes where the
        sign is known, and of either sign otherwise.
        """
        p, q = len(over), len(over[0])
        if self.functionals is None and self.input_norm == "l2" and min(p, q) > 1:
            return iter([self._eigenvalue(over, at, slopes)]), True
        if self.functionals is None or self.input_norm == "l2":
            rowwise = self.input_norm == "l2" and (self.functionals is not None or p == 1)
            groups = (
                [[(i, j) for j in range(q)] for i in range(p)]
                if rowwise
                else [[(i, j) for i in range(p)] for j in range(q)]
            )
            return (self._squares(group, over, at, slopes) for group in groups), True

        def sizes() -> Iterator[tuple[arb, arb, list[arb]]]:
            for i, j in product(range(p), range(q)):
                value = over[i][j]
                sign = 1 if value > 0 else -1 if value < 0 else 0
                derivative = [(sign or 1) * s[i][j] for s in slopes]
                if not sign:  # the size may fall where the function rises
                    derivative = [s.union(-s) for s in derivative]
                yield abs(value), at[i][j], derivative

        return sizes(), False

    @staticmethod
    def _squares(
        group: list[tuple[int, int]],
        over: list[list[arb]],
        at: list[list[arb]],
        slopes: list[list[list[arb]]],
    ) -> tuple[arb, arb, list[arb]]:
        value = sum((over[i][j] * over[i][j] for i, j in group), arb(0))
        middle = sum((at[i][j] * at[i][j] for i, j in group), arb(0))
        derivative = [2 * sum((over[i][j] * s[i][j] for i, j in group), arb(0)) for s in slopes]
        return value, middle, derivative

    @staticmethod
    def _eigenvalue(
        over: list[list[arb]], at: list[list[arb]], slopes: list[list[list[arb]]]
    ) -> tuple[arb, arb, list[arb]]:
        """The largest eigenvalue of the Gram matrix of two rows or two columns."""
        if len(over) != 2:
            over, at = _turned(over), _turned(at)
            slopes = [_turned(s) for s in slopes]
        assert len(over) == 2, "one side has to be two-dimensional"

        def gram(x: list[list[arb]], y: list[list[arb]]) -> tuple[arb, arb, arb]:
            def dot(i: int, j: int) -> arb:
                return sum((a * b for a, b in zip(x[i], y[j], strict=True)), arb(0))

            return dot(0, 0), dot(1, 1), (dot(0, 1) + dot(1, 0)) / 2

        def largest(x: list[list[arb]]) -> tuple[arb, arb, arb, arb]:
            a, c, b = gram(x, x)
            half = (a - c) / 2
            size = (half * half + b * b).nonnegative_part().sqrt()
            return (a + c) / 2 + size, half, b, size

        value, half, b, size = largest(over)
        middle = largest(at)[0]
        unit = arb(0, 1)
        # the direction of (half, b); anything of length one where it may vanish
        across, along = ((v / size).intersection(unit) if size > 0 else unit for v in (half, b))
        derivative = []
        for s in slopes:
            da, dc, db = (2 * v for v in gram(over, s))
            derivative.append((da + dc) / 2 + across * (da - dc) / 2 + along * db)
        return value, middle, derivative


@dataclass
class _State:
    """What happens on the way through the layers.

    Attributes
    ----------
    steps : list of ball
        From the centre to all points of the box.
    jumped : bool
        Whether the slope of an open break jumps.
    real : bool
        Whether the centre lies in the domain, and on the sides that the box has.
    whole : bool
        Whether all of the box lies inside the rows and the ball of the domain.
    breaks : dict
        Open ones, in order.
    """

    steps: list[arb]
    jumped: bool = False
    real: bool = True
    whole: bool = True
    breaks: dict[int, None] = field(default_factory=dict)


def _turned(rows: list[list[arb]]) -> list[list[arb]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _up(value: arb) -> float:
    if value.is_zero():
        return 0.0
    end = float(value.upper())
    return math.inf if math.isnan(end) else math.nextafter(end, math.inf)


def _down(value: arb) -> float:
    return math.nextafter(float(value.lower()), -math.inf)
