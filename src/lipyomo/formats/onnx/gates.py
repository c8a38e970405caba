"""Recognition of activations that a graph expresses as products, such as ``x * Sigmoid(x)``.

Such a product is no affine function of units, so it is recognised by its formula.  Each tensor has
the formula by which its entries follow from other tensors, with constants that are the same in all
entries.  Where operators multiply or divide signals, the formula is expanded in a single signal x,
as a sum of terms ``x**p`` and ``x**p f(...)``.  Apart from the constant and the multiple of x, it
must have a single term, which belongs to an activation; coefficients are exact fractions.

A formula of comparisons (``Where(x > 0, x, 0.1 * x)``) is evaluated as a piecewise linear function
of its signal (`lipyomo.formats.onnx.bends`).

Intermediate results that are no activations (``x * x * x`` in GELU's form with tanh, ``x > 0``) are
stored as formulas, and refused where another operator reads them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import mul
from typing import Any, NamedTuple

import numpy as np
import onnx

from lipyomo.base.arguments import warn_caller
from lipyomo.base.errors import ImportNote, ImportRefused, NetworkError
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE
from lipyomo.formats.onnx import bends
from lipyomo.formats.onnx.bends import Bent, Inexpressible, Jump, LinearPieces
from lipyomo.formats.onnx.graph import REAL_TYPES, Array, GraphNode
from lipyomo.networks.activations import Activation, activation
from lipyomo.networks.building.affine import Tensor
from lipyomo.networks.building.trace import Trace

ROUNDED = 2.0 * float(np.finfo(np.float32).eps)
"""Relative error of a constant such as sqrt(2) that was stored as a float32 number."""

MOST_TERMS = 16
"""Limit of terms in an expanded formula; activations have at most five."""

HIGHEST = 3
"""Largest power of the signal, as in GELU's form with tanh."""


class RoundedConstant(ImportNote):
    """A model has a rounded constant of an activation, which was replaced by the exact one."""


class SoftplusThreshold(ImportNote):
    """PyTorch's Softplus jumps at its threshold; it was imported without the threshold."""


class Function(NamedTuple):
    """``name(argument)``, a function of one signal; `argument` is an expanded formula."""

    name: str
    argument: frozenset[tuple[Term, Fraction]]

    @classmethod
    def of(cls, name: str, argument: Expanded) -> Function:
        """Return the function of an expanded formula, regardless of the order of its terms."""
        return cls(name, frozenset(argument.items()))

    @property
    def expanded(self) -> Expanded:
        """The argument."""
        return Expanded(self.argument)


class Term(NamedTuple):
    """``x**power``, or ``x**power function``."""

    power: int
    function: Function | None = None


class Expanded(dict[Term, Fraction]):
    """A function of one signal as a sum of terms, with their coefficients, none of them zero.

    Sums, products and quotients with other terms raise `Inexpressible`.
    """

    @classmethod
    def signal(cls) -> Expanded:
        """Return the identity."""
        return cls({SIGNAL: Fraction(1)})

    @classmethod
    def constant(cls, value: Fraction) -> Expanded:
        """Return a constant function."""
        return cls({ONE: value} if value else {})

    @classmethod
    def function(cls, name: str, argument: Expanded, factor: Fraction | int = 1) -> Expanded:
        """Return ``factor name(argument)``."""
        return cls({Term(0, Function.of(name, argument)): Fraction(factor)})

    def __add__(self, other: Mapping[Term, Fraction]) -> Expanded:
        total = {term: self.get(term, 0) + other.get(term, 0) for term in {**self, **other}}
        if len(total) > MOST_TERMS:
            raise Inexpressible
        return Expanded({term: Fraction(c) for term, c in total.items() if c})

    def __mul__(self, other: Expanded) -> Expanded:
        total = Expanded()
        for (p, f), a in self.items():
            for (q, g), b in other.items():
                if p + q > HIGHEST or (f is not None and g is not None):
                    raise Inexpressible
                total += {Term(p + q, f if g is None else g): a * b}
        return total

    def scaled(self, factor: Fraction) -> Expanded:
        """Return a multiple by a number that is not zero."""
        return Expanded({term: factor * c for term, c in self.items()})

    def __neg__(self) -> Expanded:
        return self.scaled(Fraction(-1))

    def __sub__(self, other: Expanded) -> Expanded:
        return self + (-other)

    def __truediv__(self, other: Expanded) -> Expanded:
        return self * _inverse(other)


ONE, SIGNAL = Term(power=0), Term(power=1)

CUT = "softplus with a threshold"
"""Name of a function: PyTorch's softplus, which is the identity above a threshold."""


@dataclass(frozen=True, eq=False)
class Formula:
    """The formula by which the entries of a tensor follow from those of others.

    Parameters
    ----------
    shape : tuple of int
    value : Tensor, optional
        None if the tensor is no affine function of units.
    operator : str, optional
        Empty if unknown.
    arguments : tuple of Formula or Fraction, optional
    signals : tuple of Formula, optional
        Tensors of which all arguments are functions, the nearest first.
    """

    shape: tuple[int, ...]
    value: Tensor | None
    operator: str = ""
    arguments: tuple[Formula | Fraction, ...] = ()
    signals: tuple[Formula, ...] = ()

    @property
    def made_of(self) -> tuple[Formula, ...]:
        """The tensors of which this one is a function, including itself."""
        return self.signals if self.value is None else (self, *self.signals)


@dataclass(frozen=True, eq=False)
class Pending:
    """A tensor that has only a formula, not a value.

    Parameters
    ----------
    formula : Formula
    refused : ImportRefused
        The error to raise where the formula cannot be used.
    """

    formula: Formula
    refused: ImportRefused

    nbytes = 0
    """Zero, since no entries are stored."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the tensor."""
        return self.formula.shape


_PARAMETERS = {
    "HardSigmoid": {"alpha": 0.2, "beta": 0.5},
    "LeakyRelu": {"alpha": 0.01},
    "ThresholdedRelu": {"alpha": 1.0},
    "Shrink": {"lambd": 0.5, "bias": 0.0},
}
"""Attributes that are treated as arguments, with their defaults."""


def formula(
    node: GraphNode, arguments: Sequence[Formula | Array | None], value: Tensor | None = None
) -> Formula | None:
    """Return the formula of a node's output; None if the node is not such an operator.

    Parameters
    ----------
    node : GraphNode
    arguments : sequence
        Formulas of tensors that depend on the input; constants; None where one is omitted.
    value : Tensor, optional
        The output, if it is known.
    """
    operator = node.op_type
    if operator == "Cast" and node.integer("to", onnx.TensorProto.FLOAT) not in REAL_TYPES:
        # a cast to integers may round, one to booleans does not
        operator = "Bool" if node.integer("to", 0) == onnx.TensorProto.BOOL else ""
    known_operator = operator in _OPERATORS or operator in bends.OPERATORS
    if node.domain or not known_operator or node.version < 7:
        return None
    constants = [_scalar(a) for a in arguments if isinstance(a, np.ndarray)]
    varying = [a for a in arguments if isinstance(a, Formula)]
    if any(c is None for c in constants) or not varying or any(a is None for a in arguments):
        return None
    shape = varying[0].shape
    if any(a.shape != shape for a in varying):
        return None
    if any(np.broadcast_shapes(shape, a.shape) != shape for a in arguments if a is not None):
        return None
    known = [_scalar(a) if isinstance(a, np.ndarray) else a for a in arguments]
    if operator == "Clip" and len(known) == 1:
        known += [_attribute(node, "min"), _attribute(node, "max")]
    defaults = _PARAMETERS.get(operator, {})
    known += [Fraction(node.number(key, default)) for key, default in defaults.items()]
    first, *others = (a.made_of for a in varying)
    signals = tuple(s for s in first if all(any(s is t for t in other) for other in others))
    given = tuple(a for a in known if a is not None)
    return Formula(shape, value, operator, given, signals) if signals else None


def _scalar(array: Array) -> Fraction | None:
    """Return the value of a constant whose entries are all equal, otherwise None."""
    if not array.size or array.dtype.kind not in "fiub" or (array != array.flat[0]).any():
        return None
    number = float(array.flat[0])
    return Fraction(number) if math.isfinite(number) else None


def _attribute(node: GraphNode, key: str) -> Fraction | None:
    found = node.attributes.get(key)
    return Fraction(found) if isinstance(found, int | float) and math.isfinite(found) else None


class Match(NamedTuple):
    """``factor * kind(inside) + beside``, where `inside` and `beside` are affine in a signal.

    Parameters
    ----------
    signal : Tensor
    kind : Activation
    factor : Fraction
    inside, beside : mapping of Term to Fraction
        Coefficients of the constant and the signal.
    rounded : bool
        Whether a constant of the activation was rounded to float32.
    cut : bool
        Whether the activation is replaced by its asymptote above a threshold.
    """

    signal: Tensor
    kind: Activation
    factor: Fraction
    inside: Mapping[Term, Fraction]
    beside: Mapping[Term, Fraction]
    rounded: bool = False
    cut: bool = False

    def units(self, trace: Trace, node: GraphNode) -> Tensor:
        """Add units and return their tensor; warn if `node` computes something close to them."""
        if self.cut:
            warn_caller(
                f"node '{node.name}' ({node.op_type}) replaces softplus by its asymptote above a "
                "threshold, where it jumps by little; it is imported without",
                SoftplusThreshold,
            )
        if self.rounded:
            warn_caller(
                f"node '{node.name}' ({node.op_type}) makes the activation {self.kind.name} with "
                "constants of float32: they were taken for the numbers that they round",
                RoundedConstant,
            )
        z = self.signal if self.inside == {SIGNAL: 1} else _affine(self.signal, self.inside)
        units = trace.smooth(z, self.kind)
        total = units if self.factor == 1 else units.scale(float(self.factor))
        return total + _affine(self.signal, self.beside) if self.beside else total


def _expansions(found: Formula) -> Iterator[tuple[Tensor, Expanded]]:
    """Yield the expansions of a formula in its signals, where possible, the nearest first."""
    return _in_signals(found, Expanded, _OPERATORS)


def _functions(found: Formula) -> Iterator[tuple[Tensor, LinearPieces]]:
    """Yield a formula as a piecewise linear function of its signals, where possible."""
    return _in_signals(found, LinearPieces, bends.OPERATORS)


def is_expandable(found: Formula) -> bool:
    """Return whether a formula may become an activation by further operators."""
    return any(True for _ in _expansions(found)) or any(True for _ in _functions(found))


def jump_of(found: Formula) -> Jump | None:
    """Return the jump of a formula, if it is a discontinuous piecewise linear function."""
    return next((pieces.jump for _, pieces in _functions(found)), None)


def activation_of(found: Formula) -> Match | Bent | None:
    """Return the activation in a formula, up to a factor and affine terms; None if unknown."""
    for signal, terms in _expansions(found):
        match = _activation(signal, terms)
        if match is not None:
            return match
    for signal, pieces in _functions(found):
        if pieces.jump is None:
            return Bent(signal, pieces)
    return None


def _affine(x: Tensor, terms: Mapping[Term, Fraction]) -> Tensor:
    """``a x + b``."""
    scaled = x.scale(float(terms.get(SIGNAL, 0)))
    return scaled.shift(float(terms[ONE])) if ONE in terms else scaled


# -- expanding ------------------------------------------------------------------------------------


def _in_signals(
    found: Formula, kind: Any, operators: Mapping[str, Callable[..., Any]]
) -> Iterator[tuple[Tensor, Any]]:
    """Yield a formula as a function of its signals, of one kind, where that is possible."""
    for signal in found.signals:
        known = {id(signal): kind.signal()}

        def of(part: Formula | Fraction, known: dict[int, Any] = known) -> Any:
            if isinstance(part, Fraction):
                return kind.constant(part)
            if id(part) not in known:
                if part.operator not in operators:
                    raise Inexpressible
                known[id(part)] = operators[part.operator](*map(of, part.arguments))
            return known[id(part)]

        with suppress(Inexpressible):
            function = of(found)
            assert signal.value is not None, "signals have values"
            yield signal.value, function


def _power(base: Expanded, exponent: Expanded) -> Expanded:
    wanted = exponent.get(ONE, Fraction(0))
    if set(exponent) != {ONE} or wanted not in range(1, HIGHEST + 1):
        raise Inexpressible
    return reduce(mul, [base] * int(wanted))


def _function(name: str) -> Callable[[Expanded], Expanded]:
    def applied(argument: Expanded) -> Expanded:
        if not set(argument) - {ONE}:
            raise Inexpressible
        return Expanded.function(name, argument)

    return applied


def _one_plus(terms: Expanded, name: str) -> tuple[Fraction, Expanded] | None:
    """Return (c, e) if the terms are ``c (1 + name(e))``, otherwise None."""
    c = terms.get(ONE)
    if c is None or len(terms) != 2:
        return None
    ((p, f),) = set(terms) - {ONE}
    if p or f is None or f.name != name or terms[Term(p, f)] != c:
        return None
    return c, f.expanded


def _inverse(terms: Expanded) -> Expanded:
    """``1 / (c (1 + exp(e)))`` and ``1 / (c (1 + |e|))``."""
    for name, inverse, sign in (("exp", "sigmoid", -1), ("abs", "inverse", 1)):
        found = _one_plus(terms, name)
        if found is not None:
            c, argument = found
            return Expanded.function(inverse, argument.scaled(Fraction(sign)), 1 / c)
    if set(terms) == {ONE}:
        return Expanded.constant(1 / terms[ONE])
    raise Inexpressible


def _logarithm(terms: Expanded) -> Expanded:
    """``log(1 + exp(e))``, which is softplus, and ``log(sigmoid(e))``, which is -softplus(-e)."""
    found = _one_plus(terms, "exp")
    if found is not None and found[0] == 1:
        return Expanded.function("softplus", found[1])
    if found is None and len(terms) == 1:
        (((power, function), c),) = terms.items()
        if c == 1 and not power and function is not None and function.name == "sigmoid":
            return Expanded.function("softplus", -function.expanded, -1)
    raise Inexpressible


def _clip(argument: Expanded, *limits: Expanded) -> Expanded:
    """``min(max(e, 0), c)`` as c times a clip at 1."""
    if len(limits) != 2 or limits[0] or set(limits[1]) != {ONE} or limits[1][ONE] <= 0:
        raise Inexpressible
    top = limits[1][ONE]
    return Expanded.function("clip", argument.scaled(1 / top), top)


def softplus_jump(factor: float, threshold: float) -> float:
    """Return by how much ``factor * softplus(z)`` exceeds ``factor * z`` at a threshold of z."""
    return factor * float(np.logaddexp(0.0, -threshold))


def _where(condition: Expanded, high: Expanded, low: Expanded) -> Expanded:
    """``z if b z > t else softplus(b z) / b``, PyTorch's softplus, if its jump is negligible."""
    if len(condition) != 1 or len(low) != 1:
        raise Inexpressible
    ((above, _),), ((term, factor),) = condition.items(), low.items()
    if above.function is None or term.function is None or term.power:
        raise Inexpressible
    argument = term.function.expanded
    margin = argument - above.function.expanded
    if (above.function.name, term.function.name) != ("above", "softplus") or set(margin) != {ONE}:
        raise Inexpressible
    jump = softplus_jump(float(abs(factor)), float(abs(margin[ONE])))
    if high != argument.scaled(factor) or margin[ONE] < 0 or jump > EXACT_TOLERANCE:
        raise Inexpressible
    return Expanded.function(CUT, argument, factor)


_TOP = Expanded.constant(Fraction(1))

_OPERATORS: dict[str, Callable[..., Expanded]] = {
    **bends.ARITHMETIC,
    "Reciprocal": _inverse,
    "Pow": _power,
    "Log": _logarithm,
    "Clip": _clip,
    "HardSigmoid": lambda a, alpha, beta: _clip(a * alpha + beta, Expanded(), _TOP),
    "Greater": lambda first, second: _function("above")(first - second),
    "Where": _where,
    **{name.capitalize(): _function(name) for name in ("sigmoid", "tanh", "erf", "softplus")},
    **{name.capitalize(): _function(name) for name in ("exp", "abs")},
}


# -- recognising ----------------------------------------------------------------------------------


def _activation(signal: Tensor, terms: Expanded) -> Match | None:
    """Return the activation in an expansion, up to an affine function of the signal."""
    beside = Expanded({term: c for term, c in terms.items() if term in (ONE, SIGNAL)})
    others = [(term, c) for term, c in terms.items() if term not in beside]
    if len(others) != 1:
        return None
    ((power, function), c) = others[0]
    if function is None or power > 1:
        return None
    argument = function.expanded
    if power == 0:
        if function.name not in ("sigmoid", "softplus", CUT) or set(argument) - {ONE, SIGNAL}:
            return None
        cut = function.name == CUT
        kind = activation("softplus" if cut else function.name)
        return Match(signal, kind, c, argument, beside, cut=cut)
    gate = _gate(function.name, argument)
    if gate is None:
        return None
    kind, factor, of_signal, rounded = gate
    rest = beside + {SIGNAL: c * of_signal}
    return Match(signal, kind, c * factor, Expanded.signal(), rest, rounded)


def _gate(name: str, argument: Expanded) -> tuple[Activation, int, int, bool] | None:
    """Return ``x name(argument)`` as activation, factor, and multiple of x; and whether rounded."""
    slope = argument.get(SIGNAL, Fraction(0))
    linear = set(argument) == {SIGNAL}
    sign = 1 if slope > 0 else -1
    if name in ("sigmoid", "tanh") and linear:
        # x sigmoid(-y) = x - x sigmoid(y);  x tanh(y) = 2 x sigmoid(2 y) - x, both for y > 0
        half = name == "tanh"
        with suppress(NetworkError):
            kind = activation("swish", beta=float(abs(slope) * (2 if half else 1)))
            return kind, 2 * sign if half else sign, -sign if half else int(sign < 0), False
    elif name == "erf" and linear:
        near = _near(abs(slope), math.sqrt(0.5))
        if near is not None:  # x erf(x / sqrt 2) = 2 gelu(x) - x
            return activation("gelu"), 2 * sign, -sign, near
    elif name == "tanh" and set(argument) == {SIGNAL, Term(3)}:
        near = _near(abs(slope), math.sqrt(2.0 / math.pi))
        bend = _near(argument[Term(3)] / slope, 0.044715)
        if near is not None and bend is not None:
            return activation("gelu", approximate="tanh"), 2 * sign, -sign, near or bend
    elif name == "tanh" and argument == Expanded.function("softplus", Expanded.signal()):
        return activation("mish"), 1, 0, False
    elif name == "clip" and argument.get(ONE) == Fraction(1, 2) and set(argument) == {ONE, SIGNAL}:
        near = _near(slope, 1.0 / 6.0)
        if near is not None:
            return activation("hard_swish"), 1, 0, near
    elif name == "inverse" and linear and abs(slope) == 1:
        return activation("softsign"), 1, 0, False
    return None


def _near(found: Fraction, true: float) -> bool | None:
    """Return whether a constant was rounded to float32; None if it is a different number."""
    off = abs(float(found) / true - 1.0)
    if not off <= ROUNDED:
        return None
    return off > 2.0**-50
