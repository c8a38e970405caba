"""Queries of VNN-LIB files (https://www.vnnlib.org): networks, and conditions on their tensors.

Versions 1 (``(declare-const X_0 Real)``) and 2 (``(declare-network ...)``, ``X[0, 3]``; several
networks, ``(equal-to f)``, ``(isomorphic-to f)``), linear conditions.  A query asks for numbers
that satisfy all conditions; these become a disjunction of conjunctions of rows.
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
from pathlib import Path
from typing import TypeAlias

import numpy as np

from lipyomo.base.arguments import instance
from lipyomo.base.errors import DomainError
from lipyomo.base.system.memory import KEPT
from lipyomo.base.system.outputs import shown, why
from lipyomo.problems.domains.declarations import Declared, Tensor, declared
from lipyomo.problems.domains.expressions import Words, expressions, wrong

PARTS = 10_000
"""Of a disjunction that is multiplied out."""

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?")
_FIRST = re.compile(r"(?P<name>.*?)_(?P<place>\d+)")
_SECOND = re.compile(r"(?P<name>\S+)\s*\[(?P<places>[\d\s,]*)\]")
_SIGNS = {"<": (1,), ">": (-1,), "=": (1, -1)}


@dataclass(frozen=True)
class Row:
    """A condition ``a . v + b <= 0``, or ``< 0``.

    Attributes
    ----------
    coefficients : tuple of (int, Fraction)
        Variables that occur, in order, and a: input k is k, output k is ``~k``.
    constant : Fraction
        b.
    strict : bool
    """

    coefficients: tuple[tuple[int, Fraction], ...]
    constant: Fraction
    strict: bool = False

    @property
    def of_inputs(self) -> bool:
        """Whether no output occurs."""
        return all(k >= 0 for k, _ in self.coefficients)


Clause: TypeAlias = tuple[Row, ...]
"""Rows that hold together."""


@dataclass(frozen=True)
class Query:
    """What a VNN-LIB file declares and asks.

    Attributes
    ----------
    name : str
        Of the file, for messages.
    networks : tuple of Declared
        A file of version 1 has one, called ``f``, with tensors X and Y.
    clauses : tuple of Clause
        One of them holds.
    ignored : int
        Conditions that were left out, where only inputs were asked for.
    version : int
    """

    name: str
    networks: tuple[Declared, ...]
    clauses: tuple[Clause, ...]
    ignored: int
    version: int

    @property
    def inputs(self) -> int:
        """How many inputs all networks have together."""
        return sum(network.inputs for network in self.networks)


@dataclass(frozen=True)
class _Affine:
    """An affine function of the variables; `foreign` if it is one of others as well."""

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


def read_query(path: str | os.PathLike[str], outputs: bool = True) -> Query:
    """Read a VNN-LIB file.

    Parameters
    ----------
    path : str or path-like
        May be packed (``.gz``).
    outputs : bool, optional
        Whether conditions on outputs count.  They are ignored if not; numbers are then read
        without rounding, else each as the float64 number next to it.

    Returns
    -------
    Query

    Raises
    ------
    DomainError
        If the file cannot be read, or has conditions that are not linear; names the line.
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
    return _Reader(shown(file), outputs).read(text)


class _Reader:
    """Reads one file; knows its name for messages, and what it declares.

    Parameters
    ----------
    name : str
    outputs : bool
        Whether conditions on outputs count.
    """

    def __init__(self, name: str, outputs: bool) -> None:
        self._name = name
        self._outputs = outputs
        self._networks: list[Declared] = []
        self._tensors: dict[str, Tensor] = {}
        self._first: dict[str, set[int]] = {"X": set(), "Y": set()}  # variables of version 1
        self._others: set[str] = set()
        self._ignored = 0

    def read(self, text: str) -> Query:
        """The query of a text."""
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
        version = 2 if self._networks else 1
        networks = tuple(self._networks) or self._single()
        clauses = tuple(self._together(conditions))
        return Query(self._name, networks, clauses, self._ignored, version)

    def _wrong(self, words: Words, what: str) -> DomainError:
        return wrong(self._name, words, what)

    # -- declarations ---------------------------------------------------------------------------

    def _declare(self, words: Words) -> None:
        """A variable of version 1: X_i is an input, all others are outputs."""
        name = words.parts[1].word if len(words.parts) > 1 else ""
        match = _FIRST.fullmatch(name)
        if match is not None and match["name"] in self._first:
            self._first[match["name"]].add(int(match["place"]))
        elif name and not self._outputs:
            self._others.add(name)
        elif name:
            raise self._wrong(
                words, f"'{name}' is neither an input X_0, ... nor an output Y_0, ..."
            )
        else:
            raise self._wrong(words, "a declaration without a name")

    def _single(self) -> tuple[Declared]:
        """The network of a file of version 1."""
        for name, places in list(self._first.items())[: 1 + self._outputs]:
            if places != set(range(len(places))):
                missing = min(set(range(len(places))) - places)
                kind = "input" if name == "X" else "output"
                raise DomainError(
                    f"{self._name} declares no {kind} {name}_{missing}, but later ones"
                )
        inputs, outputs = map(len, self._first.values())
        if not inputs:
            raise DomainError(
                f"{self._name} declares no inputs.  Remedy: (declare-const X_0 Real), or "
                "(declare-input X Real [1, 5]) in a network"
            )
        tensors = [Tensor("X", "input", "Real", (inputs,), 0)]
        tensors += [Tensor("Y", "output", "Real", (outputs,), 0)] * (outputs > 0)
        return (Declared("f", tuple(tensors)),)

    def _declare_network(self, words: Words) -> None:
        """A network of version 2 with its tensors."""
        if any(self._first.values()) or self._others:
            raise self._wrong(words, "a network beside variables of version 1")
        found = declared(words, self._networks, self._name)
        for tensor in found.tensors:
            if tensor.name in self._tensors:
                raise self._wrong(words, f"'{tensor.name}' is declared twice")
            if tensor.kind == "hidden" and self._outputs:
                raise self._wrong(
                    words,
                    f"the hidden tensor '{tensor.name}': properties of hidden tensors are not "
                    "supported.  Remedy: cut the file there, and declare an output",
                )
            self._tensors[tensor.name] = tensor
        self._networks.append(found)

    # -- conditions -----------------------------------------------------------------------------

    def _clauses(self, words: Words) -> list[Clause]:
        """A condition as conjunctions of rows, one of which holds."""
        kind, parts = words.head, words.parts[1:]
        if kind == "and":
            return self._together(parts)
        if kind == "or":
            several = [clause for part in parts for clause in self._clauses(part)]
            if not several:
                raise self._wrong(words, "an 'or' of nothing")
            if len(several) > PARTS:
                raise self._wrong(words, f"the conditions have more than {PARTS} parts")
            return [()] if () in several else list(dict.fromkeys(several))
        known = ("<=", "<", ">=", ">", "=", "==", *(("!=",) if self._outputs else ()))
        if kind in known and len(parts) == 2:
            left, right = map(self._affine, parts)
            found = left.plus(right, Fraction(-1))
            if found.foreign:
                self._ignored += 1
                return [()]
            if kind == "!=":
                return [(_row(found, sign, True),) for sign in (1, -1)]
            strict = self._outputs and kind in ("<", ">")
            return [tuple(_row(found, sign, strict) for sign in _SIGNS[kind[0]])]
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
        """An expression as an affine function of the variables."""
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
        """A product of which at most one factor has variables."""
        found, *others = factors
        for other in others:
            if found.coefficients and other.coefficients:
                what = "variables" if self._outputs else "inputs"
                remedy = "Remedy: conditions have to be linear"
                raise self._wrong(words, f"a product of {what}.  {remedy}")
            affine, factor = (found, other) if found.coefficients else (other, found)
            zero = replace(ZERO, foreign=found.foreign or other.foreign)
            found = zero.plus(affine, factor.constant)
        return found

    def _term(self, words: Words) -> _Affine:
        """A number, an input or an output."""
        word = words.word
        if len(word) < sys.int_info.default_max_str_digits and _NUMBER.fullmatch(word):
            return _Affine({}, self._number(words))
        match = _SECOND.fullmatch(word)
        name = word if match is None else match["name"]
        if name in self._tensors:
            tensor = self._tensors[name]
            places = () if match is None else tuple(map(int, re.findall(r"\d+", match["places"])))
            shape = tensor.shape
            if len(places) != len(shape) or any(i >= n for i, n in zip(places, shape, strict=True)):
                raise self._wrong(words, f"'{word}' is no entry of a tensor of shape {list(shape)}")
            index = int(np.ravel_multi_index(places, shape)) if shape else 0
            return self._variable(tensor.kind == "input", tensor.first + index)
        single = _FIRST.fullmatch(word)
        if single is not None and int(single["place"]) in self._first.get(single["name"], ()):
            return self._variable(single["name"] == "X", int(single["place"]))
        if word in self._others:
            return replace(ZERO, foreign=True)
        raise self._wrong(words, f"'{word}' is neither a number nor declared")

    def _variable(self, is_input: bool, index: int) -> _Affine:
        if not is_input and not self._outputs:
            return replace(ZERO, foreign=True)
        return _Affine({index if is_input else ~index: Fraction(1)}, Fraction(0))

    def _number(self, words: Words) -> Fraction:
        if not self._outputs:
            return Fraction(words.word)
        number = float(words.word)
        if np.isinf(number):
            raise self._wrong(words, f"'{words.word}' is too large for float64")
        return Fraction(number)


def _row(affine: _Affine, sign: int, strict: bool) -> Row:
    """``sign (a . v + b) <= 0`` without zeros."""
    pairs = sorted((j, sign * a) for j, a in affine.coefficients.items() if a)
    return Row(tuple(pairs), sign * affine.constant, strict)
