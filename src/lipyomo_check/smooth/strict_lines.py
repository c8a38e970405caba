"""Ranges of pre-activations by two lines of each unit once more in Arb, as `two_lines` has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flint import arb, arb_mat

from lipyomo_check.smooth.balls import Numbers, Ranges, absolute, added, product
from lipyomo_check.smooth.definitions import Unit
from lipyomo_check.smooth.strict_layers import Known
from lipyomo_check.smooth.two_lines import TIE


class Hidden(NamedTuple):
    """A hidden layer: weight, bias and units."""

    weight: arb_mat
    bias: Numbers
    units: Sequence[Unit]


def ends_by_lines(
    weight: arb_mat, bias: Numbers, before: Sequence[Hidden], known: Sequence[Known], x: Ranges
) -> Ranges:
    """Ranges of the pre-activations of the layer behind some.

    Parameters
    ----------
    weight : arb_mat
    bias : list of arb
    before : sequence of Hidden
        All layers before it, without products.
    known : sequence of Known
        The same on the box.
    x : Ranges
    """
    high = _tops(weight, bias, before, known, x)
    low = _tops(-weight, [-b for b in bias], before, known, x)
    pairs = [(-below, above) for above, below in zip(high, low, strict=True)]
    return [(a + b) / 2 for a, b in pairs], [(b - a) / 2 for a, b in pairs]


def _tops(
    A: arb_mat, constant: Numbers, before: Sequence[Hidden], known: Sequence[Known], x: Ranges
) -> Numbers:
    """The largest values of ``A h + constant``, h being what the last layer passes on."""
    nothing = arb(0)
    for layer, own in zip(reversed(before), reversed(known), strict=True):
        above, below = _lines(layer.units, own)
        m, shape = A.ncols(), (A.nrows(), A.ncols())
        ups, downs = [a.max(nothing) for a in A.entries()], [a.min(nothing) for a in A.entries()]
        for side, lines in ((ups, above), (downs, below)):
            constant = added(constant, product(arb_mat(*shape, side), lines[1]))
        pairs = enumerate(zip(ups, downs, strict=True))
        rows = [up * above[0][n % m] + down * below[0][n % m] for n, (up, down) in pairs]
        P = arb_mat(*shape, rows)
        constant = added(constant, product(P, layer.bias))
        A = P * layer.weight
    return added(added(constant, product(A, x[0])), product(absolute(A), x[1]))


def _lines(
    units: Sequence[Unit], known: Known
) -> tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers]]:
    """Lines above and below a layer's units: slopes and constants."""
    above: tuple[Numbers, Numbers] = ([], [])
    below: tuple[Numbers, Numbers] = ([], [])
    rests = zip(known.slopes[0], *known.rests[0], strict=True)
    for unit, pieces, (s, middle, reach) in zip(units, known.pieces, rests, strict=True):
        low, high = pieces[0].ends[0], pieces[-1].ends[1]
        lines = [(s, middle + reach), (s, middle - reach)]
        if unit.kind.straight and unit.kind.breaks and low < 0.0 < high:
            through = unit.right if high > -low * (1.0 + TIE) else unit.left
            if unit.left != unit.right:
                lines[int(unit.left < unit.right)] = arb(through), arb(0)
        for side, (slope, constant) in zip((above, below), lines, strict=True):
            side[0].append(slope)
            side[1].append(constant)
    return above, below
