"""Queries of VNN-LIB files (https://www.vnnlib.org): networks, and conditions on their tensors.

Supported are versions 1 (``(declare-const X_0 Real)``) and 2 (``(declare-network ...)``,
``X[0, 3]``; several networks, ``(equal-to f)``, ``(isomorphic-to f)``) with linear conditions.  A
query asks for values that satisfy all conditions, which are converted to a disjunction of
conjunctions of rows.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import TypeAlias

from lipyomo.base.arguments import instance
from lipyomo.base.errors import DomainError
from lipyomo.base.system.memory import KEPT
from lipyomo.base.system.outputs import shown, why
from lipyomo.problems.domains.declarations import Declared
from lipyomo.problems.domains.expressions import Words, expressions, wrong
from lipyomo.problems.domains.variables import AffineForm, Variables

PARTS = 10_000
"""Limit of the clauses of a disjunctive normal form."""

_SIGNS = {"<": (1,), ">": (-1,), "=": (1, -1)}


@dataclass(frozen=True)
class Condition:
    """A condition ``a . v + b <= 0``, or ``< 0``.

    Attributes
    ----------
    coefficients : tuple of (int, Fraction)
        Pairs (variable, a) in ascending order: input k has the number k, output k ``~k``.
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


Clause: TypeAlias = tuple[Condition, ...]
"""A conjunction of conditions."""


@dataclass(frozen=True)
class Query:
    """The declarations and conditions of a VNN-LIB file.

    Attributes
    ----------
    name : str
        File name for messages.
    networks : tuple of Declared
        A file of version 1 has one, called ``f``, with tensors X and Y.
    clauses : tuple of Clause
        A disjunction: one of them must hold.
    ignored : int
        Number of conditions that were ignored because only inputs were requested.
    version : int
    """

    name: str
    networks: tuple[Declared, ...]
    clauses: tuple[Clause, ...]
    ignored: int
    version: int

    @property
    def inputs(self) -> int:
        """Total number of inputs of all networks."""
        return sum(network.inputs for network in self.networks)


def read_query(path: str | os.PathLike[str], outputs: bool = True) -> Query:
    """Read a VNN-LIB file.

    Parameters
    ----------
    path : str or path-like
        May be compressed (``.gz``).
    outputs : bool, optional
        Whether to read conditions on outputs, with numbers rounded to the nearest float64.  If
        False they are ignored, and numbers are read exactly.

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
    """Reader of the conditions of one file.

    Parameters
    ----------
    name : str
        File name for messages.
    outputs : bool
        Whether to read conditions on outputs.
    """

    def __init__(self, name: str, outputs: bool) -> None:
        self._name = name
        self._outputs = outputs
        self._variables = Variables(name, outputs)
        self._ignored = 0

    def read(self, text: str) -> Query:
        """Parse the text of a file."""
        conditions = []
        for words in expressions(text, self._name):
            if words.head == "assert" and len(words.parts) == 2:
                conditions.append(words.parts[1])
            elif words.head == "declare-network":
                self._variables.declare_network(words)
            elif words.head in ("declare-const", "declare-fun"):
                self._variables.declare(words)
            elif words.head not in ("vnnlib-version", "set-logic", "check-sat", "exit", "set-info"):
                raise self._wrong(words, f"'{words.head or words.word}' is not known here")
        networks, version = self._variables.networks, self._variables.version
        clauses = tuple(self._together(conditions))
        return Query(self._name, networks, clauses, self._ignored, version)

    def _wrong(self, words: Words, what: str) -> DomainError:
        return wrong(self._name, words, what)

    def _clauses(self, words: Words) -> list[Clause]:
        """Convert a condition to disjunctive normal form."""
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
            left, right = map(self._variables.affine, parts)
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
        """Convert a conjunction of conditions to disjunctive normal form."""
        rows: list[Condition] = []
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


def _row(affine: AffineForm, sign: int, strict: bool) -> Condition:
    """Return the condition ``sign (a . v + b) <= 0`` (or ``< 0``), without zero coefficients."""
    pairs = sorted((j, sign * a) for j, a in affine.coefficients.items() if a)
    return Condition(tuple(pairs), sign * affine.constant, strict)
