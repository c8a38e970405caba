"""The statement of a proof: a network, a domain, two norms, an interval.

The network is a chain of layers ``z = W h + b``, ``h = left z`` where z < 0, else ``right z``; the
last layer has slopes one.  The claim is ``lower <= L <= upper`` for

    L = sup |f(x) - f(y)|_beta / |x - y|_alpha    over x != y in X.

With X convex and its interior (in the inputs that can move) not empty, L is the largest operator
norm of the Jacobians of the full-dimensional pieces of f that meet that interior.  With directions
T, it is the largest one of ``J T``, for the input norm in as many numbers as T has columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from flint import fmpq, fmpq_mat, fmpz, fmpz_mat

from lipyomo_check.errors import ProofError
from lipyomo_check.formats import DIRECTED_FORMAT, FORMAT, Edition
from lipyomo_check.parts import Domain, Layer, digest_of, dyadic, eye, rational
from lipyomo_check.reading import MOST_NUMBERS, entry, real
from lipyomo_check.records import read_directions, read_domain, read_network, read_output_norm
from lipyomo_check.values import Shell, read_ends, read_shell, value_words

Target = tuple[int | None, int | None]
"""A vertex and a column, where these matter."""


@dataclass
class Statement:
    """The claim of a proof.

    `vertices` are the vertices of the output norm's dual ball (one of each pair +-y), or None for
    the Euclidean norm, whose dual ball has no finite number of them; `functionals` are the same (or
    those of all outputs) as integers.  `hidden` are all layers but the last.  `directions` are the
    rows of T, or None for all inputs that move, and `columns` the numbers of single directions: of
    these inputs, or of the columns of T.  `edition` is that of boxes, or None where units are
    split; `by_slopes` says that ranges of slopes prove the upper end, and no boxes.  With `values`
    the claim is about the largest value of each vertex, which lies between its `ends`, perhaps on a
    `shell`; `lower` and `upper` then enclose the largest one of all.
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
        """Whether the proof is of a format of boxes, which smooth units have in any case."""
        return self.edition is not None

    def __post_init__(self) -> None:
        self.inputs, self.hidden = self.layers[0].inputs, self.layers[:-1]
        moving = self.domain.moving
        self.columns = list(moving if self.directions is None else range(len(self.directions[0])))
        outputs = eye(self.layers[-1].units), 0
        self.functionals = outputs if self.vertices is None else dyadic(self.vertices)
        self.digest = digest_of(self.layers)

    @cached_property
    def targets(self) -> list[Target]:
        """All targets: their maximum is the constant."""
        vertices: list[int | None] = [None]
        if self.vertices is not None:
            vertices = list(range(len(self.vertices)))
        columns: list[int | None] = [None]
        if self.input_norm == "l1":
            columns = list(self.columns)
        if len(vertices) * len(columns) > MOST_NUMBERS:
            raise ProofError("there are too many targets")
        return [(v, c) for v in vertices for c in columns]

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
        """Return the claim in words."""
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
    """Return the statement of a proof's first line."""
    editions = {edition.value: edition for edition in Edition}
    given = entry(record, "format")
    if not isinstance(given, str) or given not in (FORMAT, DIRECTED_FORMAT, *editions):
        raise ProofError(f"the first line is not that of the format '{FORMAT}'")
    edition = editions.get(given)
    layers = read_network(entry(record, "network"), edition)
    domain = read_domain(entry(record, "domain"), layers[0].inputs)
    input_norm = entry(record, "input_norm")
    if input_norm not in ("l1", "l2", "linf"):
        raise ProofError("the input norm is none of l1, l2, linf")
    name, vertices = read_output_norm(entry(record, "output_norm"), layers[-1].units)
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
    directions = read_directions(record, domain, layers[0].inputs)
    able = edition in (Edition.SMOOTH, Edition.PRODUCTS)
    by_slopes = able and record.get("slopes") is True
    shell = None
    if values:
        if directions is not None or by_slopes:
            raise ProofError("values have no directions, and are proved by boxes")
        read = partial(read_network, edition=edition)
        shell = read_shell(record.get("shell"), layers[0].inputs, read)
    rest = lower, upper, onnx, edition, directions, by_slopes, ends, shell
    return Statement(layers, domain, input_norm, name, vertices, *rest)
