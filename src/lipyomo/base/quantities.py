"""Parsing of numbers, durations, amounts of memory and norms, without further imports."""

from __future__ import annotations

import math
import re
from typing import Any

UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
"""Seconds in each unit of time."""

SIZES = {"b": 1.0, "kb": 2.0**10, "mb": 2.0**20, "gb": 2.0**30, "tb": 2.0**40}
"""Bytes in each unit of memory."""

NORMS = {"1": "l1", "2": "l2", "inf": "linf", "infinity": "linf", "∞": "linf"}
"""Names of norms by what users write, without a leading letter l."""


def read_number(text: str) -> float:
    """Read a number, or a quotient of two such as ``8/255``.

    Raises
    ------
    ValueError
        If the text is neither.
    """
    above, slash, below = text.partition("/")
    if not slash:
        return float(text)
    if not float(below):
        raise ValueError(f"'{text}' divides by zero")
    return float(above) / float(below)


def read_seconds(text: str) -> float:
    """Read seconds, or a duration such as ``90s``, ``1.5m``, ``1h30m``.

    Raises
    ------
    ValueError
        If the text is neither.
    """
    try:
        return float(text)
    except ValueError:
        parts = re.findall(r"([\d.]+)\s*([a-z]+)\s*", text.strip().lower())
        whole = "".join(f"{amount}{unit}" for amount, unit in parts)
        same = whole == re.sub(r"\s", "", text.lower())
        if not parts or not same or any(unit not in UNITS for _, unit in parts):
            raise ValueError(f"'{text}' is no time such as 60, 90s, 5m or 1h30m") from None
        return math.fsum(float(amount) * UNITS[unit] for amount, unit in parts)


def read_bytes(text: str) -> float:
    """Read bytes, or an amount of memory such as ``500MB`` or ``2GB``.

    Raises
    ------
    ValueError
        If the text is neither, or not positive.
    """
    found = re.fullmatch(r"([\d.]+(?:e[+-]?\d+)?|inf)\s*([kmgt]?i?b)?", text.strip().lower())
    try:
        size = float(found[1]) * SIZES[(found[2] or "b").replace("i", "")] if found else 0.0
    except ValueError:
        size = 0.0
    if not size > 0:
        raise ValueError(f"'{text}' is no amount of memory such as 500MB or 2GB")
    return size


def norm_name(given: Any) -> Any:
    """Return the name of a norm given as ``2``, ``L2``, ``inf``, ``l_inf`` or the like.

    Other values are returned unchanged, to be checked by the caller.
    """
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        return given
    text = f"{given:g}" if isinstance(given, int | float) else given.strip().lower()
    plain = re.sub(r"^l[\s_-]*", "", text)  # after the letter only: -inf and -2 are no norms
    return NORMS.get(plain, given)
