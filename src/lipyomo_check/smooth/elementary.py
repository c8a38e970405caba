"""Exponentials, logarithms, sines and the normal distribution on arrays, each with a proved error.

Nothing here trusts an elementary function of another library: tables come from Arb, the rest is
additions, multiplications and divisions of float64, each of which errs by at most 2^-53 of its
result (IEEE 754), and Taylor's formula.  The bounds that are stated are far from sharp; the tests
compare every function with Arb.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from flint import arb, ctx, fmpq

from lipyomo_check.errors import ProofError
from lipyomo_check.parts import BITS

Array = npt.NDArray[np.float64]

ULP = float(np.finfo(np.float64).eps)

PIECES = 64
"""Entries of tables, for each doubling of the exponential or unit of the normal distribution."""

LARGEST = float(np.floor(-np.log(np.finfo(np.float64).tiny)))
"""708; beyond it exp(-y) counts as exp(-708), which is wrong by less than 1e-307."""

FARTHEST = float(1 << 20)
"""Arguments of sine and cosine, whose reduction is proved up to there."""

TAIL = 9.0
"""Beyond it the normal distribution counts as 0, which is wrong by less than 2e-19."""


def exp_minus(y: Array) -> Array:
    """Return ``exp(-y)`` for y >= 0, with a relative error below 2^-47 up to y = 708.

    With k the whole number next to y 64 / log 2 and r = k log(2) / 64 - y, it is
    ``2^-(k div 64) T[k mod 64] exp(r)``.  The first part of log(2) / 64 has 33 bits, and k at most
    17, so that their product is exact, and so is its difference from y, which lies within a factor
    of two of it (or k = 0).  What the second part adds errs by less than 2^-60, so |r| < 0.0055 is
    known up to 2^-59.  Taylor's remainder is r^7 / 7! e^r < 2^-64, and twelve operations with
    numbers of size at most 1.01 err by less than 2^-49; the table errs by 2^-53, the product by
    2^-53.
    """
    first, second, table = _exponentials()
    y = np.minimum(y, LARGEST)
    k = np.rint(y * (PIECES / 0.6931471805599453))
    r = (k * first - y) + k * second
    taylor = 1.0 + r * (
        1.0 + r * (0.5 + r * (1 / 6 + r * (1 / 24 + r * (1 / 120 + r * (1 / 720)))))
    )
    whole = k.astype(np.int64)
    power = ((1023 - (whole >> 6)) << 52).view(np.float64)
    return np.asarray(table[whole & (PIECES - 1)] * taylor * power)


@cache
def _exponentials() -> tuple[float, float, Array]:
    """Return log(2) / 64 in two parts, and ``2^(-j / 64)``."""
    with ctx.workprec(BITS):
        log2 = arb(2).log() / PIECES
        first = float(np.ldexp(np.rint(np.ldexp(float(log2), 39)), -39))
        second = float(log2 - arb(first))
        table = [float(arb(2) ** arb(fmpq(-j, PIECES))) for j in range(PIECES)]
    return first, second, np.array(table)


def log_one_plus(e: Array) -> Array:
    """Return ``log(1 + e)`` for 0 <= e <= 1, with an error below 2^-42.

    A value y from elsewhere is tested: ``log(1 + e) = y + log((1 + e) exp(-y))``, and the last
    logarithm is that of a number which is shown to differ from 1 by less than 2^-43.
    """
    y = np.log1p(e)
    rest = (1.0 + e) * exp_minus(np.maximum(y, 0.0)) - 1.0
    if not (np.abs(rest) < 2.0**-44).all():
        raise ProofError("a logarithm could not be shown to be right")
    return np.asarray(y)


def sine_and_cosine(z: Array) -> tuple[Array, Array]:
    """Return both with an error below 2^-46, for |z| <= 2^20.

    With k the whole number next to 2 z / pi, z - k pi / 2 is found with pi / 2 in three parts, of
    which the first two have 33 bits and give exact products; each of three subtractions errs by
    2^-53 of a number below 1.6 at most.  Taylor's remainders beyond x^17 are below 2^-60.
    """
    if not (np.abs(z) <= FARTHEST).all():
        raise ProofError(f"a sine of an argument beyond {FARTHEST:g}")
    one, two, three = _quarter()
    k = np.rint(z * 0.6366197723675814)
    x = ((z - k * one) - k * two) - k * three
    square = x * x
    sine = np.full_like(x, 1.0 / 355687428096000)
    cosine = np.full_like(x, -1.0 / 6402373705728000)
    for n in range(15, 0, -2):
        sine = (-1.0) ** (n // 2) / _factorial(n) + square * sine
    for n in range(16, -1, -2):
        cosine = (-1.0) ** (n // 2) / _factorial(n) + square * cosine
    sine = x * sine
    turn = k.astype(np.int64) & 3
    swap, minus = (turn & 1).astype(bool), turn >= 2
    s, c = np.where(swap, cosine, sine), np.where(swap, sine, cosine)
    return np.where(minus, -s, s), np.where(minus ^ swap, -c, c)


@cache
def _quarter() -> tuple[float, float, float]:
    """Return half of pi in three parts."""
    parts: list[float] = []
    with ctx.workprec(BITS):
        half = arb.pi() / 2
        for bits in (32, 65):
            part = float(np.ldexp(np.rint(np.ldexp(float(half), bits)), -bits))
            parts.append(part)
            half = half - arb(part)
        return parts[0], parts[1], float(half)


def _factorial(n: int) -> float:
    return 1.0 if n < 2 else n * _factorial(n - 1)


def normal(z: Array) -> tuple[Array, Array]:
    """Return distribution and density of the normal distribution, with an error below 2^-46.

    The density by `exp_minus`.  For z >= 0 the upper tail is expanded at the next point of a grid,
    from Arb's values there; Taylor's remainder is below ``42 / 128^9 / 9! < 2^-75``.
    """
    size = np.abs(z)
    # z * z / 2 errs relatively by 2^-52; beyond 1416 the density is below 1e-307 anyway
    density = 0.3989422804014327 * exp_minus(np.minimum(size, 1e4) ** 2 / 2.0)
    table = _tails()
    near = np.fmin(size, TAIL)
    place = np.rint(near * PIECES).astype(np.int64)
    h = np.minimum(size, TAIL) - place / PIECES  # no number where z is none
    tail = np.zeros_like(size)
    for column in table[:, ::-1].T:
        tail = column[place] + h * tail
    tail = np.where(size >= TAIL, 0.0, tail)
    return np.where(z < 0, tail, 1.0 - tail), density


@cache
def _tails() -> Array:
    """Return Taylor coefficients of the upper tail up to h^8 at the points of the grid."""
    rows = []
    with ctx.workprec(BITS):
        for place in range(int(TAIL) * PIECES + 1):
            g = arb(fmpq(place, PIECES))
            density = (-g * g / 2).exp() / (2 * arb.pi()).sqrt()
            row = [(g / arb(2).sqrt()).erfc() / 2]
            hermite = [arb(1), g]  # the n-th derivative of the density is (-1)^n He_n(g) density
            for n in range(1, 9):
                sign = 1 if n % 2 == 0 else -1
                row.append(sign * hermite[n - 1] * density / arb(int(_factorial(n))))
                hermite.append(g * hermite[n] - n * hermite[n - 1])
            rows.append([float(value) for value in row])
    return np.array(rows)
