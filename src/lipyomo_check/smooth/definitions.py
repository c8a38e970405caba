"""Units by their definitions, in Arb: values and derivatives of activations as Taylor series."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from flint import arb, arb_series, fmpq

from lipyomo_check.parts import Layer
from lipyomo_check.smooth.derived import parted
from lipyomo_check.smooth.kind import Kind
from lipyomo_check.smooth.kinds import kind_of, parameters_of, two_slopes

CUBIC = fmpq(44715, 10**6)
"""The coefficient of z^3 in the tanh form of GELU."""

Sides = tuple[bool, ...]


def derivatives_at(name: str, z: arb, right: Sides, count: int) -> list[arb]:
    """Return sigma and its first derivatives at z, `count` in all; no numbers where Arb has none.

    Parameters
    ----------
    name : str
        Of an activation.
    z : arb
    right : tuple of bool
        For each break, whether z is taken to lie right of it.
    count : int
    """
    word, numbers = parameters_of(name)
    word, order = parted(word)
    x = arb_series([z, 1], prec=count + order)
    parameters = numbers if word == "pow" else map(arb, numbers)
    try:
        series = _FUNCTIONS[word](x, right, *parameters)
    except ValueError:  # a denominator that cannot be told from zero
        return [arb("nan")] * count
    found, factorial = [], arb(1)
    for n in range(count + order):
        factorial = factorial * max(n, 1)
        found.append(series[n] * factorial)
    return found[order:]


class Unit(NamedTuple):
    """One unit: its kind, the name of its activation (None for two slopes), its slopes."""

    kind: Kind
    name: str | None
    left: float
    right: float

    def at(self, z: float | arb, sides: Sides, count: int) -> list[arb]:
        """Return sigma and its first derivatives at z, as `derivatives_at` has them."""
        if self.name is not None:
            return derivatives_at(self.name, arb(z), sides, count)
        slope = arb(self.right if sides and sides[0] else self.left)
        return [slope * arb(z), slope, *[arb(0)] * (count - 2)]


def units_of(layer: Layer) -> list[Unit]:
    """Return the units of a layer one by one."""
    names = {k: name for name, units in layer.curves for k in units}
    found = []
    for k, (left, right) in enumerate(zip(layer.left, layer.right, strict=True)):
        name = names.get(k)
        kind = two_slopes(left, right) if name is None else kind_of(name)
        found.append(Unit(kind, name, left, right))
    return found


def _tanh(x: arb_series, right: Sides) -> arb_series:
    return 1 - 2 / (1 + (x + x).exp())


def _sigmoid(x: arb_series, right: Sides) -> arb_series:
    return 1 / (1 + (-x).exp())


def _softplus(x: arb_series, right: Sides, beta: arb) -> arb_series:
    y = x * beta
    if y[0] > 0:
        return x + (1 + (-y).exp()).log() / beta
    return (1 + y.exp()).log() / beta


def _gelu_tanh(x: arb_series, right: Sides) -> arb_series:
    inner = (x + x * x * x * arb(CUBIC)) * (2 / arb.pi()).sqrt()
    return x * (1 + _tanh(inner, right)) / 2


def _elu(x: arb_series, right: Sides, alpha: arb) -> arb_series:
    return x if right[0] else (x.exp() - 1) * alpha


def _hard_swish(x: arb_series, right: Sides) -> arb_series:
    if all(right):
        return x
    return x * (x + 3) / 6 if any(right) else x * 0


def _swish(x: arb_series, right: Sides, beta: arb | None = None) -> arb_series:
    return x * _sigmoid(x if beta is None else x * beta, right)


def _power(x: arb_series, right: Sides, exponent: float) -> arb_series:
    whole = math.floor(abs(exponent))
    found = x.sqrt() if abs(exponent) != whole else x * 0 + 1
    for _ in range(whole):
        found = found * x
    return 1 / found if exponent < 0.0 else found


_FUNCTIONS: dict[str, Callable[..., arb_series]] = {
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "softplus": _softplus,
    "silu": _swish,
    "swish": _swish,
    "mish": lambda x, right: x * _tanh(_softplus(x, right, arb(1)), right),
    "gelu": lambda x, right: x * (-x / arb(2).sqrt()).erfc() / 2,
    "gelu(tanh)": _gelu_tanh,
    "erf": lambda x, right: x.erf(),
    "sin": lambda x, right: x.sin(),
    "cos": lambda x, right: x.cos(),
    "softsign": lambda x, right: x / (1 + x if right[0] else 1 - x),
    "hard_swish": _hard_swish,
    "pow": _power,
    "square": lambda x, right: x * x,
    "sqrt": lambda x, right: x.sqrt(),
    "rsqrt": lambda x, right: 1 / x.sqrt(),
    "reciprocal": lambda x, right: 1 / x,
    "exp": lambda x, right: x.exp(),
    "log": lambda x, right: x.log(),
    "elu": _elu,
    "celu": lambda x, right, alpha: x if right[0] else ((x / alpha).exp() - 1) * alpha,
    "selu": lambda x, right, alpha, gamma: (x if right[0] else (x.exp() - 1) * alpha) * gamma,
}
