"""The lower end of a network with smooth units: the Jacobian at a point, enclosed in Arb.

The point lies in the domain, perhaps on its boundary; the domain has an interior, shown by another
point if it is more than a box.  At the point no unit is at a jump of its slope, so the Jacobian is
continuous there, and what it gives is approached from the inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flint import arb, arb_mat, ctx, fmpq

from lipyomo_check.errors import ProofError
from lipyomo_check.reading import entry, reals
from lipyomo_check.smooth.kinds import parameters_of
from lipyomo_check.statement import Layer, Statement, rational
from lipyomo_check.witness import rooms, size_squared

BITS = 256
"""Of Arb's numbers."""

Values = tuple[arb, arb]


def check_smooth_witness(statement: Statement, record: Any) -> None:
    """Check that the witness attains the lower end.

    Raises
    ------
    ProofError
        If it is not shown to.
    """
    d, m = statement.inputs, statement.layers[-1].units
    domain = statement.domain
    x = [rational(v) for v in reals(entry(record, "x"), "the point", d)]
    if any(room < 0 for room, _ in rooms(domain, x)):
        raise ProofError("the witness lies outside the domain")
    if domain.A or domain.ball is not None:
        inside = [rational(v) for v in reals(entry(record, "inside"), "the inner point", d)]
        if any(room < 0 or (strict and room == 0) for room, strict in rooms(domain, inside)):
            raise ProofError("the inner point does not lie strictly inside the domain")
    if statement.lower == 0.0:
        return
    y = [rational(v) for v in reals(entry(record, "functional"), "the functional", m)]
    square = size_squared(statement, y)
    with ctx.workprec(BITS):
        gradient = gradient_at(statement, x, y)
        norm = _dual_norm(statement.input_norm, gradient)
        shown = norm * norm >= arb(rational(statement.lower) ** 2 * square)
        if not (shown and norm > 0):
            raise ProofError("the witness does not attain the lower end")


def gradient_at(statement: Statement, x: list[fmpq], y: list[fmpq]) -> list[arb]:
    """The gradient of ``y . f`` at x, in the inputs that move.

    Raises
    ------
    ProofError
        If a unit may be at a jump of its slope.
    """
    signal = arb_mat([[arb(v)] for v in x])
    slopes: list[list[arb]] = []
    moves = [j in statement.domain.moving for j in range(statement.inputs)]
    for layer in statement.hidden:
        z = (arb_mat(layer.exact_weight) * signal).entries()
        z = [v + arb(rational(b)) for v, b in zip(z, layer.offset, strict=True)]
        moves = [any(w != 0.0 and m for w, m in zip(row, moves, strict=True)) for row in layer.rows]
        found = _applied(layer, z, moves)
        signal = arb_mat([[value] for value, _ in found])
        slopes.append([slope for _, slope in found])
    row = arb_mat([[arb(v) for v in y]]) * arb_mat(statement.layers[-1].exact_weight)
    for layer, steep in zip(reversed(statement.hidden), reversed(slopes), strict=True):
        scaled = [[a * b for a, b in zip(row.entries(), steep, strict=True)]]
        row = arb_mat(scaled) * arb_mat(layer.exact_weight)
    gradient = row.entries()
    return [gradient[j] for j in statement.domain.moving]


def _dual_norm(input_norm: str, gradient: list[arb]) -> arb:
    sizes = [abs(g) for g in gradient]
    if input_norm == "l1":
        return max(sizes, key=lambda g: g.lower())
    if input_norm == "linf":
        return sum(sizes, arb(0))
    return sum((g * g for g in sizes), arb(0)).sqrt()


def _applied(layer: Layer, z: list[arb], moves: list[bool]) -> list[Values]:
    """Value and slope of each unit of a layer.

    The slopes of two-slope units that no moving input reaches do not matter, and are zero.
    """
    names = {k: name for name, units in layer.curves for k in units}
    found = []
    for k, t in enumerate(z):
        if k in names:
            found.append(unit_of(names[k])(t))
        elif layer.left[k] == layer.right[k]:
            slope = arb(layer.left[k])
            found.append((slope * t, slope))
        elif moves[k]:
            slope = arb(layer.right[k] if _right_of(t, 0) else layer.left[k])
            found.append((slope * t, slope))
        else:
            one, other = arb(layer.left[k]) * t, arb(layer.right[k]) * t
            found.append((one.union(other) if t.contains(0) else (other if t > 0 else one), arb(0)))
    return found


def _right_of(t: arb, place: int) -> bool:
    """On which side of a break a number surely is."""
    if t > place:
        return True
    if t < place:
        return False
    raise ProofError("at the witness a unit may be where its slope jumps")


def unit_of(name: str) -> Callable[[arb], Values]:
    """Value and slope of the units of a name, in Arb."""
    word, numbers = parameters_of(name)
    if word in _PLAIN:
        return _PLAIN[word]
    make = _WITH_PARAMETERS[word]
    return lambda t: make(t, *map(arb, numbers))


def _tanh(t: arb) -> Values:
    return t.tanh(), 1 / t.cosh() ** 2


def _sigmoid(t: arb) -> Values:
    s = 1 / (1 + (-t).exp())
    return s, s / (1 + t.exp())


def _erf(t: arb) -> Values:
    return t.erf(), 2 * (-t * t).exp() / arb.pi().sqrt()


def _gelu(t: arb) -> Values:
    below = (-t / arb(2).sqrt()).erfc() / 2
    return t * below, below + t * (-t * t / 2).exp() / (2 * arb.pi()).sqrt()


def _gelu_tanh(t: arb) -> Values:
    k, cubic = (2 / arb.pi()).sqrt(), arb(fmpq(44715, 1000000))
    y, slope = _tanh(k * (t + cubic * t**3))
    inner = k * (1 + 3 * cubic * t * t)
    return t * (1 + y) / 2, (1 + y) / 2 + t * slope * inner / 2


def _mish(t: arb) -> Values:
    s, _ = _sigmoid(t)
    y, slope = _tanh((1 + t.exp()).log())
    return t * y, y + t * slope * s


def _softsign(t: arb) -> Values:
    below = 1 + abs(t)
    return t / below, 1 / below**2


def _hardswish(t: arb) -> Values:
    if not _right_of(t, -3):
        return arb(0), arb(0)
    if _right_of(t, 3):
        return t, arb(1)
    return t * (t + 3) / 6, (2 * t + 3) / 6


def _elu(t: arb, alpha: arb) -> Values:
    if alpha == 1 and t.contains(0):  # the slope is continuous: between those of both ends
        low = t.min(arb(0))
        return t.max(low.expm1()), low.exp()
    return (t, arb(1)) if _right_of(t, 0) else (alpha * t.expm1(), alpha * t.exp())


def _stretched(base: Callable[[arb], Values], t: arb, beta: arb) -> Values:
    value, slope = base(beta * t)
    return value / beta, slope


def _softplus(t: arb) -> Values:
    return (1 + t.exp()).log(), _sigmoid(t)[0]


def _silu(t: arb) -> Values:
    s, slope = _sigmoid(t)
    return t * s, s + t * slope


def _selu(t: arb, alpha: arb, gamma: arb) -> Values:
    value, slope = _elu(t, alpha)
    return gamma * value, gamma * slope


_PLAIN: dict[str, Callable[[arb], Values]] = {
    "tanh": _tanh,
    "sigmoid": _sigmoid,
    "erf": _erf,
    "gelu": _gelu,
    "gelu(tanh)": _gelu_tanh,
    "mish": _mish,
    "softsign": _softsign,
    "hard_swish": _hardswish,
    "sin": lambda t: (t.sin(), t.cos()),
    "cos": lambda t: (t.cos(), -t.sin()),
}

_WITH_PARAMETERS: dict[str, Callable[..., Values]] = {
    "softplus": lambda t, beta: _stretched(_softplus, t, beta),
    "swish": lambda t, beta: _stretched(_silu, t, beta),
    "silu": lambda t, beta: _stretched(_silu, t, beta),
    "elu": _elu,
    "celu": lambda t, alpha: _stretched(lambda s: _elu(s, arb(1)), t, 1 / alpha),
    "selu": _selu,
}
