"""Reading the parts of a proof's first line: the network, the domain, directions, output norms.

If units p and q of a layer are squares, and their columns of the next weight are opposite, what
these add is c (p^2 - q^2) = c (p + q) (p - q): a product of two pre-activations.  A network that is
written with such pairs computes the same as without; what is known of each function is not.
"""

from __future__ import annotations

import itertools
from typing import Any

from lipyomo_check.errors import ProofError
from lipyomo_check.formats import FORMAT, Edition
from lipyomo_check.parts import INFINITE, MOST_VERTICES, Box, Domain, Layer, Pairs, eye
from lipyomo_check.reading import entry, listed, real, reals, sparse, whole, wholes

MOST_BLANK = 1000
"""The largest number of entries of a weight per entry in the file (plus a million)."""


def read_network(record: Any, edition: Edition | None) -> list[Layer]:
    """Return the layers of a network."""
    layers = [_layer(item, edition) for item in listed(record, "the network")]
    if not layers:
        raise ProofError("the network has no layers")
    for first, second in itertools.pairwise(layers):
        if second.inputs != first.units:
            raise ProofError("two layers do not fit together")
        check_opposite(first.products, second.rows)
    if layers[-1].curves or any(v != 1.0 for v in layers[-1].left + layers[-1].right):
        raise ProofError("the last layer has units")
    return layers


def _layer(record: Any, edition: Edition | None) -> Layer:
    bias = reals(entry(record, "bias"), "a bias")
    units = len(bias)
    columns = whole(entry(record, "inputs"), "a number of inputs", 10**6)
    given = listed(entry(record, "weight"), "a weight", units)
    if not units or not columns:
        raise ProofError("a layer has no units, or no inputs")
    rows = _rows(given, columns, "a weight")
    left = reals(entry(record, "left"), "a slope", units)
    right = reals(entry(record, "right"), "a slope", units)
    curves = _curves(record.get("curves", []), units)
    if curves and edition is None:
        raise ProofError("a proof of this format is about two-slope units only")
    for name, own in curves:
        if name in UNBOUNDED or name.startswith("pow("):  # what a file says of these is ignored
            for k in own:
                left[k], right[k] = -INFINITE, INFINITE
    products = record.get("products", [])
    if products and edition is not Edition.PRODUCTS:
        raise ProofError("a proof of this format is not about products")
    return Layer(rows, bias, left, right, curves, read_pairs(products, curves, units))


def _rows(given: list[Any], columns: int, what: str) -> list[list[float]]:
    """Return rows of a matrix, each with all its entries or with those that are not zero."""
    rows: list[list[float]] = []
    named = 0
    for row in given:
        if isinstance(row, list) and row and isinstance(row[0], list):
            entries = sparse(row, what, columns, reals)
        else:
            entries = dict(enumerate(reals(row, what, columns)))
        named += len(entries)
        if (len(rows) + 1) * columns > MOST_BLANK * (1000 + named):
            raise ProofError(f"{what}: far more entries than the file names")
        rows.append([entries.get(j, 0.0) for j in range(columns)])
    return rows


def _curves(record: Any, units: int) -> list[tuple[str, list[int]]]:
    """Return the smooth units of a layer."""
    found: list[tuple[str, list[int]]] = []
    taken: set[int] = set()
    for pair in listed(record, "the curves"):
        name, places = listed(pair, "a curve", 2)
        if not isinstance(name, str):
            raise ProofError("an activation has no name")
        found.append((name, wholes(places, "a unit of a curve", units - 1)))
        for k in found[-1][1]:
            if k in taken:
                raise ProofError("a unit has two activations")
            taken.add(k)
    return found


def read_directions(record: Any, domain: Domain, d: int) -> list[list[float]] | None:
    """Return the rows of T."""
    given = record.get("directions")
    if given is None:
        return None
    if record["format"] == FORMAT:
        raise ProofError("a proof of this format is about all directions")
    columns = whole(entry(given, "columns"), "a number of directions", 10**6)
    if not columns:
        raise ProofError("there are no directions")
    rows = _rows(listed(entry(given, "rows"), "the directions", d), columns, "the directions")
    if any(
        v for row, ends in zip(rows, domain.sides, strict=True) if ends[0] == ends[1] for v in row
    ):
        raise ProofError("a direction moves an input that cannot move")
    return rows


def read_domain(record: Any, d: int) -> Domain:
    """Return the domain of d inputs."""
    words = {"inf": INFINITE, "-inf": -INFINITE}
    lower, upper = (
        [words[v] if v in ("inf", "-inf") else real(v) for v in listed(entry(record, s), s, d)]
        for s in ("lower", "upper")
    )
    pairs = zip(lower, upper, strict=True)
    if any(a > b or a == INFINITE or b == -INFINITE for a, b in pairs):
        raise ProofError("the box is empty")
    A = [reals(row, "a row of the domain", d) for row in listed(entry(record, "A"), "A")]
    b = reals(entry(record, "b"), "b", len(A))
    ball = entry(record, "ball")
    if ball is not None:
        norm, radius = entry(ball, "norm"), real(entry(ball, "radius"), "the radius")
        if norm not in ("l1", "l2") or radius < 0.0:
            raise ProofError("the ball's norm is neither l1 nor l2, or its radius negative")
        ball = (norm, reals(entry(ball, "center"), "the center", d), radius)
    domain = Domain(Box(lower, upper), A, b, ball)
    if not domain.moving:
        raise ProofError("no input can move")
    return domain


def read_output_norm(record: Any, m: int) -> tuple[str, list[list[float]] | None]:
    """Return name and dual vertices of the output norm over m outputs."""
    if m > MOST_VERTICES or (record == "cross" and m * m > 2 * MOST_VERTICES):
        raise ProofError("the output norm has too many dual vertices")
    rows = eye(m)

    def minus(i: int, j: int) -> list[float]:
        return [a - b for a, b in zip(rows[i], rows[j], strict=True)]

    if record == "l2":
        return "l2", None if m > 1 else rows
    if record == "linf":
        return "linf", rows
    if record == "l1":
        if 1 << (m - 1) > MOST_VERTICES:
            raise ProofError("the l1 norm of so many outputs has too many dual vertices")
        return "l1", [[1.0, *signs] for signs in itertools.product((1.0, -1.0), repeat=m - 1)]
    if record == "cross":
        return "cross", rows + [minus(i, j) for i in range(m) for j in range(i)]
    if isinstance(record, dict) and "cross" in record:
        i = whole(record["cross"], "the class", m - 1)
        return f"cross({i})", [rows[i], *(minus(i, j) for j in range(m) if j != i)]
    if isinstance(record, dict) and "vertices" in record:
        given = listed(record["vertices"], "the vertices")
        if not 0 < len(given) <= MOST_VERTICES:
            raise ProofError("the output norm has no vertices, or too many")
        rows = [reals(row, "a vertex", m) for row in given]
        word = f"|c.f|, c = {rows[0]}" if len(rows) == 1 else f"the largest |y.f| of {len(rows)} y"
        return word, rows
    raise ProofError("the output norm is none that is known")


SQUARE = "square"

UNBOUNDED = {SQUARE, "sqrt", "rsqrt", "reciprocal", "exp", "log"}
"""Names of units whose slopes have no bounds; powers, ``pow(3.0)`` and the like, are more."""

Curves = list[tuple[str, list[int]]]


def read_pairs(record: Any, curves: Curves, units: int) -> Pairs:
    """Return the pairs of a layer.

    Raises
    ------
    ProofError
        If they are no pairs of different squares.
    """
    squares = {k for name, own in curves if name == SQUARE for k in own}
    found: Pairs = []
    for item in listed(record, "the products"):
        p, q = wholes(item, "a unit of a product", units - 1, 2)
        if p == q or not {p, q} <= squares:
            raise ProofError("a product is made of other units than squares, or of one twice")
        squares -= {p, q}
        found.append((p, q))
    return found


def check_opposite(pairs: Pairs, rows: list[list[float]]) -> None:
    """Check that the columns of pairs are opposite in the next weight.

    Raises
    ------
    ProofError
        If some are not.
    """
    if any(row[p] != -row[q] for row in rows for p, q in pairs):
        raise ProofError("the squares of a product do not enter with opposite signs")
