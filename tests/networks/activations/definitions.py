"""Activations by their definitions, as power series in ball arithmetic (Arb), and hard arguments.

Nothing here is shared with the package but the names and parameters of activations.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from flint import arb, arb_series, ctx

from lipyomo.networks.activations import (
    Activation,
    Celu,
    Cos,
    Elu,
    Erf,
    Gelu,
    HardSwish,
    Mish,
    QuickGelu,
    Selu,
    Sigmoid,
    Silu,
    Sin,
    Softplus,
    Softsign,
    Swish,
    Tanh,
    TwoSlope,
)

BITS = 160
"""Precision of the balls; more is asked for where that does not decide."""

POINTS = int(os.environ.get("LIPYOMO_POINTS", "500"))
"""Points an activation and test; LIPYOMO_POINTS=50000 compares some ten million numbers."""

Series = Callable[[arb_series], arb_series]


@dataclass(frozen=True)
class Definition:
    """An activation, its formulas from left to right, and where they meet."""

    made: Activation
    formulas: tuple[Series, ...]
    breaks: tuple[float, ...] = ()
    jumps: tuple[bool, ...] = ()

    @property
    def scale(self) -> float:
        """Where things happen: within a few times the inverse of this."""
        return max(getattr(self.made, "beta", 1.0), 1e-2)

    def formulas_at(self, z: float) -> list[Series]:
        """The formulas that hold beside z: two at a break."""
        ends = (-math.inf, *self.breaks, math.inf)
        sides = zip(self.formulas, ends[:-1], ends[1:], strict=True)
        return [formula for formula, low, high in sides if low <= z <= high]


def logistic(x: arb_series) -> arb_series:
    return 1 / (1 + (-x).exp())


def softplus(x: arb_series) -> arb_series:
    if x[0] > 0:
        return x + (1 + (-x).exp()).log()
    return (1 + x.exp()).log()


def mish(x: arb_series) -> arb_series:
    e = x.exp()
    return x * (1 - 2 / (e * e + 2 * e + 2))


def gelu(x: arb_series) -> arb_series:
    return x * (1 + (x / arb(2).sqrt()).erf()) / 2


def tanh_gelu(x: arb_series) -> arb_series:
    cube = arb(44715) / 1000000
    return x * logistic(2 * (2 / arb.pi()).sqrt() * (x + cube * x * x * x))


def exponential(height: float, width: float = 1.0, scale: float = 1.0) -> Series:
    return lambda x: arb(scale) * height * ((x / width).exp() - 1)


def line(steepness: float) -> Series:
    return lambda x: steepness * x


def swish(beta: float) -> Series:
    return lambda x: x * logistic(beta * x)


def tanh(x: arb_series) -> arb_series:
    return 1 - 2 * logistic(-2 * x)


def gelu_slope(x: arb_series) -> arb_series:
    bell = (-x * x / 2).exp() / (2 * arb.pi()).sqrt()
    return (1 + (x / arb(2).sqrt()).erf()) / 2 + x * bell


def derivative(formula: Series) -> Series:
    """The derivative of a formula, at a line: from a series of one more term."""

    def found(x: arb_series) -> arb_series:
        terms = x.prec + 1
        series = formula(arb_series([x[0], arb(1)], prec=terms))
        return arb_series([k * series[k] for k in range(1, terms)], prec=terms - 1)

    return found


def derived_from(parent: Activation, slope: Series, orders: int = 2) -> list[Definition]:
    """Derivatives of an activation that are activations, by the formula of the first one."""
    found: list[Definition] = []
    for _ in range(orders):
        kind = parent.derivative.kind
        assert kind is not None
        found.append(Definition(kind, (slope,)))
        parent, slope = kind, derivative(slope)
    return found


_GAMMA, _ALPHA = 1.0507009873554805, 1.6732632423543772

DEFINITIONS = [
    Definition(Tanh(), (lambda x: 1 - 2 * logistic(-2 * x),)),
    Definition(Sigmoid(), (logistic,)),
    Definition(Softplus(), (softplus,)),
    Definition(Softplus(3.7), (lambda x: softplus(3.7 * x) / 3.7,)),
    Definition(Softplus(0.01), (lambda x: softplus(0.01 * x) / 0.01,)),
    Definition(Elu(), (exponential(1.0), line(1.0)), (0.0,), (False,)),
    Definition(Elu(0.3), (exponential(0.3), line(1.0)), (0.0,), (True,)),
    Definition(Elu(-2.0), (exponential(-2.0), line(1.0)), (0.0,), (True,)),
    Definition(Selu(), (exponential(_ALPHA, scale=_GAMMA), line(_GAMMA)), (0.0,), (True,)),
    Definition(Celu(0.3), (exponential(0.3, 0.3), line(1.0)), (0.0,), (False,)),
    Definition(Gelu(), (gelu,)),
    Definition(Gelu("tanh"), (tanh_gelu,)),
    Definition(Silu(), (swish(1.0),)),
    Definition(QuickGelu(), (swish(1.702),)),
    Definition(Swish(20.0), (swish(20.0),)),
    Definition(Mish(), (mish,)),
    Definition(Softsign(), (lambda x: x / (1 - x), lambda x: x / (1 + x)), (0.0,), (False,)),
    Definition(
        HardSwish(),
        (line(0.0), lambda x: x * (x + 3) / 6, line(1.0)),
        (-3.0, 3.0),
        (True, True),
    ),
    Definition(Erf(), (lambda x: x.erf(),)),
    Definition(Sin(), (lambda x: x.sin(),)),
    Definition(Cos(), (lambda x: x.cos(),)),
    *derived_from(Tanh(), lambda x: 1 - tanh(x) * tanh(x)),
    *derived_from(Erf(), lambda x: 2 * (-x * x).exp() / arb.pi().sqrt()),
    *derived_from(Gelu(), gelu_slope),
    *derived_from(Silu(), lambda x: logistic(x) * (1 + x * logistic(-x))),
    Definition(TwoSlope(-0.3, 1.0), (line(-0.3), line(1.0)), (0.0,), (True,)),
    Definition(TwoSlope(), (line(0.0), line(1.0)), (0.0,), (True,)),
]


def name(definition: Definition) -> str:
    return definition.made.name


def derivatives(formula: Series, z: float | arb, order: int, bits: int = BITS) -> list[arb]:
    """Enclosures of value and derivatives up to `order`."""
    kept = ctx.prec
    try:
        ctx.prec = bits
        series = formula(arb_series([arb(z), arb(1)], prec=order + 1))
        return [series[k] * math.factorial(k) for k in range(order + 1)]
    finally:
        ctx.prec = kept


def sharp(formula: Series, z: float, order: int) -> list[arb]:
    """As `derivatives` at a number, with bits until 80 of each are right, or it is tiny."""
    bits = BITS
    while True:
        found = derivatives(formula, z, order, bits)
        if all(one.rel_accuracy_bits() > 80 or abs(one) < 1e-320 for one in found):
            return found
        if bits > 200_000:
            return found
        bits *= 4


def hard_points(definition: Definition, count: int, seed: int) -> np.ndarray:
    """Arguments near zero, near turning points and breaks, in the tails, and in between."""
    rng = np.random.default_rng(seed)
    turned = {0.0, *definition.breaks}
    for branch in definition.made.branches:
        turned |= {turn.at for row in branch.turns for turn in row}
    places = np.array(sorted(turned))
    near = rng.choice(places, count) * (1 + rng.integers(-8, 9, count) * 2.0**-52)
    near += 10.0 ** rng.uniform(-18, -1, count) * rng.choice([-1, 0, 1], count)
    sizes = 10.0 ** np.concatenate(
        [
            rng.uniform(-324, -3, count),
            rng.uniform(-3, 3, 2 * count),
            rng.uniform(3, 307, count // 4),
        ]
    )
    spread = sizes * rng.choice([-1, 1], sizes.size)
    fixed = [0.0, -0.0, 5e-324, -5e-324, 2.2e-308, 745.2, -745.2, 708.0, -708.0, 38.6, -38.6]
    found = np.concatenate([near, rng.normal(size=2 * count) * 4, spread])
    return np.concatenate([fixed, rng.permutation(found)[: count - len(fixed)]])
