"""The lower end: a point inside one piece, whose Jacobian has a norm of at least `lower`.

Everything is rational.  The point x lies strictly inside the domain, which therefore has an
interior, as the statement takes for granted; every unit has the stated sign
at x, strictly, unless its pre-activation is constant on the piece.  For a functional y in the dual
ball of the output norm, the norm of the Jacobian is at least that of ``y J``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flint import fmpq, fmpq_mat

from lipyomo_check.errors import ProofError
from lipyomo_check.parts import Domain, rational
from lipyomo_check.reading import entry, listed, reals
from lipyomo_check.statement import Statement


def check_witness(statement: Statement, record: Any) -> None:
    """Check the witness of the lower end, of which only the point is needed if that is zero.

    Raises
    ------
    ProofError
        If it does not attain it.
    """
    d, m = statement.inputs, statement.layers[-1].units
    x = [rational(v) for v in reals(entry(record, "x"), "the point", d)]
    if record.get("rest") is not None:  # a point between float64 numbers is a sum of two
        rest = reals(record["rest"], "the rest of the point", d)
        x = [v + rational(w) for v, w in zip(x, rest, strict=True)]
    for room, strict in rooms(statement.domain, x):
        if room < 0 or (strict and room == 0):
            raise ProofError("the witness lies outside the domain, or on its boundary")
    if statement.lower == 0.0:  # but the domain has an interior, on which the upper end rests
        return
    slopes = _slopes(statement, x, listed(entry(record, "pattern"), "the pattern"))
    y = [rational(v) for v in reals(entry(record, "functional"), "the functional", m)]
    square = size_squared(statement, y)
    gradient = (fmpq_mat([_gradient(statement, slopes, y)]) * statement.exact_directions).entries()
    value = max(g * g for g in gradient)
    if statement.input_norm != "l1":
        power = 1 if statement.input_norm == "linf" else 2
        value = sum((abs(g) ** power for g in gradient), fmpq(0)) ** (2 // power)
    if not (value > 0 and value >= rational(statement.lower) ** 2 * square):
        raise ProofError("the witness does not attain the lower end")


def rooms(domain: Domain, x: list[fmpq]) -> Iterator[tuple[fmpq, bool]]:
    """Return the distances of x to the sides of the domain, and whether they must be positive."""
    for value, low, high in zip(x, domain.box.lower, domain.box.upper, strict=True):
        for sign, side in ((1, high), (-1, -low)):
            if side != float("inf"):
                yield rational(side) - sign * value, low < high
    for row, b in zip(domain.A, domain.b, strict=True):
        room = sum((-rational(a) * v for a, v in zip(row, x, strict=True)), rational(b))
        yield room, any(row[j] != 0.0 for j in domain.moving)
    if domain.ball is not None:
        norm, center, radius = domain.ball
        gaps = [abs(v - rational(c)) for v, c in zip(x, center, strict=True)]
        power = 1 if norm == "l1" else 2
        yield sum((-(g**power) for g in gaps), rational(radius) ** power), True


def _slopes(statement: Statement, x: list[fmpq], pattern: list[Any]) -> list[list[fmpq]]:
    """Return the units' slopes on the pattern's piece, once the pattern is checked at x."""
    if len(pattern) != len(statement.hidden):
        raise ProofError("the pattern has another number of layers")
    slopes: list[list[fmpq]] = []
    signal = fmpq_mat([[v] for v in x])
    for layer, text in zip(statement.hidden, pattern, strict=True):
        if not isinstance(text, str) or len(text) != layer.units or set(text) - {"0", "1"}:
            raise ProofError("the pattern is not one of 0 and 1 a unit")
        z = [
            v + rational(b)
            for v, b in zip((layer.exact_weight * signal).entries(), layer.offset, strict=True)
        ]
        for k, on in enumerate(text):
            kinked = layer.left[k] != layer.right[k]
            if kinked and not z[k] * (1 if on == "1" else -1) > 0:
                unit = [fmpq(int(j == k)) for j in range(layer.units)]
                gradient = _gradient(statement, slopes, unit)
                if z[k] != 0 or any(gradient[j] != 0 for j in statement.domain.moving):
                    raise ProofError("a unit does not have the pattern's sign at the witness")
        sides = zip(text, layer.left, layer.right, strict=True)
        slopes.append([rational(right if on == "1" else left) for on, left, right in sides])
        signal = fmpq_mat([[a * v] for a, v in zip(slopes[-1], z, strict=True)])
    return slopes


def _gradient(statement: Statement, slopes: list[list[fmpq]], y: list[fmpq]) -> list[fmpq]:
    """Return the gradient in all inputs of ``y . z``, z following the layers with known slopes."""
    for i in range(len(slopes), -1, -1):
        if i < len(slopes):
            y = [a * v for a, v in zip(slopes[i], y, strict=True)]
        y = (fmpq_mat([y]) * statement.layers[i].exact_weight).entries()
    return y


def size_squared(statement: Statement, y: list[fmpq]) -> fmpq:
    """Return the square of a number t with y / t in the dual ball; 1 if y itself is.

    For a norm given by vertices, y has to be one of them (or its negative).
    """
    if statement.output_norm == "l2":
        return sum((v * v for v in y), fmpq(0))
    if statement.output_norm == "linf":
        return max(fmpq(1), sum((abs(v) for v in y), fmpq(0)) ** 2)
    if statement.output_norm == "l1":
        return max(fmpq(1), max(abs(v) for v in y) ** 2)
    known = [[rational(v) for v in vertex] for vertex in statement.vertices or []]
    if y in known or [-v for v in y] in known:
        return fmpq(1)
    raise ProofError("the witness's functional is no vertex of the dual ball")
