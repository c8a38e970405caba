"""Half-spaces of boxes in Arb: of phases, of the domain, of shells, and of split boxes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

from flint import arb, arb_mat

from lipyomo_check.parts import Domain
from lipyomo_check.smooth.balls import Numbers, Ranges, ranges_of, spread, unzipped
from lipyomo_check.smooth.boxes import Boxes
from lipyomo_check.smooth.elementary import ULP, Array
from lipyomo_check.smooth.halfspaces import Multiple
from lipyomo_check.smooth.strict_layers import Known


class Affine(NamedTuple):
    """An affine function of (x, v) above the objective: its maximum and its coefficients."""

    upper: arb
    x: Numbers
    v: Numbers


Space = Callable[[], tuple[Numbers, arb]]
"""Makes the coefficients of a half-space, ``level + a . (x - centre) >= 0``, and its level."""


def is_outside(domain: Domain, low: Array, high: Array) -> bool:
    """Return whether a box surely has no point of the domain's rows or of its ball."""
    sides = list(zip(low.tolist(), high.tolist(), strict=True))
    for row, b in zip(domain.A, domain.b, strict=True):
        pairs = zip(row, sides, strict=True)
        least = (arb(a) * arb(first if a > 0 else last) for a, (first, last) in pairs)
        if sum(least, arb(0)) > arb(b):
            return True
    if domain.ball is None:
        return False
    norm, centre, radius = domain.ball
    both = zip(centre, sides, strict=True)
    gaps = (arb(min(max(c, first), last)) - arb(c) for c, (first, last) in both)
    power = 1 if norm == "l1" else 2
    return bool(sum((abs(g) ** power for g in gaps), arb(0)) > arb(radius) ** power)


def of_phases(
    broken: Sequence[tuple[int, int]], layers: list[Known], x: Ranges, box: Boxes
) -> Iterator[Space]:
    """Return the half-spaces of phases that cut through the box."""
    for n, (i, k) in enumerate(broken):
        for side, sign in ((float(box.z_high[0, n]), -1), (float(box.z_low[0, n]), 1)):
            yield partial(_of_phase, layers[i], k, side, sign, x)


def of_domain(domain: Domain | None, x: Ranges, last: Sequence[Multiple]) -> Iterator[Space]:
    """Return the half-spaces of the domain's rows, and tangents of its ball with given normals."""
    if domain is None:
        return
    for row, b in zip(domain.A, domain.b, strict=True):
        yield partial(_of_row, row, b, x)
    if domain.ball is not None:
        for one in last:
            yield partial(_tangent, domain.ball, one, x)


def at_least(found: Affine, least: arb, box: Boxes) -> tuple[Numbers, arb]:
    """Return where an affine function that is above another one is not below `least`."""
    _, reach = ranges_of(box.low[0], box.high[0])
    return found.x, found.upper - least - spread(found.x, reach)


def _of_phase(layer: Known, k: int, side: float, sign: int, x: Ranges) -> tuple[Numbers, arb]:
    a = [sign * layer.rows[k, j] for j in range(len(x[0]))]
    middle, radius = layer.z[0][k], layer.z[1][k]
    return a, sign * middle + radius - sign * arb(side) - spread(a, x[1])


def _of_row(row: Sequence[float], b: float, x: Ranges) -> tuple[Numbers, arb]:
    a = [arb(-v) for v in row]
    return a, sum((v * m for v, m in zip(a, x[0], strict=True)), arb(b))


def _tangent(ball: tuple[str, list[float], float], one: Multiple, x: Ranges) -> tuple[Numbers, arb]:
    assert one.rows is not None
    norm, point, radius = ball
    normal = [arb(v) for v in one.rows[0].tolist()]
    size = max(map(abs, normal)) if norm == "l1" else sum((v * v for v in normal), arb(0)).sqrt()
    gaps = (v * (m - arb(c)) for v, m, c in zip(normal, x[0], point, strict=True))
    return [-v for v in normal], arb(radius) * size - sum(gaps, arb(0))


def with_multiple(found: Affine, mu: arb, a: Numbers, level: arb, reach: Numbers) -> Affine:
    """Return an upper function with a multiple of what is not negative."""
    new = [b + mu * c for b, c in zip(found.x, a, strict=True)]
    return Affine(
        found.upper + mu * level + spread(new, reach) - spread(found.x, reach), new, found.v
    )


def narrowed(rows: arb_mat, z: Ranges, box: Boxes, x: Ranges) -> Ranges:
    """Return ranges of functions with coefficients `rows` within a box's half-space."""
    least, a = float(box.least[0]), list(map(arb, box.rise[0].tolist()))
    if not math.isfinite(least):
        return z
    level = sum((b * m for b, m in zip(a, x[0], strict=True)), arb(-least))
    turn = spread(a, x[1])
    if not (level < turn and turn > 0):
        return z
    left = min(max(0.5 + 0.5 * float(level) / float(turn), ULP), 1.0)
    found = []
    for row, middle, radius in zip(rows.tolist(), *z, strict=True):
        size = spread(row, x[1])
        mu = arb(-math.log(left)) * float(size) / float(turn)
        low, high = middle - radius, middle + radius
        for sign in (-1, 1):
            turned = [b + sign * mu * c for b, c in zip(row, a, strict=True)]
            gain = (size - mu * level - spread(turned, x[1])).max(arb(0))
            low, high = (low + gain, high) if sign < 0 else (low, high - gain)
        found.append(((low + high) / 2, (high - low) / 2))
    return unzipped(found)
