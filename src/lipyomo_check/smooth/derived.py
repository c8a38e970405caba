"""Derivatives of activations, as kinds of their own: ``tanh'`` and the like, up to the third.

With t = tanh z and s = 1 - t^2 those of tanh are ``s Q(t)``, where the next polynomial is
``-2 t Q + (1 - t^2) Q'``.  With a bell curve w, ``w' = -b z w``, those of erf and GELU are ``R w``,
where the next one is ``R' - b z R``.  Those of SiLU are ``k l^(k-1) + z l^(k)``, l being the
logistic function, whose derivatives are ``2^-(k+1)`` times those of tanh at z / 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial

import numpy as np

from lipyomo_check.smooth.elementary import Array, exp_minus, normal
from lipyomo_check.smooth.kind import Bools, Four, Kind

FAR = 100.0
"""Beyond it bell curves are zero, whatever they are multiplied with."""

Derivative = Callable[[int, Array], Array]
Numbers = Sequence[int]


def parted(name: str) -> tuple[str, int]:
    """Return the activation's name and the order of its derivative."""
    base = name.rstrip("'")
    return base, len(name) - len(base)


def tanh_derivative(order: int, z: Array) -> Array:
    """Return a derivative of tanh; ``order >= 1``."""
    e = exp_minus(2.0 * np.abs(z))
    q = 1.0 / (1.0 + e)
    return 4.0 * e * q * q * _horner(_of_tanh(order), np.copysign((1.0 - e) * q, z))


def erf_derivative(order: int, z: Array) -> Array:
    """Return a derivative of erf; ``order >= 1``."""
    x = np.clip(z, -FAR, FAR)
    w = 1.1283791670955126 * exp_minus(x * x)
    return _horner(_of_bell(2, order, 1, (1,)), x) * w


def gelu_derivative(order: int, z: Array) -> Array:
    """Return a derivative of GELU; ``order >= 1``."""
    x = np.clip(z, -FAR, FAR)
    below, density = normal(z)
    if order == 1:
        return below + x * density
    return _horner(_of_bell(1, order, 2, (2, 0, -1)), x) * density


def silu_derivative(order: int, z: Array) -> Array:
    """Return a derivative of SiLU; ``order >= 1``."""
    y = 0.5 * z
    if order == 1:
        e = exp_minus(np.abs(z))
        before = np.where(z < 0.0, e, 1.0) / (1.0 + e)
    else:
        before = 0.5**order * tanh_derivative(order - 1, y)
    return order * before + z * (0.5 ** (order + 1) * tanh_derivative(order, y))


@cache
def _of_tanh(order: int) -> Numbers:
    """Return the coefficients of Q, the constant term first."""
    if order == 1:
        return (1,)
    before = _of_tanh(order - 1)
    rise = _rise(before)
    return _sum([0, *(-2 * v for v in before)], rise, [0, 0, *(-v for v in rise)])


@cache
def _of_bell(b: int, order: int, first: int, start: Numbers) -> Numbers:
    """Return R, which is `start` for the order `first`."""
    if order == first:
        return start
    before = _of_bell(b, order - 1, first, start)
    return _sum(_rise(before), [0, *(-b * v for v in before)])


def _rise(numbers: Numbers) -> list[int]:
    """Return coefficients of a polynomial's derivative."""
    return [k * v for k, v in enumerate(numbers)][1:]


def _sum(*parts: Numbers) -> tuple[int, ...]:
    size = max(map(len, parts))
    return tuple(sum(part[k] for part in parts if k < len(part)) for k in range(size))


def _horner(numbers: Numbers, x: Array) -> Array:
    found = np.full_like(x, float(numbers[-1]))
    for v in numbers[-2::-1]:
        found = found * x + float(v)
    return found


def _four(of: Derivative, order: int, z: Array, right: tuple[Bools, ...]) -> Four:
    return of(order, z), of(order + 1, z), of(order + 2, z), of(order + 3, z)


def _kinds(of: Derivative, ends: Sequence[tuple[float, float]]) -> tuple[Kind, ...]:
    """Return the kinds of the first three derivatives, given ranges of the second to seventh."""
    sizes = [max(map(abs, pair)) for pair in ends]
    return tuple(
        Kind(
            partial(_four, of, order),
            (sizes[order], sizes[order + 1], sizes[order + 2]),
            scale=(2.0, 4.0, 16.0, 64.0),
            slopes=ends[order - 1],
        )
        for order in (1, 2, 3)
    )


DERIVED: dict[str, tuple[Kind, ...]] = {
    "tanh": _kinds(
        tanh_derivative,
        [
            (-0.77, 0.77),
            (-2.001, 0.667),
            (-4.086, 4.086),
            (-7.7, 16.01),
            (-52.3, 52.3),
            (-273, 156),
        ],
    ),
    "erf": _kinds(
        erf_derivative,
        [
            *((-0.968, 0.968), (-2.257, 1.0072), (-4.405, 4.405)),
            *((-8.38, 13.55), (-37.0, 37.0), (-136.0, 96.0)),
        ],
    ),
    "gelu": _kinds(
        gelu_derivative,
        [
            *((-0.108, 0.7979), (-0.779, 0.779), (-1.596, 0.881)),
            *((-2.85, 2.85), (-4.92, 7.19), (-16.5, 16.5)),
        ],
    ),
    "silu": _kinds(
        silu_derivative,
        [
            *((-0.037, 0.5001), (-0.3083, 0.3083), (-0.501, 0.204)),
            *((-0.659, 0.659), (-0.794, 1.501), (-2.91, 2.91)),
        ],
    ),
}
"""The first three derivatives of each, by its name; the tests prove the ends in Arb."""
