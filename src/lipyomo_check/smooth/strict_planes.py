"""Planes above a layer's products once more in Arb: those of `factors` and `together`."""

from __future__ import annotations

from flint import arb

from lipyomo_check.smooth.balls import Numbers
from lipyomo_check.smooth.common import Common
from lipyomo_check.smooth.levels import Products
from lipyomo_check.smooth.planes import Planes
from lipyomo_check.smooth.strict_common import Group
from lipyomo_check.smooth.strict_factors import Form, left_of, plane_error


def above(
    products: Products,
    common: Common | None,
    forms: tuple[list[Form], list[Form]],
    factors: tuple[Numbers, Numbers],
    planes: Planes,
) -> tuple[arb, Numbers, Numbers]:
    """Return planes above a layer's products at given points: constants, and branches' factors.

    Parameters
    ----------
    products : Products
    common : Common or None
        Those that may be together.
    forms : (list of Form, list of Form)
        z and u of all rows.
    factors : (list of arb, list of arb)
        What outputs and tangents are multiplied by.
    planes : Planes
        What float64 has found for this box.
    """
    z, u = forms
    count = products.left.size
    total, nothing = arb(0), arb(0)
    slopes, rates = [nothing] * (2 * count), [nothing] * (2 * count)
    left = set(range(count))
    sums = planes.sums[0].T.tolist()
    for number, (*point, counts) in enumerate(sums):
        if not counts:
            continue
        assert common is not None
        group = Group(common, number, forms, factors, point)
        total += group.constant()
        left -= set(group.products)
        for into, pairs in ((slopes, group.slopes()), (rates, group.rates())):
            for n, second, pair in zip(group.products, group.second, pairs, strict=True):
                other, row = (n, n + count) if second else (n + count, n)
                into[other], into[row] = pair
    points = planes.points[0].tolist()
    for n in sorted(left):
        k, j, a, b = int(products.left[n]), int(products.right[n]), factors[0][n], factors[1][n]
        at = [(arb(f[n]), arb(g[n])) for f, g in points]
        terms = (a, z[k], z[j]), (b, u[k], z[j]), (b, z[k], u[j])
        for (c, p, q), (f, g) in zip(terms, at, strict=True):
            total += plane_error(c, left_of(p, q, f, g)) - c * f * g
        (f0, g0), (f1, g1), (f2, g2) = at
        slopes[n], slopes[n + count] = a * g0 + b * g2, a * f0 + b * f1
        rates[n], rates[n + count] = b * g1, b * f2
    return total, slopes, rates
