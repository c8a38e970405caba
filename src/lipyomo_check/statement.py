"""What a proof states: a network, a domain, two norms, an interval.

The network is a chain of layers ``z = W h + b``, ``h = left z`` where z < 0, else ``right z``; the
last layer has slopes one.  The claim is ``lower <= L <= upper`` for

    L = sup |f(x) - f(y)|_beta / |x - y|_alpha    over x != y in X.

With X convex and its interior (in the inputs that can move) not empty, L is the largest operator
norm of the Jacobians of the full-dimensional pieces of f that meet that interior.  With directions
T, it is the largest one of ``J T``, for the input norm in as many numbers as T has columns.
"""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property, partial
from math import isfinite
from typing import Any

from flint import fmpq, fmpq_mat, fmpz, fmpz_mat

from lipyomo_check.errors import ProofError
from lipyomo_check.products import Pairs, check_opposite, have_no_slopes, read_pairs
from lipyomo_check.reading import entry, listed, real, reals, sparse, whole, wholes
from lipyomo_check.values import Shell, read_ends, read_shell, value_words

FORMAT = "lipyomo-proof-4"
DIRECTED_FORMAT = "lipyomo-proof-5"
"""The same with directions, which readers of the other one do not know."""
SMOOTH_FORMAT = "lipyomo-proof-7"
"""That of networks with smooth units."""
PRODUCT_FORMAT = "lipyomo-proof-8"
"""That of networks with products, or with units that only readers of this format know."""


class Edition(Enum):
    """What bounds of smooth networks' boxes know, in the order in which their formats came."""

    BOXES = "lipyomo-proof-smooth-1"
    """Boxes alone, and no Euclidean norms."""

    DOMAINS = "lipyomo-proof-6"
    """Half-spaces of the domain as well."""

    PLANES = SMOOTH_FORMAT
    """Planes above products, parabolas above chords, and the half-spaces of split boxes."""

    PRODUCTS = PRODUCT_FORMAT
    """Products of signals, powers, exponentials and logarithms, and derivatives as units."""

    @property
    def plain(self) -> bool:
        """Whether bounds are those of the first two formats."""
        return self in (Edition.BOXES, Edition.DOMAINS)


TOGETHER = 512
"""Most bounds, or boxes, that are checked at once: a file may state many.  The order in which
a file has the cases of smooth networks follows from it."""

BITS = 256
"""Of numbers that are far more precise than float64 ones: Arb's, and factors of matrices."""

MOST_VERTICES = 1 << 16
"""Of a dual ball, and corners of a cube, that are listed."""

MOST_BLANK = 1000
"""Entries of a weight for each one that the file names (and a million): memory has bounds."""

INFINITE = float("inf")


def rational(value: float) -> fmpq:
    """A float as the rational number that it is."""
    return fmpq(*value.as_integer_ratio())


def dyadic(rows: Iterable[Sequence[float]]) -> tuple[list[list[Any]], int]:
    """Floats as whole multiples of ``2^-bits``, and the least such `bits` (None for infinity)."""
    nothing: dict[float, Any] = {0.0: 0, INFINITE: None, -INFINITE: None}
    ratios = [[nothing[v] if v in nothing else v.as_integer_ratio() for v in row] for row in rows]
    bits = max((v[1].bit_length() - 1 for row in ratios for v in row if v), default=0)
    return [[v and (v[0] << bits) // v[1] for v in row] for row in ratios], bits


class Layer:
    """One layer, in floats and in integers.

    Attributes
    ----------
    rows, offset, left, right : list
        Weight, bias and slopes.
    weight, bias : fmpz_mat
        The same in units of ``2^-bits``, the bias as a column; `table` is the weight as a list.
    exact_weight : fmpq_mat
        The weight in rationals.
    slopes : list of (int, int)
        Left and right slope of each unit in units of ``2^-slope_bits``.
    curves : list of (str, list of int)
        Names of smooth activations and their units.
    products : list of (int, int)
        Pairs of squares that are products (`lipyomo_check.products`).
    """

    def __init__(
        self,
        rows: list[list[float]],
        offset: list[float],
        left: list[float],
        right: list[float],
        curves: Sequence[tuple[str, list[int]]] = (),
        products: Pairs | None = None,
    ) -> None:
        self.rows, self.offset, self.left, self.right = rows, offset, left, right
        self.curves, self.products = list(curves), products or []
        self.units, self.inputs = len(offset), len(rows[0])
        numbers, self.bits = dyadic([*rows, offset])
        self.weight = fmpz_mat(numbers[:-1])
        self.table: list[list[fmpz]] = self.weight.tolist()
        self.bias = fmpz_mat([[b] for b in numbers[-1]])
        self.exact_weight = fmpq_mat(self.weight) * fmpq(1, fmpz(1) << self.bits)
        self.slopes, self.slope_bits = dyadic(zip(left, right, strict=True))


@dataclass
class Box:
    """``lower <= x <= upper``; entries may be infinite.  `numbers` are both sides as integers."""

    lower: list[float]
    upper: list[float]

    def __post_init__(self) -> None:
        self.numbers = dyadic(zip(self.lower, self.upper, strict=True))

    def cut(self, j: int, low: float, high: float) -> Box:
        """Another interval for one input."""
        lower, upper = list(self.lower), list(self.upper)
        lower[j], upper[j] = low, high
        return Box(lower, upper)


@dataclass
class Domain:
    """A box, ``A x <= b``, and a ball (or None).

    `sides` are the box's, `moving` the inputs that can move, `rows` the rows (A, b) as integers.
    """

    box: Box
    A: list[list[float]]
    b: list[float]
    ball: tuple[str, list[float], float] | None

    def __post_init__(self) -> None:
        self.sides = list(zip(self.box.lower, self.box.upper, strict=True))
        self.moving = [j for j, (low, high) in enumerate(self.sides) if low != high]
        self.rows = dyadic([*row, end] for row, end in zip(self.A, self.b, strict=True))

    @property
    def is_bounded(self) -> bool:
        """Whether the box is finite."""
        return all(map(isfinite, [*self.box.lower, *self.box.upper]))


@dataclass
class Statement:
    """What is claimed.

    `vertices` are the vertices of the output norm's dual ball (one of each pair +-y), or None for
    the Euclidean norm, whose dual ball has no finite number of them; `functionals` are the same (or
    those of all outputs) as integers.  `hidden` are all layers but the last.  `directions` are the
    rows of T, or None for all inputs that move, and `columns` the numbers of single directions: of
    these inputs, or of the columns of T.  `edition` is None where no unit is smooth; `by_slopes`
    says that ranges of slopes prove the upper end, and no boxes.  With `values` the claim is about
    the largest value of each vertex, which lies between its `ends`, perhaps on a `shell`; `lower`
    and `upper` then enclose the largest one of all.
    """

    layers: list[Layer]
    domain: Domain
    input_norm: str
    output_norm: str
    vertices: list[list[float]] | None
    lower: float
    upper: float
    onnx: str | None
    edition: Edition | None = None
    directions: list[list[float]] | None = None
    by_slopes: bool = False
    ends: list[tuple[float, float]] | None = None
    shell: Shell | None = None

    @property
    def values(self) -> bool:
        """Whether the claim is about values."""
        return self.ends is not None

    @property
    def smooth(self) -> bool:
        """Whether the proof is of a format of networks with smooth units."""
        return self.edition is not None

    def __post_init__(self) -> None:
        self.inputs, self.hidden = self.layers[0].inputs, self.layers[:-1]
        moving = self.domain.moving
        self.columns = list(moving if self.directions is None else range(len(self.directions[0])))
        outputs = eye(self.layers[-1].units), 0
        self.functionals = outputs if self.vertices is None else dyadic(self.vertices)
        self.digest = digest_of(self.layers)

    @cached_property
    def first(self) -> tuple[list[list[fmpz]], int]:
        """The first weight in single directions, in units of ``2^-bits``, and these bits."""
        layer = self.layers[0]
        if self.directions is None:
            return [[row[j] for j in self.columns] for row in layer.table], layer.bits
        numbers, bits = dyadic(self.directions)
        return (layer.weight * fmpz_mat(numbers)).tolist(), layer.bits + bits

    @cached_property
    def exact_directions(self) -> fmpq_mat:
        """T in rationals; for all inputs that move, the columns of a unit matrix."""
        if self.directions is None:
            return fmpq_mat([[fmpq(int(i == j)) for j in self.columns] for i in range(self.inputs)])
        return fmpq_mat([[rational(v) for v in row] for row in self.directions])

    def words(self) -> list[str]:
        """The claim in words."""
        sizes = "-".join(str(n) for n in (self.inputs, *(v.units for v in self.layers)))
        domain, lower, upper = self.domain, self.domain.box.lower, self.domain.box.upper
        where = f"on a polytope with {len(domain.A)} rows, in the box" if domain.A else "on the box"
        if domain.ball is not None:
            where = f"on the {domain.ball[0]} ball of radius {domain.ball[2]!r}, in the box"
        where += "" if len(set(lower)) == len(set(upper)) == 1 else " (sides differ) within"
        frozen = self.inputs - len(domain.moving)
        if self.ends is not None:
            claim = list(value_words(self.vertices or [], self.ends))
            claim += [] if self.shell is None else [self.shell.words()]
        else:
            claim = [
                f"norms {self.input_norm} -> {self.output_norm}"
                + ("" if self.directions is None else f", along {len(self.columns)} directions"),
                f"Lipschitz constant in [{self.lower!r}, {self.upper!r}]",
            ]
        return [
            f"{sizes} network, weights with SHA-256 {self.digest[:16]}...",
            f"{where} [{min(lower)!r}, {max(upper)!r}]^{self.inputs}"
            + (f", {frozen} inputs frozen" if frozen else ""),
            *claim,
        ]


def read_statement(record: Any) -> Statement:
    """The statement of a proof's first line."""
    editions = {edition.value: edition for edition in Edition}
    given = entry(record, "format")
    if not isinstance(given, str) or given not in (FORMAT, DIRECTED_FORMAT, *editions):
        raise ProofError(f"the first line is not that of the format '{FORMAT}'")
    edition = editions.get(given)
    layers = _network(entry(record, "network"), edition)
    domain = _domain(entry(record, "domain"), layers[0].inputs)
    input_norm = entry(record, "input_norm")
    if input_norm not in ("l1", "l2", "linf"):
        raise ProofError("the input norm is none of l1, l2, linf")
    name, vertices = _output_norm(entry(record, "output_norm"), layers[-1].units)
    values = edition is Edition.PRODUCTS and record.get("question") == "values"
    if record.get("question") is not None and not values:
        raise ProofError("a proof of this format is about constants")
    ends = None
    if values:
        ends = read_ends(record, len(vertices or []))
        lower, upper = (max(side) for side in zip(*ends, strict=True))
    else:
        lower, upper = (real(entry(record, end), end) for end in ("lower", "upper"))
        if not 0.0 <= lower <= upper:
            raise ProofError("the interval is empty")
    onnx = record.get("onnx")
    if onnx is not None and not isinstance(onnx, str):
        raise ProofError("the digest of the ONNX file is not a string")
    directions = _directions(record, domain, layers[0].inputs)
    newest = edition is not None and not edition.plain
    by_slopes = newest and record.get("slopes") is True
    shell = None
    if values:
        if directions is not None or by_slopes:
            raise ProofError("values have no directions, and are proved by boxes")
        read = partial(_network, edition=edition)
        shell = read_shell(record.get("shell"), layers[0].inputs, read)
    rest = lower, upper, onnx, edition, directions, by_slopes, ends, shell
    return Statement(layers, domain, input_norm, name, vertices, *rest)


def _network(record: Any, edition: Edition | None) -> list[Layer]:
    """The layers of a network."""
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


def _directions(record: Any, domain: Domain, d: int) -> list[list[float]] | None:
    """The rows of T."""
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
    for k in have_no_slopes(curves):
        left[k], right[k] = -INFINITE, INFINITE
    products = record.get("products", [])
    if products and edition is not Edition.PRODUCTS:
        raise ProofError("a proof of this format is not about products")
    return Layer(rows, bias, left, right, curves, read_pairs(products, curves, units))


def _rows(given: list[Any], columns: int, what: str) -> list[list[float]]:
    """Rows of a matrix, each with all its entries or with those that are not zero."""
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
    """The smooth units of a layer."""
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


def _domain(record: Any, d: int) -> Domain:
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


def _output_norm(record: Any, m: int) -> tuple[str, list[list[float]] | None]:
    """Name and dual vertices of the output norm over m outputs."""
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


def eye(m: int) -> list[list[float]]:
    """The rows of a unit matrix."""
    return [[int(i == j) for j in range(m)] for i in range(m)]


def digest_of(layers: list[Layer]) -> str:
    """SHA-256 of weights, biases, slopes and smooth units (rows without their zeros)."""
    digest = hashlib.sha256()
    for layer in layers:
        filled = [[(j, w) for j, w in enumerate(row) if w != 0.0] for row in layer.rows]
        starts = [0, *itertools.accumulate(map(len, filled))]
        columns, values = ([pair[i] for row in filled for pair in row] for i in (0, 1))
        for whole_numbers in ((layer.units, layer.inputs), starts, columns):
            digest.update(struct.pack(f"<{len(whole_numbers)}q", *whole_numbers))
        for numbers in (values, layer.offset, layer.left, layer.right):
            digest.update(struct.pack(f"<{len(numbers)}d", *(v + 0.0 for v in numbers)))
        for name, units in layer.curves:
            digest.update(name.encode())
            digest.update(struct.pack(f"<{len(units)}q", *units))
    return digest.hexdigest()
