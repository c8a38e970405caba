"""Domains from VNN-LIB files (https://www.vnnlib.org): the conditions on the inputs of one network.

Versions 1 (``(declare-const X_0 Real)``) and 2 (``(declare-network ...)``, ``X[0, 3]``).  Strict
inequalities count as closed ones: the constant is the same.  Numbers are read without rounding, and
what is left of a condition is rounded to float64 once.  Conditions on outputs and hidden tensors
are counted, and ignored: they restrict no inputs.

Conditions become a disjunction of conjunctions; a conjunction of bounds is a box, one with further
linear rows a polytope.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from math import prod
from pathlib import Path
from typing import TypeAlias

import numpy as np

from lipyomo.base.arguments import instance
from lipyomo.base.arrays import FloatArray
from lipyomo.base.errors import DomainError
from lipyomo.base.system.memory import KEPT
from lipyomo.base.system.outputs import shown, why
from lipyomo.problems.domains.base import Domain
from lipyomo.problems.domains.box import Box
from lipyomo.problems.domains.expressions import Words, expressions, wrong
from lipyomo.problems.domains.polytope import Polytope

PARTS = 10_000
"""Of a disjunction that is multiplied out."""

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?")
_FIRST = re.compile(r"(?P<name>.*?)_(?P<place>\d+)")
_SECOND = re.compile(r"(?P<name>\S+)\s*\[(?P<places>[\d\s,]*)\]")


@dataclass(frozen=True)
class VnnLib:
    """What a VNN-LIB file says of the inputs.

    Attributes
    ----------
    parts : tuple of Domain
        The inputs lie in one of them; several if the conditions have an ``or``.
    ignored : int
        Conditions on outputs or hidden tensors, which restrict no inputs.
    """

    parts: tuple[Domain, ...]
    ignored: int


Row: TypeAlias = tuple[tuple[tuple[int, Fraction], ...], Fraction]
"""Coefficients a by input and a number b: ``a . x + b <= 0``."""

Clause: TypeAlias = tuple[Row, ...]
"""Rows that hold together."""


@dataclass(frozen=True)
class _Affine:
    """An affine function of the inputs; `foreign` if it is one of outputs as well."""

    coefficients: dict[int, Fraction]
    constant: Fraction
    foreign: bool = False

    def plus(self, other: _Affine, factor: Fraction) -> _Affine:
        """The sum with a multiple of another one."""
        found = dict(self.coefficients)
        for j, a in other.coefficients.items():
            found[j] = found.get(j, Fraction(0)) + factor * a
        constant = self.constant + factor * other.constant
        return _Affine(found, constant, self.foreign or other.foreign)


ZERO = _Affine({}, Fraction(0))

SECOND = "a second network.  Remedy: a constant is one of a single network"


def read_vnnlib(path: str | os.PathLike[str]) -> VnnLib:
    """Read the domains of a VNN-LIB file.

    Parameters
    ----------
    path : str or path-like
        May be packed (``.gz``).

    Returns
    -------
    VnnLib

    Raises
    ------
    DomainError
        If the file cannot be read, or says what is no box and no linear condition; names the line.
    """
    remedy = "give the path of a VNN-LIB file"
    instance(path, (str, os.PathLike), "the path", DomainError, remedy)
    file = Path(path)
    try:
        with (gzip.open if file.suffix == ".gz" else open)(file, "rb") as stream:
            data = stream.read(KEPT + 1)
        text = data.decode("utf-8")
    except (OSError, EOFError, ValueError, zlib.error) as error:
        reason = why(error) if isinstance(error, OSError) else "it is no text"
        raise DomainError(f"{shown(file)} cannot be read: {reason}") from None
    if len(data) > KEPT:
        raise DomainError(f"{shown(file)} has more than {KEPT >> 20} megabytes")
    return _Reader(shown(file)).read(text)


class _Reader:
    """Reads one file; knows its name for messages, and what it declares.

    Parameters
    ----------
    name : str
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._inputs: dict[str, tuple[int, tuple[int, ...]]] = {}  # first index, and shape
        self._first: set[int] = set()  # inputs of version 1
        self._others: set[str] = set()
        self._ignored = 0

    def read(self, text: str) -> VnnLib:
        """The domains that a text describes."""
        conditions = []
        for words in expressions(text, self._name):
            if words.head == "assert" and len(words.parts) == 2:
                conditions.append(words.parts[1])
            elif words.head == "declare-network":
                self._declare_network(words)
            elif words.head in ("declare-const", "declare-fun"):
                self._declare(words)
            elif words.head not in ("vnnlib-version", "set-logic", "check-sat", "exit", "set-info"):
                raise self._wrong(words, f"'{words.head or words.word}' is not known here")
        size = sum(prod(shape) for _, shape in self._inputs.values()) or len(self._first)
        if not size:
            raise DomainError(
                f"{self._name} declares no inputs.  Remedy: (declare-const X_0 Real), or "
                "(declare-input X Real [1, 5]) in a network"
            )
        if self._first and self._first != set(range(size)):
            missing = min(set(range(size)) - self._first)
            raise DomainError(f"{self._name} declares no input X_{missing}, but later ones")
        clauses = self._together(conditions)
        return VnnLib(tuple(self._domain(c, k, size) for k, c in enumerate(clauses)), self._ignored)

    def _wrong(self, words: Words, what: str) -> DomainError:
        return wrong(self._name, words, what)

    # -- declarations ---------------------------------------------------------------------------

    def _declare(self, words: Words) -> None:
        """A variable of version 1: X_i is an input, all others are outputs."""
        name = words.parts[1].word if len(words.parts) > 1 else ""
        match = _FIRST.fullmatch(name)
        if match is not None and match["name"] == "X":
            self._first.add(int(match["place"]))
        elif name:
            self._others.add(name)
        else:
            raise self._wrong(words, "a declaration without a name")

    def _declare_network(self, words: Words) -> None:
        """A network of version 2 with its tensors."""
        if self._inputs or self._others:
            raise self._wrong(words, SECOND)
        first = 0
        for tensor in words.parts[2:]:
            if tensor.head in ("isomorphic-to", "equal-to"):
                raise self._wrong(tensor, SECOND)
            if tensor.head not in ("declare-input", "declare-hidden", "declare-output"):
                raise self._wrong(
                    tensor, f"'{tensor.head or tensor.word}' is no tensor of a network"
                )
            if len(tensor.parts) < 3:
                raise self._wrong(tensor, "a tensor needs a name, a type and a shape")
            name = tensor.parts[1].word
            if tensor.head != "declare-input":
                self._others.add(name)
                continue
            described = " ".join(part.word for part in tensor.parts[2:4])
            match = re.search(r"\[([\d\s,]*)\]", described)
            if match is None:
                raise self._wrong(tensor, "an input needs a shape of numbers, such as [1, 5]")
            shape = tuple(int(n) for n in match[1].replace(",", " ").split())
            if prod(shape) < 1 or prod(shape) > KEPT:
                raise self._wrong(tensor, f"the shape {shape} is no shape of an input")
            self._inputs[name] = (first, shape)
            first += prod(shape)

    # -- conditions -----------------------------------------------------------------------------

    def _clauses(self, words: Words) -> list[Clause]:
        """A condition as conjunctions of rows on inputs, one of which holds."""
        kind, parts = words.head, words.parts[1:]
        if kind == "and":
            return self._together(parts)
        if kind == "or":
            several = [clause for part in parts for clause in self._clauses(part)]
            if not several:
                raise self._wrong(words, "an 'or' of nothing")
            return [()] if () in several else list(dict.fromkeys(several))
        if kind in ("<=", "<", ">=", ">", "=", "==") and len(parts) == 2:
            left, right = map(self._affine, parts)
            found_row = left.plus(right, Fraction(-1))
            if found_row.foreign:
                self._ignored += 1
                return [()]
            signs = {"<": (1,), ">": (-1,), "=": (1, -1)}[kind[0]]
            return [tuple(_row(found_row, sign) for sign in signs)]
        raise self._wrong(
            words,
            f"'{kind or words.word}' is no condition that is known here.  Remedy: use <=, >=, <, "
            ">, ==, and, or",
        )

    def _together(self, conditions: Iterable[Words]) -> list[Clause]:
        """Conditions that hold together, as conjunctions one of which holds."""
        rows: list[Row] = []
        clauses: list[Clause] = [()]
        for words in conditions:
            found = self._clauses(words)
            if len(found) == 1:
                rows.extend(found[0])
            elif len(found) * len(clauses) > PARTS:
                raise self._wrong(words, f"the conditions have more than {PARTS} parts")
            else:
                clauses = [a + b for a, b in product(clauses, found)]
        return list(dict.fromkeys((*rows, *clause) for clause in clauses))

    def _affine(self, words: Words) -> _Affine:
        """An expression as an affine function of the inputs."""
        if not words.parts:
            return self._term(words)
        kind, parts = words.head, [self._affine(part) for part in words.parts[1:]]
        if not parts or kind not in ("+", "-", "*"):
            raise self._wrong(words, f"'{kind}' is no sum, difference or product")
        if kind == "*":
            return self._product(words, parts)
        first, *others = parts
        if not others:
            return first if kind == "+" else ZERO.plus(first, Fraction(-1))
        for other in others:
            first = first.plus(other, Fraction(1 if kind == "+" else -1))
        return first

    def _product(self, words: Words, factors: list[_Affine]) -> _Affine:
        """A product of which at most one factor has inputs."""
        found, *others = factors
        for other in others:
            if found.coefficients and other.coefficients:
                remedy = "Remedy: conditions have to be linear"
                raise self._wrong(words, f"a product of inputs.  {remedy}")
            affine, factor = (found, other) if found.coefficients else (other, found)
            zero = replace(ZERO, foreign=found.foreign or other.foreign)
            found = zero.plus(affine, factor.constant)
        return found

    def _term(self, words: Words) -> _Affine:
        """A number, an input or an output."""
        word = words.word
        if len(word) < sys.int_info.default_max_str_digits and _NUMBER.fullmatch(word):
            return _Affine({}, Fraction(word))
        match = _SECOND.fullmatch(word)
        name = word if match is None else match["name"]
        if name in self._inputs:
            first, shape = self._inputs[name]
            places = () if match is None else tuple(map(int, re.findall(r"\d+", match["places"])))
            if len(places) != len(shape) or any(i >= n for i, n in zip(places, shape, strict=True)):
                raise self._wrong(words, f"'{word}' is no entry of a tensor of shape {list(shape)}")
            index = int(np.ravel_multi_index(places, shape)) if shape else 0
            return _Affine({first + index: Fraction(1)}, Fraction(0))
        if name in self._others:
            return replace(ZERO, foreign=True)
        single = _FIRST.fullmatch(word)
        if single is not None and single["name"] == "X" and int(single["place"]) in self._first:
            return _Affine({int(single["place"]): Fraction(1)}, Fraction(0))
        raise self._wrong(words, f"'{word}' is neither a number nor declared")

    # -- domains --------------------------------------------------------------------------------

    def _domain(self, clause: Clause, part: int, size: int) -> Domain:
        """The box or polytope of rows that hold together."""
        lower, upper = np.full(size, -np.inf), np.full(size, np.inf)
        where = f"{self._name}: part {part + 1} of the conditions"
        normals: list[FloatArray] = []
        right: list[float] = []
        try:
            for coefficients, constant in clause:
                if len(coefficients) > 1:
                    normals.append(np.zeros(size))
                    for j, a in coefficients:
                        normals[-1][j] = float(a)
                    right.append(float(-constant))
                elif coefficients:
                    (j, a), end = coefficients[0], float(-constant / coefficients[0][1])
                    if a > 0:
                        upper[j] = min(upper[j], end)
                    else:
                        lower[j] = max(lower[j], end)
                elif constant > 0:
                    raise DomainError("it never holds")
            return Polytope(normals, right, lower, upper) if normals else Box(lower, upper)
        except DomainError as error:
            raise DomainError(f"{where}: {error}") from None
        except OverflowError:
            raise DomainError(f"{where}: a number is too large for float64") from None


def _row(affine: _Affine, sign: int) -> Row:
    """``sign (a . x + b) <= 0`` without zeros."""
    pairs = sorted((j, sign * a) for j, a in affine.coefficients.items() if a)
    return tuple(pairs), sign * affine.constant
