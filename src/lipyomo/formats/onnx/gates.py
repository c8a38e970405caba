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
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple, TypeAlias

import numpy as np
import onnx

from lipyomo.base.errors import ImportNote, ImportRefused, NetworkError
from lipyomo.base.numerics.rounding import EXACT_TOLERANCE
from lipyomo.formats.onnx import bends
from lipyomo.formats.onnx.bends import Bent, Jump, LinearPieces
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


class Term(NamedTuple):
    """``x**power``, or ``x**power function``."""

    power: int
    function: Function | None = None


Expanded: TypeAlias = dict[Term, Fraction]
"""Terms and their coefficients, none of them zero."""

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
            warnings.warn(
                f"node '{node.name}' ({node.op_type}) replaces softplus by its asymptote above a "
                "threshold, where it jumps by little; it is imported without",
                SoftplusThreshold,
                stacklevel=2,
            )
        if self.rounded:
            warnings.warn(
                f"node '{node.name}' ({node.op_type}) makes the activation {self.kind.name} with "
                "constants of float32: they were taken for the numbers that they round",
                RoundedConstant,
                stacklevel=2,
            )
        z = self.signal if self.inside == {SIGNAL: 1} else _affine(self.signal, self.inside)
        units = trace.smooth(z, self.kind)
        total = units if self.factor == 1 else units.scale(float(self.factor))
        return total + _affine(self.signal, self.beside) if self.beside else total


def _expansions(found: Formula) -> Iterator[tuple[Tensor, Expanded]]:
    """Yield the expansions of a formula in its signals, where possible, the nearest first."""
    for signal in found.signals:
        terms = _expanded(found, signal, {})
        if terms is not None and signal.value is not None:
            yield signal.value, terms


def _functions(found: Formula) -> Iterator[tuple[Tensor, LinearPieces]]:
    """Yield a formula as a piecewise linear function of its signals, where possible."""
    for signal in found.signals:
        pieces = _pieces(found, signal, {})
        if pieces is not None and signal.value is not None:
            yield signal.value, pieces


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


def _expanded(
    found: Formula | Fraction, signal: Formula, known: dict[int, Expanded | None]
) -> Expanded | None:
    """Expand a formula in a signal; None if that is impossible."""
    if found is signal:
        return {SIGNAL: Fraction(1)}
    if isinstance(found, Fraction):
        return {ONE: found} if found else {}
    if id(found) not in known:
        operator = _OPERATORS.get(found.operator)
        inner = [_expanded(argument, signal, known) for argument in found.arguments]
        terms = None
        if operator is not None and all(part is not None for part in inner):
            terms = operator(*(part for part in inner if part is not None))
        known[id(found)] = None if terms is not None and len(terms) > MOST_TERMS else terms
    return known[id(found)]


def _pieces(
    found: Formula | Fraction, signal: Formula, known: dict[int, LinearPieces | None]
) -> LinearPieces | None:
    """Return a formula as a piecewise linear function of a signal; None if it is none."""
    if found is signal:
        return LinearPieces.line(1)
    if isinstance(found, Fraction):
        return LinearPieces.line(0, found)
    if id(found) not in known:
        operator = bends.OPERATORS.get(found.operator)
        inner = [_pieces(argument, signal, known) for argument in found.arguments]
        parts = [part for part in inner if part is not None]
        whole = operator is not None and len(parts) == len(inner)
        known[id(found)] = operator(*parts) if operator is not None and whole else None
    return known[id(found)]


def _sum(*parts: Expanded) -> Expanded:
    total: Expanded = {}
    for part in parts:
        for term, c in part.items():
            total[term] = total.get(term, Fraction(0)) + c
    return {term: c for term, c in total.items() if c}


def _times(terms: Expanded, factor: Fraction) -> Expanded:
    return {term: factor * c for term, c in terms.items() if factor}


def _product(first: Expanded, second: Expanded) -> Expanded | None:
    parts: list[Expanded] = []
    for (p, f), a in first.items():
        for (q, g), b in second.items():
            if p + q > HIGHEST or (f is not None and g is not None):
                return None
            parts.append({Term(p + q, f if g is None else g): a * b})
    return _sum(*parts)


def _power(base: Expanded, exponent: Expanded) -> Expanded | None:
    wanted = exponent.get(ONE, Fraction(0))
    if set(exponent) != {ONE} or wanted not in range(1, HIGHEST + 1):
        return None
    result: Expanded | None = base
    for _ in range(int(wanted) - 1):
        result = _product(result, base) if result is not None else None
    return result


def _function(name: str) -> Callable[[Expanded], Expanded | None]:
    def applied(argument: Expanded) -> Expanded | None:
        if not set(argument) - {ONE}:
            return None
        return {Term(0, Function.of(name, argument)): Fraction(1)}

    return applied


def _one_plus(terms: Expanded, name: str) -> tuple[Fraction, Expanded] | None:
    """Return (c, e) if the terms are ``c (1 + name(e))``, otherwise None."""
    c = terms.get(ONE)
    if c is None or len(terms) != 2:
        return None
    ((p, f),) = set(terms) - {ONE}
    if p or f is None or f.name != name or terms[Term(p, f)] != c:
        return None
    return c, dict(f.argument)


def _inverse(terms: Expanded) -> Expanded | None:
    """``1 / (c (1 + exp(e)))`` and ``1 / (c (1 + |e|))``."""
    for name, inverse, sign in (("exp", "sigmoid", -1), ("abs", "inverse", 1)):
        found = _one_plus(terms, name)
        if found is not None:
            c, argument = found
            own = Function.of(inverse, _times(argument, Fraction(sign)))
            return {Term(0, own): 1 / c}
    if set(terms) == {ONE}:
        return {ONE: 1 / terms[ONE]}
    return None


def _quotient(first: Expanded, second: Expanded) -> Expanded | None:
    inverse = _inverse(second)
    return None if inverse is None else _product(first, inverse)


def _logarithm(terms: Expanded) -> Expanded | None:
    """``log(1 + exp(e))``, which is softplus, and ``log(sigmoid(e))``, which is -softplus(-e)."""
    found = _one_plus(terms, "exp")
    if found is None and len(terms) == 1:
        (((power, function), c),) = terms.items()
        if c == 1 and not power and function is not None and function.name == "sigmoid":
            argument = _times(dict(function.argument), Fraction(-1))
            return {Term(0, Function.of("softplus", argument)): Fraction(-1)}
    if found is None or found[0] != 1:
        return None
    return {Term(0, Function.of("softplus", found[1])): Fraction(1)}


def _clip(argument: Expanded, *limits: Expanded) -> Expanded | None:
    """``min(max(e, 0), c)`` as c times a clip at 1."""
    if len(limits) != 2 or limits[0] or set(limits[1]) != {ONE} or limits[1][ONE] <= 0:
        return None
    top = limits[1][ONE]
    return {Term(0, Function.of("clip", _times(argument, 1 / top))): top}


def softplus_jump(factor: float, threshold: float) -> float:
    """Return by how much ``factor * softplus(z)`` exceeds ``factor * z`` at a threshold of z."""
    return factor * float(np.logaddexp(0.0, -threshold))


def _above(first: Expanded, second: Expanded) -> Expanded | None:
    """``first > second``."""
    return _function("above")(_sum(first, _times(second, Fraction(-1))))


def _where(condition: Expanded, high: Expanded, low: Expanded) -> Expanded | None:
    """``z if b z > t else softplus(b z) / b``, PyTorch's softplus, if its jump is negligible."""
    if len(condition) != 1 or len(low) != 1:
        return None
    ((above, _),), ((term, factor),) = condition.items(), low.items()
    if above.function is None or term.function is None or term.power:
        return None
    argument, beyond = dict(term.function.argument), dict(above.function.argument)
    margin = _sum(argument, _times(beyond, Fraction(-1)))
    if (above.function.name, term.function.name) != ("above", "softplus") or set(margin) != {ONE}:
        return None
    jump = softplus_jump(float(abs(factor)), float(abs(margin[ONE])))
    if high != _times(argument, factor) or margin[ONE] < 0 or jump > EXACT_TOLERANCE:
        return None
    return {Term(0, Function(CUT, term.function.argument)): factor}


def _hard_sigmoid(argument: Expanded, alpha: Expanded, beta: Expanded) -> Expanded | None:
    inner = _product(argument, alpha)
    return None if inner is None else _clip(_sum(inner, beta), {}, {ONE: Fraction(1)})


_OPERATORS: dict[str, Callable[..., Expanded | None]] = {
    "Add": _sum,
    "Sum": _sum,
    "Sub": lambda a, b: _sum(a, _times(b, Fraction(-1))),
    "Neg": lambda a: _times(a, Fraction(-1)),
    "Mul": _product,
    "Div": _quotient,
    "Reciprocal": _inverse,
    "Pow": _power,
    "Log": _logarithm,
    "Clip": _clip,
    "HardSigmoid": _hard_sigmoid,
    "Greater": _above,
    "Where": _where,
    "Identity": lambda a: a,
    "Cast": lambda a: a,
    **{name.capitalize(): _function(name) for name in ("sigmoid", "tanh", "erf", "softplus")},
    **{name.capitalize(): _function(name) for name in ("exp", "abs")},
}


# -- recognising ----------------------------------------------------------------------------------


def _activation(signal: Tensor, terms: Expanded) -> Match | None:
    """Return the activation in an expansion, up to an affine function of the signal."""
    beside = {term: c for term, c in terms.items() if term in (ONE, SIGNAL)}
    others = [(term, c) for term, c in terms.items() if term not in beside]
    if len(others) != 1:
        return None
    ((power, function), c) = others[0]
    if function is None or power > 1:
        return None
    argument = dict(function.argument)
    if power == 0:
        if function.name not in ("sigmoid", "softplus", CUT) or set(argument) - {ONE, SIGNAL}:
            return None
        cut = function.name == CUT
        kind = activation("softplus" if cut else function.name)
        return Match(signal, kind, c, argument, beside, cut=cut)
    for kind, factor, of_signal, rounded in _gates(function.name, argument):
        rest = _sum(beside, {SIGNAL: c * of_signal})
        return Match(signal, kind, c * factor, {SIGNAL: Fraction(1)}, rest, rounded)
    return None


_Gate: TypeAlias = tuple[Activation, Fraction, Fraction, bool]


def _gates(name: str, argument: Expanded) -> Iterator[_Gate]:
    """Yield ``x name(argument)`` as activation, factor, and multiple of x; and whether rounded."""
    slope = argument.get(SIGNAL, Fraction(0))
    linear = set(argument) == {SIGNAL}
    one, none = Fraction(1), Fraction(0)
    sign = 1 if slope > 0 else -1
    if name in ("sigmoid", "tanh") and linear:
        # x sigmoid(-y) = x - x sigmoid(y);  x tanh(y) = 2 x sigmoid(2 y) - x, both for y > 0
        half = name == "tanh"
        beta = float(abs(slope) * (2 if half else 1))
        try:
            kind = activation("swish", beta=beta)
        except NetworkError:
            return
        extra = Fraction(-sign) if half else (one if sign < 0 else none)
        yield kind, Fraction(2 * sign if half else sign), extra, False
    elif name == "erf" and linear:
        near = _near(abs(slope), math.sqrt(0.5))
        if near is not None:  # x erf(x / sqrt 2) = 2 gelu(x) - x
            yield activation("gelu"), Fraction(2 * sign), Fraction(-sign), near
    elif name == "tanh" and set(argument) == {SIGNAL, Term(3)}:
        near = _near(abs(slope), math.sqrt(2.0 / math.pi))
        bend = _near(argument[Term(3)] / slope, 0.044715)
        if near is not None and bend is not None:
            kind = activation("gelu", approximate="tanh")
            yield kind, Fraction(2 * sign), Fraction(-sign), near or bend
    elif name == "tanh" and argument == {Term(0, Function.of("softplus", {SIGNAL: one})): one}:
        yield activation("mish"), one, none, False
    elif name == "clip" and argument.get(ONE) == Fraction(1, 2) and set(argument) == {ONE, SIGNAL}:
        near = _near(slope, 1.0 / 6.0)
        if near is not None:
            yield activation("hard_swish"), one, none, near
    elif name == "inverse" and linear and abs(slope) == 1:
        yield activation("softsign"), one, none, False


def _near(found: Fraction, true: float) -> bool | None:
    """Return whether a constant was rounded to float32; None if it is a different number."""
    off = abs(float(found) / true - 1.0)
    if not off <= ROUNDED:
        return None
    return off > 2.0**-50
