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


def ends_by_lines(hidden: Sequence[Hidden], known: Sequence[Known], x: Ranges) -> Ranges:
    """Return ranges of the pre-activations of the last one of some layers.

    Parameters
    ----------
    hidden : sequence of Hidden
        Layers without products.
    known : sequence of Known
        Those before the last one on the box.
    x : Ranges
    """
    *before, last = hidden
    n, nothing = last.weight.nrows(), arb(0)
    A = arb_mat([*last.weight.tolist(), *(-last.weight).tolist()])
    constant = [*last.bias, *(-b for b in last.bias)]
    for layer, own in zip(reversed(before), reversed(known), strict=True):
        above, below = _lines(layer.units, own)
        m, shape = A.ncols(), (A.nrows(), A.ncols())
        ups, downs = [a.max(nothing) for a in A.entries()], [a.min(nothing) for a in A.entries()]
        for side, lines in ((ups, above), (downs, below)):
            constant = added(constant, product(arb_mat(*shape, side), lines[1]))
        pairs = enumerate(zip(ups, downs, strict=True))
        rows = [up * above[0][k % m] + down * below[0][k % m] for k, (up, down) in pairs]
        P = arb_mat(*shape, rows)
        constant = added(constant, product(P, layer.bias))
        A = P * layer.weight
    tops = added(added(constant, product(A, x[0])), product(absolute(A), x[1]))
    ends = [(-below, above) for above, below in zip(tops[:n], tops[n:], strict=True)]
    return [(a + b) / 2 for a, b in ends], [(b - a) / 2 for a, b in ends]


def _lines(
    units: Sequence[Unit], known: Known
) -> tuple[tuple[Numbers, Numbers], tuple[Numbers, Numbers]]:
    """Return lines above and below a layer's units: slopes and constants."""
    above: tuple[Numbers, Numbers] = ([], [])
    below: tuple[Numbers, Numbers] = ([], [])
    rests = zip(known.slopes[0], *known.rests[0], strict=True)
    for unit, pieces, (s, middle, reach) in zip(units, known.pieces, rests, strict=True):
        low, high = pieces[0].ends[0], pieces[-1].ends[1]
        lines = [(s, middle + reach), (s, middle - reach)]
        if unit.kind.kinked and low < 0.0 < high:
            through = unit.right if high > -low * (1.0 + TIE) else unit.left
            if unit.left != unit.right:
                lines[int(unit.left < unit.right)] = arb(through), arb(0)
        for side, (slope, constant) in zip((above, below), lines, strict=True):
            side[0].append(slope)
            side[1].append(constant)
    return above, below
