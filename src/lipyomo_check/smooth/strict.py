"""The bound of a box once more, in Arb: nothing rests on float64 arithmetic or its error bounds.

The formulas are those of `bound` and `lines`, with definitions instead of the functions of `kinds`,
of which the breaks and the bounds of derivatives stay in use.  Where a choice is free, such as the
slope of a line, it is a float.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from flint import arb, arb_mat, ctx

from lipyomo_check.parts import BITS, Layer
from lipyomo_check.smooth.balls import (
    Numbers,
    Ranges,
    absolute,
    added,
    affine_range,
    are_apart,
    columns_times,
    floats_around,
    largest_value,
    matrix_of,
    meet,
    product,
    ranges_of,
)
from lipyomo_check.smooth.bound import Chain
from lipyomo_check.smooth.bounded import Bounded
from lipyomo_check.smooth.boxes import Boxes
from lipyomo_check.smooth.elementary import Array
from lipyomo_check.smooth.levels import Exact, Level, units_alone
from lipyomo_check.smooth.strict_factors import forms_of
from lipyomo_check.smooth.strict_layers import Known, Relaxing
from lipyomo_check.smooth.strict_lines import Hidden, ends_by_lines
from lipyomo_check.smooth.strict_pieces import extremes
from lipyomo_check.smooth.strict_planes import above
from lipyomo_check.smooth.strict_spaces import (
    Affine,
    Space,
    narrowed,
    of_domain,
    of_phases,
    with_multiple,
)
from lipyomo_check.smooth.strict_whole import Slopes, least_square, with_sums


class StrictChain:
    """A network whose boxes are bounded in Arb.

    Parameters
    ----------
    chain : Chain
    hidden : sequence of Layer
        Its hidden layers.
    """

    def __init__(self, chain: Chain, hidden: Sequence[Layer]) -> None:
        self.chain, self.units = chain, list(map(units_alone, hidden))
        self._relaxing = [
            Relaxing(level, units, chain.mode(i))
            for i, (level, units) in enumerate(zip(chain.levels, self.units, strict=True))
        ]
        self.weights = [_exact(level.weight, level.rest, 0) for level in chain.levels]
        self.tangents = [_exact(level.tangents, level.rest, 2) for level in chain.levels]
        self.biases = [_exact(level.bias[None], level.rest, 1).entries() for level in chain.levels]
        self._hidden = list(map(Hidden, self.weights, self.biases, self.units))
        own = [level.branches.tolist() for level in chain.levels]
        self.branch_weights, self.branch_tangents = (
            [_taken(rows, which) for rows, which in zip(all_rows, own, strict=True)]
            for all_rows in (self.weights, self.tangents)
        )
        self.branch_biases = [
            [bias[k] for k in which] for bias, which in zip(self.biases, own, strict=True)
        ]
        self.head = matrix_of(chain.head)

    def bound(
        self, functional: Array, box: Boxes, known: Bounded, shell: Sequence[Space] = ()
    ) -> tuple[Affine, list[Known]]:
        """Bound ``w . J(x) v`` on one box; minus infinity if it has no point in its phases.

        Slopes of the objective's planes and multiples of half-spaces are those that float64 found.
        The layers are those of a box that has points.
        """
        with ctx.workprec(BITS):
            x, v = ranges_of(box.low[0], box.high[0]), ranges_of(box.v_low[0], box.v_high[0])
            layers: list[Known] = []
            h, t = x, v
            for i, weight in enumerate(self.weights):
                natural = affine_range(weight, h, self.biases[i]), affine_range(self.tangents[i], t)
                if i == 0:
                    (z, u), rows = natural, weight
                    along: tuple[arb_mat | None, arb_mat | None] = (None, self.tangents[0])
                    of_u = u
                else:
                    rows, _, z = self._back(layers, i, True, x, v)
                    of_x, of_v, of_u = self._back(layers, i, False, x, v)
                    along = of_x, of_v
                    u = meet(natural[1], of_u)
                outer = z
                further = [narrowed(rows, z, box, x)]
                if i and self.chain.by_lines:
                    further.append(ends_by_lines(self._hidden[: i + 1], layers, x))
                ends = self._ends(i, natural[0], further, box)
                if ends is not None and self.chain.squares[i]:
                    ends = self._above_least(i, ends, layers[-1])
                if ends is None:
                    return Affine(arb(-math.inf), [], []), []
                forms = None
                if self._relaxing[i].wide:
                    reach = x[1], v[1]
                    exact = [(arb(low), arb(high)) for low, high in ends]
                    own = [(m - r, m + r) for m, r in zip(*u, strict=True)]
                    forms = (
                        forms_of([(rows, reach[0]), (None, reach[1])], outer, exact),
                        forms_of(list(zip(along, reach, strict=True)), of_u, own),
                    )
                layers.append(self._relaxing[i].layer(ends, u, rows, outer, forms))
                relaxing = self._relaxing[i]
                h, t = relaxing.outputs(layers[-1], ends), relaxing.tangents(layers[-1])
            found = self._objective(functional, layers, known, x, v)
            last = known.multiples[: len(known.multiples) - len(shell)][-2:]
            spaces = (
                *of_phases(self.chain.broken, layers, x, box),
                *of_domain(self.chain.domain, x, last),
                *shell,
            )
            for one, space in zip(known.multiples, spaces, strict=True):
                if one.mu is not None and one.mu[0] > 0.0:
                    found = with_multiple(found, arb(float(one.mu[0])), *space(), x[1])
            return found, layers

    def _ends(
        self, i: int, z: Ranges, others: Sequence[Ranges], box: Boxes
    ) -> list[tuple[float, float]] | None:
        """Return ends of what ranges share within the phases; None if they are disjoint."""
        for other in others:
            if are_apart(z, other):
                return None
            z = meet(z, other)
        return self._in_phase(i, z, box)

    def _above_least(
        self, i: int, ends: list[tuple[float, float]], before: Known
    ) -> list[tuple[float, float]] | None:
        """Return ends, those of sums of squares by their least values; None if they are empty."""
        assert before.wide is not None
        for own in self.chain.squares[i]:
            weight, k = self.weights[i], own.row
            row = [weight[k, j] for j in range(weight.ncols())]
            found = least_square(own, row, self.biases[i][k], before.wide[0])
            low = math.nextafter(float(found.lower()), -math.inf)
            ends[k] = max(ends[k][0], low), ends[k][1]
        return None if any(low > high for low, high in ends) else ends

    def _in_phase(self, i: int, z: Ranges, box: Boxes) -> list[tuple[float, float]] | None:
        """Return ends of pre-activations within the phases, as floats."""
        ends = [floats_around(middle, radius) for middle, radius in zip(*z, strict=True)]
        for n, (layer, k) in enumerate(self.chain.broken):
            if layer == i:
                low, high = ends[k]
                ends[k] = max(low, float(box.z_low[0, n])), min(high, float(box.z_high[0, n]))
        return None if any(low > high for low, high in ends) else ends

    def _back(
        self, layers: list[Known], last: int, values: bool, x: Ranges, v: Ranges
    ) -> tuple[arb_mat, arb_mat | None, Ranges]:
        """Return coefficients and ranges of a layer's pre-activations (or tangents), backwards."""
        weight = self.weights[last]
        A: arb_mat | None = weight if values else None
        B: arb_mat | None = None if values else weight
        middle = list(self.biases[last]) if values else [arb(0)] * weight.nrows()
        radius = [arb(0)] * weight.nrows()
        for j in range(last - 1, -1, -1):
            layer, level = layers[j], self.chain.levels[j]
            P: arb_mat | None = None
            parts: list[tuple[arb_mat, Ranges]] = []
            sums = self.chain.mode(j).sums if j == last - 1 else ()
            if sums:
                assert layer.change is not None
                assert layer.wide is not None
                slopes = Slopes(layer.slopes[0], layer.change[0], layer.d[0])
                rests = layer.rests[0] if values else layer.change[1]
                more = with_sums(level, sums, weight, layer.wide, slopes, rests, not values)
                for k, (shift, width) in more.items():
                    middle[k], radius[k] = middle[k] + shift, radius[k] + width
            if A is not None:
                P = columns_times(spread_out(level, A), layer.slopes[0])
                parts.append((A, layer.rests[0]))
            if B is not None:
                assert layer.change is not None
                parts.append((B, layer.change[1]))
                B = spread_out(level, B)
                tilted = columns_times(B, layer.change[0])
                P = tilted if P is None else P + tilted
                B = columns_times(B, layer.d[0]) * self.branch_tangents[j]
            for rows, (mids, reaches) in parts:
                middle = added(middle, product(rows, mids))
                radius = added(radius, product(absolute(rows), reaches))
            assert P is not None
            middle = added(middle, product(P, self.branch_biases[j]))
            A = P * self.branch_weights[j]
        assert A is not None
        for rows, signal in ((A, x), *(() if B is None else ((B, v),))):
            middle = added(middle, product(rows, signal[0]))
            radius = added(radius, product(absolute(rows), signal[1]))
        return A, B, (middle, radius)

    def _objective(
        self, functional: Array, layers: list[Known], known: Bounded, x: Ranges, v: Ranges
    ) -> Affine:
        """Go backwards with ``w . W_last`` as a whole."""
        first = (arb_mat([functional.tolist()]) * self.head).entries()
        A, B = [arb(0)] * len(first), first
        total = arb(0)
        if self.chain.offset is not None:
            A, B = first, [arb(0)] * len(first)
            pairs = zip(functional.tolist(), self.chain.offset.tolist(), strict=True)
            total = sum((arb(c) * arb(b) for c, b in pairs), arb(0))
        for i in range(len(layers) - 1, -1, -1):
            layer, planes = layers[i], known.planes[i]
            n = len(layer.pieces)
            slopes, rates = (list(map(arb, side[0, :n].tolist())) for side in (planes.s, planes.r))
            for k, (pieces, s, rate) in enumerate(zip(layer.pieces, slopes, rates, strict=True)):
                m, m_reach = layer.u[0][k], layer.u[1][k]
                ends = B[k] * (m - m_reach), B[k] * (m + m_reach)
                tops = [sum(extremes(pieces, A[k], end, s)) - end * rate for end in ends]
                total += tops[0].max(tops[1])
            rates = [b * rate for b, rate in zip(B[:n], rates, strict=True)]
            if layer.forms is not None:
                products, common = self.chain.levels[i].products, self.chain.mode(i).common
                assert products is not None
                factors = A[n:], B[n:]
                more, own, others = above(products, common, layer.forms, factors, planes)
                total, slopes, rates = total + more, slopes + own, rates + others
            total += _dot(slopes, self.branch_biases[i])
            A = (arb_mat([slopes]) * self.branch_weights[i]).entries()
            B = (arb_mat([rates]) * self.branch_tangents[i]).entries()
        return Affine(total + largest_value(A, x) + largest_value(B, v), A, B)


def spread_out(level: Level, rows: arb_mat) -> arb_mat:
    """Return columns of outputs for each branch."""
    if level.products is None:
        return rows
    which = level.products.output.tolist()
    return arb_mat([[rows[k, j] for j in which] for k in range(rows.nrows())])


def _taken(rows: arb_mat, which: list[int]) -> arb_mat:
    """Select some rows."""
    if which == list(range(rows.nrows())):
        return rows
    return arb_mat([[rows[k, j] for j in range(rows.ncols())] for k in which])


def _exact(floats: Array, rest: Exact | None, part: int) -> arb_mat:
    """Return rows without rounding."""
    found = matrix_of(floats)
    if rest is None:
        return found
    more = rest[part]
    return found + matrix_of(more if more.ndim == 2 else more[None])


def _dot(one: Numbers, other: Numbers) -> arb:
    return sum((a * b for a, b in zip(one, other, strict=True)), arb(0))
