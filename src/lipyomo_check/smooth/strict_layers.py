"""A layer over a box in ball arithmetic: lines, ranges, and forms of its products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat

from lipyomo_check.smooth.balls import Numbers, Range, Ranges, meet, overlap, ranges_of, unzipped
from lipyomo_check.smooth.definitions import Unit
from lipyomo_check.smooth.layers import Mode
from lipyomo_check.smooth.levels import Level
from lipyomo_check.smooth.ratios import exponent_of
from lipyomo_check.smooth.strict_factors import around, left_of, times
from lipyomo_check.smooth.strict_pieces import Piece, chord, extremes, pieces_of
from lipyomo_check.smooth.strict_whole import Forms, tangent_range


class Known(NamedTuple):
    """A layer over a box: lines of sigma (and, in inner layers, sigma'), ranges of sigma' and u.

    Slopes, and `d`, are those of branches (`levels`), rests of outputs, but the second ones, which
    are of branches as well.  `change` holds the outputs' tangents: slopes in z, and what is left.
    `rows` and `z` are affine functions of the pre-activations, coefficients and ranges; `forms`
    those of z and of u, in layers with products; `wide` are the same in all layers in which they
    are asked for.
    """

    pieces: list[list[Piece]]
    slopes: list[Numbers]
    rests: list[Ranges]
    change: tuple[Numbers, Ranges] | None
    d: Ranges
    u: Ranges
    rows: arb_mat
    z: Ranges
    forms: Forms | None
    wide: Forms | None = None


@dataclass(frozen=True, eq=False)
class Relaxing:
    """How a layer is relaxed on boxes.

    Attributes
    ----------
    level : Level
    units : list of Unit
        All but products.
    mode : Mode
    """

    level: Level
    units: list[Unit]
    mode: Mode

    @property
    def wide(self) -> bool:
        """Whether forms of all rows are asked for."""
        return self.level.products is not None or bool(self.mode.sums or self._powers)

    @cached_property
    def _powers(self) -> list[tuple[int, float]]:
        """Units whose tangents are bounded by ratios, and their exponents."""
        pairs = [(k, exponent_of(unit.kind)) for k, unit in enumerate(self.units)]
        return [(k, p) for k, p in pairs if p is not None]

    def layer(
        self,
        ends: list[tuple[float, float]],
        u: Ranges,
        rows: arb_mat,
        z: Ranges,
        wide: Forms | None,
    ) -> Known:
        """Return a layer whose pre-activations have these ends."""
        pieces = [pieces_of(unit, *end) for unit, end in zip(self.units, ends, strict=False)]
        one, nothing, mode = arb(1), arb(0), self.mode
        slopes, rests = [], []
        for A, c in ((one, nothing), *(((nothing, one),) if mode.inner else ())):
            chosen = [
                chord(unit.kind, own, A, c, mode.two_lines and unit.kind.kinked)
                for unit, own in zip(self.units, pieces, strict=True)
            ]
            found = [extremes(own, A, c, s) for own, s in zip(pieces, chosen, strict=True)]
            slopes.append(chosen)
            rests.append(unzipped(found))
        d = unzipped(extremes(own, nothing, one, nothing) for own in pieces)
        change = None
        if mode.inner:
            some = zip(u[0], u[1], *d, slopes[1], *rests[1], strict=False)
            tilts, left = [], []
            for m, m_reach, rate, rate_reach, s, middle, reach in some:
                tilts.append(m * s)
                left.append((m * (middle - rate), abs(m) * reach + rate_reach * m_reach))
            change = tilts, unzipped(left)
        forms = None if self.level.products is None else wide
        layer = Known(pieces, slopes, rests, change, d, u, rows, z, forms, wide)
        return layer if forms is None else self._with_products(layer)

    def _with_products(self, layer: Known) -> Known:
        """Return with lines of products behind those of units."""
        products = self.level.products
        assert products is not None
        assert layer.forms is not None
        z, u = layer.forms
        pairs = list(zip(products.left.tolist(), products.right.tolist(), strict=True))
        m = [around(form.ends) for form in z]
        slopes = [m[j][0] for _, j in pairs] + [m[i][0] for i, _ in pairs]
        radii = [m[j][1] for _, j in pairs] + [m[i][1] for i, _ in pairs]
        n = layer.u[0]
        values, drifts = [], []
        for a, b in pairs:
            (f, _), (g, _) = m[a], m[b]
            middle, reach = around(left_of(z[a], z[b], f, g))
            values.append((middle - f * g, reach))
            one = around(left_of(u[a], z[b], n[a], g))
            other = around(left_of(z[a], u[b], f, n[b]))
            drift = one[0] + other[0] - n[a] * g - f * n[b]
            drifts.append((drift, one[1] + other[1]))
        given, nothing = layer.slopes, [arb(0)] * len(slopes)
        found_slopes = [given[0] + slopes, *(s + [arb(1)] * len(slopes) for s in given[1:])]
        found_rests = [_behind(layer.rests[0], unzipped(values))]
        found_rests += [_behind(rest, (nothing, nothing)) for rest in layer.rests[1:]]
        change = None
        if layer.change is not None:
            tilts = [n[b] for _, b in pairs] + [n[a] for a, _ in pairs]
            change = layer.change[0] + tilts, _behind(layer.change[1], unzipped(drifts))
        return layer._replace(
            slopes=found_slopes,
            rests=found_rests,
            change=change,
            d=_behind(layer.d, (slopes, radii)),
        )

    def outputs(self, layer: Known, ends: list[tuple[float, float]]) -> Ranges:
        """Return ranges of the outputs: of units by their lines, of products by corners."""
        n, some = len(layer.pieces), ends[: len(layer.pieces)]
        z = ranges_of(np.array([low for low, _ in some]), np.array([high for _, high in some]))
        slopes, (middle, reach) = layer.slopes[0], layer.rests[0]
        found = (
            [s * a + b for s, a, b in zip(slopes, z[0], middle, strict=False)],
            [abs(s) * a + b for s, a, b in zip(slopes, z[1], reach, strict=False)],
        )
        if self.mode.narrow:
            pairs = zip(self.units, layer.pieces, strict=True)
            found = meet(found, unzipped(self._range(unit, pieces) for unit, pieces in pairs))
        if layer.forms is None:
            return found
        forms, _ = layer.forms
        corners = (times(forms[a].ends, forms[b].ends) for a, b in self._pairs())
        return _behind((found[0][:n], found[1][:n]), unzipped(map(around, corners)))

    def _range(self, unit: Unit, pieces: list[Piece]) -> Range:
        """Return the range of sigma, from its ends where it does not turn."""
        one, nothing = arb(1), arb(0)
        middle, reach = extremes(pieces, nothing, one, nothing)
        (low, high), kind = (pieces[0].ends[0], pieces[-1].ends[1]), unit.kind
        one_way = middle - reach >= 0 or middle + reach <= 0
        if kind.inside is not None and (low >= 0.0 or high <= 0.0):
            one_way = one_way or bool(kind.inside(np.array(low), np.array(high)))
        if not one_way:
            return extremes(pieces, one, nothing, nothing)
        ends = pieces[0].values[0], pieces[-1].values[1]
        return around((ends[0].min(ends[1]), ends[0].max(ends[1])))

    def tangents(self, layer: Known) -> Ranges:
        """Return ranges of the outputs' tangents."""
        n = len(layer.pieces)
        found = times_of((layer.d[0][:n], layer.d[1][:n]), (layer.u[0][:n], layer.u[1][:n]))
        if layer.wide is not None and self.mode.narrow:
            for k, p in self._powers:
                value = self._range(self.units[k], layer.pieces[k])
                own = tangent_range(p, value, layer.wide[0][k], layer.wide[1][k])
                if own is not None:
                    found[0][k], found[1][k] = overlap((found[0][k], found[1][k]), own)
        if layer.forms is None:
            return found
        z, u = layer.forms
        sums = []
        for a, b in self._pairs():
            one, other = times(u[a].ends, z[b].ends), times(z[a].ends, u[b].ends)
            sums.append(around((one[0] + other[0], one[1] + other[1])))
        return _behind(found, unzipped(sums))

    def _pairs(self) -> list[tuple[int, int]]:
        """Return rows of the factors of a layer's products."""
        products = self.level.products
        assert products is not None
        return list(zip(products.left.tolist(), products.right.tolist(), strict=True))


def times_of(d: Ranges, u: Ranges) -> Ranges:
    """Return ranges of ``sigma'(z) u``."""
    middle = [a * b for a, b in zip(d[0], u[0], strict=True)]
    pairs = zip(*d, *u, strict=True)
    return middle, [abs(a) * s + r * (abs(b) + s) for a, r, b, s in pairs]


def _behind(units: Ranges, products: Ranges) -> Ranges:
    return units[0] + products[0], units[1] + products[1]
