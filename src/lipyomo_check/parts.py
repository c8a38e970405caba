"""Parts of statements, in floats and in integers: layers, boxes, domains."""

from __future__ import annotations

import hashlib
import itertools
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

from flint import fmpq, fmpq_mat, fmpz, fmpz_mat

TOGETHER = 512
"""The most bounds, or boxes, that are checked at once: a file may state many.  The order in which
a file has the cases of smooth networks follows from it."""

BITS = 256
"""Bits of numbers that are far more precise than float64: Arb's, and factors of matrices."""

MOST_VERTICES = 1 << 16
"""The largest number of listed vertices of a dual ball, or corners of a cube."""

INFINITE = float("inf")

Pairs = list[tuple[int, int]]
"""Units of a layer, two of each product."""


def rational(value: float) -> fmpq:
    """Return a float as the rational number that it is."""
    return fmpq(*value.as_integer_ratio())


def dyadic(rows: Iterable[Sequence[float]]) -> tuple[list[list[Any]], int]:
    """Return floats as multiples of ``2^-bits`` (None for infinity), and the least such `bits`."""
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
        Pairs of squares that are products (`lipyomo_check.records`).
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
        """Return another interval for one input."""
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


def eye(m: int) -> list[list[float]]:
    """Return the rows of a unit matrix."""
    return [[int(i == j) for j in range(m)] for i in range(m)]


def digest_of(layers: list[Layer]) -> str:
    """Return SHA-256 of weights, biases, slopes and smooth units (rows without their zeros)."""
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
