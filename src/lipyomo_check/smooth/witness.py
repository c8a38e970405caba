"""The lower end of a network with smooth units: the Jacobian at a point, enclosed in Arb.

The point lies in the domain, perhaps on its boundary; the domain has an interior, shown by another
point if it is more than a box.  At the point no unit is at a jump of its slope, so the Jacobian is
continuous there, and what it gives is approached from the inside.
"""

from __future__ import annotations

from typing import Any

from flint import arb, arb_mat, ctx, fmpq

from lipyomo_check.errors import ProofError
from lipyomo_check.parts import BITS, Layer, rational
from lipyomo_check.reading import entry, listed, reals
from lipyomo_check.smooth.definitions import Unit, units_of
from lipyomo_check.statement import Statement
from lipyomo_check.witness import rooms, size_squared


def check_smooth_witness(statement: Statement, record: Any) -> None:
    """Check that the witness attains the lower end.

    Raises
    ------
    ProofError
        If it is not shown to.
    """
    if statement.ends is not None:
        _check_values(statement, statement.ends, record)
        return
    m, domain = statement.layers[-1].units, statement.domain
    x = _point(statement, entry(record, "x"))
    if domain.A or domain.ball is not None:
        given = reals(entry(record, "inside"), "the inner point", statement.inputs)
        inside = [rational(v) for v in given]
        if any(room < 0 or (strict and room == 0) for room, strict in rooms(domain, inside)):
            raise ProofError("the inner point does not lie strictly inside the domain")
    if statement.lower == 0.0:
        return
    y = [rational(v) for v in reals(entry(record, "functional"), "the functional", m)]
    square = size_squared(statement, y)
    with ctx.workprec(BITS):
        gradient = gradient_at(statement, x, y)
        norm = _dual_norm(statement.input_norm, gradient)
        shown = norm * norm >= arb(rational(statement.lower) ** 2 * square)
        if not (shown and norm > 0):
            raise ProofError("the witness does not attain the lower end")


def _point(statement: Statement, record: Any) -> list[fmpq]:
    """Return a point of the domain."""
    x = [rational(v) for v in reals(record, "the point", statement.inputs)]
    if any(room < 0 for room, _ in rooms(statement.domain, x)):
        raise ProofError("the witness lies outside the domain")
    return x


def _check_values(statement: Statement, ends: list[tuple[float, float]], record: Any) -> None:
    """Check that each functional attains its lower end at its point, in the shell."""
    assert statement.vertices is not None
    shell = statement.shell
    points = listed(entry(record, "points"), "the points", len(ends))
    with ctx.workprec(BITS):
        for row, (lower, _), given in zip(statement.vertices, ends, points, strict=True):
            x = _point(statement, given)
            if shell is not None:
                (level,) = values_at(shell.layers, x)
                if not (level >= arb(shell.low) and level <= arb(shell.high)):
                    raise ProofError("the witness is not shown to be in the shell")
            pairs = zip(row, values_at(statement.layers, x), strict=True)
            if not sum((arb(c) * value for c, value in pairs), arb(0)) >= arb(lower):
                raise ProofError("the witness does not attain the lower end")


def values_at(layers: list[Layer], x: list[fmpq]) -> list[arb]:
    """Return the outputs of a network at x; slopes do not matter."""
    return _passed(layers, x, [False] * len(x))[0]


def gradient_at(statement: Statement, x: list[fmpq], y: list[fmpq]) -> list[arb]:
    """Return the gradient of ``y . f`` at x, in the statement's directions.

    Raises
    ------
    ProofError
        If a unit may be at a jump of its slope.
    """
    moves = [j in statement.domain.moving for j in range(statement.inputs)]
    _, slopes = _passed(statement.hidden, x, moves)
    row = arb_mat([[arb(v) for v in y]]) * arb_mat(statement.layers[-1].exact_weight)
    for layer, steep in zip(reversed(statement.hidden), reversed(slopes), strict=True):
        scaled = [[a * b for a, b in zip(row.entries(), steep, strict=True)]]
        row = arb_mat(scaled) * arb_mat(layer.exact_weight)
    along: list[arb] = (row * arb_mat(statement.exact_directions)).entries()
    return along


def _dual_norm(input_norm: str, gradient: list[arb]) -> arb:
    sizes = [abs(g) for g in gradient]
    if input_norm == "l1":
        return max(sizes, key=lambda g: g.lower())
    if input_norm == "linf":
        return sum(sizes, arb(0))
    return sum((g * g for g in sizes), arb(0)).sqrt()


def _passed(
    layers: list[Layer], x: list[fmpq], moves: list[bool]
) -> tuple[list[arb], list[list[arb]]]:
    """Return the outputs of layers at x, and the slopes of their units.

    Those of units that no moving input reaches may be any.
    """
    signal, slopes = [arb(v) for v in x], []
    for layer in layers:
        z = (arb_mat(layer.exact_weight) * arb_mat([[v] for v in signal])).entries()
        z = [v + arb(rational(b)) for v, b in zip(z, layer.offset, strict=True)]
        moves = [any(w != 0.0 and m for w, m in zip(row, moves, strict=True)) for row in layer.rows]
        units = zip(units_of(layer), z, moves, strict=True)
        found = [_value_and_slope(*one) for one in units]
        signal = [value for value, _ in found]
        slopes.append([slope for _, slope in found])
    return signal, slopes


def _value_and_slope(unit: Unit, t: arb, moving: bool) -> tuple[arb, arb]:
    """Return value and slope of a unit at t, on all sides of breaks on which t may be.

    Raises
    ------
    ProofError
        If it is moving, and may be where its slope jumps.
    """
    sides: list[tuple[bool, ...]] = [()]
    for b in unit.kind.breaks:
        known = (False, True) if t.contains(arb(b)) else (bool(t > arb(b)),)
        if moving and len(known) > 1 and not _continuous(unit, b):
            raise ProofError("at the witness a unit may be where its slope jumps")
        sides = [(*before, side) for before in sides for side in known]
    found = [unit.at(t, side, 2) for side in sides]
    value, slope = found[0]
    for other in found[1:]:
        value, slope = value.union(other[0]), slope.union(other[1])
    return value, slope


def _continuous(unit: Unit, place: float) -> bool:
    """Return whether a unit with one break has the same slope on both sides of it."""
    left, right = (unit.at(place, (side,), 2)[1] for side in (False, True))
    return bool(left == right)
