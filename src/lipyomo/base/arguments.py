"""Validation of the callers' arguments, with one-sentence error messages."""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from lipyomo.base.errors import LipyomoError
from lipyomo.base.quantities import read_bytes, read_seconds


def real_numbers(
    values: object, what: str, error: type[LipyomoError], copy: bool = True
) -> npt.NDArray[np.float64]:
    """Convert real numbers to an array, of any shape.

    Parameters
    ----------
    values : array_like
    what : str
        Names the argument in messages, such as ``the center of the ball``.
    error : type
        Type of the exception.
    copy : bool, optional
        Whether to return a copy, for callers that keep the array.

    Raises
    ------
    LipyomoError
        Of type `error`, if these are not real numbers (text, complex, ragged lists).
    """
    if isinstance(values, np.ndarray) and values.dtype == np.float64:
        return values.copy() if copy else values
    try:
        array = np.asarray(values)
        if array.dtype.kind == "c":
            raise ValueError("they are complex")
        if array.dtype.kind not in "biufO" or isinstance(values, bool | np.bool_):
            raise ValueError(f"they are {array.dtype}")
        return np.array(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as trouble:
        raise error(f"{what} must be real numbers, not {brief(values)} ({trouble})") from None


def real_number(value: Any, what: str, error: type[LipyomoError]) -> float:
    """Read one real number (infinities allowed, NaN not).

    Raises
    ------
    LipyomoError
        Of type `error`.
    """
    number = isinstance(value, int | float | np.integer | np.floating) or (
        isinstance(value, np.ndarray) and value.ndim == 0 and value.dtype.kind in "iuf"
    )
    if not number or isinstance(value, bool):
        raise error(f"{what} must be a number, not {brief(value)}")
    try:
        found = float(value)
    except OverflowError:
        raise error(f"{what} is too large for a float64 number: {brief(value)}") from None
    if math.isnan(found):
        raise error(f"{what} must be a number, not {brief(value)}")
    return found


def whole_number(value: Any, what: str, error: type[LipyomoError], least: int | None = 0) -> int:
    """Read a count.

    Raises
    ------
    LipyomoError
        Of type `error`, if it is not a whole number of at least `least`.
    """
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or (least is not None and value < least):
        least_of = "" if least is None else f" of at least {least}"
        raise error(f"{what} must be a whole number{least_of}, not {brief(value)}")
    return int(value)


def positive(value: Any, what: str, error: type[LipyomoError]) -> float:
    """Read one real number above zero (infinity allowed).

    Raises
    ------
    LipyomoError
        Of type `error`.
    """
    number = real_number(value, what, error)
    if not number > 0:
        raise error(f"{what} must be positive, not {number:g}")
    return number


def duration(value: Any, error: type[LipyomoError]) -> float:
    """Read a time limit: seconds above zero, or a text such as ``5m`` (infinity allowed).

    Raises
    ------
    LipyomoError
        Of type `error`.
    """
    what = "the time limit (time_limit)"
    return positive(_in_words(value, read_seconds, what, error), what, error)


def memory_size(value: Any, what: str, error: type[LipyomoError]) -> int:
    """Read bytes, at least one, or a text such as ``2GB``.

    Raises
    ------
    LipyomoError
        Of type `error`.
    """
    value = _in_words(value, lambda text: int(min(read_bytes(text), 2.0**62)), what, error)
    return whole_number(value, what, error, least=1)


def _in_words(
    value: Any, read: Callable[[str], float], what: str, error: type[LipyomoError]
) -> Any:
    """Read `value` if it is text; return other values unchanged."""
    try:
        return read(value) if isinstance(value, str) else value
    except ValueError as trouble:
        raise error(f"{what}: {trouble}") from None


def one_of(value: Any, choices: Collection[Any], what: str, error: type[LipyomoError]) -> None:
    """Check that an argument is one of a few values.

    Raises
    ------
    LipyomoError
        Of type `error`; the message lists the values.
    """
    try:
        found = value in choices
    except (TypeError, ValueError):  # lists, arrays
        found = False
    if not found:
        known = ", ".join(map(str, choices))
        raise error(f"unknown {what} {brief(value)}.  Remedy: use one of {known}")


def instance(
    value: Any, kind: type | tuple[type, ...], what: str, error: type[LipyomoError], remedy: str
) -> None:
    """Check the type of an argument.

    Raises
    ------
    LipyomoError
        Of type `error`; the message has the remedy.
    """
    if not isinstance(value, kind):
        raise error(f"{what} is {brief(value)}.  Remedy: {remedy}")


def number_or_text(text: str) -> int | float | str:
    """Convert an entry of a table, or the value of an option, to a number if it is one."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def brief(value: object) -> str:
    """Return a short representation of a value, for messages."""
    text = repr(value).replace("\n", " ")
    if len(text) > 60:
        text = text[:57] + "..."
    simple = value is None or isinstance(value, bool | int | float | str)
    return text if simple else f"{text} (of type {type(value).__name__})"


def deprecated(old: str, new: str) -> None:
    """Warn of a name that the next version removes."""
    warn_caller(f"{old} goes with the next version: use {new}", DeprecationWarning)


def renamed_names(package: str, now: Mapping[str, str]) -> Callable[[str], Any]:
    """Return ``__getattr__`` of a package, which leads from former names to those of `now`."""

    def get(name: str) -> Any:
        if name not in now:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        deprecated(f"{package}.{name}", f"{package}.{now[name]}")
        return getattr(sys.modules[package], now[name])

    return get


def warn_caller(text: str, kind: type[Warning]) -> None:
    """Issue a warning that points to the nearest caller outside of this package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, kind, stacklevel=level)


_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(__file__)), "")
