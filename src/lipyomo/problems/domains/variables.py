"""Variables declared by a VNN-LIB file, and expressions as affine functions of them."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from lipyomo.base.errors import DomainError
from lipyomo.problems.domains.declarations import Declared, DeclaredTensor, declared_networks
from lipyomo.problems.domains.expressions import Words, wrong

_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d{1,3})?")
_FIRST = re.compile(r"(?P<name>.*?)_(?P<place>\d+)")
_SECOND = re.compile(r"(?P<name>\S+)\s*\[(?P<places>[\d\s,]*)\]")


@dataclass(frozen=True)
class AffineForm:
    """An affine function of the variables; `foreign` if ignored variables occur in it."""

    coefficients: dict[int, Fraction]
    constant: Fraction
    foreign: bool = False

    def plus(self, other: AffineForm, factor: Fraction) -> AffineForm:
        """Add a multiple of another form."""
        found = dict(self.coefficients)
        for j, a in other.coefficients.items():
            found[j] = found.get(j, Fraction(0)) + factor * a
        constant = self.constant + factor * other.constant
        return AffineForm(found, constant, self.foreign or other.foreign)


ZERO = AffineForm({}, Fraction(0))


class Variables:
    """Inputs and outputs that a file declares.

    Parameters
    ----------
    name : str
        File name for messages.
    outputs : bool
        Whether to read conditions on outputs.
    """

    def __init__(self, name: str, outputs: bool) -> None:
        self._name, self._outputs = name, outputs
        self._networks: list[Declared] = []
        self._tensors: dict[str, DeclaredTensor] = {}
        self._first: dict[str, set[int]] = {"X": set(), "Y": set()}  # variables of version 1
        self._others: set[str] = set()

    @property
    def version(self) -> int:
        """Version of the file: 2 if it declares networks."""
        return 2 if self._networks else 1

    @property
    def networks(self) -> tuple[Declared, ...]:
        """The networks.

        Raises
        ------
        DomainError
            If there is none, or a variable of version 1 is missing.
        """
        return tuple(self._networks) or self._single()

    def _wrong(self, words: Words, what: str) -> DomainError:
        return wrong(self._name, words, what)

    def declare(self, words: Words) -> None:
        """Declare a variable of version 1: an input X_i, an output Y_i, or an ignored one."""
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
        """Return the network of a file of version 1."""
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
        tensors = [DeclaredTensor("X", "input", "Real", (inputs,), 0)]
        tensors += [DeclaredTensor("Y", "output", "Real", (outputs,), 0)] * (outputs > 0)
        return (Declared("f", tuple(tensors)),)

    def declare_network(self, words: Words) -> None:
        """Declare a network of version 2 with its tensors."""
        if any(self._first.values()) or self._others:
            raise self._wrong(words, "a network beside variables of version 1")
        found = declared_networks(words, self._networks, self._name)
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

    def affine(self, words: Words) -> AffineForm:
        """Convert an expression to an affine function of the variables."""
        if not words.parts:
            return self._term(words)
        kind, parts = words.head, [self.affine(part) for part in words.parts[1:]]
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

    def _product(self, words: Words, factors: list[AffineForm]) -> AffineForm:
        """Multiply factors of which at most one has variables."""
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

    def _term(self, words: Words) -> AffineForm:
        """Convert a number, an input or an output."""
        word = words.word
        if len(word) < sys.int_info.default_max_str_digits and _NUMBER.fullmatch(word):
            return AffineForm({}, self._number(words))
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

    def _variable(self, is_input: bool, index: int) -> AffineForm:
        if not is_input and not self._outputs:
            return replace(ZERO, foreign=True)
        return AffineForm({index if is_input else ~index: Fraction(1)}, Fraction(0))

    def _number(self, words: Words) -> Fraction:
        if not self._outputs:
            return Fraction(words.word)
        number = float(words.word)
        if np.isinf(number):
            raise self._wrong(words, f"'{words.word}' is too large for float64")
        return Fraction(number)
