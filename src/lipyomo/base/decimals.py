"""Decimal text of numbers; bounds are rounded outwards, so that the text stays valid."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal

import numpy as np

from lipyomo.base.arrays import FloatArray
from lipyomo.base.numerics.rounding import EQUAL

DIGITS = round(-math.log10(EQUAL))
"""Number of significant digits; further ones are mostly rounding errors."""

LISTED = 20
"""Largest number of rows or parts that are listed one by one."""


def down(value: float, digits: int = DIGITS) -> str:
    """Return `value` as decimal text, rounded down to `digits` digits if it has more."""
    return _rounded(value, digits, ROUND_FLOOR)


def up(value: float, digits: int = DIGITS) -> str:
    """Return `value` as decimal text, rounded up to `digits` digits if it has more."""
    return _rounded(value, digits, ROUND_CEILING)


def interval(lower: float, upper: float, digits: int = DIGITS) -> str:
    """Return the text of an interval that contains ``[lower, upper]`` when read as float64."""
    return f"[{down(lower, digits)}, {up(upper, digits)}]"


def _rounded(value: float, digits: int, rounding: str) -> str:
    if not math.isfinite(value):
        return str(value) if math.isnan(value) else "unknown"
    number = Decimal(repr(float(value)))  # the shortest text of the float, if that has few digits
    if len(number.as_tuple().digits) > digits:
        number = Context(prec=digits, rounding=rounding).create_decimal(Decimal(value))
    size = number.adjusted()
    if number == 0 or -5 <= size < digits:
        return _trimmed(f"{number:f}")
    mantissa, _, exponent = f"{number:e}".partition("e")
    return f"{_trimmed(mantissa)}e{int(exponent):+03d}"


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent(ratio: float) -> str:
    """Return a ratio as text such as ``12.3%``, ``0.0042%``."""
    return f"{100 * ratio:.3g}%"


def vector(values: FloatArray, names: Sequence[str] | None = None) -> str:
    """Return the text of the first entries of a vector (as many as `reprlib` shows), and its size.

    Each entry is preceded by its name if `names` are given.
    """
    flat, shown = np.asarray(values).reshape(-1), reprlib.aRepr.maxlist
    words = [f"{value:.6g}" for value in flat[:shown]]
    if names is not None:
        words = [f"{name} {word}" for name, word in zip(names, words, strict=False)]
    head = ", ".join(words)
    return f"({head})" if flat.size <= shown else f"({head}, ...; {flat.size} entries)"


def seconds(value: float) -> str:
    """Return seconds as text such as ``0.12 s``, ``75 s``."""
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"
