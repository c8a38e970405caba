"""The units of all kinds, by their names: what `kind.Kind` wants of each, in float64."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from lipyomo_check.errors import ProofError
from lipyomo_check.smooth.derived import DERIVED, parted
from lipyomo_check.smooth.elementary import (
    Array,
    exp_minus,
    log_one_plus,
    normal,
    sine_and_cosine,
)
from lipyomo_check.smooth.kind import Bools, Four, Kind
from lipyomo_check.smooth.powers import EXPONENTS, UNBOUNDED, power_kind


def _tanh(z: Array, right: tuple[Bools, ...]) -> Four:
    e = exp_minus(2.0 * np.abs(z))
    q = 1.0 / (1.0 + e)
    t = np.copysign((1.0 - e) * q, z)
    d = 4.0 * e * q * q  # not 1 - t^2, which cancels
    return t, d, -2.0 * t * d, d * (6.0 * t * t - 2.0)


def _sigmoid(z: Array, right: tuple[Bools, ...] = ()) -> Four:
    """Return ``(1 + tanh(z / 2)) / 2``."""
    t, d, second, third = _tanh(z / 2.0, right)
    return 0.5 + 0.5 * t, 0.25 * d, 0.125 * second, 0.0625 * third


def _softplus(z: Array, right: tuple[Bools, ...]) -> Four:
    value = np.maximum(z, 0.0) + log_one_plus(exp_minus(np.abs(z)))
    return value, *_sigmoid(z)[:3]


def _silu(z: Array, right: tuple[Bools, ...]) -> Four:
    s, one, two, three = _sigmoid(z)
    return z * s, s + z * one, 2.0 * one + z * two, 3.0 * two + z * three


def _mish(z: Array, right: tuple[Bools, ...]) -> Four:
    """Return ``z w`` with w = tanh(log(1 + e^z)), whose slope is ``(1 - w^2) s``, s the sigmoid."""
    e = exp_minus(np.abs(z))
    up = np.where(z > 0, 1.0, e)  # e^z = up / down
    down = np.where(z > 0, e, 1.0)
    below = up * (up + 2.0 * down) + 2.0 * down * down
    w = up * (up + 2.0 * down) / below
    rest = 4.0 * down * down * (up + down) * (up + down) / (below * below)  # 1 - w^2
    s, s1, s2, _ = _sigmoid(z)
    one = rest * s
    rest1 = -2.0 * w * one
    two = rest1 * s + rest * s1
    rest2 = -2.0 * (one * one + w * two)
    three = rest2 * s + 2.0 * rest1 * s1 + rest * s2
    return z * w, w + z * one, 2.0 * one + z * two, 3.0 * two + z * three


def _gelu(z: Array, right: tuple[Bools, ...]) -> Four:
    below, density = normal(z)
    z2 = np.minimum(z * z, 1e6)  # where it matters the density is zero
    return z * below, below + z * density, density * (2.0 - z2), density * z * (z2 - 4.0)


def _gelu_tanh(z: Array, right: tuple[Bools, ...]) -> Four:
    """Return ``z (1 + tanh y) / 2`` with ``y = sqrt(2 / pi) (z + 0.044715 z^3)``."""
    x = np.clip(z, -100.0, 100.0)  # beyond, tanh y is 1 and its derivatives are zero
    k = 0.7978845608028654
    y = k * (x + 0.044715 * x**3)
    y1, y2, y3 = k * (1.0 + 0.134145 * x * x), k * 0.26829 * x, k * 0.26829
    t, t1, t2, t3 = _tanh(y, right)
    one = t1 * y1
    two = t2 * y1 * y1 + t1 * y2
    three = t3 * y1**3 + 3.0 * t2 * y1 * y2 + t1 * y3
    half = 0.5 * (1.0 + t)
    return z * half, half + 0.5 * z * one, one + 0.5 * z * two, 1.5 * two + 0.5 * z * three


def _erf(z: Array, right: tuple[Bools, ...]) -> Four:
    below, _ = normal(1.4142135623730951 * z)
    slope = 1.1283791670955126 * exp_minus(np.minimum(np.abs(z), 1e4) ** 2)
    z2 = np.minimum(z * z, 1e6)
    return 2.0 * below - 1.0, slope, -2.0 * z * slope, (4.0 * z2 - 2.0) * slope


def _sin(z: Array, right: tuple[Bools, ...]) -> Four:
    s, c = sine_and_cosine(z)
    return s, c, -s, -c


def _cos(z: Array, right: tuple[Bools, ...]) -> Four:
    s, c = sine_and_cosine(z)
    return c, -s, -c, s


def _softsign(z: Array, right: tuple[Bools, ...]) -> Four:
    sign = np.where(right[0], 1.0, -1.0)
    q = 1.0 / (1.0 + np.abs(z))
    return z * q, q * q, -2.0 * sign * q**3, 6.0 * q**4


def _two_slope(left: float, slope: float, z: Array, right: tuple[Bools, ...]) -> Four:
    first = np.where(right[0], slope, left)
    nothing = np.zeros_like(z)
    return first * z, first, nothing, nothing


def _line(slope: float, z: Array, right: tuple[Bools, ...]) -> Four:
    nothing = np.zeros_like(z)
    return slope * z, np.full_like(z, slope), nothing, nothing


def _elu(alpha: float, z: Array, right: tuple[Bools, ...]) -> Four:
    e = alpha * exp_minus(np.maximum(-z, 0.0))
    on, nothing = right[0], np.zeros_like(z)
    return (
        np.where(on, z, e - alpha),
        np.where(on, 1.0, e),
        np.where(on, nothing, e),
        np.where(on, nothing, e),
    )


def _hard_swish(z: Array, right: tuple[Bools, ...]) -> Four:
    low, high = right  # right of -3, of 3
    inner = low & ~high
    curve = z * (np.clip(z, -4.0, 4.0) + 3.0) / 6.0
    value = np.where(inner, curve, np.where(high, z, 0.0))
    slope = np.where(inner, (2.0 * np.clip(z, -4.0, 4.0) + 3.0) / 6.0, np.where(high, 1.0, 0.0))
    return value, slope, np.where(inner, 1 / 3, 0.0), np.zeros_like(z)


def _stretched(base: Kind, beta: float) -> Kind:
    """Return ``base(beta z) / beta``."""

    def derivatives(z: Array, right: tuple[Bools, ...]) -> Four:
        value, one, two, three = base.derivatives(beta * z, right)
        return value / beta, one, beta * two, beta * beta * three

    powers = [abs(beta) ** n for n in (1, 2, 3)]
    bounds = [b * p * (1.0 + 1e-15) for b, p in zip(base.bounds, powers, strict=True)]
    breaks = tuple(b / beta for b in base.breaks)
    scale = (1.0 + 1.0 / abs(beta), 1.0, powers[0], powers[1])
    return Kind(derivatives, (bounds[0], bounds[1], bounds[2]), breaks, scale, base.slopes)


def _scaled(base: Kind, factor: float) -> Kind:
    """Return ``factor base(z)``."""

    def derivatives(z: Array, right: tuple[Bools, ...]) -> Four:
        one, two, three, four = (factor * v for v in base.derivatives(z, right))
        return one, two, three, four

    size = abs(factor) * (1.0 + 1e-15)
    bounds = [size * b for b in base.bounds]
    a, b, c, d = (size * s for s in base.scale)
    low, high = sorted(factor * s for s in base.slopes)
    slopes = float(np.nextafter(low, -np.inf)), float(np.nextafter(high, np.inf))
    return Kind(derivatives, (bounds[0], bounds[1], bounds[2]), base.breaks, (a, b, c, d), slopes)


PLAIN: dict[str, Kind] = {
    "tanh": Kind(_tanh, (0.79, 2.05, 4.2)),
    "sigmoid": Kind(_sigmoid, (0.099, 0.129, 0.132), slopes=(0.0, 0.25)),
    "mish": Kind(_mish, (0.66, 0.61, 1.14), slopes=(-0.1125261226, 1.0884981615)),
    "gelu": Kind(_gelu, (0.82, 0.8, 1.65), slopes=(-0.1289041454, 1.1289041454)),
    "gelu(tanh)": Kind(_gelu_tanh, (0.82, 0.8, 1.65), slopes=(-0.1289930689, 1.1289930689)),
    "erf": Kind(_erf, (0.99, 2.32, 4.52), slopes=(0.0, 1.1283791671)),
    "sin": Kind(_sin, (1.0, 1.0, 1.0), slopes=(-1.0, 1.0)),
    "cos": Kind(_cos, (1.0, 1.0, 1.0), slopes=(-1.0, 1.0)),
    "softsign": Kind(_softsign, (2.0, 6.0, 24.0), (0.0,)),
    "hard_swish": Kind(_hard_swish, (0.34, 0.0, 0.0), (-3.0, 3.0), slopes=(-0.5, 1.5)),
    **UNBOUNDED,
}
"""Kinds without parameters."""

_SOFTPLUS = Kind(_softplus, (0.257, 0.099, 0.129))
_SILU = Kind(_silu, (0.515, 0.32, 0.515), slopes=(-0.0998393203, 1.0998393203))

LARGEST = 1e6
"""The largest parameter, and the largest inverse of one."""

VANISHING = "elu", "selu"
"""Kinds whose parameters may be zero: nothing is divided by them."""


def kind_of(name: str) -> Kind:
    """Return the kind of some units, from its name, such as ``tanh`` or ``elu(0.5)``.

    Raises
    ------
    ProofError
        If it is none that is known.
    """
    word, numbers = parameters_of(name)
    if word in PLAIN:
        return PLAIN[word]
    base, order = parted(word)
    return DERIVED[base][order - 1] if order else _WITH_PARAMETERS[word](*numbers)


def parameters_of(name: str) -> tuple[str, tuple[float, ...]]:
    """Return the word and the parameters of a name; those that are not said are 1.

    Raises
    ------
    ProofError
        If the name is none that is known.
    """
    base, order = parted(name)
    if name in PLAIN or (order and order <= len(DERIVED.get(base, ()))):
        return name, ()
    word, opened, rest = name.partition("(")
    count = PARAMETERS.get(word)
    if count is None or (opened and not rest.endswith(")")) or (count > 1 and not opened):
        raise ProofError(f"units of the kind {name!r} are none that is known")
    try:
        numbers = tuple(map(float, rest[:-1].split(", "))) if opened else (1.0,)
    except ValueError:
        numbers = ()
    fine = all(
        1.0 / LARGEST <= abs(v) <= LARGEST or (v == 0.0 and word in VANISHING) for v in numbers
    )
    if word == "pow":
        fine = set(numbers) <= EXPONENTS
    if len(numbers) != count or not fine or (word == "celu" and numbers[0] < 0.0):  # that grows
        raise ProofError(f"a parameter of the kind {name!r} is too large, too small or no number")
    return word, numbers


def elu_kind(alpha: float) -> Kind:
    """Return ELU with any alpha."""
    size = abs(alpha) * (1.0 + 1e-15)
    scale = 1.0 + size
    slopes = min(alpha, 0.0), max(alpha, 1.0)
    return Kind(partial(_elu, alpha), (size, size, size), (0.0,), (scale,) * 4, slopes)


def two_slopes(left: float, right: float) -> Kind:
    """Return a piecewise-linear unit; one without a break if the slopes are equal."""
    size, ends = 1.0 + max(abs(left), abs(right)), (min(left, right), max(left, right))
    scale, nothing = (size, size, 1.0, 1.0), (0.0, 0.0, 0.0)
    if left == right:
        return Kind(partial(_line, left), nothing, (), scale, ends)
    return Kind(partial(_two_slope, left, right), nothing, (0.0,), scale, ends)


_WITH_PARAMETERS: dict[str, Callable[..., Kind]] = {
    "softplus": partial(_stretched, _SOFTPLUS),
    "swish": partial(_stretched, _SILU),
    "silu": partial(_stretched, _SILU),
    "elu": elu_kind,
    "celu": lambda alpha: _stretched(elu_kind(1.0), 1.0 / alpha),  # alpha (exp(z / alpha) - 1)
    "selu": lambda alpha, gamma: _scaled(elu_kind(alpha), gamma),
    "pow": power_kind,
}

PARAMETERS = {"pow": 1, "softplus": 1, "swish": 1, "silu": 1, "elu": 1, "celu": 1, "selu": 2}
"""The numbers of parameters of kinds that have some."""
